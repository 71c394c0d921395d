internal import CLinux

/// A lock, and something to wait for while one holds it: NSCondition.
///
/// Where a value is only guarded, `Lock` is simpler, and cannot be forgotten.
package final class Condition: @unchecked Sendable {
    // Sendable: the two are made for this.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init() {
        pthread_mutex_init(mutex, nil)
        // Of the clock that nobody sets: a wait is neither cut short nor drawn out when the date changes.
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
    /// Whether the lock was free; then it is held.
    package func tryLock() -> Bool { pthread_mutex_trylock(mutex) == 0 }

    package func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// Wakes one that waits.
    package func signal() { pthread_cond_signal(condition) }
    /// Wakes all that wait.
    package func broadcast() { pthread_cond_broadcast(condition) }

    /// Waits for `signal`, or for nothing at all now and then. The lock is held before and after.
    package func wait() { pthread_cond_wait(condition, mutex) }

    /// Waits for `signal` until a moment of `linux_monotonic_now`, in nanoseconds; false when that is over. The lock is held
    /// before and after.
    package func wait(until moment: Int64) -> Bool {
        var date = timespec()
        date.tv_sec = Int(max(0, moment) / 1_000_000_000)
        date.tv_nsec = Int(max(0, moment) % 1_000_000_000)
        return pthread_cond_timedwait(condition, mutex, &date) == 0
    }

    /// The same, for so long at most.
    package func wait(milliseconds: Int) -> Bool {
        wait(until: linux_monotonic_now() + Int64(milliseconds) * 1_000_000)
    }
}
