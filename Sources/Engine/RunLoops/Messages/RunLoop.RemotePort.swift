internal import CLinux
public import Linux

extension RunLoop {
    /// A connection to the message port of another process. A remote CFMessagePort. Used on the thread of one loop.
    ///
    /// Messages are sent in order. Up to 256 may be unanswered; further ones wait. While a message is unanswered, the
    /// port retains itself and is in the modes that wait for the answer, which keeps runs in these modes going. At
    /// other times the port is in no mode. It then notices only at its next use that the other end has closed the
    /// connection.
    public final class RemotePort {
        /// The name of the message port to which this port is connected.
        public let name: String
        /// The process that had the name when this port was made.
        public var process: Int32 { connection.process }
        /// The number of messages sent by `send` that are not known to have been handled. Messages are handled in
        /// order, so these are the last ones. When the port becomes invalid, the number stays: it is then the number of
        /// messages that may be lost.
        public private(set) var unacknowledged = 0
        /// Called once, when the port becomes invalid. If the port is invalid when this property is set, the function
        /// is called at once. CFMessagePortSetInvalidationCallBack.
        public var invalidated: ((RemotePort) -> Void)? {
            didSet { if !isOpen, let invalidated { invalidated(self) } }
        }
        /// Called with a text about a problem that no waiting call reports.
        public var warned: ((RemotePort, String) -> Void)?
        /// A reference for the owner's use.
        public var userInfo: AnyObject?

        let loop: RunLoop
        private let connection: MessageConnection
        private var isOpen = true
        private var last: UInt64 = 0
        /// Messages that were sent and not answered, also those for which no caller waits any more.
        private var unanswered: [UInt64: Conversation] = [:]
        /// Messages that wait for room.
        private var waiting = Fifo<Conversation>()
        /// The number of waiting messages whose time is over. They are skipped.
        private var abandoned = 0
        private var flushes: [Conversation] = []
        private var sendFailure: String?
        /// The number of conversations that need each mode.
        private var uses: [Mode: Int] = [:]
        private var retained: RemotePort?

        private static let ownProcess = linux_process()

        /// While more than this many queued bytes are waiting for the kernel, further messages wait.
        private static let fill = 1 << 20

        /// Connects to the port with this name. CFMessagePortCreateRemote.
        ///
        /// - Parameters:
        ///   - name: The name of the port.
        ///   - loop: The loop of the calling thread.
        /// - Throws: ENOENT if no live process has the name; EINVAL for an impossible name; errors of the system.
        public init(name: String, on loop: RunLoop) throws(SystemError) {
            let fd = try Self.connect(to: name, on: loop)
            do throws(SystemError) {
                connection = try MessageConnection(fd, name: "remote port \(name)")
            } catch {
                throw SystemError(
                    error.call, name, errno: error.errno,
                    reason: "the port \"\(name)\" belongs to a process of another user")
            }
            self.name = name
            self.loop = loop
            connection.received = { [weak self] frame throws(MessageFrame.Malformed) in try self?.receive(frame) }
            connection.receivedAll = { [weak self] in self?.sendWaiting() }
            connection.drained = { [weak self] in self?.sendWaiting() }
            connection.ended = { [weak self] reason in self?.end(reason.map(Failure.transport) ?? .becameInvalid) }
            connection.letGo = { [weak self] in
                // The loop may also remove the port from its modes, when it ends while messages are unanswered.
                self?.uses = [:]
                self?.retained = nil
            }
        }

        private static func connect(to name: String, on loop: RunLoop) throws(SystemError) -> Int32 {
            do throws(SystemError) {
                return try MessagePortName.connect(to: name)
            } catch {
                let ports = loop.ports.elements.lazy.compactMap { $0.takeUnretainedValue() as? MessagePort }
                guard error.errno == EAGAIN, let own = ports.first(where: { $0.name == name && $0.isValid }) else {
                    throw error
                }
                own.acceptNow()
                return try MessagePortName.connect(to: name)
            }
        }

        deinit { connection.close() }

        /// Whether messages can be sent, as far as can be found out without waiting. CFMessagePortIsValid.
        public var isValid: Bool {
            if isOpen, uses.isEmpty { connection.notice() }
            return isOpen
        }

        /// Closes the connection. Open conversations fail with `.becameInvalid`. The receiver may or may not handle
        /// messages that were already sent; call `flush` first to be sure that it has handled them.
        /// CFMessagePortInvalidate.
        public func invalidate() {
            guard isOpen else { return }
            connection.close()
            end(.becameInvalid, isExpected: true)
        }

