internal import CLinux

/// A lock with a condition to wait for: NSCondition.
///
/// To guard only a value, use `Lock`: it is simpler, and its value cannot be used without locking.
package final class Condition: @unchecked Sendable {
    // Sendable: pthread mutexes and conditions are thread-safe.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init() {
        pthread_mutex_init(mutex, nil)
        // Waits use the monotonic clock, so that setting the wall clock neither shortens nor lengthens them.
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    package func lock() { pthread_mutex_lock(mutex) }
    package func unlock() { pthread_mutex_unlock(mutex) }
    /// Locks if the lock is free. Returns whether it was free.
    package func tryLock() -> Bool { pthread_mutex_trylock(mutex) == 0 }

    package func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// Wakes one waiting thread.
    package func signal() { pthread_cond_signal(condition) }
    /// Wakes all waiting threads.
    package func broadcast() { pthread_cond_broadcast(condition) }

    /// Waits for `signal` or `broadcast`; it may also return without either. The caller must hold the lock, and holds
    /// it again afterwards.
    package func wait() { pthread_cond_wait(condition, mutex) }

    /// Waits for `signal` or `broadcast` until a time of `linux_monotonic_now`, in nanoseconds. Returns false if that
    /// time has passed. The caller must hold the lock, and holds it again afterwards.
    package func wait(until moment: Int64) -> Bool {
        var date = timespec()
        date.tv_sec = Int(max(0, moment) / 1_000_000_000)
        date.tv_nsec = Int(max(0, moment) % 1_000_000_000)
        return pthread_cond_timedwait(condition, mutex, &date) == 0
    }

    /// Waits for `signal` or `broadcast`, at most this long. Returns false when the time is over.
    package func wait(milliseconds: Int) -> Bool {
        wait(until: linux_monotonic_now() + Int64(milliseconds) * 1_000_000)
    }
}
