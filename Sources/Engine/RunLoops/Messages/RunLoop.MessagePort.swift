internal import CLinux
public import Linux
internal import Synchronization

extension RunLoop {
    /// Receives messages from other processes of the same user, under a name, one a turn: a local CFMessagePort.
    ///
    /// Messages of one sender come in the order in which they were sent; senders take turns. While the port is in no mode
    /// that runs, messages wait with their senders, who notice when 256 of theirs are unanswered. Use a port on the thread
    /// of its loop. It keeps its modes alive.
    public final class MessagePort: PortBase {
        /// How many bytes a message, or its answer, may have: 16 MB.
        public static let longestMessage = MessageFrame.longest
        /// How many messages of one sender may be unanswered.
        public static let window = 256

        /// Called once, when the port is invalidated and its name is free again, before it leaves its modes. Set on a port
        /// that is invalid, it is called at once. CFMessagePortSetInvalidationCallBack.
        public var invalidated: ((MessagePort) -> Void)? {
            didSet { if !isValid, let invalidated { invalidated(self) } }
        }
        /// Called with what is wrong with the port: no descriptors left, a name that is lost.
        public var warned: ((MessagePort, String) -> Void)?
        /// Called with what is wrong with a sender: malformed frames, another user. As often as somebody connects: a log needs a limit.
        /// Without it, `warned` is called.
        public var warnedOfPeer: ((MessagePort, String) -> Void)?

        /// Called with the number of a sender whose connection has ended. What it had sent completely is delivered all the
        /// same, before or after.
        public var departed: ((MessagePort, _ sender: Int) -> Void)?

        private let callback: (MessagePort, Message) -> Void
        private var connections = 0
        private var claim: MessagePortName?
        private var listener: FDPort?
        private var clients: [Client] = []
        /// Those with messages to deliver, in the order of their turns.
        private var turns: [Client] = []
        /// While there are no descriptors for new connections, it is asked again now and then.
        private var retry: Timer?
        /// Why connections wait, as it was last said.
        private var shortage: Int32?

        /// Without a name, until it gets one by `setName`. CFMessagePortCreateLocal.
        ///
        /// - Parameter callback: answers the message, at once or later; see `Message`.
        public init(order: Int = 0, owner: ItemOwner? = nil, callback: @escaping (MessagePort, Message) -> Void) {
            self.callback = callback
            super.init(name: "", order: order, owner: owner)
        }

        /// - Throws: EADDRINUSE if a live process, be it this one, has the name; EINVAL for an impossible name; whatever
        ///   else the system refuses.
        public convenience init(
            name: String, order: Int = 0, callback: @escaping (MessagePort, Message) -> Void
        ) throws(SystemError) {
            self.init(order: order, callback: callback)
            try setName(name)
        }

        deinit { if isValid { retire() } }

        /// The names beginning with a text that live processes of this user have. What dead ones have left is cleared away.
        ///
        /// - Throws: what the system refuses.
        public static func names(withPrefix prefix: String) throws(SystemError) -> [String] {
            try MessagePortName.live(withPrefix: prefix)
        }

        /// The number of the process that has a name, as this process knows it: one of another PID namespace has another number there.
        /// nil if nobody has it, or the process has no number here.
        package static func owner(ofName name: String) -> Int32? {
            guard let connection = try? MessagePortName.connect(to: name) else { return nil }
            defer { linux_close(connection) }
            var user: UInt32 = 0
            var process: Int32 = 0
            guard linux_peer(connection, &user, &process) == 0, process > 0 else { return nil }
            return process
        }

        /// Takes a name, and gives up the one before; who is connected stays so. On failure nothing changes.
        /// CFMessagePortSetName.
        ///
        /// - Throws: as `init`; EINVAL for an invalid port.
        public func setName(_ new: String) throws(SystemError) {
            guard isValid else { throw SystemError("bind", errno: EINVAL, reason: "the port is no longer valid") }
            guard new != claim?.name else { return }
            let claim = try MessagePortName(new)
            let listener: FDPort
            do throws(SystemError) {
                listener = try FDPort(claim.listener.number, name: new) { [weak self] port, _ in
                    if let loss = port.loss { self?.warn("nobody can connect any more: \(loss)") }
                    self?.accept()
                }
            } catch {
                throw SystemError("listen", new, errno: error.errno, reason: "cannot listen")
            }
            listener.isInner = true
            listener.keepsAlive = keepsAlive
            self.listener?.invalidate()
            self.listener = listener
            self.claim = claim
            name = new
            for mode in modes { mode.loop.add(listener, to: mode.name) }
        }

        public override func invalidate() {
            guard isValid else { return }
            retire()
            invalidated?(self)
            super.invalidate()
        }

