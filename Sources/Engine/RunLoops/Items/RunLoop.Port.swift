internal import Linux

extension RunLoop {
    /// Carries messages from any thread to one loop. Each turn delivers one message. NSPort, a version 1 source.
    ///
    /// A run in a mode goes on while the mode holds a port, even without messages. The port keeps its messages as long
    /// as it is valid, whether or not it is in a mode. `send`, `withdraw`, `count` and `takesMessages` are safe on any
    /// thread; use everything else on the thread of the port's loop.
    public final class Port: PortBase, @unchecked Sendable {
        // Sendable: `state` has its own lock; only the loop's thread uses the rest.

        /// The result of `send`.
        public enum SendResult: Sendable, Equatable {
            case sent
            /// The queue is full, and there was no `whenTaken`.
            case full
            /// The queue is full, and the message waits for room. The number is for `withdraw`.
            case waits(UInt64)
            case invalid
        }

        /// The largest number of messages in the queue.
        public let capacity: Int
        private let callback: ((Port, any Sendable) -> Void)?
        private let state = Lock(State())

        private struct State {
            var messages = Fifo<Letter>()
            /// The messages that wait for room, by number: empty unless the queue is full. `line` has the numbers of
            /// these messages in order of arrival; it may still have the numbers of withdrawn messages.
            var waiting: [UInt64: Waiting] = [:]
            var line = Fifo<UInt64>()
            var lastNumber: UInt64 = 0
            /// The handle of the loop that the port is in.
            var handle: Handle?
            var isValid = true

            /// Takes the first message that waits for room.
            mutating func takeWaiting() -> Waiting? {
                while let number = line.popFirst() {
                    if let waiting = waiting.removeValue(forKey: number) { return waiting }
                }
                return nil
            }
        }

        private struct Letter {
            let message: any Sendable
            /// The flow of the send, for recordings.
            let flow: UInt32
        }

        private struct Waiting {
            let letter: Letter
            let whenTaken: @Sendable (Bool) -> Void
        }

        /// - Parameters:
        ///   - capacity: The largest number of messages in the queue; at least 1.
        ///   - order: Stored as the item's order.
        ///   - name: The name in descriptions and recordings.
        ///   - owner: Gets the calls of `ItemOwner`.
        ///   - callback: Called on the loop's thread with each message. If nil, the port stores its messages, and only
        ///     keeps its mode alive.
        public init(
            capacity: Int = 1024, order: Int = 0, name: String = "", owner: ItemOwner? = nil,
            callback: ((Port, _ message: any Sendable) -> Void)? = nil
        ) {
            self.capacity = max(1, capacity)
            self.callback = callback
            super.init(name: name, order: order, owner: owner)
        }

        /// Queues a message and wakes the port's loop. Safe on any thread. `-[NSPort
        /// sendBeforeDate:components:from:reserved:]`.
        ///
        /// Messages arrive in the order of these calls. A later message does not overtake one that waits for room.
        ///
        /// - Parameter whenTaken: If given, a message waits when the queue is full. The closure is then called once, on
        ///   any thread: with true when the port has queued the message, with false when the port becomes invalid. If
        ///   nil, a full queue refuses the message.
        public func send(_ message: any Sendable, whenTaken: (@Sendable (Bool) -> Void)? = nil) -> SendResult {
            var wasEmpty = false
            var handle: Handle?
            let letter = Letter(message: message, flow: RunLoop.noteSend())
            let result = state.withLock { state -> SendResult in
                guard state.isValid else { return .invalid }
                guard state.messages.count < capacity else {
                    guard let whenTaken else { return .full }
                    state.lastNumber += 1
                    state.line.append(state.lastNumber)
                    state.waiting[state.lastNumber] = .init(letter: letter, whenTaken: whenTaken)
                    return .waits(state.lastNumber)
                }
                wasEmpty = state.messages.isEmpty
                state.messages.append(letter)
                handle = state.handle
                return .sent
            }
            if result == .sent, wasEmpty { handle?.ring(self) }
            return result
        }

        /// Withdraws a message that waits for room. Returns false if the message does not wait any more: its
        /// `whenTaken` is being called or was called. Safe on any thread. O(1), amortized.
        public func withdraw(_ number: UInt64) -> Bool {
            // The removed message is destroyed without the lock, since it may own anything.
            let removed = state.withLock { state in
                let removed = state.waiting.removeValue(forKey: number)
                // The first message may wait for long while most numbers behind it belong to withdrawn messages: remove
                // those.
                if state.line.count > 64 + 2 * state.waiting.count {
                    state.line.removeAll { state.waiting[$0] == nil }
                }
                return removed
            }
            return removed != nil
        }

        /// The number of queued messages. Safe on any thread.
        public var count: Int { state.withLock { $0.messages.count } }

        /// Whether the port is valid and so accepts messages. Safe on any thread.
        public var takesMessages: Bool { state.withLock { $0.isValid } }

        /// Queues the port in its modes if it has messages.
        func queueUp() {
            guard isStillReady() else { return }
            for mode in modes where !mode.ready.contains(self) { mode.ready.append(self) }
        }

        override func isStillReady() -> Bool { callback != nil && state.withLock { !$0.messages.isEmpty } }

        override func deliver() {
            let (letter, next) = state.withLock { state -> (Letter?, Waiting?) in
                guard let letter = state.messages.popFirst() else { return (nil, nil) }
                let next = state.takeWaiting()
                if let next { state.messages.append(next.letter) }
                return (letter, next)
            }
            next?.whenTaken(true)
            guard let letter else { return }
            loop?.noteCause(letter.flow)
            callback?(self, letter.message)
        }

        override func didEnter(_ mode: ModeState) {
            state.withLock { $0.handle = mode.loop.handle }
            if !mode.ready.contains(self), isStillReady() { mode.ready.append(self) }
        }

        override func didLeave(_ mode: ModeState) {
            if modes.isEmpty { state.withLock { $0.handle = nil } }
        }

        override func retire() {
            // Destroyed at the end of this function, without the lock.
            var left = state.withLock { state in
                let left = state
                state = State(isValid: false)
                return left
            }
            while let waiting = left.takeWaiting() { waiting.whenTaken(false) }
        }
    }
}
