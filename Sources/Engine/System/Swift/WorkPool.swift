internal import CLinux

/// Threads for calls that block: a few at most, which begin when there is work and end when there is none for a while. Nobody ever
/// waits for them: those that still work when the process ends, end with it.
///
/// A call that stands still (an open of a pipe that nobody reads, a server of names or of files that does not answer) holds up nobody
/// else for longer than a moment: another thread takes its place.
package final class WorkPool: Sendable {
    private let name: String
    private let limit: Int
    /// With those that stand still.
    private static let most = 64
    private let changed = Condition()
    private let state: Lock<State>
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var first = 0
        var idle = 0
        var threads = 0
        var busy = 0
        /// How many may be busy: the limit, and those that stand still.
        var places: Int
        /// How many jobs were ever begun, and of those how many when some were last found to stand still.
        var begun = 0
        var begunBefore = 0

        var queued: Int { jobs.count - first }
    }

    /// How many answers are awaited, in all threads.
    private static let awaited = Lock(0)
    /// Whether anybody waits for an answer still. It counts until it has arrived, not until it has been given: a clock that jumps would
    /// else jump in between. Any thread may ask.
    package static var someAnswerIsAwaited: Bool { awaited.withLock { $0 } > 0 }
    package static func noteAwaited(_ change: Int) { awaited.withLock { $0 += change } }

    /// Of a process in which tests run, whose first thread sets it before there is any pool: called by threads that are about to tell what
    /// they have done. Then pools have one thread each, but for those that stand still, so that answers come in the same order each time.
    nonisolated(unsafe) package static var awaitTurn: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - name: of its threads, as debuggers show them.
    ///   - limit: how many there are at most that get on with their work.
    package init(_ name: String, limit: Int) {
        self.name = name
        self.limit = Self.awaitTurn == nil ? limit : 1
        state = Lock(State(places: self.limit))
    }

    /// Has one of the threads call `job`, in the order of the calls. Any thread may ask.
    ///
    /// - Throws: EAGAIN when there is no thread, and none can be made.
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

    /// Makes one if there is work for it. Beyond the limit, one at a time, which waits for what stands still.
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

    /// Waits for a job, or for a place. Returns whether there may be one.
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
