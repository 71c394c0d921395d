internal import CLinux
public import Linux

extension RunLoop {
    /// The way to another process's message port: a remote CFMessagePort. One connection; used on one loop's thread.
    ///
    /// Messages go out in order. 256 may be unanswered; further ones wait for their turns. While anything is unanswered the
    /// port keeps itself and its loop's common modes alive; otherwise it is in no mode, and the end of the other side is
    /// noticed at the next use.
    public final class RemotePort {
        public let name: String
        /// The process that had the name when the port was made.
        public var process: Int32 { connection.process }
        /// How many of the messages sent by `send` are not known to have been handled. Messages are handled in order, so
        /// these are the last ones; it stays when the port becomes invalid, and then says how many are lost, perhaps.
        public private(set) var unacknowledged = 0
        /// Called once, when the port becomes invalid; at once, if it is already. CFMessagePortSetInvalidationCallBack.
        public var invalidated: ((RemotePort) -> Void)? {
            didSet { if !isOpen, let invalidated { invalidated(self) } }
        }
        /// Called with what is wrong and concerns no call that waits.
        public var warned: ((RemotePort, String) -> Void)?
        /// For the owner's use.
        public var userInfo: AnyObject?

        let loop: RunLoop
        private let connection: MessageConnection
        private var isOpen = true
        private var last: UInt64 = 0
        /// Sent and not answered, those included that nobody waits for any more.
        private var unanswered: [UInt64: Conversation] = [:]
        /// Those that wait for their turn.
        private var waiting = Fifo<Conversation>()
        /// How many of them are settled already, because their time was over: they are passed over.
        private var abandoned = 0
        private var flushes: [Conversation] = []
        private var sendFailure: String?
        /// How many conversations need each mode.
        private var uses: [Mode: Int] = [:]
        private var retained: RemotePort?

        private static let ownProcess = linux_process()

        /// Bytes the kernel has not taken, beyond which further messages wait.
        private static let fill = 1 << 20

        /// Finds the port of a name. CFMessagePortCreateRemote.
        ///
        /// - Parameter loop: the calling thread's.
        /// - Throws: ENOENT if no live process has the name; EINVAL for an impossible one; whatever the system refuses.
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
                // Also when somebody empties the loop under it.
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

        /// Whether messages can be sent, as far as can be told without waiting. CFMessagePortIsValid.
        public var isValid: Bool {
            if isOpen, uses.isEmpty { connection.notice() }
            return isOpen
        }

        /// Gives the connection up. Whoever waits gets `.becameInvalid`; what was sent may or may not be handled: `flush`
        /// first. CFMessagePortInvalidate.
        public func invalidate() {
            guard isOpen else { return }
            connection.close()
            end(.becameInvalid, isExpected: true)
        }

        // MARK: Sending

        /// Sends a request and returns at once: the answer is the conversation's `result`, or comes to its `completion`.
        ///
        /// - Parameters:
        ///   - sendTimeout: how long to wait for room; nil, or more than ten days, for no limit, less than 1 ms for not at
        ///     all.
        ///   - replyTimeout: how long to wait for the answer, once it is sent; likewise.
        ///   - modes: in which the waiting can end.
        public func request(
            _ id: Int32, _ data: [UInt8], sendTimeout: Duration? = nil, replyTimeout: Duration? = nil,
            modes: [Mode] = [.common]
        ) -> Conversation {
            begin(.init(.request, id, data, sendTimeout, replyTimeout, modes))
        }

        /// Sends a message to which no answer is wanted. The conversation's result is there, and empty, as soon as there is
        /// room for it; the answer that it was handled counts down `unacknowledged`.
        public func send(
            _ id: Int32, _ data: [UInt8], timeout: Duration? = nil, modes: [Mode] = [.common]
        ) -> Conversation {
            begin(.init(.send, id, data, timeout, nil, modes))
        }

        /// Waits until all that was sent by `send` has been handled. Fails with the first failure since the last time.
        public func flush(timeout: Duration? = nil, modes: [Mode] = [.common]) -> Conversation {
            begin(.init(.flush, 0, [], nil, timeout, modes))
        }

        /// Sends a request and runs the loop in a mode, again and again, until the answer has come: whatever else is in the
        /// mode goes on meanwhile. CFMessagePortSendRequest with a reply mode.
        ///
        /// - Parameter condition: asked between two runs; false: gives the request up, with `.becameInvalid`.
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

        /// Sends what has its turn and finds room.
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
                    // From now on only the acknowledgement is waited for, in the modes of no caller.
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
                // Late, it finds the conversation settled, and is forgotten.
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
            // Those that wait for room are reported by their own results.
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

        /// It is over for who waited, one way or the other.
        func didSettle(_ conversation: Conversation) {
            guard conversation.isQueued else { return }
            if !conversation.isSent, isOpen {
                if conversation.kind == .flush {
                    flushes.removeAll { $0 === conversation }
                } else {
                    // It keeps its place, or taking many out would take longer the more there are.
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
            // The last use may be what keeps it alive.
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
