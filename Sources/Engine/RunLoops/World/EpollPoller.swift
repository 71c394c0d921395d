internal import CLinux
internal import Linux

/// Linux itself.
public final class EpollPoller: Poller {
    public override init() { linux_be_punctual() }

    public override func now() -> Int64 { linux_monotonic_now() }
    public override var isReal: Bool { true }
    public override func coarseNow() -> Int64 { linux_monotonic_coarse() }

    override func watchWallClock(_ changed: @escaping @Sendable () -> Void) throws(SystemError) -> Descriptor? {
        try Descriptor.wallClockWatch()
    }

    public override func wait(
        _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
    ) -> Int {
        let count = linux_epoll_wait(
            epoll, events.assumingMemoryBound(to: epoll_event.self), CInt(capacity), timeout)
        // Somebody has closed what is not theirs, as programs do that close all descriptors to become a daemon. To go on
        // would be to wait for nothing, without end.
        if count < 0, linux_errno() != EINTR { linux_lose_loop() }
        return max(0, Int(count))  // EINTR is "nothing happened": the loop looks at the clock and waits on
    }
}
