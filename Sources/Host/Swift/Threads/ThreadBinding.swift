internal import Linux
internal import Lua
package import RunLoops

/// `rl.thread`, `rl.this_thread` and the methods of threads.
enum ThreadBinding {
    static let methods: Library = Library(
        of: Kinds.thread,
        [
            .init("loop") { thread($0).run { thread, call in call.answer(thread.handle, Kinds.loop) } },
            .init("join") { thread($0).run { (thread, call) throws(Misuse) in try join(thread, call) } },
            .init("is_alive") { thread($0).answer { $0.isAlive } },
            .init("cancel") { thread($0).act { $0.cancel() } },
            .init("invalidate") { thread($0).act { $0.cancel() } },
            .init("is_valid") { thread($0).answer { $0.isAlive } },
            .init("name") { thread($0).answer { $0.name } },
            .init("__tostring") { thread($0).answer { text($0) } },
        ])

    /// For `runloop.pool_worker`.
    static let worker = Battery(
        part: "runloop.pool_worker",
        functions: Library([
            // (): makes the thread's code uninterruptible from now on, also if the running task was cancelled just now.
            .init("shield") { call in
                let host = Call(call).luaHost
                host.thread?.shield()
                host.current?.isToBeCancelled = false
                return 0
            }
        ]))

    /// (thread): If a limit ends the thread, returns the text of the limit, which the caller must report; otherwise
    /// nil.
    static func limit(_ call: Call) -> Int32 {
        call.answer(call.stack.object(1, Kinds.thread, as: LuaThread.Reference.self)?.thread.takeLimit())
    }

    private static func thread(_ thread: OpaquePointer?) -> Receiver<LuaThread> {
        let call = Call(thread)
        return Receiver(call, call.receiver.object(as: LuaThread.Reference.self).thread)
    }

    /// (name, keeps_alive or "pool", package.path, package.cpath, memory, cpu, fn, …): rl.thread. The arguments from fn
    /// on are in the parcel.
    static func start(_ call: Call) throws(Misuse) -> Int32 {
        let host = call.luaHost
        let threads = host.threads
        guard let function = call.takeParcel() else { throw .noMemory }
        let own = LuaThread.Limits(
            memory: try call.isMissing(5) ? nil : memory(call), processorTime: try call.seconds(6, "field 'cpu'"))
        // A thread with limits must not escape them by starting a thread without limits.
        let limits = host.thread?.limits.narrowed(by: own) ?? own
        let thread: LuaThread
        let isOfPool = call.string(2) == "pool"
        do throws(SystemError) {
            thread = try LuaThread(
                name: call.string(1) ?? "thread \(threads.count + 1)",
                site: host.site(call.site), keepsAlive: call.isMissing(2) || !isOfPool && call.boolean(2),
                isOfPool: isOfPool, limits: limits)
            try thread.begin(
                .init(
                    function: function, path: call.string(3) ?? "", nativePath: call.string(4) ?? "",
                    ignoresEnvironment: host.ignoresEnvironment, warns: host.warns, batteries: host.batteries,
                    report: host.reportFromThreads(), world: threads.world))
        } catch {
            return call.fail(error)
        }
        threads.count += 1
        let handle = host.loop.handle
        let report = host.reportFromThreads()
        thread.whenEnded {
            // If the thread has failed and no task awaits it, the failure must be reported: see LuaTasks.
            guard thread.unobserved != nil else { return }
            let isTaken = handle.perform { loop in (loop.userInfo as? LuaHost)?.hasFailed(thread) }
            if !isTaken { thread.reportIfForgotten(report) }
        }
        return call.answer(thread, Kinds.thread)
    }

    private static func memory(_ call: Call) throws(Misuse) -> Int {
        let least = LuaLimits.leastMemory
        if let bytes = call.integer(5), bytes >= least { return bytes }
        throw Misuse("field 'memory' must be a whole number of bytes, \(least) or more, got \(call.describe(5))")
    }

    /// rl.limit_callbacks(seconds)
    static func limitCallbacks(_ call: Call) throws(Misuse) -> Int32 {
        let seconds = try call.seconds(1, "argument #1")
        do throws(SystemError) {
            try call.luaHost.part(LuaLimits.self).limitCallbacks(to: seconds)
            return 0
        } catch {
            throw Misuse("\(error)")
        }
    }

    /// rl.this_thread(): nil on the main thread.
    static func current(_ call: Call) -> Int32 {
        guard let thread = call.luaHost.thread else { return call.answerNil() }
        return call.answer(thread, Kinds.thread)
    }

