internal import CLinux
internal import Linux

/// One end of a connection between a message port and a sender. Used on one thread.
final class MessageConnection {
    /// The process at the other end when the connection was made.
    let process: Int32
    private(set) var port: RunLoop.FDPort?
    private let fd: Int32
    private var reader = MessageFrame.Reader()
    private var output: [UInt8] = []
    private var written = 0
    private(set) var hasEnded = false
    /// Whether the other end accepts no more data. Data that the other end has sent may be left to read.
    private var isDeaf = false
    /// While the system is short of memory: the timer for the next attempt.
    private var retry: RunLoop.Timer?
    /// Whether reading has stopped. The kernel's buffer then fills up, and the other end must wait.
    var isPaused = false { didSet { if isPaused != oldValue { updateEvents() } } }

    /// Called for each frame. If the function throws, the connection sends the reason to the other end, and ends.
    var received: ((MessageFrame) throws(MessageFrame.Malformed) -> Void)?
    /// Called when all frames that arrived together were passed to `received`.
    var receivedAll: (() -> Void)?
    /// Called when output that had to wait has been sent.
    var drained: (() -> Void)?
    /// Called once when the connection has ended. `reason` is the error; nil if the other end has closed the connection
    /// or died between two frames.
    var ended: ((_ reason: String?) -> Void)?
    /// Called each time the last loop has released the port.
    var letGo: (() -> Void)?

    private final class Owner: RunLoop.ItemOwner {
        weak var connection: MessageConnection?
        override func deliver(_ events: RunLoop.FDPort.Events, of port: RunLoop.FDPort) { connection?.handle(events) }
        override func letGo(of item: RunLoop.Item) { connection?.letGo?() }
    }

    /// - Parameters:
    ///   - fd: The socket, which now belongs to the connection.
    ///   - name: The name in descriptions and errors.
    /// - Throws: ECONNREFUSED if the other end belongs to another user.
    init(_ fd: Int32, name: String) throws(SystemError) {
        self.fd = fd
        var user: UInt32 = 0
        var process: Int32 = 0
        guard linux_peer(fd, &user, &process) == 0, user == linux_user() else {
            linux_close(fd)
            throw SystemError("connect", name, errno: ECONNREFUSED)
        }
        self.process = process
        let owner = Owner()
        port = try RunLoop.FDPort(fd, .read, owns: true, name: name, owner: owner)
        owner.connection = self
    }

    deinit { port?.invalidate() }

    /// Bytes that the kernel has not accepted yet.
    var unsent: Int { output.count - written }

    /// Queues a frame, which `flush` then sends.
    func queue(_ frame: MessageFrame) {
        guard !hasEnded, !isDeaf else { return }
        frame.write(to: &output)
    }

    func send(_ frame: MessageFrame) {
        queue(frame)
        flush()
    }

    /// Sends as much as the kernel accepts. The rest follows when the descriptor is writable and a loop watches it.
    func flush() {
        guard !hasEnded else { return }
        let mustWait = unsent > 0
        while unsent > 0 {
            let count = output.withUnsafeBytes { linux_send(fd, $0.baseAddress.map { $0 + written }, unsent) }
            guard count >= 0 else {
                let error = SystemError("send")
                switch error.errno {
                case EAGAIN, EWOULDBLOCK: break
                case ENOBUFS, ENOMEM: flushLater()
                case EPIPE, ECONNRESET: fallSilent(nil)
                default: fallSilent("nothing can be sent any more: \(error)")
                }
                break
            }
            written += Int(count)
        }
        if unsent == 0 {
            // A large buffer is freed rather than kept for small frames.
            if output.capacity > 1 << 18 { output = [] } else { output.removeAll(keepingCapacity: true) }
            written = 0
        } else if written > 1 << 20, written * 2 > output.count {
            output.removeSubrange(..<written)
            written = 0
        }
        updateEvents()
        if mustWait, unsent == 0 { drained?() }
    }

    private static let pause = Duration.milliseconds(10)

    /// Tries again after 10 ms. The kernel reports the socket as writable all the while, so waiting for that would
    /// spin.
    private func flushLater() {
        guard retry == nil, let loop = port?.loop, let modes = port?.modeNames else { return }
        retry = loop.callBack(at: loop.now + Self.pause, in: modes) { [weak self] _, _ in
            self?.retry = nil
            self?.flush()
        }
    }

    /// Stops sending, but goes on reading: data that has arrived must not be lost, and reading usually shows when and
    /// why the connection ended. If reading cannot show the error, the connection ends with `reason`, after the current
    /// callers have returned.
    private func fallSilent(_ reason: String?) {
        isDeaf = true
        output = []
        written = 0
        isPaused = false
        guard let reason, let loop = port?.loop, let modes = port?.modeNames else { return }
        loop.perform(in: modes) { [weak self] in
            guard let self, !hasEnded else { return }
            read()
            end(reason)
        }
    }

    private func updateEvents() {
        guard !hasEnded, let port else { return }
        var events: RunLoop.FDPort.Events = isPaused ? [] : .read
        if unsent > 0, retry == nil { events.insert(.write) }
        // This fails only if the descriptor was lost, which the port has reported already.
        if events != port.events { try? port.setEvents(events) }
    }

    private func handle(_ events: RunLoop.FDPort.Events) {
        if events.contains(.write) { flush() }
        if !hasEnded, !isPaused, !events.isDisjoint(with: [.read, .hangUp, .error]) { read() }
        // The connection works, but the kernel can no longer watch its descriptor.
        if !hasEnded, let port, let loss = port.loss { end("it cannot be watched: \(loss)") }
    }

    /// Reads once, and passes on the complete frames.
    func read() {
        guard !hasEnded else { return }
        switch reader.read(fd) {
        case .nothing: return
        case .bytes: takeFrames()
        case .end: end(reader.leftover > 0 ? "it ended \(reader.leftover) bytes into a frame" : nil)
        case .failed(ECONNRESET): end(reader.leftover > 0 ? "it broke off \(reader.leftover) bytes into a frame" : nil)
        case .failed(let errno): end(String(cString: linux_error_text(errno)))
        }
    }

    /// Checks without waiting whether the other end has closed the connection.
    func notice() {
        while !hasEnded, !isPaused {
            let state = Int32(linux_poll_now(fd, Int16(EPOLLIN.rawValue | EPOLLRDHUP.rawValue)))
            guard state != 0 else { return }
            read()
        }
    }

    private func takeFrames() {
        do throws(MessageFrame.Malformed) {
            while !hasEnded, let frame = try reader.next() { try received?(frame) }
            if !hasEnded { receivedAll?() }
        } catch {
            send(MessageFrame(kind: .bye, conversation: 0, data: Array(error.reason.utf8)))
            end(error.reason)
        }
    }

    private func end(_ reason: String?) {
        guard !hasEnded else { return }
        let ended = ended
        close()
        ended?(reason)
    }

    /// Closes the connection. No callback is called any more.
    func close() {
        guard !hasEnded else { return }
        hasEnded = true
        received = nil
        receivedAll = nil
        drained = nil
        ended = nil
        output = []
        written = 0
        // The port may live longer than the connection, whose memory is freed now.
        reader = MessageFrame.Reader()
        retry?.invalidate()
        retry = nil
        port?.invalidate()
    }
}
