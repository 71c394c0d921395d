import Glibc

/// Seconds of the processor's that this thread has taken: what other tests do at the same time does not count.
package func threadTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
