import CStreams
import Glibc

@testable import Streams

/// Linux with system calls that are interrupted, do only a part of the work, or fail.
final class FaultySystem: SystemCalls {
    enum Call: CaseIterable {
        case socket, bind, listen, connect, accept, socketError, receive, send, shutdown

        /// The errors in the manual page of the call that can occur although the arguments are right.
        var errors: [Int32] {
            switch self {
            case .socket: [EMFILE, ENFILE, ENOBUFS, ENOMEM, EAFNOSUPPORT, EACCES]
            case .bind: [EADDRINUSE, EACCES, EADDRNOTAVAIL, ENOMEM, EROFS]
            case .listen: [EADDRINUSE, ENOBUFS]
            case .connect:
                [
                    ECONNREFUSED, ENETUNREACH, ETIMEDOUT, EADDRNOTAVAIL, EINTR, EAGAIN, EHOSTUNREACH, ENOBUFS, EACCES,
                    EPERM,
                ]
            case .accept:
                [
                    EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EPROTO, EINTR, EPERM, ENETDOWN, EHOSTUNREACH,
                    EOPNOTSUPP,
                ]
            case .socketError: [ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ECONNRESET]
            case .receive: [ECONNRESET, ETIMEDOUT, ENOMEM, EINTR, EHOSTUNREACH]
            case .send: [EPIPE, ECONNRESET, ENOBUFS, ENOMEM, EINTR, ETIMEDOUT, EHOSTUNREACH]
            case .shutdown: [ENOTCONN, ENOBUFS]
            }
        }
    }

    /// Returns the error with which a system call is to fail, or nil. Receives the number of earlier calls of the same
    /// kind.
    private let fault: (Call, Int) -> Int32?
    /// Returns how many of the requested bytes to transfer.
    private let part: (Int) -> Int
    private let allParts: Bool
    private(set) var open: Set<Int32> = []
    private(set) var failed: [Int32] = []
    private(set) var counts: [Call: Int] = [:]

    init(fault: @escaping (Call, Int) -> Int32?, part: ((Int) -> Int)? = nil) {
        self.fault = fault
        allParts = part == nil
        self.part = part ?? { $0 }
        super.init()
    }

    override var partsAreAll: Bool { allParts }

    /// A negative error number if the call is to fail this time.
    private func refusal(_ call: Call) -> Int32? {
        let count = counts[call, default: 0]
        counts[call] = count + 1
        guard let error = fault(call, count) else { return nil }
        if error != EINTR { failed.append(error) }
        return -error
    }

    override func socket(_ family: Int32, _ type: Int32) -> Int32 {
        if let refusal = refusal(.socket) { return refusal }
        let fd = super.socket(family, type)
        if fd >= 0 { open.insert(fd) }
        return fd
    }
    override func bind(_ fd: Int32, _ address: UnsafePointer<net_address>) -> Int32 {
        refusal(.bind) ?? super.bind(fd, address)
    }
    override func listen(_ fd: Int32, _ backlog: Int32) -> Int32 { refusal(.listen) ?? super.listen(fd, backlog) }
    override func connect(_ fd: Int32, _ address: UnsafePointer<net_address>) -> Int32 {
        guard let refusal = refusal(.connect) else { return super.connect(fd, address) }
        // An interrupted connect goes on in the background.
        if refusal == -EINTR, super.connect(fd, address) != 0 { return -ECONNREFUSED }
        return refusal
    }
    override func accept(_ fd: Int32, _ peer: UnsafeMutablePointer<net_address>) -> Int32 {
        if let refusal = refusal(.accept) { return refusal }
        let new = super.accept(fd, peer)
        if new >= 0 { open.insert(new) }
        return new
    }
    override func socketError(_ fd: Int32) -> Int32 { refusal(.socketError) ?? super.socketError(fd) }
    override func shutdownOutput(_ fd: Int32) -> Int32 {
        guard let refusal = refusal(.shutdown) else { return super.shutdownOutput(fd) }
        // The peer has to see the end: otherwise it would wait for ever.
        _ = super.shutdownOutput(fd)
        return refusal
    }
    override func close(_ fd: Int32) -> Int32 {
        open.remove(fd)
        return super.close(fd)
    }
    override func receive(_ fd: Int32, _ bytes: UnsafeMutableRawPointer, _ count: Int) -> Int {
        if let refusal = refusal(.receive) { return Int(refusal) }
        return super.receive(fd, bytes, part(count))
    }
    override func send(_ fd: Int32, _ pieces: UnsafePointer<iovec>, _ count: Int32) -> Int {
        if let refusal = refusal(.send) { return Int(refusal) }
        var piece = pieces[0]
        piece.iov_len = part(piece.iov_len)
        return super.send(fd, &piece, 1)
    }
}

/// Random numbers that are the same for each seed.
struct Seeded: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
