internal import Lua
public import LuaRunLoops

extension Battery {
    /// `runloop.net`.
    public static let net = Battery(
        "runloop.net",
        kinds: [TLSBinding.kind, StreamBinding.kind, ListenerBinding.kind, DatagramBinding.kind, SpliceBinding.kind],
        functions: NetBinding.functions)
}
