internal import CLinux
public import Linux

extension RunLoop {
    // One loop for each thread.

    /// The calling thread's loop, made on first use. It lives until the thread ends. CFRunLoopGetCurrent.
    ///
    /// The first use traps when the process has no descriptors left; `makeCurrent()` says so instead.
    public static var current: RunLoop {
        if let pointer = linux_thread_value() {
            return Unmanaged<RunLoop>.fromOpaque(pointer).takeUnretainedValue()
        }
        let loop = RunLoop(poller: EpollPoller())
        loop.becomeCurrent()
        return loop
    }

    /// The calling thread's loop, if it has one.
    static var existing: RunLoop? {
        linux_thread_value().map { Unmanaged<RunLoop>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Makes the calling thread's loop. Only for a thread that has none yet.
    ///
    /// - Throws: what the operating system refuses.
    public static func makeCurrent() throws(SystemError) -> RunLoop {
        let loop = RunLoop(poller: EpollPoller(), handle: try Handle())
        loop.becomeCurrent()
        return loop
    }

    /// Makes this the calling thread's loop. Only for a thread that has none yet: it would lose it.
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

    /// The main thread's loop, for use on any thread; nil until the main thread has used its loop. CFRunLoopGetMain.
    public static var main: Handle? { mainHandle.withLock { $0 } }
}
