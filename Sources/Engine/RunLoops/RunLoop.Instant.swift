internal import CLinux

extension RunLoop {
    /// A point on the monotonic clock (CLOCK_MONOTONIC), to the nanosecond. Setting the wall clock does not move it.
    /// CFAbsoluteTime's place, without its jumps.
    public struct Instant: Comparable, Hashable, Sendable {
        /// Nanoseconds since the clock's origin, which is usually the machine's start.
        public var nanoseconds: Int64

        public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

        /// The monotonic clock now. A loop in simulated time has its own: `RunLoop.now`.
        public static var now: Instant { Instant(nanoseconds: linux_monotonic_now()) }

        /// Later than everything: no limit. CF's distant future.
        public static let never = Instant(nanoseconds: .max)

        /// Earlier than everything. CF's distant past.
        public static let longAgo = Instant(nanoseconds: .min)

        public static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

        /// Saturates at `never` and `longAgo`.
        public static func + (instant: Instant, duration: Duration) -> Instant {
            let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
            guard overflow else { return Instant(nanoseconds: sum) }
            return duration < .zero ? .longAgo : .never
        }

        /// The time from `b` to `a`; at most 292 years either way.
        public static func - (a: Instant, b: Instant) -> Duration {
            .nanoseconds(a.nanoseconds.subtractingSaturating(b.nanoseconds))
        }
    }
}

extension Duration {
    /// Rounded up, so that nothing that is to take this long ends early; saturated at 292 years.
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let part = attoseconds / 1_000_000_000 + (attoseconds % 1_000_000_000 > 0 ? 1 : 0)
        let (sum, carry) = whole.addingReportingOverflow(part)
        return carry ? (seconds < 0 ? .min : .max) : sum
    }
}

extension Int64 {
    func addingSaturating(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }

    func subtractingSaturating(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        return overflow ? (other > 0 ? .min : .max) : difference
    }
}
