internal import Linux
internal import Lua
internal import RunLoops

/// The module `runloop`.
enum RunloopLibrary {
    static let functions = Library(
        "rl.",
        [
            .init("current") { Call($0).answer(Call($0).luaHost.loop.handle, Kinds.loop) },
            .init("main") { main(Call($0)) },
            .init("now") { now(Call($0)) },
            .init("time") { Call($0).answer(Call($0).luaHost.wallClock) },
            .init("date") { Call.run($0, date) },
            .init("run") { Call.run($0, LoopBinding.runOwn) },
            .init("stop") { stop(Call($0)) },
            .init("timer", constructs: Kinds.timer) { Call.run($0, TimerBinding.make) },
            .init("after", constructs: Kinds.timer, spread: 3) { Call.run($0, TimerBinding.makeAfter) },
            .init("every", constructs: Kinds.timer, spread: 3) { Call.run($0, TimerBinding.makeEvery) },
            .init("source", constructs: Kinds.source) { Call.run($0, SourceBinding.make) },
            .init("fd_port", constructs: Kinds.fdPort) { Call.run($0, FDPortBinding.make) },
            .init("observer", constructs: Kinds.observer) { Call.run($0, ObserverBinding.make) },
            .init("observe", constructs: Kinds.observer) { Call.run($0, ObserverBinding.observe) },
            .init("perform", constructs: Kinds.request, spread: 2) { Call.run($0, RequestBinding.performHere) },
            .init("cancel_performs") { Call.run($0, RequestBinding.cancelPerforms) },
            .init("task", constructs: Kinds.task) { Call.run($0, TaskBinding.make) },
            .init("sleep") { Call.run($0, WaitBinding.sleep) },
            .init("on_error") { Call.run($0, onError) },
            .init("limit_callbacks") { Call.run($0, ThreadBinding.limitCallbacks) },
            .init("this_thread") { ThreadBinding.current(Call($0)) },
            .init("port", constructs: Kinds.port) { Call.run($0, PortBinding.make) },
            .init("message_port", constructs: Kinds.messagePort) { Call.run($0, MessagePortBinding.make) },
            .init("remote_port") { Call.run($0, RemotePortBinding.find) },
            .init("why") { Call($0).answer(InspectBinding.why(Call($0).luaHost)) },
        ])

    /// Functions for the part in Lua. Errors show these names to scripts.
    static let internals = Library([
        .init("rl.thread", packs: 7) { Call.run($0, ThreadBinding.start) },
        .init("rl.thread_limit") { ThreadBinding.limit(Call($0)) },
        .init("rl.pool", packs: 1) { call in
            _ = Call(call).takeParcel()
            return 0
        },
        .init("rl.at", constructs: Kinds.timer, spread: 3) {
            Call.run($0) { call throws(Misuse) in try WallTimers.make(call) }
        },
        .init("port:send", packs: 3) { Call.run($0, PortBinding.send) },
        .init("source:post", packs: 2) { Call.run($0, SourceBinding.postFromAfar) },
        .init("prompt_has_keys") { Call($0).answer(Terminal.isPrompts) },
        .init("is_foreign") { SourceBinding.isForeign(Call($0)) },
        .init("take_command") { SourceBinding.takeCommand(Call($0)) },
        .init("rl.wait_readable") { Call.run($0, WaitBinding.waitReadable) },
        .init("rl.wait_writable") { Call.run($0, WaitBinding.waitWritable) },
        .init("rl.timeout") { Call.run($0, WaitBinding.timeout) },
        .init("rl.first_of") { Call.run($0, WaitBinding.firstOf) },
        .init("rl.all_of") { Call.run($0, WaitBinding.allOf) },
        .init("script") { Call($0).answer(LuaHost.script) },
        .init("directory_of") { Call.run($0, directory) },
        .init("on_shutdown") { Call.run($0, onShutdown) },
        .init("site") { Call($0).answer(Int(Call($0).site)) },
        .init("place") { Call($0).answer(Call($0).luaHost.site(Call($0).site)) },
        .init("last_task", constructs: Kinds.task) { Call.run($0, TaskBinding.makeLast) },
        .init("child_task", constructs: Kinds.task) { Call.run($0, TaskBinding.makeChild) },
        .init("is_background") { Call($0).answer(Call($0).luaHost.current?.isBackground ?? false) },
        .init("set_background") { TaskBinding.setBackground(Call($0)) },
        .init("begin_shutdown") { call in
            ServiceManager.notifyOfEnd()
            Call(call).luaHost.part(LuaShutdown.self).begins()
            return 0
        },
        .init("limit_last_task") { call in
            Call(call).answer(Call(call).luaHost.limitLastTask(Call(call).number(1) ?? 0))
        },
        .init("end_shutdown") { endShutdown(Call($0)) },
        .init("set_cancelled") { Call.run($0, setCancelled) },
        .init("is_idle") { Call($0).answer(Call($0).luaHost.loop.hasNothingToDo) },
        .init("passed") { passed(Call($0)) },
        .init("message") { message(Call($0)) },
        .init("open_conditions") { ConditionBinding.open(Call($0)) },
        .init("open_futures") { FutureBinding.open(Call($0)) },
        .init("open_bare_futures") { FutureBinding.openBare(Call($0)) },
        .init("open_mutexes") { MutexBinding.open(Call($0)) },
        .init("backoff:wait") { Call.run($0, WaitBinding.backOff) },
        .init("rl.sandbox") { Call.run($0, SandboxBinding.enter) },
        .init("refusal") { SandboxBinding.refusal(Call($0)) },
        .init("chance") { Call($0).answer(Call($0).luaHost.chance()) },
    ])

