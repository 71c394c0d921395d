internal import Glibc
public import Linux
internal import Lua
public import LuaRunLoops
internal import RunLoops

/// Lets `rlhost attach` open prompts in a process: owns the port and the prompts.
final class AttachServer {
    private unowned let host: LuaHost
    /// The name given to `rl.attach`.
    let name: String?
    private let port: AttachServerPort
    private var sessions: [Int: AttachServerSession] = [:]
    private var again: RunLoop.Timer?
    private let redirection: Redirection
    private var followers: [Int: AttachServerPeer] = [:] {
        didSet {
            let outboxes = followers.values.map(\.outbox)
            Self.listeners.withLock { $0 = outboxes }
            // The server also gets the output of other threads: a process has only one such server.
            Sink.listenToThreads(
                outboxes.isEmpty
                    ? nil
                    : { bytes, count in
                        let bytes = UnsafeRawBufferPointer(start: bytes, count: count)
                        for outbox in AttachServer.listeners.withLock({ $0 }) { outbox.append(.output, bytes) }
                    })
        }
    }
    /// The clients that follow the output of other threads.
    private static let listeners = Lock<[AttachServerOutbox]>([])
    /// The destination of the output before the first client followed the output.
    private var before: Sink.Place?
    private lazy var sink = Sink { [unowned self] in passOn($0) }

    /// - Throws: The system's error.
    init(_ host: LuaHost, name: String?, title: String) throws(SystemError) {
        self.host = host
        self.name = name
        // Listing the names removes the sockets of killed processes, which nothing else would remove.
        _ = try? RunLoop.MessagePort.names(withPrefix: Attach.prefix)
        port = try AttachServerPort(
            name: Attach.portName(process: getpid(), name: name),
            description: [name ?? "", title.split(separator: "\n").joined(separator: " "), LuaHost.luaRelease],
            target: host.loop.handle, entries: host.entries)
        redirection = host.openRedirection()
        host.watchEntries()
    }

    /// Whether the running code belongs to an entry itself, and not to a callback in a run of the loop that the entry
    /// has begun.
    var isInEntry: Bool { sessions.values.contains { $0.isRunning && $0.depth == host.loop.depth } }

    var runsEntry: Bool { sessions.values.contains { $0.isRunning } }

    /// Returns the session of a client, and makes it at first use.
    func session(of client: AttachServerPeer) -> AttachServerSession? {
        if let session = sessions[client.number] { return session }
        guard !client.isGone, !host.isClosed else { return nil }
        guard let session = AttachServerSession(self, host, client) else {
            client.outbox.append(
                .error, "no prompt can be opened there: not enough memory, or Lua's libraries are missing\n")
            client.outbox.append(.end)
            return nil
        }
        sessions[client.number] = session
        return session
    }

    // MARK: Output of the script

    /// Starts sending the script's output to a client; if it is being sent already, stops that. Returns the message for
    /// the client.
    func follow(_ client: AttachServerPeer) -> String {
        if followers.removeValue(forKey: client.number) != nil {
            attendToFollowers()
            return "what the script prints is no longer shown"
        }
        guard !runsEntry || before != nil else { return "an entry runs at this moment; ask again when it has ended" }
        followers[client.number] = client
        if before == nil { before = Sink.redirect(to: sink.place) }
        return "what the script prints from now on is shown here, too"
    }

    /// Passes output of the script (not of an entry) to the clients that follow it. Returns false if the output must be
    /// printed as usual.
    func passOn(_ bytes: UnsafeRawBufferPointer) -> Bool {
        for client in followers.values { client.outbox.append(.output, bytes) }
        return false
    }

    private func attendToFollowers() {
        for (number, client) in followers where client.isGone { followers[number] = nil }
        guard followers.isEmpty, !runsEntry, let before else { return }
        _ = Sink.redirect(to: before)
        self.before = nil
    }

    /// Called when recording has begun, if it is allowed.
    func recordingBegins() { port.recordingBegins() }

    /// Answers the clients that asked which code the process runs.
    func tell(_ text: String) { port.tell(text) }

