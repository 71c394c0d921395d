import Lua

/// Converts the bytes that a terminal sends into UTF-8 for the line editor. A byte that is not part of UTF-8 gets the
/// code point that `String(anyBytes:)` gives it. So text typed or pasted in another encoding reaches Lua unchanged.
struct TypedBytes {
    /// The beginning of a character whose other bytes have not arrived.
    private var held: [UInt8] = []

    /// O(n).
    mutating func take(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let all = held + bytes
        held = []
        guard all.contains(where: { $0 >= 0x80 }) else { return all }
        let end = Self.endOfWhole(all)
        held = Array(all[end...])
        return all[..<end].withUnsafeBytes { Array(String(anyBytes: $0).utf8) }
    }

    /// If the last character may be incomplete, returns the index at which it begins; otherwise the number of bytes.
    private static func endOfWhole(_ bytes: [UInt8]) -> Int {
        for (behind, byte) in bytes.reversed().prefix(3).enumerated() {
            let length =
                switch byte {
                case 0x80...0xBF: 0
                case 0xC2...0xDF: 2
                case 0xE0...0xEF: 3
                case 0xF0...0xF4: 4
                default: 1
                }
            if length > 0 { return bytes.count - (length > behind + 1 ? behind + 1 : 0) }
        }
        return bytes.count
    }
}