        // MARK: Sending

        /// Sends a request and returns at once. The answer is in the conversation's `result`, and goes to its
        /// `completion`. CFMessagePortSendRequest.
        ///
        /// - Parameters:
        ///   - id: A number for the receiver.
        ///   - data: At most `MessagePort.longestMessage` bytes.
        ///   - sendTimeout: How long to wait for room. Nil, or more than ten days: no limit. Less than 1 ms: do not
        ///     wait.
        ///   - replyTimeout: How long to wait for the answer after the message was sent, with the same limits.
        ///   - modes: The modes in which the waiting can end.
        public func request(
            _ id: Int32, _ data: [UInt8], sendTimeout: Duration? = nil, replyTimeout: Duration? = nil,
            modes: [Mode] = [.common]
        ) -> Conversation {
            begin(.init(.request, id, data, sendTimeout, replyTimeout, modes))
        }

        /// Sends a message that wants no answer. The conversation has its result, which is empty, as soon as there is
        /// room for the message. `unacknowledged` counts the message until the receiver has handled it.
        public func send(
            _ id: Int32, _ data: [UInt8], timeout: Duration? = nil, modes: [Mode] = [.common]
        ) -> Conversation {
            begin(.init(.send, id, data, timeout, nil, modes))
        }

        /// Waits until all messages sent by `send` were handled. Fails with the first failure since the last flush.
        public func flush(timeout: Duration? = nil, modes: [Mode] = [.common]) -> Conversation {
            begin(.init(.flush, 0, [], nil, timeout, modes))
        }

        /// Sends a request and runs the loop in a mode until the answer has come. Other items in the mode are served
        /// meanwhile. CFMessagePortSendRequest with a reply mode.
        ///
        /// - Parameters:
        ///   - id: A number for the receiver.
        ///   - data: At most `MessagePort.longestMessage` bytes.
        ///   - sendTimeout: How long to wait for room; see `request`.
        ///   - replyTimeout: How long to wait for the answer; see `request`.
        ///   - mode: The mode to run in.
        ///   - condition: Called between two runs. If the function returns false, the request fails with
        ///     `.becameInvalid`.
        public func request(
            _ id: Int32, _ data: [UInt8], sendTimeout: Duration? = nil, replyTimeout: Duration? = nil,
            runningIn mode: Mode, while condition: () -> Bool = { true }
        ) -> Result<[UInt8], Failure> {
            let conversation = request(
                id, data, sendTimeout: sendTimeout, replyTimeout: replyTimeout, modes: [mode])
            while conversation.result == nil, condition() {
                conversation.run = loop.depth
                let limit = conversation.deadline.map { Swift.max(.zero, $0 - loop.now) }
                let outcome = loop.run(in: mode, for: limit, returnAfterSource: true)
                conversation.expire()
                if outcome == .finished { break }
            }
            if conversation.result == nil { conversation.cancel() }
            return conversation.result ?? .failure(.becameInvalid)
        }

        private func begin(_ conversation: Conversation) -> Conversation {
            conversation.port = self
            guard isValid else {
                conversation.settle(.failure(.invalid))
                return conversation
            }
            let size = conversation.data.count
            guard size <= MessageFrame.longest else {
                let reason = "the message has \(size) bytes; \(MessageFrame.longest) can be sent"
                conversation.settle(.failure(.transport(reason)))
                return conversation
            }
            conversation.isQueued = true
            switch conversation.kind {
            case .flush:
                use(conversation.modes)
                flushes.append(conversation)
                conversation.startWaiting(conversation.replyTimeout, else: .replyTimedOut)
                settleFlushes()
            case .request, .send:
                use(conversation.modes)
                waiting.append(conversation)
                if conversation.kind == .send { unacknowledged += 1 }
                sendWaiting()
                if !conversation.isSent { conversation.startWaiting(conversation.sendTimeout, else: .sendTimedOut) }
            }
            return conversation
        }

        /// Sends waiting messages for which there is room.
        private func sendWaiting() {
            while isOpen, unanswered.count < MessagePort.window, connection.unsent < Self.fill,
                let conversation = waiting.popFirst()
            {
                guard conversation.result == nil else {
                    abandoned -= 1
                    continue
                }
                last += 1
                conversation.number = last
                conversation.isSent = true
                unanswered[last] = conversation
                RunLoop.noteSend(
                    flow: MessageFrame.flow(of: Self.ownProcess, to: name, conversation: last))
                connection.send(
                    MessageFrame(
                        kind: conversation.kind == .send ? .send : .request, conversation: last, id: conversation.id,
                        data: conversation.takeData()))
                if conversation.kind == .send {
                    // From now on the port waits for the acknowledgement only, in the common modes rather than those of
                    // the caller.
                    use([.common])
                    conversation.settle(.success([]))
                } else {
                    conversation.startWaiting(conversation.replyTimeout, else: .replyTimedOut)
                }
            }
        }

