internal import CStreams
internal import Glibc
internal import Linux
internal import RunLoops

/// Brings results from other threads to a loop. While the mailbox expects a result, it is in the common modes and keeps
/// the loop running; simulated time waits for the result, too.
final class Mailbox: RunLoop.EdgePort {
    private unowned let home: RunLoop
    var homeLoop: RunLoop { home }
    private let shared: Shared
    private var expected = 0
    /// The number of results that keep the loop running.
    private var awaited = 0

    /// The part that other threads use.
    final class Shared: Sendable {
        private let results = Lock<[@Sendable () -> Void]>([])
        fileprivate let event = net_event()

        deinit { if event >= 0 { _ = net_close(event) } }

        /// Queues a closure for the loop's thread. Callable on any thread.
        func post(_ result: @escaping @Sendable () -> Void) {
            results.withLock { $0.append(result) }
            var one: UInt64 = 1
            _ = net_write(event, &one, 8)
        }

        fileprivate func take() -> [@Sendable () -> Void] {
            results.withLock { results in
                defer { results = [] }
                return results
            }
        }
    }

    init(_ loop: RunLoop) {
        home = loop
        shared = Shared()
        super.init(serves: true, name: "mailbox")
    }

    /// Runs `work` on a thread of the pool, and `then` with its result on the loop. Returns 0 or an error number.
    ///
    /// - Parameter keepsAlive: Whether the loop keeps running until the result has come.
    func run<Result: Sendable>(
        _ pool: WorkPool, keepsAlive: Bool = true, _ work: @escaping @Sendable () -> Result,
        then: @escaping (Result) -> Void
    ) -> Int32 {
        guard shared.event >= 0 else { return EMFILE }
        let shared = shared
        // Only the loop's thread uses `then` and `mailbox`.
        nonisolated(unsafe) let then = then
        nonisolated(unsafe) let mailbox = self
        WorkPool.noteAwaited(1)
        do throws(SystemError) {
            try pool.run {
                let result = work()
                WorkPool.awaitTurn?()
                shared.post {
                    mailbox.hasCome(keepsAlive)
                    then(result)
                }
                // The event descriptor now shows that there is work.
                WorkPool.noteAwaited(-1)
            }
        } catch {
            WorkPool.noteAwaited(-1)
            return error.errno
        }
        expected += 1
        awaited += keepsAlive ? 1 : 0
        isAwaited = true
        isBackground = awaited == 0
        if fd < 0 { watch(shared.event) }
        home.add(self, to: .common)
        if let mode = home.currentMode { home.add(self, to: mode) }
        return 0
    }

    private func hasCome(_ keptAlive: Bool) {
        expected -= 1
        awaited -= keptAlive ? 1 : 0
        isBackground = awaited == 0
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
