internal import CLinux
internal import Linux

/// The world a loop lives in: what time it is, and how one sleeps until something happens.
///
/// Used by one thread, that of the loop.
open class Poller {
    /// Nanoseconds of this world's monotonic clock. O(1).
    open func now() -> Int64 { fatalError("a poller needs a clock") }

    /// The same to a few milliseconds, for less. O(1).
    open func coarseNow() -> Int64 { now() }

    /// Its clock is CLOCK_MONOTONIC.
    open var isReal: Bool { false }

    /// Seconds since 1970, by this world's wall clock.
    open var wallClock: Double { linux_wall_clock() }

    /// A descriptor that becomes readable when the wall clock jumps: somebody sets it, or the machine has slept. nil: there is
    /// none, and `changed` is called instead, on any thread.
    func watchWallClock(_ changed: @escaping @Sendable () -> Void) throws(SystemError) -> Descriptor? { nil }

    /// Timers fire at their dates, whatever their tolerances: where waking up costs nothing, nothing is won by being late.
    open var ignoresTolerance: Bool { false }

    /// On: before it waits, it is told what `watched` descriptors there are.
    open var wantsToKnowDescriptors: Bool { false }
    /// The descriptors besides the loop's own that some port is interested in, if it wants to know them.
    public internal(set) final var watched: [Int32] = []

    /// Waits until something is ready in an epoll instance, or the time is over; returns the number of events, at most
    /// `capacity`. It may return 0 before that.
    ///
    /// - Parameters:
    ///   - timeout: nanoseconds; 0 for no waiting, negative for no limit.
    ///   - watching: how many descriptors besides the loop's own are watched.
    open func wait(
        _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
    ) -> Int { fatalError("a poller needs a way to wait") }
}
