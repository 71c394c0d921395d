internal import Linux
internal import Lua
public import LuaRunLoops

/// The modules that reach the machine: programs, signals, files, terminals, and what daily scripts need around them.
public enum SystemBatteries {
    public static let all: [Battery] = [
        Battery("runloop.process", kinds: [SignalBinding.kind], functions: ProcessBinding.functions),
        Battery("runloop.fs", kinds: [WatchBinding.kind], functions: FileBinding.functions),
        Battery("runloop.terminal", kinds: [TerminalBinding.decoder], functions: TerminalBinding.functions),
        Battery("runloop.log", functions: LogBinding.functions),
        Battery("runloop.schedule", functions: Library([])),
        Battery("runloop.arguments", functions: Library([])),
    ]
}

extension Call {
    /// A descriptor, a process, a signal: an integer of the system's.
    func number32(_ index: Int32 = 1) throws(Misuse) -> Int32 { Int32(clamping: try argument(index, Integer.self)) }
}

extension Library.Entry {
    /// close(descriptor)
    static let close = Library.Entry("close") {
        Call.act($0) { call throws(Misuse) in Descriptor.close(try call.number32()) }
    }
}
