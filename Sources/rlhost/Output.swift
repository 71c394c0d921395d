import CLinux
import LuaRunLoops

enum Output {
    /// Writes all of a text, through the same buffers as Lua's own output, so that the two keep their order.
    static func write(_ text: String, to fd: Int32) {
        ProcessText.withBytes(of: text) { linux_print(fd, $0.baseAddress, $0.count) }
    }
}
