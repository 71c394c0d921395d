internal import CLinux

/// The world a loop lives in: what time it is, and how one sleeps until something happens.
///
/// Used by one thread, that of the loop.
open class Poller {
    /// Nanoseconds of this world's monotonic clock. O(1).
    open func now() -> Int64 { fatalError("a poller needs a clock") }

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

/// Linux itself.
public final class EpollPoller: Poller {
    public override init() { linux_be_punctual() }

    public override func now() -> Int64 { linux_monotonic_now() }

    public override func wait(
        _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
    ) -> Int {
        let count = linux_epoll_wait(
            epoll, events.assumingMemoryBound(to: epoll_event.self), CInt(capacity), timeout)
        return max(0, Int(count))  // EINTR is "nothing happened": the loop looks at the clock and waits on
    }
}

/// A world in which sleeping takes no time: when nothing is ready, the clock jumps to the end of the wait.
///
/// Descriptors are real. While any is watched, the poller waits for it in real time, unless `waitsForDescriptors` is off;
/// so does a loop that sleeps without a deadline, for another thread to wake it. Real time spent so passes here, too.
public final class SimulatedPoller: Poller {
    private var time: Int64
    /// Off: only what is ready at the moment is seen of descriptors, and the clock jumps regardless.
    public var waitsForDescriptors: Bool
    /// Whether something outside this loop, such as another thread, may still have to happen before time may pass.
    public var somethingIsOutstanding: () -> Bool = { false }

    public init(start: RunLoop.Instant = .init(nanoseconds: 0), waitsForDescriptors: Bool = false) {
        time = start.nanoseconds
        self.waitsForDescriptors = waitsForDescriptors
    }

    public override func now() -> Int64 { time }

    /// Moves the clock, as if the loop's thread had been busy so long.
    public func advance(by duration: Duration) { time = time.addingSaturating(max(0, duration.wholeNanoseconds)) }

    public override func wait(
        _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
    ) -> Int {
        let events = events.assumingMemoryBound(to: epoll_event.self)
        let ready = Int(linux_epoll_wait(epoll, events, CInt(capacity), 0))
        guard ready <= 0, timeout != 0 else { return max(0, ready) }
        if timeout < 0 || waitsForDescriptors && watching > 0 || somethingIsOutstanding() {
            let start = linux_monotonic_now()
            let count = linux_epoll_wait(epoll, events, CInt(capacity), timeout)
            let passed = linux_monotonic_now() - start
            time = time.addingSaturating(timeout < 0 ? passed : min(timeout, passed))
            return max(0, Int(count))
        }
        time = time.addingSaturating(timeout)
        return 0
    }
}
