import CLinux
import Lua

enum Output {
    /// Writes all of a text, through the same buffers as Lua's own output, so that the two keep their order.
    static func write(_ text: String, to fd: Int32) {
        text.withAnyBytes { linux_print(fd, $0.baseAddress, $0.count) }
    }
}
