extension RunLoop {
    /// Carries messages from any thread to one loop, one a turn: NSPort, a version 1 source.
    ///
    /// Also the way to keep a mode alive that has nothing else in it: an empty port does. Messages are kept as long as the
    /// port is valid, whether or not it is in a mode. `send` may be called on any thread, everything else on the thread of
    /// the port's loop.
    public final class Port: PortBase, @unchecked Sendable {
        // Sendable: `state` has a lock of its own; the rest is used by the loop's thread only.

        public enum SendResult: Sendable {
            case sent
            /// It holds as many messages as it may. `whenRoom` of `send` is called once, when there is room again.
            case full
            case invalid
        }

        /// How many messages wait at the most.
        public let capacity: Int
        private let callback: ((Port, any Sendable) -> Void)?
        private let state = RunLoops.Lock(State())

        private struct State {
            var messages: [any Sendable] = []
            var first = 0
            /// The loop it is in.
            var handle: Handle?
            var isValid = true
            var waiters: [@Sendable () -> Void] = []
            var count: Int { messages.count - first }
        }

        /// - Parameter callback: nil: the port only keeps its mode alive, and keeps what it is sent.
        public init(
            capacity: Int = 1024, order: Int = 0, name: String = "",
            callback: ((Port, _ message: any Sendable) -> Void)? = nil
        ) {
            self.capacity = max(1, capacity)
            self.callback = callback
            super.init(name: name, order: order)
        }

        /// Queues a message and wakes the port's loop. Any thread.
        ///
        /// - Parameter whenRoom: called on some thread, once, if the result is `.full` and there is room again, or the port
        ///   is no longer valid.
        public func send(_ message: any Sendable, whenRoom: (@Sendable () -> Void)? = nil) -> SendResult {
            var wasEmpty = false
            var handle: Handle?
            let result = state.withLock { state -> SendResult in
                guard state.isValid else { return .invalid }
                guard state.count < capacity else {
                    if let whenRoom { state.waiters.append(whenRoom) }
                    return .full
                }
                wasEmpty = state.count == 0
                state.messages.append(message)
                handle = state.handle
                return .sent
            }
            if result == .sent, wasEmpty { handle?.ring(self) }
            return result
        }

        /// How many messages wait. Any thread.
        public var count: Int { state.withLock { $0.count } }

        /// Whether it still takes messages. Any thread.
        public var takesMessages: Bool { state.withLock { $0.isValid } }

        /// It has messages: it takes its place in its modes' queues.
        func queueUp() {
            guard isStillReady() else { return }
            for mode in modes where !mode.ready.contains(self) { mode.ready.append(self) }
        }

        override func isStillReady() -> Bool { callback != nil && state.withLock { $0.count > 0 } }

        override func deliver() -> Bool {
            var waiters: [@Sendable () -> Void] = []
            let message = state.withLock { state -> (any Sendable)? in
                guard state.count > 0 else { return nil }
                let message = state.messages[state.first]
                state.messages[state.first] = ()
                state.first += 1
                // Amortized: an array that shifts at each message would make a long queue slow.
                if state.first == state.messages.count || state.first > 64 && state.first * 2 > state.messages.count {
                    state.messages.removeFirst(state.first)
                    state.first = 0
                }
                waiters = state.waiters
                state.waiters = []
                return message
            }
            for waiter in waiters { waiter() }
            guard let message else { return false }
            callback?(self, message)
            return isValid && isStillReady()
        }

        override func didEnter(_ mode: ModeState) {
            state.withLock { $0.handle = mode.loop.handle }
            if !mode.ready.contains(self), isStillReady() { mode.ready.append(self) }
        }

        override func didLeave(_ mode: ModeState) {
            if modes.isEmpty { state.withLock { $0.handle = nil } }
        }

        override func retire() {
            let (waiters, messages) = state.withLock { state in
                let left = (state.waiters, state.messages)
                state = State(isValid: false)
                return left
            }
            for waiter in waiters { waiter() }
            withExtendedLifetime(messages) {}  // dropped here, with no lock held
        }
    }
}
