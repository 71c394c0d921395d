internal import CStreams
internal import Glibc
internal import Linux

/// Encrypts and decrypts between a stream's bytes and its socket's.
final class TLSSession {
    private let tls: OpaquePointer
    private var context: TLSContext
    /// Encrypted bytes that are left to send.
    private var sealed = ByteQueue()
    /// Bytes that arrived before TLS began: they belong to the handshake.
    private var early: ByteQueue
    private var wantsInput = false
    private var isFinished = false
    /// The handshake has stopped at the name of a server.
    private(set) var waitsForChoice = false
    private var failure: StreamFailure?

    init(_ context: TLSContext, _ name: String?, early: ByteQueue) throws(StreamFailure) {
        var ascii: String?
        if let name {
            do throws(HostName.Mistake) { ascii = try HostName.ascii(name) } catch { throw StreamFailure(error) }
        }
        let made =
            if let ascii {
                ascii.withCString { net_tls_make(context.context, $0, Self.reader, Self.writer) }
            } else {
                net_tls_make(context.context, nil, Self.reader, Self.writer)
            }
        guard let made else { throw StreamFailure(errno: ENOMEM, "TLS") }
        tls = made
        self.context = context
        self.early = early
    }

    deinit {
        net_tls_free(tls)
        sealed.free()
        early.free()
    }

    // OpenSSL calls these two functions only while one of the functions below runs. That function passes the stream.
    private static let reader: net_tls_reader = { stream, bytes, count in
        guard let stream, let bytes else { return -1 }
        let this = Unmanaged<Stream>.fromOpaque(stream).takeUnretainedValue()
        return Int64(this.tls?.receive(bytes, count, this) ?? -1)
    }

    private static let writer: net_tls_writer = { stream, bytes, count in
        guard let stream else { return }
        let this = Unmanaged<Stream>.fromOpaque(stream).takeUnretainedValue()
        guard let session = this.tls else { return }
        if !session.sealed.append(UnsafeRawBufferPointer(start: bytes, count: count)) {
            session.failure = session.failure ?? StreamFailure(errno: ENOMEM, "TLS")
        }
    }

    private func receive(_ bytes: UnsafeMutableRawPointer, _ count: Int, _ stream: Stream) -> Int {
        if !early.isEmpty {
            let n = min(count, early.count)
            if let start = early.bytes.baseAddress { memcpy(bytes, start, n) }
            early.removeFirst(n)
            early.freeIfEmpty()
            return n
        }
        guard stream.socketIsReadable else { return -1 }
        let n = stream.receive(bytes, count)
        if n < 0, n != -Int(EAGAIN) {
            failure = failure ?? StreamFailure(errno: Int32(clamping: -n), stream.subject)
            return 0
        }
        return n < 0 ? -1 : n
    }

    private func with<Result>(_ stream: Stream, _ body: () -> Result) -> Result {
        net_tls_set_stream(tls, Unmanaged.passUnretained(stream).toOpaque())
        defer {
            net_tls_set_stream(tls, nil)
            if !sealed.isEmpty { stream.becomeDirty() }
        }
        return body()
    }

    private func failed(_ stream: Stream) -> StreamFailure {
        if let failure { return failure }
        var code: UnsafePointer<CChar>?
        var text: UnsafePointer<CChar>?
        net_tls_error(tls, &code, &text)
        let failure = StreamFailure(
            code.map { String(cString: $0) } ?? "TLS", "\(text.map { String(cString: $0) } ?? "") (\(stream.subject))")
        self.failure = failure
        return failure
    }

    // MARK: The handshake

    enum Progress {
        case done, wait
        /// The client has named a server: `requestedName`.
        case named
        case failed(StreamFailure)
    }

    func handshake(_ stream: Stream) -> Progress {
        if let failure { return .failed(failure) }
        switch with(stream, { net_tls_handshake(tls) }) {
        case NET_TLS_DONE.rawValue: return .done
        case NET_TLS_WAIT.rawValue:
            stream.readable = false
            return .wait
        case NET_TLS_NAME.rawValue:
            waitsForChoice = true
            return .named
        default:
            let failure = failed(stream)
            // Sends the alert to the peer.
            push(stream)
            return .failed(failure)
        }
    }

    /// The bytes that were read if the handshake has failed because the client sent text.
    var text: UnsafeRawBufferPointer? {
        guard hasFailed, early.isEmpty, sealed.isEmpty else { return nil }
        var bytes: UnsafeRawPointer?
        let count = net_tls_text(tls, &bytes)
        return count > 0 ? UnsafeRawBufferPointer(start: bytes, count: count) : nil
    }

    var requestedName: String { net_tls_name(tls).map { String(cString: $0) } ?? "" }

    func choose(_ new: TLSContext?) {
        waitsForChoice = false
        net_tls_choose(tls, new?.context)
        if let new { context = new }
    }

    /// Refuses the handshake: reports to the client that no server has this name, or that the server cannot serve it.
    func refuse(isUnknown: Bool, _ stream: Stream) {
        waitsForChoice = false
        net_tls_refuse(tls, isUnknown ? 1 : 0)
        _ = handshake(stream)
    }

