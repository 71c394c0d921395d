internal import CLinux
public import Linux
internal import Synchronization

extension RunLoop {
    /// Receives messages from other processes of the same user, under a name. Each turn delivers one message. A local
    /// CFMessagePort.
    ///
    /// Messages of one sender arrive in the order in which they were sent; senders take turns. While the port is in no
    /// running mode, messages wait with their senders, which may have 256 unanswered messages each. The port keeps its
    /// modes alive. Not thread-safe: use it on the thread of its loop.
    public final class MessagePort: PortBase {
        /// The largest size of a message or an answer: 16 MB (16,777,216 bytes).
        public static let longestMessage = MessageFrame.longest
        /// The largest number of unanswered messages of one sender.
        public static let window = 256

        /// Called once, when the port is invalidated: after it has given up its name, before it leaves its modes. If
        /// the port is invalid when this property is set, the function is called at once.
        /// CFMessagePortSetInvalidationCallBack.
        public var invalidated: ((MessagePort) -> Void)? {
            didSet { if !isValid, let invalidated { invalidated(self) } }
        }
        /// Called with a text about a problem of the port: no descriptors left, a name that is lost.
        public var warned: ((MessagePort, String) -> Void)?
        /// Called with a text about a problem of a sender: malformed frames, another user. A sender may cause any
        /// number of calls, so limit them in a log. If nil, `warned` is called instead.
        public var warnedOfPeer: ((MessagePort, String) -> Void)?

        /// Called with the number of a sender whose connection has ended. Messages that it had sent completely are
        /// still delivered, some maybe after this call.
        public var departed: ((MessagePort, _ sender: Int) -> Void)?

        private let callback: (MessagePort, Message) -> Void
        private var connections = 0
        private var claim: MessagePortName?
        private var listener: FDPort?
        private var clients: [Client] = []
        /// The clients with messages to deliver, in the order of their turns.
        private var turns: [Client] = []
        /// The timer for the next attempt to accept connections, while the process has no descriptors left.
        private var retry: Timer?
        /// The error that now keeps the port from accepting connections, as last reported to `warned`.
        private var shortage: Int32?

        /// Makes a port without a name; `setName` gives it one. CFMessagePortCreateLocal.
        ///
        /// - Parameters:
        ///   - order: Stored as the item's order.
        ///   - owner: Gets the calls of `ItemOwner`.
        ///   - callback: Called on the loop's thread with each message, which it answers at once or later; see
        ///     `Message`.
        public init(order: Int = 0, owner: ItemOwner? = nil, callback: @escaping (MessagePort, Message) -> Void) {
            self.callback = callback
            super.init(name: "", order: order, owner: owner)
        }

        /// Makes a port with a name. CFMessagePortCreateLocal.
        ///
        /// - Throws: EADDRINUSE if a live process, maybe this one, has the name; EINVAL for an impossible name; errors
        ///   of the system.
        public convenience init(
            name: String, order: Int = 0, callback: @escaping (MessagePort, Message) -> Void
        ) throws(SystemError) {
            self.init(order: order, callback: callback)
            try setName(name)
        }

        deinit { if isValid { retire() } }

        /// Returns the names with this prefix that live processes of this user have. Also removes the files that dead
        /// processes have left under such names.
        ///
        /// - Throws: Errors of the system.
        public static func names(withPrefix prefix: String) throws(SystemError) -> [String] {
            try MessagePortName.live(withPrefix: prefix)
        }

        /// Takes names for ports that are made after the process has entered a sandbox. Returns the directory in which
        /// ports are found.
        package static func prepareForSandbox(_ names: [String]) throws(SystemError) -> String {
            try MessagePortName.prepareForSandbox(names)
        }

        /// The number of the process that has a name, in this process's PID namespace. Nil if no process has the name,
        /// or the process has no number in this namespace.
        package static func owner(ofName name: String) -> Int32? {
            guard let connection = try? MessagePortName.connect(to: name) else { return nil }
            defer { linux_close(connection) }
            var user: UInt32 = 0
            var process: Int32 = 0
            guard linux_peer(connection, &user, &process) == 0, process > 0 else { return nil }
            return process
        }

        /// Takes a name, and gives up the previous one. Existing connections stay. After an error nothing has changed.
        /// CFMessagePortSetName.
        ///
        /// - Throws: Throws as `init` does; EINVAL for an invalid port.
        public func setName(_ new: String) throws(SystemError) {
            guard isValid else { throw SystemError("bind", errno: EINVAL, reason: "the port is no longer valid") }
            guard new != claim?.name else { return }
            let claim = try MessagePortName.take(new)
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
            // Accept at most 64 connections at once, since messages of existing connections must have their turns, too.
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

        /// Accepts the waiting connections at once. A thread calls this if the queue of connections of its own port is
        /// full when it connects to that port: it cannot wait for a turn of its own loop.
        func acceptNow() {
            let known = clients.count
            accept()
            // Closes the connections whose clients have closed them meanwhile, which frees their descriptors.
            for client in clients.dropFirst(known) { client.connection.notice() }
        }

        /// Stops accepting for 100 ms: otherwise the kernel would report the waiting connection again and again.
        private func acceptLater(_ errno: Int32) {
            guard let listener else { return }
            // Report a shortage once, however long it lasts.
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
                // The port still delivers messages that the client sent before.
                self?.takeTurn(client)
                self?.clients.removeAll { $0 === client }
                if let self { departed?(self, number) }
            }
            for mode in modes { if let port = connection.port { mode.loop.add(port, to: mode.name) } }
        }

        private func warn(_ text: String) { warned?(self, text) }
        private func warnOfPeer(_ text: String) { (warnedOfPeer ?? warned)?(self, text) }

        // MARK: Turns

        /// The client whose message's callback is running.
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
            if RunLoop.someAreRecorded { loop?.noteCause(message.flow(to: name)) }
            let outer = delivering
            delivering = client
            callback(self, message)
            delivering = outer
            client.sendHeld()
            // An invalid port may still answer the message whose callback invalidated it.
            if !isValid { client.closeWhenSent() }
        }
    }
}