    private static func join(_ thread: LuaThread, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self)
        let host = call.luaHost
        if let outcome = thread.observe() {
            guard call.stack.reserve(8) else { throw .noMemory }
            return call.values(host.push(outcome, of: thread, onto: call.stack, in: host.current))
        }
        if let refusal = call.refusalToWait(in: "thread:join") { return refusal }
        guard thread !== host.thread else { throw Misuse("a thread cannot wait for its own end") }
        // The check for circles concerns the thread's function only, since a thread ends with it. Other tasks of the
        // thread may wait for any thread.
        let isFunction = host.thread != nil && host.current?.owner is MainTask
        if isFunction, timeout == nil, host.thread?.waits(for: thread) == false {
            throw Misuse("thread \"\(thread.name)\" waits for the end of this one")
        }
        let own = host.thread
        guard
            let (number, modes) = host.beginExternalWait(
                in: "thread:join", timeout: timeout,
                timedOut: {
                    _ = own?.waits(for: nil)
                }, remark: { thread.whereItIsStuck })
        else { throw .noMemory }
        let handle = host.loop.handle
        thread.whenEnded {
            _ = own?.waits(for: nil)
            LuaHost.end(number, of: handle, in: modes, with: .thread(thread))
        }
        return call.yield()
    }

    private static func text(_ thread: LuaThread) -> String {
        String("thread \"\(thread.name)\"", [thread.isAlive ? "alive" : "ended"], site: thread.site)
    }
}

extension Call {
    /// Returns the limit in an argument, or nil if the argument is missing.
    fileprivate func seconds(_ index: Int32, _ what: String) throws(Misuse) -> Double? {
        if isMissing(index) { return nil }
        let least = LuaLimits.leastTime
        if let seconds = number(index), seconds >= least, seconds < 1e9 { return seconds }
        throw Misuse("\(what) must be a number of seconds, \(least) or more, got \(describe(index))")
    }
}

extension LuaThread {
    /// A state's reference to a thread, which the thread's userdata holds. When the last reference is gone, no script
    /// can ask for the thread's failure.
    final class Reference {
        let thread: LuaThread
        private unowned let host: LuaHost

        init(_ thread: LuaThread, _ host: LuaHost) {
            self.thread = thread
            self.host = host
            thread.refers(1)
            host.threads.references[ObjectIdentifier(thread)] = WeakReference(reference: self)
        }

        deinit {
            thread.refers(-1)
            let threads = host.threads
            // After the state is closed, its loop accepts no requests, so send the report to the main thread.
            guard !host.isClosed else {
                if let report = threads.report { thread.reportIfForgotten(report) }
                return
            }
            // A new `Reference` for the thread may exist already, made after the last strong reference to this one was
            // released.
            let key = ObjectIdentifier(thread)
            if threads.references[key]?.reference == nil { threads.references[key] = nil }
            // A finalizer may be running, so the report, which calls Lua, waits for the next pass.
            thread.reportIfForgotten { [unowned(unsafe) loop = host.loop] failure, value in
                loop.perform { (loop.userInfo as? LuaHost)?.report(failure, value: value) }
            }
        }
    }

    /// Reports the thread's failure if no script can ask for it: if no state has the thread any more, or only its pool
    /// has it.
    func reportIfForgotten(_ report: (Failure, Parcel?) -> Void) {
        guard refers(0) == 0 || isOfPool, let (failure, value) = unobserved else { return }
        _ = observe()
        report(failure, value)
    }

    struct WeakReference { weak var reference: Reference? }
}

/// The threads that a state knows, including the thread on which the state runs.
package final class LuaThreads: HostPart {
    /// The thread on which the state runs; nil on the main thread.
    var own: LuaThread?
    /// Whether the latest run that the script has begun was stopped: stopping a run in a thread's function ends the
    /// thread.
    var wasStopped = false
    /// Whether the thread's loop was stopped. The thread then ends with its function, and serves no further items.
    var endsWithFunction = false
    /// The name of its thread.
    package var ownName: String? { own?.name }
    /// The number of threads it has started.
    var count = 0
    /// Keeps the loop running until all threads have ended.
    var source: RunLoop.Source?
    /// When a `Reference` is deallocated, its entry is removed, so that the memory of the thread is freed, too.
    var references: [ObjectIdentifier: LuaThread.WeakReference] = [:]
    /// In a thread: receives errors that no code of the thread handles.
    var report: (@Sendable (Failure, Parcel?) -> Void)?
    /// The world (clock and poller) of new threads.
    package var world = ThreadWorld()
}

extension LuaHost {
    package var threads: LuaThreads { part(LuaThreads.self) }
    /// The thread on which the state runs; nil on the main thread.
    package var thread: LuaThread? { existingPart(LuaThreads.self)?.own }

    func reference(to thread: LuaThread) -> LuaThread.Reference {
        threads.references[ObjectIdentifier(thread)]?.reference ?? LuaThread.Reference(thread, self)
    }

    /// Returns the function that reports unhandled errors of threads to the main thread, whose policy decides.
    func reportFromThreads() -> @Sendable (Failure, Parcel?) -> Void {
        if let report = threads.report { return report }
        let handle = loop.handle
        return { failure, value in
            handle.perform { loop in (loop.userInfo as? LuaHost)?.report(failure, value: value) }
        }
    }

