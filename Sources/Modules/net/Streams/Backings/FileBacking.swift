internal import CStreams
internal import Glibc
internal import Linux
internal import RunLoops

/// A file, or a device that cannot be polled. Threads read and write the file, since each call may block.
final class FileBacking: Backing {
    static let pool = WorkPool("files", limit: 4)
    private let fd: Int32
    private unowned(unsafe) let stream: Stream  // owns this backing
    private let network: Network
    /// Bytes that a thread has read.
    private var ready: [UInt8] = []
    private var taken = 0
    private var isReading = false
    private var isWriting = false
    /// The piece that a thread is writing.
    private var written: Piece?
    private var isAtEnd = false
    private var readFailure: Int = 0
    private var writeFailure: Int = 0
    private var isClosed = false
    private var refusal: StreamFailure?

    override func takeRefusal() -> StreamFailure? {
        defer { refusal = nil }
        return refusal
    }

    /// The stream buffers nothing: its position is that of the file.
    var isUntouched: Bool { !isReading && taken == ready.count && !isAtEnd && readFailure == 0 && !isWriting }

    init(_ fd: Int32, _ stream: Stream) {
        self.fd = fd
        self.stream = stream
        network = stream.network
    }

    private final class Piece: @unchecked Sendable {
        // Sendable: a thread uses it before or after the loop, never at the same time.
        var bytes: [UInt8]
        var result = 0
        /// The thread has finished.
        let isDone = Lock(false)
        init(_ bytes: [UInt8]) { self.bytes = bytes }
    }

    override func receive(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int {
        if taken < ready.count {
            let n = min(room, ready.count - taken)
            ready.withUnsafeBytes { bytes in
                if let start = bytes.baseAddress { memcpy(place, start + taken, n) }
            }
            taken += n
            return n
        }
        if readFailure != 0 { return readFailure }
        if isAtEnd { return 0 }
        read()
        return readFailure != 0 ? readFailure : -Int(EAGAIN)
    }

    private func read() {
        guard !isReading else { return }
        isReading = true
        // The stream may close its descriptor while a thread still reads: the thread has a duplicate.
        let descriptor = net_duplicate(fd)
        guard descriptor >= 0 else {
            isReading = false
            return refuse(-descriptor)
        }
        let piece = Piece([UInt8](repeating: 0, count: 65536))
        let failure = network.files.run(
            Self.pool, keepsAlive: !stream.isBackground,
            {
                piece.result = piece.bytes.withUnsafeMutableBytes { bytes in
                    bytes.baseAddress.map { Int(net_read(descriptor, $0, bytes.count)) } ?? 0
                }
                net_close(descriptor)
            }, then: { [weak self] (_: Void) in self?.didRead(piece) })
        guard failure != 0 else { return }
        net_close(descriptor)
        isReading = false
        refuse(failure)
    }

    /// Refuses a call, since no thread or descriptor is free for now.
    private func refuse(_ failure: Int32) {
        refusal =
            failure == EAGAIN
            ? StreamFailure("EAGAIN", "no thread can be started (\(stream.subject))")
            : StreamFailure(errno: failure, stream.subject)
    }

    private func didRead(_ piece: Piece) {
        isReading = false
        guard !isClosed else { return }
        if piece.result > 0 {
            if piece.result < piece.bytes.count { piece.bytes.removeLast(piece.bytes.count - piece.result) }
            ready = piece.bytes
            taken = 0
        } else if piece.result == 0 {
            isAtEnd = true
        } else {
            readFailure = piece.result
        }
        if stream.note(.read) { stream.signal() }
    }

    override func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        if writeFailure != 0 { return writeFailure }
        guard !isWriting else { return -Int(EAGAIN) }
        let descriptor = net_duplicate(fd)
        guard descriptor >= 0 else { return Int(descriptor) }
        let piece = Piece(Array(bytes.prefix(1 << 20)))
        let count = piece.bytes.count
        isWriting = true
        let failure = network.files.run(
            Self.pool,
            {
                var done = 0
                while done < count {
                    let n = piece.bytes.withUnsafeBytes { bytes in
                        bytes.baseAddress.map { Int(net_write(descriptor, $0 + done, count - done)) } ?? 0
                    }
                    guard n > 0 else {
                        piece.result = n
                        break
                    }
                    done += n
                }
                net_close(descriptor)
                piece.isDone.withLock { $0 = true }
            }, then: { [self] (_: Void) in didWrite(piece) })
        written = piece
        guard failure == 0 else {
            isWriting = false
            net_close(descriptor)
            refuse(failure)
            return -Int(failure)
        }
        return count
    }

    private func didWrite(_ piece: Piece) {
        isWriting = false
        written = nil
        if piece.result < 0 { writeFailure = piece.result }
        guard !isClosed else { return }
        stream.fileDidWrite(
            piece.result < 0 ? StreamFailure(errno: Int32(clamping: -piece.result), stream.subject) : nil)
    }

    override func finishWriting() -> Int32 {
        guard isWriting, let written else { return Int32(clamping: -writeFailure) }
        // A disk that does not respond must not keep the process from ending: wait 5 s at most.
        for _ in 0..<5000 {
            if written.isDone.withLock({ $0 }) {
                isWriting = false
                return Int32(clamping: -written.result)
            }
            usleep(1000)
        }
        return ETIMEDOUT
    }

    /// A thread is still writing.
    override var isBusy: Bool { isWriting }

    override func close(reset: Bool) { isClosed = true }
}

extension Stream {
    fileprivate func fileDidWrite(_ failure: StreamFailure?) {
        writable = true
        if let failure { failOutput(failure) }
        signal()
        updateActivity()
    }
}
