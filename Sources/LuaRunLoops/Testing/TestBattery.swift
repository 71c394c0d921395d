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
        for argument in arguments where !stack.push(argument) { return popMessage() }
        return stack.call(arguments: Int32(arguments.count), results: 0) ? nil : popMessage()
    }

    /// The process dies when the one that started it does, and prints line by line.
    public static func becomeWorker() { Program.becomeWorker() }
}
