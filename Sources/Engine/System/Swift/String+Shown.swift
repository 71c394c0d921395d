/// Text from outside in a form that is safe to show: names, messages of other programs, errors.
extension String {
    /// The text, in which characters that control a terminal or reverse text are replaced by escapes, such as \x1b or
    /// \xe2\x80\xae. Line breaks and tabs stay. Bytes that are not UTF-8 stay, too (`init(anyBytes:)` keeps them in a
    /// string), since lua prints them. But bytes from 0x80 to 0x9f, which control an 8-bit terminal, become escapes.
    /// O(n).
    package var shown: String { escaped(keepsLines: true) }

    /// Like `shown`, for a name or another part of a line: line breaks and tabs become \n and \t, and all bytes that
    /// are not UTF-8 become escapes.
    package var shownInLine: String { escaped(keepsLines: false) }

    private func escaped(keepsLines: Bool) -> String {
        guard utf8.contains(where: { $0 < 0x20 && !(keepsLines && ($0 == 9 || $0 == 10)) || $0 >= 0x7F }) else {
            return self
        }
        var text = String.UnicodeScalarView()
        for scalar in unicodeScalars {
            switch scalar.value {
            case 9 where !keepsLines: text.append(contentsOf: "\\t".unicodeScalars)
            case 10 where !keepsLines: text.append(contentsOf: "\\n".unicodeScalars)
            case 13: text.append(contentsOf: "\\r".unicodeScalars)
            case 0..<9, 11..<0x20, 0x7F..<0xA0: fallthrough
            // Direction marks, and line and paragraph separators.
            case 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069:
                for byte in String(scalar).utf8 { Self.append(byte, to: &text) }
            // See String+Bytes.swift in the module Lua.
            case 0x10FF80..<0x10FFA0: Self.append(UInt8(truncatingIfNeeded: scalar.value), to: &text)
            case 0x10FFA0... where !keepsLines: Self.append(UInt8(truncatingIfNeeded: scalar.value), to: &text)
            default: text.append(scalar)
            }
        }
        return String(text)
    }

    private static func append(_ byte: UInt8, to text: inout String.UnicodeScalarView) {
        text.append(contentsOf: "\\x".unicodeScalars)
        for digit in [byte >> 4, byte & 15] { text.append(Unicode.Scalar(digit < 10 ? 48 + digit : 87 + digit)) }
    }
}
