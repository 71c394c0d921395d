internal import CLinux

/// Threads for blocking calls. The pool starts a thread when there is work, up to a limit; a thread ends after ten idle
/// seconds. The end of the process does not wait for these threads.
///
/// A call may block for long, such as opening a pipe without a reader or asking a name server that does not answer. It
/// delays other calls only for a moment: the pool then starts another thread.
package final class WorkPool: Sendable {
    private let name: String
    private let limit: Int
    /// The largest number of threads, including blocked ones.
    private static let most = 64
    private let changed = Condition()
    private let state: Lock<State>
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var first = 0
        var idle = 0
        var threads = 0
        var busy = 0
        /// How many threads may be busy at a time: the limit plus the number of blocked threads.
        var places: Int
        /// The number of jobs begun so far, and the value of this number at the last check for blocked threads.
        var begun = 0
        var begunBefore = 0

        var queued: Int { jobs.count - first }
    }

    /// The number of results for which callers of all pools wait.
    private static let awaited = Lock(0)
    /// Whether some caller still waits for a result. A result counts until it has arrived at the caller: if it counted
    /// only until the thread has sent it, a simulated clock could jump between the two. Safe on any thread.
    package static var someAnswerIsAwaited: Bool { awaited.withLock { $0 } > 0 }
    package static func noteAwaited(_ change: Int) { awaited.withLock { $0 += change } }

    /// In a process for tests, the main thread sets this before it makes a pool. Threads call it before they report a
    /// result. Each pool then has one thread apart from blocked ones, so that results come in the same order each time.
    nonisolated(unsafe) package static var awaitTurn: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - name: The name of the pool's threads for debuggers.
    ///   - limit: The largest number of threads that are not blocked.
    package init(_ name: String, limit: Int) {
        self.name = name
        self.limit = Self.awaitTurn == nil ? limit : 1
        state = Lock(State(places: self.limit))
    }

    /// Queues `job` for one of the threads. Jobs begin in the order of these calls. Safe on any thread.
    ///
    /// - Throws: EAGAIN if there is no thread and none can be started.
    package func run(_ job: @escaping @Sendable () -> Void) throws(SystemError) {
        changed.lock()
        defer { changed.unlock() }
        state.withLock { $0.jobs.append(job) }
        changed.signal()
        do throws(SystemError) { try addThread() } catch {
            let isLost = state.withLock { state in
                guard state.threads == 0 else { return false }
                state.jobs.removeLast()
                return true
            }
            if isLost { throw error }
        }
    }

    /// Starts a thread if there is work for it. Beyond the limit, starts at most one further thread, which waits until
    /// it finds that others are blocked.
    private func addThread() throws(SystemError) {
        let isNeeded = state.withLock { state in
            guard state.idle < (state.threads < limit ? state.queued : min(1, state.queued)), state.threads < Self.most
            else { return false }
            state.threads += 1
            return true
        }
        guard isNeeded else { return }
        do throws(SystemError) {
            try Thread(name, stackSize: 512 << 10) { [self] in work() }
        } catch {
            state.withLock { $0.threads -= 1 }
            throw error
        }
    }

    private func take() -> (job: @Sendable () -> Void, number: Int)? {
        state.withLock { state in
            guard state.queued > 0, state.busy < state.places else { return nil }
            let job = state.jobs[state.first]
            state.first += 1
            if state.queued == 0 {
                state.jobs = []
                state.first = 0
            }
            state.busy += 1
            state.begun += 1
            return (job, state.begun)
        }
    }

    /// Waits for a job, or for a busy thread to end or block. Returns whether a job may be ready.
    private func wait() -> Bool {
        let (begun, queued) = state.withLock { state in
            state.idle += 1
            return (state.begun, state.queued)
        }
        let isCalled = changed.wait(milliseconds: queued > 0 ? 200 : 10_000)
        return state.withLock { state in
            state.idle -= 1
            if !isCalled, queued > 0, state.queued > 0, state.begun == begun {
                state.places = limit + state.busy
                state.begunBefore = begun
            }
            return isCalled || queued > 0
        }
    }

    private func work() {
        while true {
            changed.lock()
            var job = take()
            while job == nil, wait() { job = take() }
            if job == nil { state.withLock { $0.threads -= 1 } } else { try? addThread() }
            changed.unlock()
            guard let (job, number) = job else { return }
            job()
            state.withLock { state in
                state.busy -= 1
                if number <= state.begunBefore { state.places = max(limit, state.places - 1) }
            }
        }
    }
}
