import Glibc
internal import Lua
import LuaRunLoops

/// The code of LUA_INIT, or of its versioned form, which runs before everything else. The variable contains Lua code,
/// or @ and a file's name.
struct Initialization {
    /// The name of the variable that was set.
    let name: String
    private let text: String

    /// Returns nil if neither variable is set.
    init?() {
        for name in ["LUA_INIT_5_4", "LUA_INIT"] {
            guard let value = getenv(name) else { continue }
            self.name = name
            text = String(anyBytes: value)
            return
        }
        return nil
    }

    var chunk: LuaHost.Chunk {
        guard text.utf8.first == UInt8(ascii: "@") else { return .text(text, name: "=\(name)") }
        return .file(String(text.unicodeScalars.dropFirst()))
    }
}
