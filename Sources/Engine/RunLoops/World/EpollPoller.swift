internal import CLinux
internal import Linux

/// The real world: Linux.
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
        // Other code has closed a descriptor of the loop, for example by closing all descriptors in order to become a
        // daemon. If the loop continued, it would wait forever.
        if count < 0, linux_errno() != EINTR { linux_lose_loop() }
        return max(0, Int(count))  // EINTR counts as no event: the loop reads the clock and waits again
    }
}
