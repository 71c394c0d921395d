internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// The module `runloop`.
enum RunloopLibrary {
    static let functions = Library([
        .init("current") { Call($0).answer(Call($0).luaHost.loop.handle, Kinds.loop) },
        .init("main") { main(Call($0)) },
        .init("now") { now(Call($0)) },
        .init("time") { Call($0).answer(Call($0).luaHost.wallClock) },
        .init("date") { date(Call($0)) },
        .init("run") { LoopBinding.run(Call($0), "rl.run", firstArgument: 1) },
        .init("stop") { stop(Call($0)) },
        .init("timer", constructs: 0) { TimerBinding.make(Call($0)) },
        .init("after", constructs: 0, spread: 3) { TimerBinding.makeScheduled(Call($0), "rl.after", repeats: false) },
        .init("every", constructs: 0, spread: 3) { TimerBinding.makeScheduled(Call($0), "rl.every", repeats: true) },
        .init("source", constructs: 1) { SourceBinding.make(Call($0)) },
        .init("fd_port", constructs: 2) { FDPortBinding.make(Call($0)) },
        .init("observer", constructs: 3) { ObserverBinding.make(Call($0)) },
        .init("perform", constructs: 5, spread: 2) { RequestBinding.perform(Call($0), "rl.perform", self: 0) },
        .init("cancel_performs") { RequestBinding.cancelPerforms(Call($0)) },
        .init("task", constructs: 6) { TaskBinding.make(Call($0)) },
        .init("sleep") { WaitBinding.sleep(Call($0)) },
        // The prelude takes these two and makes what scripts see of them.
        .init("wait_for_descriptor") { WaitBinding.waitForDescriptor(Call($0)) },
        .init("wait_for_tasks") { WaitBinding.waitForTasks(Call($0)) },
        .init("on_error") { onError(Call($0)) },
        .init("this_thread") { ThreadBinding.current(Call($0)) },
        .init("port", constructs: 8) { PortBinding.make(Call($0)) },
        .init("message_port", constructs: 10) { MessagePortBinding.make(Call($0)) },
        .init("remote_port") { RemotePortBinding.find(Call($0)) },
        .init("attach") { AttachBinding.attach(Call($0)) },
        .init("why") { InspectBinding.why(Call($0)) },
    ])

    /// For the Lua-written part. Those that pack are named as the script's errors name them.
    static let internals = Library([
        .packing("rl.thread", from: 4) { ThreadBinding.start(Call($0)) },
        .packing("loop:perform", from: 6) { RemoteBinding.perform(Call($0)) },
        .packing("port:send", from: 3) { PortBinding.send(Call($0)) },
        .packing("source:post", from: 2) { SourceBinding.postFromAfar(Call($0)) },
        .init("is_foreign") { SourceBinding.isForeign(Call($0)) },
        .init("take_command") { SourceBinding.takeCommand(Call($0)) },
        .init("set_hook") { setHook(Call($0)) },
    ])

    /// (name, function): what Swift calls by that name.
    private static func setHook(_ call: Call) -> Int32 {
        let slot = call.luaHost.anchor(call.thread, 2)
        guard slot != 0, let name = call.string(1) else { return call.raiseOutOfMemory() }
        call.luaHost.hooks[name] = slot
        return call.nothing()
    }

    private static func now(_ call: Call) -> Int32 {
        call.answer(Call.seconds(call.withHost { $0.loop.now.nanoseconds }))
    }

    private static func main(_ call: Call) -> Int32 {
        guard let handle = RunLoop.main else { return call.answer(call.luaHost.loop.handle, Kinds.loop) }
        return call.answer(handle, Kinds.loop)
    }

    /// rl.date(unix_seconds): a point of the wall clock on the loop's clock, as things stand now.
    private static func date(_ call: Call) -> Int32 {
        guard let wall = call.number(1), !wall.isNaN else {
            return call.wrongArgument("rl.date", 1, "a number of seconds since 1970")
        }
        let host = call.luaHost
        return call.answer(Call.seconds(host.loop.now.nanoseconds) + (wall - host.wallClock))
    }

    private static func stop(_ call: Call) -> Int32 {
        call.withHost { $0.loop.stop() }
        return call.nothing()
    }

    /// rl.on_error(fn): fn, or nil for the host's own way. Answers what was set before.
    private static func onError(_ call: Call) -> Int32 {
        guard call.isMissing(1) || call.type(1) == LUA_TFUNCTION else {
            return call.wrongArgument("rl.on_error", 1, "a function or nil")
        }
        let host = call.luaHost
        let new = call.isMissing(1) ? 0 : host.anchor(call.thread, 1)
        guard call.isMissing(1) || new != 0 else { return call.raiseOutOfMemory() }
        if host.errorHandler != 0 { host.push(call.thread, slot: host.errorHandler) } else { lua_pushnil(call.thread) }
        host.release(host.errorHandler)
        host.errorHandler = new
        return call.values(1)
    }
}

/// What `require "runloop"` calls, once for each state.
func openRunloop(_ call: Call) -> Int32 {
    for kind in Kinds.all {
        guard call.define(kind) else { return call.raiseValue() }
    }
    guard call.luaHost.internStrings(), call.push(RunloopLibrary.functions) else { return call.raiseOutOfMemory() }
    guard cl_load_prelude(call.thread) == LUA_OK else { return call.raiseValue() }
    lua_rotate(call.thread, -2, 1)
    guard cl_push_internals(call.thread) == LUA_OK else { return call.raiseValue() }
    guard call.push(RunloopLibrary.internals) else { return call.raiseValue() }
    return call.call(arguments: 3)
}

extension LuaHost {
    /// Strings that callbacks get.
    private static let callbackTexts: [String] =
        ObserverBinding.activityNames.map(\.name.description)
        + (0..<16).map { FDPortBinding.text(.init(rawValue: UInt8($0))) } + ["cancelled"]
    private static let joinedTexts = callbackTexts.flatMap { Array($0.utf8CString) }

    /// Makes them: making one may fail, and a callback is no place for that.
    func internStrings() -> Bool {
        guard strings.isEmpty else { return true }
        var slots = [UInt32](repeating: 0, count: Self.callbackTexts.count)
        guard cl_anchor_texts(main, Self.joinedTexts, &slots, Int32(slots.count)) != 0 else { return false }
        strings = slots
        return true
    }

    func pushActivity(_ activity: RunLoop.Activity, onto thread: OpaquePointer) {
        let index = ObserverBinding.activityNames.firstIndex { $0.activity == activity } ?? 0
        lua_rawgeti(thread, 1, lua_Integer(strings[index]))
    }

    func pushEvents(_ events: RunLoop.FDPort.Events, onto thread: OpaquePointer) {
        lua_rawgeti(thread, 1, lua_Integer(slot(of: events)))
    }

    func slot(of events: RunLoop.FDPort.Events) -> UInt32 { strings[6 + Int(events.rawValue & 15)] }
}

extension Call {
    /// What the world refused.
    func fail(_ error: SystemError) -> Int32 { fail(error.message, code: error.name) }

    /// The same of a number alone.
    func fail(errno number: Int32) -> Int32 { fail(SystemError("", errno: number)) }
}
