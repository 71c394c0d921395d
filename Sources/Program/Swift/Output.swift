import Linux
internal import Lua
import LuaRunLoops

enum Output {
    /// Writes all of a text through the buffers of Lua's own output, so that both keep their order.
    static func write(_ text: String, to fd: Int32) {
        text.withAnyBytes { StandardStreams.print($0, to: fd) }
    }
}
