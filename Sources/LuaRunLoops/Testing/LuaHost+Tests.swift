internal import CLuaSupport
internal import Lua
internal import RunLoops

extension LuaHost {
    /// Makes the parts of the test runner loadable: `require "runloop.test"` and what it needs itself.
    public func openTestRunner() -> String? {
        let call = Call(main)
        let status = cl_preload_modules(main, "runloop.test") { thread, name in
            guard let thread, Call(thread).push(LuaHost.parts) else { return LUA_ERRMEM }
            return cl_preload(thread, name)
        }
        guard status == LUA_OK else { return popMessage() }
        guard call.push(Self.natives), cl_preload(main, "runloop.test.system") == LUA_OK else { return popMessage() }
        return nil
    }

    fileprivate static let parts = Library([.init("open") { openPart(Call($0)) }])
    private static let natives = Library([.init("open") { openNatives(Call($0)) }])
    private static let system = Library(VirtualTimeBinding.functions + VirtualTimeSystem.functions)

    /// What `require` calls, with the module's name.
    private static func openPart(_ call: Call) -> Int32 {
        guard let name = call.string(1) else { return call.raise("no such part of the test runner") }
        guard cl_load_module(call.thread, name) == LUA_OK, cl_push_internals(call.thread) == LUA_OK
        else { return call.raiseValue() }
        return call.call(arguments: 1)
    }

    private static func openNatives(_ call: Call) -> Int32 {
        call.push(system) ? call.values(1) : call.raiseOutOfMemory()
    }

    /// Calls the function that `load` left, with strings as arguments, outside of any task. Returns an error message.
    public func callLoaded(_ arguments: [String]) -> String? {
        for argument in arguments {
            setScratch(argument)
            guard lua_checkstack(main, 4) != 0,
                cl_push_text(main, host.pointee.scratch, host.pointee.length) == LUA_OK
            else { return popMessage() }
        }
        return cl_call_traced(main, Int32(arguments.count), 0) == LUA_OK ? nil : popMessage()
    }

    /// The process dies when the one that started it does, and prints line by line.
    public static func becomeWorker() { cl_become_worker() }
}
