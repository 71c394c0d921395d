internal import CLuaHTTP
internal import Lua

extension Battery {
    /// `runloop.http`.
    public static let http = Battery(
        "runloop.http",
        functions: Library(
            [.native("open", http_open_native), .native("curl", http_open_curl)] + LastingBinding.ofHTTP
                + BareTasks.functions))
}
