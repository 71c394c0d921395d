internal import CLinux
public import Linux

extension RunLoop {
    // Each thread has one loop.

    /// The loop of the calling thread. The loop is made on first use and lives until the thread ends.
    /// CFRunLoopGetCurrent.
    ///
    /// The first use traps if the process has no descriptors left; `makeCurrent()` throws instead.
    public static var current: RunLoop {
        if let pointer = linux_thread_value() {
            return Unmanaged<RunLoop>.fromOpaque(pointer).takeUnretainedValue()
        }
        let loop = RunLoop(poller: EpollPoller())
        loop.becomeCurrent()
        return loop
    }

    /// The loop of the calling thread; nil if it has none.
    static var existing: RunLoop? {
        linux_thread_value().map { Unmanaged<RunLoop>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Makes the loop of the calling thread, which must not have one.
    ///
    /// - Throws: EMFILE, ENFILE, ENOMEM or ENOSPC.
    public static func makeCurrent() throws(SystemError) -> RunLoop {
        let loop = RunLoop(poller: EpollPoller(), handle: try Handle())
        loop.becomeCurrent()
        return loop
    }

    /// Makes this loop the loop of the calling thread, which must not have one. The thread retains it until the thread
    /// ends.
    public func becomeCurrent() {
        precondition(linux_thread_value() == nil, "this thread has a run loop already")
        linux_set_thread_value(Unmanaged.passRetained(self).toOpaque()) { pointer in
            guard let pointer else { return }
            let loop = Unmanaged<RunLoop>.fromOpaque(pointer)
            loop.takeUnretainedValue().close()
            linux_set_thread_value(nil, nil)
            loop.release()
        }
        if linux_is_main_thread() != 0 { Self.mainHandle.withLock { $0 = handle } }
    }

    private static let mainHandle = Lock<Handle?>(nil)

    /// The handle of the main thread's loop; nil until the main thread has used its loop. Safe on any thread.
    /// CFRunLoopGetMain.
    public static var main: Handle? { mainHandle.withLock { $0 } }
}
