internal import CJSON
internal import Lua

extension Battery {
    /// `runloop.json`.
    public static let json = Battery("runloop.json", functions: Library([.native("codec", json_open)]))
}
