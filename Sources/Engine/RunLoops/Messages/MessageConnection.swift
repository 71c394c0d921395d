internal import CLinux
internal import Linux

/// One end of a connection between a message port and somebody who sends to it. Used by one thread.
final class MessageConnection {
    /// The process at the other end, when it connected.
    let process: Int32
    private(set) var port: RunLoop.FDPort?
    private let fd: Int32
    private var reader = MessageFrame.Reader()
    private var output: [UInt8] = []
    private var written = 0
    private(set) var hasEnded = false
    /// The other end takes nothing any more; it may have left something to read.
    private var isDeaf = false
    /// The system is short of memory for now: it is asked again a little later.
    private var retry: RunLoop.Timer?
    /// While it is, the kernel's buffer fills up, and the other end has to wait.
    var isPaused = false { didSet { if isPaused != oldValue { updateEvents() } } }

    /// Called for each frame. Throwing ends the connection, and tells the other end why.
    var received: ((MessageFrame) throws(MessageFrame.Malformed) -> Void)?
    /// All that came together has been `received`.
    var receivedAll: (() -> Void)?
    /// Output that had to wait is gone.
    var drained: (() -> Void)?
    /// Called once. `reason`: what was wrong; nil if the other end has closed it, or died, between two frames.
    var ended: ((_ reason: String?) -> Void)?
    /// Called each time no loop holds the port any more.
    var letGo: (() -> Void)?

    private final class Owner: RunLoop.ItemOwner {
        weak var connection: MessageConnection?
        override func deliver(_ events: RunLoop.FDPort.Events, of port: RunLoop.FDPort) { connection?.handle(events) }
        override func letGo(of item: RunLoop.Item) { connection?.letGo?() }
    }

    /// - Parameter fd: belongs to the connection from now on.
    /// - Throws: ECONNREFUSED if the other end is another user's.
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

    /// How many bytes wait for the kernel to take them.
    var unsent: Int { output.count - written }

    /// Queues a frame; `flush` sends what is queued.
    func queue(_ frame: MessageFrame) {
        guard !hasEnded, !isDeaf else { return }
        frame.write(to: &output)
    }

    func send(_ frame: MessageFrame) {
        queue(frame)
        flush()
    }

    /// Gives the kernel what it takes. The rest goes when the descriptor is writable and a loop watches it.
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
            // A large buffer is not kept for the small frames to come.
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

    /// Being writable, as the kernel says it is all the while, would be no news.
    private func flushLater() {
        guard retry == nil, let loop = port?.loop, let modes = port?.modeNames else { return }
        retry = loop.callBack(at: loop.now + Self.pause, in: modes) { [weak self] _, _ in
            self?.retry = nil
            self?.flush()
        }
    }

    /// Sends nothing more. Reading tells when and why it ended: what has come before that must not be lost. Where reading
    /// would tell nothing, `reason` does, once nobody is in the middle of a call.
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
        // Fails only for a descriptor that is gone; then the port has said so.
        if events != port.events { try? port.setEvents(events) }
    }

    private func handle(_ events: RunLoop.FDPort.Events) {
        if events.contains(.write) { flush() }
        if !hasEnded, !isPaused, !events.isDisjoint(with: [.read, .hangUp, .error]) { read() }
        // The connection is well, but nobody would ever hear of it again.
        if !hasEnded, let port, let loss = port.loss { end("it cannot be watched: \(loss)") }
    }

    /// Reads once, and passes on what is complete.
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

    /// Whether the other end has closed it, as far as can be told without waiting.
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

    /// Closes it. Nothing is called back any more.
    func close() {
        guard !hasEnded else { return }
        hasEnded = true
        received = nil
        receivedAll = nil
        drained = nil
        ended = nil
        output = []
        written = 0
        // Whoever holds the port on holds no memory for a connection.
        reader = MessageFrame.Reader()
        retry?.invalidate()
        retry = nil
        port?.invalidate()
    }
}
