internal import CLinux

extension RunLoop {
    /// Counts and times of a loop since its creation.
    public struct Statistics: Sendable {
        public internal(set) var passes = 0
        public internal(set) var sleeps = 0
        /// Nanoseconds spent asleep.
        public internal(set) var asleep: Int64 = 0
        /// The longest callback of a timer, source or port, in nanoseconds, with a precision of a few milliseconds:
        /// reading a finer clock would cost more than many callbacks take.
        public internal(set) var longest: Int64 = 0
        // The number of callbacks of each kind.
        public internal(set) var timers = 0
        public internal(set) var sources = 0
        public internal(set) var ports = 0
        public internal(set) var observers = 0
        public internal(set) var requests = 0

        /// Records a callback that began at `start` and ends now. Returns the present time. Both times are nanoseconds
        /// of the coarse clock.
        @discardableResult
        mutating func note(callbackSince start: Int64) -> Int64 {
            let end = linux_monotonic_coarse()
            if end - start > longest { longest = end - start }
            return end
        }
    }
}
