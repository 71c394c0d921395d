internal import Lua
public import LuaRunLoops

extension Battery {
    /// `runloop.net`.
    public static let net = Battery(
        "runloop.net", kinds: [StreamBinding.kind, ListenerBinding.kind], functions: NetBinding.functions)
}
