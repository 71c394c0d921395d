internal import CLuaCodecs
internal import Linux
internal import Lua
public import LuaRunLoops

/// The modules that use the operating system: programs, signals, files and terminals, and the modules that daily
/// scripts need with them.
public enum SystemBatteries {
    public static let all: [Battery] = [
        Battery("runloop.process", kinds: [SignalBinding.kind], functions: ProcessBinding.functions),
        Battery("runloop.fs", kinds: [WatchBinding.kind], functions: FileBinding.functions),
        Battery("runloop.terminal", kinds: [TerminalBinding.decoder], functions: TerminalBinding.functions),
        Battery("runloop.log", functions: LogBinding.functions),
        Battery("runloop.schedule", functions: Library([])),
        Battery("runloop.arguments", functions: Library([])),
        Battery("runloop.encoding", functions: Library([.native("open", encoding_open)])),
        Battery("runloop.url", functions: Library([.native("open", url_open)])),
        Battery("runloop.zlib", functions: Library([.native("open", zlib_open)])),
        Battery("runloop.crypto", functions: CryptoBinding.functions),
        SQLiteBinding.battery,
        Battery("runloop.socket", functions: Library([.native("open", socket_open)])),
        Battery(part: "runloop.bridges", kinds: [BridgeBinding.kind], functions: BridgeBinding.functions),
        Battery("runloop.luv", functions: Library([.native("open", luv_open)])),
        Battery("runloop.glib", functions: Library([.native("open", glib_open)])),
        Battery("runloop.cqueues", functions: Library([])),
        Battery("runloop.metrics", functions: MetricsBinding.functions),
        Battery("runloop.nats", functions: NATSBinding.functions),
        PostgresBinding.battery,
        Battery(part: "runloop.data", functions: Library(LastingBinding.ofData)),
        Battery("runloop.redis", functions: Library([.native("open", redis_open), .uncommonMode])),
    ]
}

extension Call {
    /// Returns an integer of the system: a descriptor, a process number or a signal number.
    func number32(_ index: Int32 = 1) throws(Misuse) -> Int32 { Int32(clamping: try argument(index, Integer.self)) }
}

extension Library.Entry {
    /// close(descriptor)
    static let close = Library.Entry("close") {
        Call.act($0) { call throws(Misuse) in Descriptor.close(try call.number32()) }
    }
}
