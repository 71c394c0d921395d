internal import Linux

extension RunLoop {
    /// Carries messages from any thread to one loop, one a turn: NSPort, a version 1 source.
    ///
    /// Also the way to keep a mode alive that has nothing else in it: an empty port does. Messages are kept as long as the
    /// port is valid, whether or not it is in a mode. `send` may be called on any thread, everything else on the thread of
    /// the port's loop.
    public final class Port: PortBase, @unchecked Sendable {
        // Sendable: `state` has a lock of its own; the rest is used by the loop's thread only.

        public enum SendResult: Sendable, Equatable {
            case sent
            /// It holds as many messages as it may.
            case full
            /// The message stands in line. The number is for `withdraw`.
            case waits(UInt64)
            case invalid
        }

        /// How many messages wait at the most.
        public let capacity: Int
        private let callback: ((Port, any Sendable) -> Void)?
        private let state = Lock(State())

        private struct State {
            var messages = Fifo<Letter>()
            /// Those for which there is no room, by number, and in which order they came. Some of these have left. Not empty: it is full.
            var waiting: [UInt64: Waiting] = [:]
            var line = Fifo<UInt64>()
            var lastNumber: UInt64 = 0
            /// The loop it is in.
            var handle: Handle?
            var isValid = true

            /// The first in the line.
            mutating func takeWaiting() -> Waiting? {
                while let number = line.popFirst() {
                    if let waiting = waiting.removeValue(forKey: number) { return waiting }
                }
                return nil
            }
        }

        private struct Letter {
            let message: any Sendable
            /// For recordings.
            let flow: UInt32
        }

        private struct Waiting {
            let letter: Letter
            let whenTaken: @Sendable (Bool) -> Void
        }

        /// - Parameter callback: nil: the port only keeps its mode alive, and keeps what it is sent.
        public init(
            capacity: Int = 1024, order: Int = 0, name: String = "", owner: ItemOwner? = nil,
            callback: ((Port, _ message: any Sendable) -> Void)? = nil
        ) {
            self.capacity = max(1, capacity)
            self.callback = callback
            super.init(name: name, order: order, owner: owner)
        }

        /// Queues a message and wakes the port's loop. Any thread.
        ///
        /// Messages arrive in the order of these calls, also those that had to stand in line: who comes later does not
        /// overtake them when there is room.
        ///
        /// - Parameter whenTaken: given, a message for which there is no room stands in line, and this is called on some
        ///   thread, once: with true when the port has taken it, with false when the port is no longer valid.
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

        /// Takes a message out of the line. Returns false if it no longer stands there: then `whenTaken` is, or has been,
        /// called. Any thread. O(1), amortized.
        public func withdraw(_ number: UInt64) -> Bool {
            // Dropped with no lock held: it may own anything.
            let removed = state.withLock { state in
                let removed = state.waiting.removeValue(forKey: number)
                // Most have left, and the first may stay for long.
                if state.line.count > 64 + 2 * state.waiting.count {
                    state.line.removeAll { state.waiting[$0] == nil }
                }
                return removed
            }
            return removed != nil
        }

        /// How many messages wait. Any thread.
        public var count: Int { state.withLock { $0.messages.count } }

        /// Whether it still takes messages. Any thread.
        public var takesMessages: Bool { state.withLock { $0.isValid } }

        /// It has messages: it takes its place in its modes' queues.
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
            // Dropped at the end, with no lock held.
            var left = state.withLock { state in
                let left = state
                state = State(isValid: false)
                return left
            }
            while let waiting = left.takeWaiting() { waiting.whenTaken(false) }
        }
    }
}
