internal import CLuaSupport
internal import Linux
internal import Lua

extension Battery {
    /// The test runner and the test library.
    public static let testing = Battery(
        "runloop.test", functions: Library(VirtualTimeBinding.functions + VirtualTimeSystem.functions))
    /// What there is of it for scripts that are not run by it.
    public static let noTesting = Battery(
        "runloop.test", refusal: "require \"runloop.test\": run the tests of this file with: rlhost test FILE")
}

extension LuaHost {
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
    public static func becomeWorker() { Program.becomeWorker() }
}