    // MARK: Between a stream and its socket

    enum Read {
        case bytes(Int)
        case end
        /// No bytes for now: read again when the socket has more.
        case wait
        case failed(StreamFailure)
    }

    func read(_ place: UnsafeMutableRawPointer, _ room: Int, _ stream: Stream) -> Read {
        if let failure { return .failed(failure) }
        let n = with(stream) { net_tls_read(tls, place, room) }
        if n > 0 { return .bytes(Int(n)) }
        switch Int32(clamping: n) {
        case NET_TLS_END.rawValue: return .end
        case NET_TLS_WAIT.rawValue: return .wait
        case NET_TLS_NAME.rawValue:
            return .failed(StreamFailure("TLS", "the client did not ask for a server name (\(stream.subject))"))
        default:
            let failure = failed(stream)
            push(stream)
            return .failed(failure)
        }
    }

    /// The least number of encrypted bytes that are sent together, unless fewer are left. OpenSSL makes records of 16
    /// kB: with a system call for each record a download took 4,578 calls, with batches 1,778 (measured).
    private static let batch = 65536

    /// Encrypts and sends the stream's output, as far as possible.
    func send(_ stream: Stream) -> StreamFailure? {
        push(stream)
        wantsInput = false
        defer { push(stream) }
        let hadFailed = hasFailed
        while !stream.output.isEmpty, let n = seal(stream.output.bytes, stream) { stream.output.removeFirst(n) }
        return hadFailed ? nil : failure
    }

    /// Encrypts and sends bytes from where they are, without a copy. Returns the number of bytes it took: fewer if the
    /// socket is full, or the session has failed.
    func send(_ bytes: UnsafeRawBufferPointer, of stream: Stream) -> Int {
        push(stream)
        wantsInput = false
        defer { push(stream) }
        let hadFailed = hasFailed
        var taken = 0
        while taken < bytes.count, let n = seal(UnsafeRawBufferPointer(rebasing: bytes[taken...]), stream) {
            taken += n
        }
        if !hadFailed, let failure { stream.failOutput(failure) }
        return taken
    }

    /// Encrypts a record. Returns the number of bytes in it; nil if the socket is full, the peer has to answer first,
    /// or the session has failed.
    private func seal(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) -> Int? {
        if sealed.count >= Self.batch { give(stream) }
        guard sealed.count < Self.batch, failure == nil else { return nil }
        // Reserves a whole batch: growing to it by doubling would copy all of it.
        if bytes.count > 16384, sealed.isEmpty { _ = sealed.reserve(min(bytes.count, Self.batch) + 1024) }
        let n = with(stream) { net_tls_write(tls, bytes.baseAddress, bytes.count) }
        if n > 0 { return Int(n) }
        if n == Int64(NET_TLS_WAIT.rawValue) { wantsInput = true } else { failure = failed(stream) }
        return nil
    }

    /// Writes encrypted bytes to the socket until it is full.
    private func give(_ stream: Stream) {
        while stream.writable, !sealed.isEmpty {
            let n = stream.give(sealed.bytes)
            guard n > 0 else { break }
            sealed.removeFirst(n)
        }
    }

    /// Sends as `give` does, and frees the memory when all is sent.
    private func push(_ stream: Stream) {
        give(stream)
        sealed.freeIfEmpty()
    }

    /// Sends the alert that ends TLS. Returns whether the alert has reached the socket already.
    func finish(_ stream: Stream) -> Bool {
        if !isFinished {
            isFinished = true
            with(stream) { net_tls_finish(tls) }
        }
        push(stream)
        return sealed.isEmpty
    }

    /// Encrypted bytes that are left to send.
    var unsent: Int { sealed.count }
    /// Whether the session waits for the socket, and the socket is ready.
    func hasWork(_ stream: Stream) -> Bool {
        !sealed.isEmpty && stream.writable || wantsInput && stream.readable
    }
    func dropOutput() { sealed.free() }

    // MARK: What was agreed

    var hasFailed: Bool { failure != nil }
    /// The handshake has succeeded.
    var isAgreed: Bool { net_tls_is_agreed(tls) != 0 }

    var info: TLSInfo {
        func text(_ bytes: UnsafePointer<CChar>?) -> String { bytes.map { String(cString: $0) } ?? "" }
        let found = net_tls_info(tls)
        defer { free(found) }
        guard let info = found?.pointee else {
            return TLSInfo(version: "", cipher: "", protocolName: nil, certificate: nil)
        }
        var certificate: TLSInfo.Certificate?
        if info.has_certificate != 0 {
            certificate = TLSInfo.Certificate(
                subject: text(info.subject), issuer: text(info.issuer),
                names: text(info.names).split(separator: "\n").map(String.init), notAfter: text(info.not_after),
                fingerprint: text(info.fingerprint), isVerified: info.is_verified != 0)
        }
        let agreed = text(info.protocol)
        return TLSInfo(
            version: text(info.version), cipher: text(info.cipher), protocolName: agreed.isEmpty ? nil : agreed,
            certificate: certificate)
    }
}