        // MARK: Answers

        private func receive(_ frame: MessageFrame) throws(MessageFrame.Malformed) {
            switch frame.kind {
            case .bye: return end(.transport(Self.text(of: frame.data)), closing: true)
            case .request, .send: throw .init(reason: "a port does not send frames of kind \(frame.kind.rawValue)")
            case .reply, .done, .failure: break
            }
            guard let conversation = unanswered[frame.conversation] else {
                throw .init(reason: "conversation \(frame.conversation) is not open: an answer is repeated, or made up")
            }
            guard frame.kind == .failure || (frame.kind == .reply) == (conversation.kind == .request) else {
                throw .init(reason: "conversation \(frame.conversation) is answered by a frame of the wrong kind")
            }
            unanswered[frame.conversation] = nil
            let failure = frame.kind == .failure ? Self.text(of: frame.data) : nil
            guard conversation.kind == .send else {
                // If the answer comes too late, the conversation has a result already and ignores it.
                return conversation.settle(failure.map { .failure(.transport($0)) } ?? .success(frame.data))
            }
            unacknowledged -= 1
            if let failure {
                warned?(self, "message \(conversation.id) could not be handled: \(failure)")
                sendFailure = sendFailure ?? failure
            }
            unuse([.common])
            settleFlushes()
        }

        private func settleFlushes() {
            guard unacknowledged == 0, !flushes.isEmpty else { return }
            let settled = flushes
            flushes = []
            let failure = sendFailure
            sendFailure = nil
            for flush in settled { flush.settle(failure.map { .failure(.transport($0)) } ?? .success([])) }
        }

        static func text(of bytes: [UInt8]) -> String {
            String(decoding: bytes.prefix(1000), as: UTF8.self).shownInLine
        }

        private func end(_ failure: Failure, closing: Bool = false, isExpected: Bool = false) {
            guard isOpen else { return }
            isOpen = false
            if closing { connection.close() }
            // Conversations that wait for room report the failure by their own results.
            let waiting = self.waiting.elements.filter { $0.result == nil }
            self.waiting = Fifo()
            abandoned = 0
            unacknowledged -= waiting.count { $0.kind == .send }
            if unacknowledged > 0, !isExpected {
                warned?(self, "\(failure); \(unacknowledged) messages are not known to have been handled")
            }
            let conversations = unanswered.values.sorted { $0.number < $1.number } + waiting + flushes
            unanswered = [:]
            flushes = []
            for conversation in conversations { conversation.settle(.failure(failure)) }
            invalidated?(self)
        }

        // MARK: Modes

        /// Called when a conversation has its result.
        func didSettle(_ conversation: Conversation) {
            guard conversation.isQueued else { return }
            if !conversation.isSent, isOpen {
                if conversation.kind == .flush {
                    flushes.removeAll { $0 === conversation }
                } else {
                    // A settled message stays in the queue for now: removing a single message takes O(n) in the queue's
                    // length.
                    abandoned += 1
                    if abandoned > 64, abandoned * 2 > waiting.count {
                        waiting.removeAll { $0.result != nil }
                        abandoned = 0
                    }
                }
                if conversation.kind == .send { unacknowledged -= 1 }
                if conversation.kind == .send { settleFlushes() }
            }
            unuse(conversation.modes)
        }

        private func use(_ modes: [Mode]) {
            for mode in modes {
                uses[mode, default: 0] += 1
                guard uses[mode] == 1, let port = connection.port else { continue }
                retained = self
                loop.add(port, to: mode)
            }
        }

        private func unuse(_ modes: [Mode]) {
            // Keeps this object alive until the end: the last use may hold the only reference to it.
            withExtendedLifetime(self) {
                for mode in modes {
                    guard let count = uses[mode] else { continue }
                    uses[mode] = count == 1 ? nil : count - 1
                    guard count == 1, let port = connection.port, !connection.hasEnded else { continue }
                    loop.remove(port, from: mode)
                }
                if uses.isEmpty { retained = nil }
            }
        }
    }
}
