internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.thread`, `rl.this_thread` and the methods of threads.
enum ThreadBinding {
    static let methods = Library([
        .init("loop") { loop(Call($0)) },
        .init("join") { join(Call($0)) },
        .init("is_alive") { isAlive(Call($0), "thread:is_alive") },
        .init("cancel") { cancel(Call($0), "thread:cancel") },
        .init("invalidate") { cancel(Call($0), "thread:invalidate") },
        .init("is_valid") { isAlive(Call($0), "thread:is_valid") },
        .init("name") { name(Call($0)) },
    ])

    /// (name, package.path, package.cpath, fn, …): rl.thread; from fn on, all is in the parcel.
    static func start(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let function = call.takeParcel() else { return call.raiseOutOfMemory() }
        let thread: LuaThread
        do throws(SystemError) {
            thread = try LuaThread(
                name: call.string(1) ?? "thread \(host.threadCount + 1)",
                site: host.site(cl_site_of_caller(call.thread)))
            try thread.begin(
                .init(
                    function: function, path: call.string(2) ?? "", nativePath: call.string(3) ?? "",
                    ignoresEnvironment: host.ignoresEnvironment, batteries: host.batteries,
                    report: host.reportFromThreads(), world: host.threadWorld))
        } catch {
            return call.fail(error)
        }
        host.threadCount += 1
        let handle = host.loop.handle
        thread.whenEnded {
            // A failure that nobody waits for must come to light: see LuaHost.findForgottenFailures.
            guard thread.unobservedFailure != nil else { return }
            handle.perform { loop in (loop.attachment as? LuaHost)?.findForgottenFailures() }
        }
        return call.answer(thread, Kinds.thread)
    }

    static func thread(_ call: Call, _ index: Int32 = 1) -> LuaThread? {
        call.object(index, Kinds.thread, as: LuaThread.Reference.self)?.thread
    }

    /// rl.this_thread(): nil on the main thread.
    static func current(_ call: Call) -> Int32 {
        guard let thread = call.luaHost.thread else { return call.answerNil() }
        return call.answer(thread, Kinds.thread)
    }

    private static func loop(_ call: Call) -> Int32 {
        guard let thread = thread(call) else { return call.wrongSelf("thread:loop", Kinds.thread) }
        return call.answer(thread.handle, Kinds.loop)
    }

    private static func join(_ call: Call) -> Int32 {
        guard let thread = thread(call) else { return call.wrongSelf("thread:join", Kinds.thread) }
        var timeout: Int64?
        if !call.isMissing(2) {
            guard let value = call.duration(2) else {
                return call.wrongArgument("thread:join", 2, "a number of seconds, 0 or more")
            }
            timeout = value
        }
        let host = call.luaHost
        if let outcome = thread.observe() {
            guard lua_checkstack(call.thread, 8) != 0 else { return call.raiseOutOfMemory() }
            return call.values(host.push(outcome, onto: call.thread))
        }
        if let refusal = call.refusalToWait(in: "thread:join") { return refusal }
        guard thread !== host.thread else { return call.raise("thread:join: a thread cannot wait for its own end") }
        // Only its function decides when a thread ends; other tasks may wait for whom they like.
        let isFunction = host.thread != nil && host.current?.attachment is MainTask
        if isFunction, timeout == nil, host.thread?.waits(for: thread) == false {
            return call.raise("thread:join: thread \"\(thread.name)\" waits for the end of this one")
        }
        let own = host.thread
        guard
            let (number, modes) = host.beginExternalWait(
                in: "thread:join", timeout: timeout,
                timedOut: {
                    _ = own?.waits(for: nil)
                })
        else { return call.raiseOutOfMemory() }
        let handle = host.loop.handle
        thread.whenEnded {
            _ = own?.waits(for: nil)
            LuaHost.end(number, of: handle, in: modes, with: .thread(thread))
        }
        return call.yield()
    }

    private static func isAlive(_ call: Call, _ function: StaticString) -> Int32 {
        guard let thread = thread(call) else { return call.wrongSelf(function, Kinds.thread) }
        return call.answer(thread.isAlive)
    }

    private static func cancel(_ call: Call, _ function: StaticString) -> Int32 {
        guard let thread = thread(call) else { return call.wrongSelf(function, Kinds.thread) }
        thread.cancel()
        return call.nothing()
    }

    private static func name(_ call: Call) -> Int32 {
        guard let thread = thread(call) else { return call.wrongSelf("thread:name", Kinds.thread) }
        return call.answer(thread.name)
    }

    static func describe(_ call: Call) -> Int32 {
        guard let thread = thread(call) else { return call.wrongSelf("thread:__tostring", Kinds.thread) }
        let site = thread.site.map { ", made at \($0)" } ?? ""
        return call.answer("thread \"\(thread.name)\" (\(thread.isAlive ? "alive" : "ended")\(site))")
    }
}

extension LuaThread {
    /// A thread as one state's userdata has it. When the last is gone, nobody can ask any more what it died of.
    final class Reference {
        let thread: LuaThread
        private unowned let host: LuaHost

        init(_ thread: LuaThread, _ host: LuaHost) {
            self.thread = thread
            self.host = host
            host.references[ObjectIdentifier(thread)] = WeakReference(reference: self)
        }

        deinit {
            guard !host.isClosed else { return }
            // Somebody may have made another one since the last reference to this one went.
            let key = ObjectIdentifier(thread)
            if host.references[key]?.reference == nil { host.references[key] = nil }
            guard let text = thread.unobservedFailure else { return }
            // A finalizer may be what brings us here: nothing touches Lua before the next pass.
            _ = thread.observe()
            host.loop.perform { [unowned(unsafe) loop = host.loop] in
                if let host = loop.attachment as? LuaHost { host.onUncaught(host, text) }
            }
        }
    }

    struct WeakReference { weak var reference: Reference? }
}

extension LuaHost {
    func reference(to thread: LuaThread) -> LuaThread.Reference {
        references[ObjectIdentifier(thread)]?.reference ?? LuaThread.Reference(thread, self)
    }

    /// The way for the errors that nobody in a thread handles: to the main thread, whose policy decides.
    func reportFromThreads() -> @Sendable (String) -> Void {
        if let report { return report }
        let handle = loop.handle
        return { text in
            handle.perform { loop in
                guard let host = loop.attachment as? LuaHost else { return }
                host.uncaught(text: text)
            }
        }
    }

    func setPaths(_ path: String, _ nativePath: String) {
        var program = ValueProgram()
        program.table { program in
            program.field("path") { $0.append(path) }
            program.field("cpath") { $0.append(nativePath) }
        }
        if !decode(program, onto: main) || cl_replace(main, "package") != LUA_OK { cl_pop(main, 1) }
    }

    func requireRunloop() -> String? {
        if let message = load(.text("require 'runloop'", name: "=[rlhost]")) { return message }
        return cl_call_traced(main, 0, 0) == LUA_OK ? nil : popMessage()
    }

    /// Asks the threads that are alive to stop, and waits for them. Returns the names of those that have not by then.
    ///
    /// - Parameter seconds: real ones.
    public static func stopThreads(within seconds: Double) -> [String] {
        for thread in LuaThread.all { thread.cancel() }
        let deadline = RunLoop.Instant.now + .seconds(seconds)
        while !LuaThread.all.isEmpty, RunLoop.Instant.now < deadline { Linux.Thread.pause(milliseconds: 1) }
        return LuaThread.all.map(\.name)
    }
}
