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
