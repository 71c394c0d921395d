internal import CLinux
internal import Linux

/// The world of a loop: its clock, and its function that sleeps until something happens.
///
/// Used only on the loop's thread.
open class Poller {
    /// The time of this world's monotonic clock, in nanoseconds. O(1).
    open func now() -> Int64 { fatalError("a poller needs a clock") }

    /// The same time with a precision of a few milliseconds, but cheaper. O(1).
    open func coarseNow() -> Int64 { now() }

    /// Whether the poller's clock is CLOCK_MONOTONIC.
    open var isReal: Bool { false }

    /// The time of this world's wall clock, in seconds since 1970.
    open var wallClock: Double { linux_wall_clock() }

    /// Returns a descriptor that becomes readable when the wall clock jumps, because it was set or the machine was
    /// suspended. A world without such a descriptor returns nil, and calls `changed` instead, on any thread.
    func watchWallClock(_ changed: @escaping @Sendable () -> Void) throws(SystemError) -> Descriptor? { nil }

    /// Whether timers fire at their exact dates and ignore their tolerances. A tolerance saves wake-ups, which cost
    /// nothing in simulated time.
    open var ignoresTolerance: Bool { false }

    /// Whether the loop sets `watched` before each wait.
    open var wantsToKnowDescriptors: Bool { false }
    /// The descriptors for which some port waits, without the loop's own descriptors. Set only if
    /// `wantsToKnowDescriptors` is true.
    public internal(set) final var watched: [Int32] = []

    /// Waits until something is ready in an epoll instance, or the time is over. Returns the number of events. It may
    /// also return 0 early.
    ///
    /// - Parameters:
    ///   - epoll: The epoll instance.
    ///   - events: Memory for the events, an array of `epoll_event`.
    ///   - capacity: The largest number of events to return.
    ///   - timeout: Nanoseconds; 0 does not wait, and a negative number means no limit.
    ///   - watching: The number of descriptors in the instance, apart from the loop's own.
    open func wait(
        _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
    ) -> Int { fatalError("a poller needs a way to wait") }
}
