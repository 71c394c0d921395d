internal import CStreams
internal import Glibc
internal import RunLoops

/// Brings what other threads have done to a loop. While it expects something it is in the common modes, and the loop runs for
/// it; since it has a descriptor, simulated time waits, too.
final class Mailbox: RunLoop.EdgePort {
    private unowned let home: RunLoop
    var homeLoop: RunLoop { home }
    private let shared: Shared
    private var expected = 0

    /// What other threads have of it.
    final class Shared: @unchecked Sendable {
        // Sendable: the array is touched with the lock held.
        private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        private var results: [@Sendable () -> Void] = []
        fileprivate let event = net_event()

        init() { pthread_mutex_init(lock, nil) }
        deinit {
            pthread_mutex_destroy(lock)
            lock.deallocate()
            if event >= 0 { _ = net_close(event) }
        }

        /// Has a closure called on the loop's thread. Any thread.
        func post(_ result: @escaping @Sendable () -> Void) {
            pthread_mutex_lock(lock)
            results.append(result)
            pthread_mutex_unlock(lock)
            var one: UInt64 = 1
            _ = net_write(event, &one, 8)
        }

        fileprivate func take() -> [@Sendable () -> Void] {
            pthread_mutex_lock(lock)
            defer {
                results = []
                pthread_mutex_unlock(lock)
            }
            return results
        }
    }

    init(_ loop: RunLoop) {
        home = loop
        shared = Shared()
        super.init(serves: true, name: "mailbox")
    }

    /// Has a thread of the pool do something, and the loop call `then` with what came of it. Returns an error number.
    func run<Result: Sendable>(
        _ pool: OpaquePointer, _ work: @escaping @Sendable () -> Result, then: @escaping (Result) -> Void
    ) -> Int32 {
        guard shared.event >= 0 else { return EMFILE }
        let shared = shared
        // Only the loop's thread calls what it was given there.
        nonisolated(unsafe) let then = then
        nonisolated(unsafe) let mailbox = self
        let job = Unmanaged.passRetained(
            Job {
                let result = work()
                shared.post {
                    mailbox.hasCome()
                    then(result)
                }
            })
        let failure = net_pool_run(
            pool, { job in if let job { Unmanaged<Job>.fromOpaque(job).takeRetainedValue().body() } },
            job.toOpaque())
        guard failure == 0 else {
            job.release()
            return failure
        }
        expected += 1
        isAwaited = true
        if fd < 0 { watch(shared.event) }
        home.add(self, to: .common)
        if let mode = home.currentMode { home.add(self, to: mode) }
        return 0
    }

    private final class Job {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private func hasCome() {
        expected -= 1
        guard expected == 0 else { return }
        isAwaited = false
        home.remove(self, from: .common)
        for mode in modeNames { home.remove(self, from: mode) }
    }

    override func takeTurn() {
        var count: UInt64 = 0
        _ = net_read(fd, &count, 8)
        for result in shared.take() { result() }
    }
}
