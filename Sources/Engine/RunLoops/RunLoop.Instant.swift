internal import CLinux

extension RunLoop {
    /// A point in time of the monotonic clock (CLOCK_MONOTONIC), with a resolution of a nanosecond. Unlike
    /// CFAbsoluteTime, it does not jump when the wall clock is set.
    public struct Instant: Comparable, Hashable, Sendable {
        /// Nanoseconds since the clock's origin, usually the start of the machine.
        public var nanoseconds: Int64

        public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

        /// The current time of the monotonic clock. A loop in simulated time has its own clock: `RunLoop.now`.
        public static var now: Instant { Instant(nanoseconds: linux_monotonic_now()) }

        /// Later than every other instant: no limit. The distant future of CoreFoundation.
        public static let never = Instant(nanoseconds: .max)

        /// Earlier than every other instant. The distant past of CoreFoundation.
        public static let longAgo = Instant(nanoseconds: .min)

        public static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

        /// Saturates at `never` and `longAgo`.
        public static func + (instant: Instant, duration: Duration) -> Instant {
            let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
            guard overflow else { return Instant(nanoseconds: sum) }
            return duration < .zero ? .longAgo : .never
        }

        /// Adds nanoseconds, and saturates like `+`, which takes ten times as long.
        package func later(by nanoseconds: Int64) -> Instant {
            Instant(nanoseconds: self.nanoseconds.addingSaturating(nanoseconds))
        }

        /// The time from `b` to `a`, which saturates at 292 years either way.
        public static func - (a: Instant, b: Instant) -> Duration {
            .nanoseconds(a.nanoseconds.subtractingSaturating(b.nanoseconds))
        }
    }
}

extension Duration {
    /// The duration in nanoseconds. Rounded up, so that a wait of this length never ends early; saturates at 292 years.
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