        override func retire() {
            listener?.invalidate()
            listener = nil
            claim = nil
            retry?.invalidate()
            delivering?.isLeaving = true
            for client in clients + turns where client !== delivering { client.close() }
            clients = []
            turns = []
        }

        override func didChangeKeepsAlive() {
            for port in inner { port.keepsAlive = keepsAlive }
            retry?.keepsAlive = keepsAlive
        }

        override func didEnter(_ mode: ModeState) {
            for port in inner { mode.loop.add(port, to: mode.name) }
            if let retry { mode.loop.add(retry, to: mode.name) }
            queueUp()
        }

        override func didLeave(_ mode: ModeState) {
            for port in inner { mode.loop.remove(port, from: mode) }
            if let retry { mode.loop.remove(retry, from: mode.name) }
        }

        private var inner: [FDPort] { [listener].compactMap(\.self) + clients.compactMap(\.connection.port) }

        // MARK: Connections

        private func accept() {
            // Several at once, but not for ever: those who are connected have a right to their turns, too.
            for _ in 0..<64 {
                guard let listener, isValid else { return }
                let fd = linux_accept(listener.fd)
                guard fd >= 0 else {
                    let errno = linux_errno()
                    if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) { acceptLater(errno) }
                    return
                }
                shortage = nil
                do throws(SystemError) {
                    connect(try MessageConnection(fd, name: name))
                } catch {
                    warnOfPeer("refused a connection of another user's process")
                }
            }
        }

        /// Makes room for one who wants to connect from this port's own thread, and so would wait for ever for its loop's turn.
        func acceptNow() {
            let known = clients.count
            accept()
            // Those that have gone meanwhile need no descriptor any longer.
            for client in clients.dropFirst(known) { client.connection.notice() }
        }

        /// Without a rest it would be told again and again that somebody wants to connect.
        private func acceptLater(_ errno: Int32) {
            guard let listener else { return }
            // Once, however long it lasts.
            if shortage != errno {
                warn("cannot accept a connection, and tries again: \(String(cString: linux_error_text(errno)))")
            }
            shortage = errno
            try? listener.setEvents([])
            guard let loop else { return }
            let timer = Timer(fireDate: loop.now + .milliseconds(100), name: name) { [weak self] _, _ in
                self?.retry = nil
                try? self?.listener?.setEvents(.read)
            }
            timer.keepsAlive = keepsAlive
            retry = timer
            for mode in modes { loop.add(timer, to: mode.name) }
        }

        private func connect(_ connection: MessageConnection) {
            connections += 1
            let number = connections
            let client = Client(connection, number: number)
            clients.append(client)
            connection.port?.isInner = true
            connection.port?.keepsAlive = keepsAlive
            connection.received = { [weak self, unowned client] frame throws(MessageFrame.Malformed) in
                try client.receive(frame)
                self?.takeTurn(client)
            }
            connection.drained = { [weak self, unowned client] in
                client.pauseOrResume()
                self?.takeTurn(client)
            }
            connection.ended = { [weak self, unowned client] reason in
                if let reason {
                    self?.warnOfPeer("closed the connection of process \(client.connection.process): \(reason)")
                }
                // What it sent before is still delivered.
                self?.takeTurn(client)
                self?.clients.removeAll { $0 === client }
                if let self { departed?(self, number) }
            }
            for mode in modes { if let port = connection.port { mode.loop.add(port, to: mode.name) } }
        }

        private func warn(_ text: String) { warned?(self, text) }
        private func warnOfPeer(_ text: String) { (warnedOfPeer ?? warned)?(self, text) }

        // MARK: Turns

        /// Whose message's callback runs.
        private var delivering: Client?

        private func takeTurn(_ client: Client) {
            guard isValid, !client.hasTurn, client.mayDeliver else { return }
            client.hasTurn = true
            turns.append(client)
            queueUp()
        }

        private func queueUp() {
            guard !turns.isEmpty else { return }
            for mode in modes where !mode.ready.contains(self) { mode.ready.append(self) }
        }

        override func isStillReady() -> Bool { !turns.isEmpty }

        override func deliver() {
            guard !turns.isEmpty else { return }
            let client = turns.removeFirst()
            client.hasTurn = false
            guard let message = client.takeMessage() else { return }
            takeTurn(client)
            if RunLoop.Recorder.someAreOn.load(ordering: .relaxed) != 0 { loop?.noteCause(message.flow(to: name)) }
            let outer = delivering
            delivering = client
            callback(self, message)
            delivering = outer
            client.sendHeld()
            // A port may answer the message by which it was told to end.
            if !isValid { client.closeWhenSent() }
        }
    }
}