    /// (path): Returns the absolute path of the directory that has the file; nil if the file is gone.
    private static func directory(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        guard let real = System.realPath(of: path) else { return call.answerNil() }
        let parts = real.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(real[..<$0]) } ?? ""
        return call.answer(parts.isEmpty ? "/" : parts)
    }

    /// (function): Sets the function that begins the shutdown. That function gets the reason.
    private static func onShutdown(_ call: Call) throws(Misuse) -> Int32 {
        let slot = call.stack.anchor(try call.argument(1, Function.self))
        guard slot != 0 else { throw .noMemory }
        call.luaHost.part(LuaShutdown.self).prepare(slot)
        return call.nothing()
    }

    /// (): Ends the shutdown after its functions have ended.
    private static func endShutdown(_ call: Call) -> Int32 {
        call.luaHost.part(LuaShutdown.self).end()
        return call.nothing()
    }

    /// (value): Sets the error value of cancelled tasks.
    private static func setCancelled(_ call: Call) throws(Misuse) -> Int32 {
        let slot = call.stack.anchor(1)
        guard slot != 0 else { throw .noMemory }
        call.luaHost.cancelled = slot
        return call.nothing()
    }

    /// (error, in_this_task): Returns the error's message, stack, and the waits that have passed it on; or nil.
    private static func passed(_ call: Call) -> Int32 {
        let host = call.luaHost
        let carrier = call.boolean(2) ? host.current?.number ?? 0 : nil
        guard let trail = host.trails.trail(of: call.stack, 1, in: carrier) else { return call.answerNil() }
        return call.answer(host.text(of: trail))
    }

    /// (error): Returns the text that reports show for an error value.
    private static func message(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard host.stack.reserve(2) else { return call.raiseOutOfMemory() }
        call.stack.pushCopy(of: 1)
        call.stack.move(1, to: host.stack)
        defer { host.stack.pop() }
        return call.answer(host.explanation(of: host.stack).message)
    }

    private static func now(_ call: Call) -> Int32 {
        call.answer(Time.seconds(call.withHost { $0.loop.now.nanoseconds }))
    }

    private static func main(_ call: Call) -> Int32 {
        call.answer(RunLoop.main ?? call.luaHost.loop.handle, Kinds.loop)
    }

    private enum WallTime: Parameter {
        static let expected = "a number of seconds since 1970"
        static func read(_ stack: Stack, _ index: Int32) -> Double? {
            stack.number(index).flatMap { $0.isNaN ? nil : $0 }
        }
    }

    /// rl.date(unix_seconds): Converts a time of the wall clock to the loop's clock, by the present difference of the
    /// two clocks.
    private static func date(_ call: Call) throws(Misuse) -> Int32 {
        let wall = try call.argument(1, WallTime.self)
        let host = call.luaHost
        return call.answer(Time.seconds(host.loop.now.nanoseconds) + (wall - host.wallClock))
    }

    private static func stop(_ call: Call) -> Int32 {
        call.luaHost.loop.stop(by: called("rl.stop()", call))
        return call.nothing()
    }

    /// Returns the name of a function and the place where it was called: "rl.stop() at x.lua:3".
    static func called(_ name: String, _ call: Call) -> String {
        call.luaHost.site(call.site).map { "\(name) at \($0)" } ?? name
    }

    private enum Handler: Parameter {
        static let expected = "a function or nil"
        static func read(_ stack: Stack, _ index: Int32) -> Int32? { Function.read(stack, index) }
    }

    /// rl.on_error(fn): sets the function, or the host's default for nil. Returns the function that was set before.
    private static func onError(_ call: Call) throws(Misuse) -> Int32 {
        let host = call.luaHost
        var new: UInt32 = 0
        if let handler = try call.optional(1, Handler.self) {
            new = call.stack.anchor(handler)
            if new == 0 { throw .noMemory }
        }
        let handler = host.part(ErrorHandler.self)
        if handler.function != 0 { host.push(call.stack, slot: handler.function) } else { call.stack.pushNil() }
        handler.function = new
        return call.values(1)
    }
}

/// Makes the module for `require "runloop"`, once for each state.
func openRunloop(_ call: Call) throws(Misuse) -> Int32 {
    let host = call.luaHost
    for kind in Kinds.all where !call.define(kind) { return call.raiseValue() }
    guard host.texts.make(host), call.push(RunloopLibrary.functions) else { throw .noMemory }
    guard call.stack.pushPrelude() else { return call.raiseValue() }
    call.stack.insert(at: -2)
    guard call.stack.pushInternals(), call.push(RunloopLibrary.internals), call.stack.pushNotifications() else {
        return call.raiseValue()
    }
    var arguments: Int32 = 4
    for battery in host.batteries() where battery.module == Battery.runloop {
        guard call.stack.reserve(8), call.push(battery.functions) else { throw .noMemory }
        arguments += 1
    }
    host.hasOpenedRunloop = true
    return call.call(arguments: arguments)
}
