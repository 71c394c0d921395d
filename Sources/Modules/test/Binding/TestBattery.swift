internal import Linux
internal import Lua
public import LuaRunLoops

extension Battery {
    /// The test runner and the test library.
    public static let testing = Battery(
        "runloop.test",
        functions: Library(
            VirtualTimeBinding.functions + SharedTimeBinding.functions + VirtualTimeSystem.functions
                + KeepingBinding.functions
                + ProcessStateBinding.functions + RecordingBinding.functions))
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

    /// This process becomes one in which tests run. Returns the descriptor on which the runner talks to it.
    ///
    /// - Parameter seed: decides about the order of tables, too, where the system lets a process choose its addresses.
    public static func becomeWorker(seed: UInt32) -> Int32 {
        if WorkerProcess.fixAddresses() { fixSeed(seed) }
        WorkerProcess.become()
        return WorkerProcess.channel
    }

    /// Tells the runner that a file's state is closed.
    public static func tellClosed() {
        let text = "{k=\"closed\"}"
        let bytes = withUnsafeBytes(of: UInt32(text.utf8.count).littleEndian) { Array($0) } + Array(text.utf8)
        bytes.withUnsafeBytes { _ = Descriptor.write($0, to: WorkerProcess.channel) }
    }
}
