import Glibc
internal import Lua
import LuaRunLoops

/// What LUA_INIT, or its versioned form, wants run before anything else: a text, or @ and a file's name.
struct Initialization {
    /// The variable that says it.
    let name: String
    private let text: String

    /// nil: the environment says nothing.
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