    /// Called between two callbacks of the loop: looks for entries that should end, and for clients that have
    /// disconnected.
    func attend() {
        for (number, session) in sessions {
            if !session.client.isGone {
                session.interrupt()
            } else if session.close() {
                sessions[number] = nil
            }
        }
        attendToFollowers()
        let left = sessions.values.filter(\.isEnding)
        guard again == nil, !left.isEmpty else { return }
        // An entry that should have ended still runs the loop. It may have ignored the interruption, or may not have
        // noticed it yet.
        let pause = left.contains { $0.client.isGone } ? 20 : 200
        again = host.loop.callBack(at: host.loop.now + .milliseconds(pause)) { [weak self] _, _ in
            self?.again = nil
            self?.attend()
        }
    }

    /// Closes the server: notifies the clients, and ends their entries.
    func close() {
        port.close()
        attend()
        again?.invalidate()
        for session in sessions.values where !session.close() {
            // An entry ends the process, so its frames are still on the stack: keep its session alive.
            _ = Unmanaged.passRetained(session)
        }
        sessions = [:]
        followers = [:]
        host.close(redirection)
    }
}

/// A host part that exists while `rlhost attach` can find this process.
final class Attachable: HostPart {
    var server: AttachServer?
    /// Whether the server was closed because the process becomes another user. The server's name is kept for opening it
    /// again.
    private var isAway = false
    private var nameAway: String?
    /// Whether a client has ended a callback. Such an interruption must not end the process.
    var hasInterrupted = false

    override func willClose() {
        let server = server
        server?.close()
        self.server = nil
    }

    override func willExit() { willClose() }

    override func willChangeUser() {
        isAway = server != nil
        nameAway = server?.name
        willClose()
    }

    // The port's socket is in a directory that belongs to the user, so that nobody else can connect.
    override func didChangeUser() {
        guard isAway else { return }
        isAway = false
        if let refusal = host.beAttachable(name: nameAway) { host.onWarning(host, "attach: \(refusal)") }
    }

    override func attend() { server?.attend() }

    override func grant(_ wishes: Wishes, isRunning: Bool) {
        guard !host.isClosed else { return }
        if wishes.contains(.attach), server == nil, let refusal = host.beAttachable(name: nil) {
            host.onWarning(host, "attach: \(refusal)")
        }
        if wishes.contains(.record) { server?.recordingBegins() }
        if wishes.contains(.interrupt) {
            if isRunning { hasInterrupted = true }
            server?.tell(isRunning ? "interrupted: \(host.whereText())" : "nothing runs that could be interrupted")
        } else if wishes.contains(.whereabouts) {
            server?.tell(host.whereText())
        }
    }

    override var isInEntry: Bool { server?.isInEntry ?? false }

    // If a client interrupts a callback, only that callback ends, not the process.
    override func hasCaused(_ failure: Failure) -> Bool { hasInterrupted && failure.cause == .interrupted }
}

extension LuaHost {
    var attachServer: AttachServer? { existingPart(Attachable.self)?.server }

    /// Lets `rlhost attach` open prompts in this process, and passes its output to clients.
    ///
    /// - Parameter name: A name besides the process number; see `Attach.fault(inName:)`.
    /// - Returns: The error if the port cannot be opened, or nil.
    public func beAttachable(name: String?) -> SystemError? {
        if let attachServer {
            guard attachServer.name != name else { return nil }
            stopBeingAttachable()
        }
        setAttaching(isAllowed: true)
        do throws(SystemError) {
            part(Attachable.self).server = try AttachServer(self, name: name, title: words.joined(separator: " "))
            return nil
        } catch {
            return error
        }
    }

    /// Allows or forbids processes of this user to attach by `Attach.ask`, from now on.
    public func setAttaching(isAllowed: Bool) {
        // This part opens the port when a client asks.
        if isAllowed { _ = part(Attachable.self) }
        watchWishes(isAllowed)
    }

    /// Whether the running code belongs to an entry of an attached client.
    var isEntryOfGuest: Bool { attachServer?.runsEntry ?? false }

    /// Closes the server. Notifies the clients.
    public func stopBeingAttachable() { existingPart(Attachable.self)?.willClose() }
}