    func setPaths(_ path: String, _ nativePath: String) {
        var program = ValueProgram()
        program.table { program in
            program.field("path") { $0.append(path) }
            program.field("cpath") { $0.append(nativePath) }
        }
        if !stack.push(program) || !replaceFields(of: "package") { stack.pop() }
    }

    func requireRunloop() -> String? {
        // `requireRunloop` works even if the script has removed `require`.
        if hasOpenedRunloop { return nil }
        if let message = load(.text("require 'runloop'", name: "=[rlhost]")) { return message }
        return stack.call(arguments: 0, results: 0) ? nil : popMessage()
    }

    /// Called when a thread that this state has started has failed. If a state still has the thread, a garbage
    /// collection may find that no script refers to it any more.
    fileprivate func hasFailed(_ thread: LuaThread) {
        thread.reportIfForgotten { report($0, value: $1) }
        if thread.unobserved != nil { tasks.findForgotten() }
    }

    /// Reports failures of threads that no script has joined. Returns whether there were any.
    @discardableResult
    public func reportThreadFailures() -> Bool {
        guard let threads = existingPart(LuaThreads.self) else { return false }
        var hasFailed = false
        for reference in threads.references.values.compactMap(\.reference) {
            guard let (failure, value) = reference.thread.unobserved else { continue }
            _ = reference.thread.observe()
            report(failure, value: value)
            hasFailed = true
        }
        return hasFailed
    }

    /// The loop handles of all living threads that scripts have started.
    package static var handlesOfThreads: [RunLoop.Handle] { LuaThread.all.map(\.handle) }

    /// The names of these threads, with their loop handles.
    package static var threadsByName: [(String, RunLoop.Handle)] { LuaThread.all.map { ($0.name, $0.handle) } }

    /// Whether there are threads for whose end the program waits.
    public static var hasThreads: Bool { LuaThread.all.contains { $0.keepsAlive } }

    /// Whether there was ever a thread.
    public static var hadThreads: Bool { LuaThread.wasAny }

    /// Runs the loop, in the default mode, until one of the threads has ended and the loop holds nothing else.
    ///
    /// - Parameters:
    ///   - threads: the threads that were alive when the caller checked. If one of them has ended since then, that does
    ///     not end the run; the run then only serves the remaining items of the loop.
    ///   - stopping: whether to stop the run when one of the threads has ended, even if the loop holds other items.
    /// - Returns: true if the run ended by itself, false if it was stopped.
    package func runUntilThreadsEnd(_ threads: [LuaThread] = LuaThread.all, stopping: Bool = false) -> Bool {
        let waitedFor = threads.filter(\.keepsAlive)
        guard !waitedFor.isEmpty else { return stopping || loop.run() == .finished }
        let source = RunLoop.Source(name: "threads that have not ended")
        self.threads.source = source
        loop.add(source, to: .default)
        defer { source.invalidate() }
        let handle = loop.handle
        for thread in waitedFor {
            thread.whenEnded {
                handle.perform { loop in
                    (loop.userInfo as? LuaHost)?.threads.source?.invalidate()
                    if stopping { loop.stop() }
                }
            }
        }
        return loop.run() == .finished
    }

    /// Asks all living threads to stop, and waits for them. Returns the names of the threads that have not stopped in
    /// time.
    ///
    /// - Parameters:
    ///   - seconds: real seconds for threads that a C function keeps from ending, or that do their last work.
    ///   - longest: real seconds for all other threads, which are about to end, but may have to wait for a processor on
    ///     a busy machine.
    public static func stopThreads(within seconds: Double, or longest: Double) -> [String] {
        for thread in LuaThread.all { thread.cancel() }
        let start = RunLoop.Instant.now
        var pauses = 0
        var next = start + .seconds(seconds)
        while !LuaThread.all.isEmpty {
            let now = RunLoop.Instant.now
            if now >= next {
                if now >= start + .seconds(longest) { break }
                if LuaThread.all.allSatisfy({ $0.isShielded || $0.whereItIsStuck != nil }) { break }
                next = now + .milliseconds(100)
            }
            Linux.Thread.pause(milliseconds: 1)
            pauses += 1
            // Also cancel new threads, which other threads may have started meanwhile.
            for thread in LuaThread.all where !thread.isCancelled { thread.cancel() }
            // A thread that does not react is in a system call, or about to enter one. First give the call time to
            // return by itself, and interrupt it only now and then.
            guard pauses % 20 == 0 else { continue }
            Interpreter.letCallsFail(true)
            for thread in LuaThread.all { thread.wakeFromCall() }
        }
        if pauses >= 20 { Interpreter.letCallsFail(false) }
        return LuaThread.all.map(\.name)
    }
}
