internal import Glibc
internal import Linux
internal import Lua
internal import RunLoops
import Synchronization

/// A thread with a Lua state and a run loop of its own. All threads can use this object.
package final class LuaThread: Sendable {
    package let name: String
    /// The place where a script has started the thread.
    package let site: String?
    /// Whether the program waits for the thread's end.
    let keepsAlive: Bool
    /// Whether the thread runs the functions of a pool, which may block.
    let isOfPool: Bool
    /// The limits of the thread. Threads that it starts have the same limits, or smaller ones.
    let limits: Limits
    /// The handle of the thread's loop, which exists before the thread begins.
    let handle: RunLoop.Handle
    private let state = Lock(State())

    /// The result of the thread's function.
    enum Outcome: Sendable {
        case results(Parcel)
        /// The error value, if it can be sent to other threads, and the failure.
        case failure(Parcel?, Failure)

        var isFailure: Bool { if case .failure = self { true } else { false } }
    }

    private struct State: Sendable {
        var outcome: Outcome?
        var isObserved = false
        var isCancelled = false
        var isShielded = false
        /// The text of the limit that has ended the thread.
        var limit: String?
        /// The number by which the thread's running code can be cancelled; 0 while it cannot.
        var code: UInt = 0
        var waiters: [@Sendable () -> Void] = []
        /// The thread that this thread's function waits for.
        var waitsFor: LuaThread?
        /// The number of states that have a userdata for the thread.
        var references = 0
    }

    /// The data with which a new thread begins.
    struct Start: Sendable {
        let function: Parcel
        let path: String
        let nativePath: String
        let ignoresEnvironment: Bool
        let warns: Bool
        let batteries: @Sendable () -> [Battery]
        /// Receives errors that no code of the thread handles.
        let report: @Sendable (Failure, Parcel?) -> Void
        let world: ThreadWorld
    }

    /// The limits of a thread; nil means no limit.
    struct Limits: Sendable {
        var memory: Int?
        var processorTime: Double?

        /// If a thread with these limits starts another thread and requests limits for it: returns the smaller limit of
        /// each kind.
        func narrowed(by own: Limits) -> Limits {
            func least<Value: Comparable>(_ one: Value?, _ other: Value?) -> Value? {
                guard let one, let other else { return one ?? other }
                return min(one, other)
            }
            return Limits(
                memory: least(memory, own.memory), processorTime: least(processorTime, own.processorTime))
        }
    }

    init(
        name: String, site: String?, keepsAlive: Bool = true, isOfPool: Bool = false, limits: Limits
    ) throws(SystemError) {
        handle = try RunLoop.Handle()
        self.name = name
        self.site = site
        self.keepsAlive = keepsAlive
        self.isOfPool = isOfPool
        self.limits = limits
    }

    var outcome: Outcome? { state.withLock { $0.outcome } }
    package var isAlive: Bool { outcome == nil }

    /// Returns the outcome, and marks a failure as handled; nil while the thread runs.
    func observe() -> Outcome? {
        state.withLock { state in
            if state.outcome != nil { state.isObserved = true }
            return state.outcome
        }
    }

    /// A failure that no code has handled, and the error value, if that can be sent.
    var unobserved: (failure: Failure, value: Parcel?)? {
        state.withLock { state in
            let wasAskedToEnd = state.isCancelled && state.limit == nil && !state.isShielded
            guard case .failure(let value, var failure)? = state.outcome, !state.isObserved, !wasAskedToEnd else {
                return nil
            }
            failure.threadSite = site
            return (failure, value)
        }
    }

    /// Adds 1 or -1 to the number of states that have the thread. Returns the new number.
    @discardableResult
    func refers(_ change: Int) -> Int {
        state.withLock { state in
            state.references += change
            return state.references
        }
    }

    /// Calls `body`, on some thread, when the thread has ended; at once if it has.
    func whenEnded(_ body: @escaping @Sendable () -> Void) {
        let hasEnded = state.withLock { state in
            if state.outcome == nil { state.waiters.append(body) }
            return state.outcome != nil
        }
        if hasEnded { body() }
    }

    /// Notes that the thread's function waits for another thread's end. Returns false if the other thread waits for
    /// this thread, directly or through further threads: then neither thread would ever end.
    func waits(for other: LuaThread?) -> Bool {
        // Check and store under one lock. Otherwise two threads that begin to wait for each other at the same moment
        // would not notice each other.
        Self.waiting.withLock { _ in
            var next = other
            while let thread = next {
                if thread === self { return false }
                next = thread.state.withLock { $0.waitsFor }
            }
            state.withLock { $0.waitsFor = other }
            return true
        }
    }

    // This is not a lock of Void, since ThreadSanitizer confuses the address of a value of size zero with that of its
    // neighbour.
    private static let waiting = Lock(false)

    /// Asks the thread to end: cancels its waiting tasks, stops its loop, and interrupts its running code.
    package func cancel() {
        state.withLock { $0.isCancelled = true }
        // If the thread's loop waits, the request below is enough, since it wakes the loop.
        let isBusy = !handle.isWaiting
        defer {
            state.withLock { state in
                if state.code != 0, isBusy { Interpreter.cancelRunning(state.code) }
            }
        }
        handle.perform(in: [.common]) { [self] loop in
            if !isShielded { (loop.userInfo as? LuaHost)?.cancelAllTasks() }
            loop.stopAll()
        }
        handle.stop()
    }

    /// Protects the thread's last work: from now on nothing interrupts its code or cancels its waits. Called on the
    /// thread itself.
    func shield() {
        state.withLock { state in
            state.code = 0
            state.isShielded = true
        }
        Interpreter.endCancelling()
    }

    /// Whether the thread does its final work, which cannot be interrupted.
    var isShielded: Bool { state.withLock { $0.isShielded } }

    /// Ends the thread because it has reached a limit. Called by the thread's own code, which is about to be
    /// interrupted.
    func reachesLimit(_ text: String) {
        let isFirst = state.withLock { state in
            defer { state.limit = text }
            return state.limit == nil
        }
        if isFirst { cancel() }
    }

    /// Returns the text of the limit that ends the thread, for a caller that will report it; nil if there is none.
    func takeLimit() -> String? {
        state.withLock { state in
            if state.limit != nil { state.isObserved = true }
            return state.limit
        }
    }

    /// Makes a cancelled thread return from a blocking system call. See `Interpreter.letCallsFail`.
    func wakeFromCall() {
        guard !handle.isWaiting else { return }
        state.withLock { if $0.code != 0 { Interpreter.cancelRunning($0.code) } }
    }

    /// If a C function, which nothing can interrupt, keeps the thread from ending after `cancel`, returns a text: "in
    /// string.find, called at app.lua:3, for 5 s". Otherwise nil.
    var whereItIsStuck: String? {
        let tenth: Int64 = 100_000_000
        return state.withLock { state in
            guard state.isCancelled, state.code != 0, let found = Interpreter.whereCancelled(state.code) else {
                return nil
            }
            return "in \(found.text), for \(Time.short((found.nanoseconds + tenth / 2) / tenth * tenth)) s"
        }
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    // MARK: Running

    /// All threads that are alive, for the end of the process.
    private static let alive = Lock<[ObjectIdentifier: LuaThread]>([:])
    package static var all: [LuaThread] {
        wasAny ? alive.withLock { Array($0.values) } : []
    }
    /// Whether there was ever a thread: creating the dictionary of threads takes a twentieth of the time of an empty
    /// script.
    private static let wereAny = Atomic(false)
    static var wasAny: Bool { wereAny.load(ordering: .acquiring) }

    /// Starts the thread.
    ///
    /// - Throws: the system's error.
    func begin(_ start: Start) throws(SystemError) {
        // Call this on the starting thread: the world must count the new thread before the starting thread can sleep.
        let makePoller = try start.world.expectThread()
        Self.wereAny.store(true, ordering: .releasing)
        Self.alive.withLock { $0[ObjectIdentifier(self)] = self }
        do throws(SystemError) {
            // The stack is as large as the main thread's: Lua's limits on nesting assume that size.
            try Linux.Thread(name, stackSize: 8 << 20) { [self] in run(start, makePoller) }
        } catch {
            Self.alive.withLock { $0[ObjectIdentifier(self)] = nil }
            throw error
        }
    }

    private func run(_ start: Start, _ makePoller: @Sendable () -> Poller) {
        let loop = RunLoop(poller: makePoller(), handle: handle)
        loop.becomeCurrent()
        var outcome: Outcome
        if let host = LuaHost(loop: loop, batteries: start.batteries) {
            host.threads.own = self
            host.threads.world = start.world
            host.ignoresEnvironment = start.ignoresEnvironment
            host.onUncaught = { [self] host, failure in
                // If the thread was asked to end, a task that was cancelled for this has not failed.
                if failure.cause == .cancelled, isCancelled { return }
                var failure = failure
                failure.thread = failure.thread ?? name
                start.report(failure, host.pack(errorOn: host.uncaughtValue))
            }
            host.threads.report = start.report
            host.lasts(isNew: true)
            let code = host.acceptCancelling()
            state.withLock { $0.code = code }
            outcome = run(start, host)
            host.reportFailures()
            if !outcome.isFailure, !isCancelled { host.warnOfUnseen() }
            state.withLock { $0.code = 0 }
            Interpreter.endCancelling()
            host.close()
            host.endLimits()
            if let limit = state.withLock({ $0.limit }) { outcome = .failure(nil, Failure(limit)) }
        } else {
            outcome = .failure(nil, Failure("cannot create state: not enough memory"))
        }
        loop.close()
        let waiters = state.withLock { state in
            state.outcome = outcome
            let waiters = state.waiters
            state.waiters = []
            return waiters
        }
        Self.alive.withLock { $0[ObjectIdentifier(self)] = nil }
        for waiter in waiters { waiter() }
    }

    private func beginLimits(in host: LuaHost) -> String? {
        host.shareMemory()
        if let memory = limits.memory { host.part(LuaLimits.self).limitMemory(to: memory) }
        guard let seconds = limits.processorTime else { return nil }
        do throws(SystemError) {
            try host.part(LuaLimits.self).limitProcessorTime(to: seconds)
            return nil
        } catch {
            return "\(error)"
        }
    }

    private func run(_ start: Start, _ host: LuaHost) -> Outcome {
        // Stop the collector during the start, whose objects all stay alive: one collection afterwards costs less than
        // one at each growth by a fifth.
        host.stopCollector()
        if let message = host.openLibraries(ignoringEnvironment: start.ignoresEnvironment) {
            return .failure(nil, Failure(message))
        }
        host.setPaths(start.path, start.nativePath)
        if start.warns { host.turnWarningsOn() }
        if let message = start.world.prepare(host) ?? host.requireRunloop() {
            return .failure(nil, Failure(message))
        }
        guard host.startCollector() else { return .failure(nil, Failure(host.popMessage())) }
        if let message = beginLimits(in: host) { return .failure(nil, Failure(message)) }
        guard let count = start.function.unpack(onto: host.stack) else {
            return .failure(nil, Failure(host.popMessage()))
        }
        guard !isCancelled else { return .failure(nil, Failure("cancelled", cause: .cancelled)) }
        let result = Lock<Outcome?>(nil)
        let task = host.startPrepared(arguments: count - 1) { [name] task in
            task.onResults = { stack, results in
                let outcome: Outcome
                if let parcel = Parcel.pack(stack, from: stack.top - results + 1) {
                    outcome = .results(parcel)
                } else {
                    let text = stack.string(-1) ?? "its results cannot be sent"
                    outcome = .failure(nil, Failure("thread \"\(name)\": \(text)"))
                }
                result.withLock { $0 = outcome }
                if host.threads.wasStopped || host.threads.endsWithFunction { host.loop.stop() }
            }
            task.onError = { stack, failure in
                stack.pushCopy(of: -1)
                let parcel = Parcel.pack(stack, from: stack.top)
                var failure = failure
                failure.subject = nil
                failure.thread = name
                result.withLock { [failure] in $0 = .failure(parcel, failure) }
                host.loop.stop()
            }
        }
        guard let task else { return .failure(nil, Failure("not enough memory")) }
        // Run the loop until nothing keeps it running, as after a script. After a stop, run the loop only until the
        // function ends.
        host.isInLastRun = true
        if task.hasEnded {
            let hasFailed = result.withLock { $0?.isFailure } != false
            host.threads.endsWithFunction = hasFailed || host.threads.wasStopped
        }
        while !isCancelled, !task.hasEnded || !host.threads.endsWithFunction {
            let ended = host.threads.endsWithFunction ? host.loop.run() : host.loop.runUnlessStopped()
            if ended == .stopped { host.threads.endsWithFunction = true }
            if task.hasEnded ? host.loop.isEmpty(in: .default) : ended == .finished { break }
        }
        if !isCancelled, !host.threads.endsWithFunction, host.cancelBackgroundTasks() { host.loop.run() }
        // The last work of a pool's thread may wait even if the loop was stopped.
        host.threads.endsWithFunction = true
        while isCancelled, isOfPool, !task.hasEnded, host.loop.run() != .finished {}
        let mayWait = isShielded
        if !task.hasEnded, isCancelled, !mayWait { task.cancel() }
        guard task.hasEnded else {
            if isCancelled, !mayWait { return .failure(nil, Failure("cancelled", cause: .cancelled)) }
            let place = task.whereItWaits ?? "it was stopped"
            let message = "the thread's function never ended: nothing is left that could wake it\n\(place)"
            return .failure(nil, Failure(message, thread: name))
        }
        return result.withLock { $0 } ?? .failure(nil, Failure("it ended without a result"))
    }
}
