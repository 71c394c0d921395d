package import CLinux

/// A mutual exclusion lock around a value. A pthread mutex rather than `Synchronization.Mutex`, inside which
/// ThreadSanitizer reports false races.
package final class Lock<Value>: @unchecked Sendable {
    // Sendable: `value` is used only between lock and unlock.
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var value: Value

    package init(_ value: Value) {
        self.value = value
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @inlinable
    package func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }
}
