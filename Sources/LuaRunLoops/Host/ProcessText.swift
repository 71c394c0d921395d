internal import Lua

/// Text that goes between the process and its surroundings: arguments, the environment, output. Its bytes need not be UTF-8,
/// and survive the way through Swift strings and Lua.
public enum ProcessText {
    /// The text of a C string.
    public static func text(_ bytes: UnsafePointer<CChar>) -> String { String(anyBytes: bytes) }

    public static func text(_ bytes: UnsafeRawBufferPointer) -> String { String(anyBytes: bytes) }

    /// Calls `body` with the bytes that a text stands for.
    public static func withBytes<Result>(of text: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        text.withAnyBytes(body)
    }
}
