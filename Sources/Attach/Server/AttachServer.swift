internal import Glibc
public import Linux
internal import Lua
public import LuaRunLoops
internal import RunLoops

/// What makes a process one that `rlhost attach` can open a prompt in: the port, and the prompts.
final class AttachServer {
    private unowned let host: LuaHost
    /// As `rl.attach` was told.
    let name: String?
    private let port: AttachPort
    private var sessions: [Int: AttachSession] = [:]
    private var again: RunLoop.Timer?
    private let redirection: Redirection
    private var followers: [Int: AttachClient] = [:] {
        didSet {
            let outboxes = followers.values.map(\.outbox)
            Self.listeners.withLock { $0 = outboxes }
            // All the process's: there is one prompt's server in it.
            Sink.listenToThreads(
                outboxes.isEmpty
                    ? nil
                    : { bytes, count in
                        let bytes = UnsafeRawBufferPointer(start: bytes, count: count)
                        for outbox in AttachServer.listeners.withLock({ $0 }) { outbox.append(.output, bytes) }
                    })
        }
    }
    /// The same for other threads.
    private static let listeners = Lock<[AttachOutbox]>([])
    /// Where what is printed went before somebody followed it.
    private var before: Sink.Place?
    private lazy var sink = Sink { [unowned self] in passOn($0) }

    /// - Throws: what the system refuses.
    init(_ host: LuaHost, name: String?, title: String) throws(SystemError) {
        self.host = host
        self.name = name
        // Nobody else would clear away what processes have left that were killed.
        _ = try? RunLoop.MessagePort.names(withPrefix: Attach.prefix)
        port = try AttachPort(
            name: Attach.portName(process: getpid(), name: name),
            description: [name ?? "", title.split(separator: "\n").joined(separator: " "), LuaHost.luaRelease],
            target: host.loop.handle, entries: host.entries)
        redirection = host.openRedirection()
        host.watchEntries()
    }

    /// The code that runs is that of an entry, not of a callback in a run of the loop inside it.
    var isInEntry: Bool { sessions.values.contains { $0.isRunning && $0.depth == host.loop.depth } }

    var runsEntry: Bool { sessions.values.contains { $0.isRunning } }

    /// The one of a client, which is made when it is first asked for.
    func session(of client: AttachClient) -> AttachSession? {
        if let session = sessions[client.number] { return session }
        guard !client.isGone, !host.isClosed else { return nil }
        guard let session = AttachSession(self, host, client) else {
            client.outbox.append(
                .error, "no prompt can be opened there: not enough memory, or Lua's libraries are missing\n")
            client.outbox.append(.end)
            return nil
        }
        sessions[client.number] = session
        return session
    }

    // MARK: What the script prints

    /// Begins to show a client what the script prints, or ends it. Returns what to say.
    func follow(_ client: AttachClient) -> String {
        if followers.removeValue(forKey: client.number) != nil {
            attendToFollowers()
            return "what the script prints is no longer shown"
        }
        guard !runsEntry || before != nil else { return "an entry runs at this moment; ask again when it has ended" }
        followers[client.number] = client
        if before == nil { before = Sink.redirect(to: sink.place) }
        return "what the script prints from now on is shown here, too"
    }

    /// What the script prints, not an entry: for those who follow. Returns false: it is printed as ever.
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

    /// What happens is recorded from now on, if it may be.
    func recordingBegins() { port.recordingBegins() }

    /// Somebody wanted to know.
    func tell(_ text: String) { port.tell(text) }

    /// Between two callbacks of the loop: looks for entries that are to end, and for clients that are gone.
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
        // Code that was to end still runs, and runs the loop: it may not have noticed, or have gone on all the same.
        let pause = left.contains { $0.client.isGone } ? 20 : 200
        again = host.loop.callBack(at: host.loop.now + .milliseconds(pause)) { [weak self] _, _ in
            self?.again = nil
            self?.attend()
        }
    }

    /// Ends it: clients are told, their entries end.
    func close() {
        port.close()
        attend()
        again?.invalidate()
        for session in sessions.values where !session.close() {
            // The process is ended from inside its entry, whose frames are on the stack.
            _ = Unmanaged.passRetained(session)
        }
        sessions = [:]
        followers = [:]
        host.close(redirection)
    }
}

/// Set up while `rlhost attach` finds this process.
final class Attachable: HostPart {
    var server: AttachServer?
    /// Somebody has ended a callback: that is no reason for the process to end.
    var hasInterrupted = false

    override func willClose() {
        let server = server
        server?.close()
        self.server = nil
    }

    override func willExit() { willClose() }

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

    // They have ended a callback, and not the process.
    override func hasCaused(_ failure: Failure) -> Bool { hasInterrupted && failure.cause == .interrupted }
}

extension LuaHost {
    var attachServer: AttachServer? { existingPart(Attachable.self)?.server }

    /// Lets `rlhost attach` open prompts in this process, which shows its words.
    ///
    /// - Parameter name: what it is called besides its number; see `Attach.fault(inName:)`.
    /// - Returns: why it cannot be, or nil.
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

    /// Has processes of this user that know how to ask be let in, from now on, or not.
    public func setAttaching(isAllowed: Bool) {
        // It is the one that lets them in.
        if isAllowed { _ = part(Attachable.self) }
        watchWishes(isAllowed)
    }

    /// Code of somebody who has attached runs.
    var isEntryOfGuest: Bool { attachServer?.runsEntry ?? false }

    /// Takes it back. Who is attached is told so.
    public func stopBeingAttachable() { existingPart(Attachable.self)?.willClose() }
}
