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
    /// Refuses the module in scripts that the test runner does not run.
    public static let noTesting = Battery(
        "runloop.test", refusal: "require \"runloop.test\": run the tests of this file with: rlhost test FILE")
}

extension LuaHost {
    /// Calls the function that `load` left, with strings as arguments, outside of any task. Returns an error message,
    /// or nil.
    public func callLoaded(_ arguments: [String]) -> String? {
        for argument in arguments where !stack.push(argument) { return popMessage() }
        return stack.call(arguments: Int32(arguments.count), results: 0) ? nil : popMessage()
    }

    /// Makes this process a worker, in which tests run. Returns the descriptor of its channel to the runner.
    ///
    /// - Parameter seed: determines the order of tables, too, if the system lets a process choose its addresses.
    public static func becomeWorker(seed: UInt32) -> Int32 {
        if WorkerProcess.fixAddresses() { fixSeed(seed) }
        WorkerProcess.become()
        return WorkerProcess.channel
    }

    /// Reports to the runner that the state of a file is closed.
    public static func tellClosed() {
        let text = "{k=\"closed\"}"
        let bytes = withUnsafeBytes(of: UInt32(text.utf8.count).littleEndian) { Array($0) } + Array(text.utf8)
        bytes.withUnsafeBytes { _ = Descriptor.write($0, to: WorkerProcess.channel) }
    }
}
