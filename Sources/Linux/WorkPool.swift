internal import CLinux

/// Threads for calls that block: a few at most, which begin when there is work and end when there is none for a while. Nobody ever
/// waits for them: those that still work when the process ends, end with it.
package final class WorkPool: Sendable {
    private let name: String
    private let limit: Int
    private let changed = Condition()
    private let state = Lock(State())
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var first = 0
        var idle = 0
        var threads = 0
    }

    /// How many answers are awaited, in all threads.
    private static let awaited = Lock(0)
    /// Whether anybody waits for an answer still. It counts until it has arrived, not until it has been given: a clock that jumps would
    /// else jump in between. Any thread may ask.
    package static var someAnswerIsAwaited: Bool { awaited.withLock { $0 } > 0 }
    package static func noteAwaited(_ change: Int) { awaited.withLock { $0 += change } }

    /// - Parameters:
    ///   - name: of its threads, as debuggers show them.
    ///   - limit: how many there are at most.
    package init(_ name: String, limit: Int) {
        self.name = name
        self.limit = limit
    }

    /// Has one of the threads call `job`, in the order of the calls. Any thread may ask.
    ///
    /// - Throws: EAGAIN when there is no thread, and none can be made.
    package func run(_ job: @escaping @Sendable () -> Void) throws(SystemError) {
        changed.lock()
        defer { changed.unlock() }
        let needsThread = state.withLock { state in
            state.jobs.append(job)
            guard state.idle < state.jobs.count - state.first, state.threads < limit else { return false }
            state.threads += 1
            return true
        }
        changed.signal()
        guard needsThread else { return }
        do throws(SystemError) {
            try Thread(name, stackSize: 512 << 10) { [self] in work() }
        } catch {
            let isLost = state.withLock { state in
                state.threads -= 1
                guard state.threads == 0 else { return false }
                state.jobs.removeLast()
                return true
            }
            if isLost { throw error }
        }
    }

    private func take() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard state.first < state.jobs.count else { return nil }
            let job = state.jobs[state.first]
            state.first += 1
            if state.first == state.jobs.count {
                state.jobs = []
                state.first = 0
            }
            return job
        }
    }

    private func work() {
        while true {
            changed.lock()
            var job = take()
            var hasTime = true
            while job == nil, hasTime {
                state.withLock { $0.idle += 1 }
                hasTime = changed.wait(milliseconds: 10_000)
                state.withLock { $0.idle -= 1 }
                job = take()
            }
            if job == nil { state.withLock { $0.threads -= 1 } }
            changed.unlock()
            guard let job else { return }
            job()
        }
    }
}
