internal import CLinux

extension RunLoop {
    /// What a loop has done so far.
    public struct Statistics: Sendable {
        public internal(set) var passes = 0
        public internal(set) var sleeps = 0
        /// Nanoseconds asleep.
        public internal(set) var asleep: Int64 = 0
        /// Nanoseconds that the longest callback of a timer, source or port took, to a few milliseconds: a finer clock would
        /// cost more than many a callback.
        public internal(set) var longest: Int64 = 0
        // Callbacks, by kind.
        public internal(set) var timers = 0
        public internal(set) var sources = 0
        public internal(set) var ports = 0
        public internal(set) var observers = 0
        public internal(set) var requests = 0

        /// Returns when the callback ended.
        @discardableResult
        mutating func note(callbackSince start: Int64) -> Int64 {
            let end = linux_monotonic_coarse()
            if end - start > longest { longest = end - start }
            return end
        }
    }
}
