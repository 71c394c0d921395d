/// Colours for Lua 5.4 source: keywords, strings, numbers and comments.
///
/// A lexer, not a parser: text that is not finished or not Lua is coloured as far as it makes sense. O(n).
public struct LuaHighlighter: Sendable {
    public var keyword = LineEditor.Style(foreground: 5)
    public var constant = LineEditor.Style(foreground: 3)
    public var string = LineEditor.Style(foreground: 2)
    public var number = LineEditor.Style(foreground: 6)
    public var comment = LineEditor.Style(attributes: .dim)

    public init() {}

    private static let keywords: Set<String> = [
        "and", "break", "do", "else", "elseif", "end", "for", "function", "goto", "if", "in", "local", "not", "or",
        "repeat", "return", "then", "until", "while",
    ]
    private static let constants: Set<String> = ["false", "nil", "true"]

    /// The coloured stretches of a text, in order and apart from each other. Fits `LineEditor.highlight`.
    public func highlight(_ text: String) -> [LineEditor.Highlight] {
        var scanner = Scanner(bytes: Array(text.utf8))
        var result: [LineEditor.Highlight] = []
        while let byte = scanner.peek() {
            let start = scanner.position
            guard let style = style(startingWith: byte, &scanner) else { continue }
            result.append(LineEditor.Highlight(range: start..<scanner.position, style: style))
        }
        return result
    }

    private func style(startingWith byte: UInt8, _ scanner: inout Scanner) -> LineEditor.Style? {
        switch byte {
        case UInt8(ascii: "-") where scanner.peek(1) == byte:
            scanner.advance(2)
            if !scanner.skipLongBracket() { scanner.skip { $0 != 0x0A } }
            return comment
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            scanner.skipShortString()
            return string
        case UInt8(ascii: "["):
            if scanner.skipLongBracket() { return string }
            scanner.advance(1)
            return nil
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
            scanner.skipNumber()
            return number
        case UInt8(ascii: ".") where scanner.peek(1) == byte:
            // The dots of `a..4` do not begin a number.
            scanner.advance(2)
            return nil
        case UInt8(ascii: ".") where scanner.peek(1).map(Scanner.isDigit) == true:
            scanner.skipNumber()
            return number
        default:
            guard Scanner.isName(byte) else {
                scanner.advance(1)
                return nil
            }
            let name = scanner.takeName()
            return Self.keywords.contains(name) ? keyword : Self.constants.contains(name) ? constant : nil
        }
    }
}

extension LuaHighlighter {
    private struct Scanner {
        let bytes: [UInt8]
        private(set) var position = 0

        init(bytes: [UInt8]) { self.bytes = bytes }

        func peek(_ distance: Int = 0) -> UInt8? {
            position + distance < bytes.count ? bytes[position + distance] : nil
        }

        mutating func advance(_ count: Int) { position = min(position + count, bytes.count) }

        mutating func skip(while condition: (UInt8) -> Bool) {
            while let byte = peek(), condition(byte) { position += 1 }
        }

        static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

        static func isName(_ byte: UInt8) -> Bool {
            (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x5F || isDigit(byte)
        }

        mutating func takeName() -> String {
            let start = position
            skip(while: Self.isName)
            return String(decoding: bytes[start..<position], as: UTF8.self)
        }

        mutating func skipNumber() {
            let isHexadecimal = peek() == 0x30 && peek(1).map { $0 | 0x20 } == UInt8(ascii: "x")
            if isHexadecimal { advance(2) }
            let exponent = UInt8(ascii: isHexadecimal ? "p" : "e")
            while let byte = peek(), Self.isName(byte) || byte == UInt8(ascii: ".") {
                // Two dots in a row are an operator: 1..2 is an error in Lua, but 1 .. 2 is being typed.
                if byte == UInt8(ascii: "."), peek(1) == byte { return }
                advance(1)
                if byte | 0x20 == exponent, peek() == UInt8(ascii: "+") || peek() == UInt8(ascii: "-") { advance(1) }
            }
        }

        mutating func skipShortString() {
            let quote = peek()
            advance(1)
            while let byte = peek(), byte != 0x0A {
                if byte == 0x5C {
                    // \z and a backslash at the end of a line let the string go on behind the line break.
                    let isSkippingBlanks = peek(1) == UInt8(ascii: "z")
                    advance(2)
                    if isSkippingBlanks { skip { $0 == 0x20 || (0x09...0x0D).contains($0) } }
                    continue
                }
                advance(1)
                if byte == quote { return }
            }
        }

        /// Skips `[==[ … ]==]`, to the end of the text if it is not closed; false if no long bracket begins here.
        mutating func skipLongBracket() -> Bool {
            guard peek() == UInt8(ascii: "[") else { return false }
            var level = 0
            while peek(1 + level) == UInt8(ascii: "=") { level += 1 }
            guard peek(1 + level) == UInt8(ascii: "[") else { return false }
            advance(level + 2)
            while let byte = peek() {
                advance(1)
                guard byte == UInt8(ascii: "]") else { continue }
                var count = 0
                while count < level, peek(count) == UInt8(ascii: "=") { count += 1 }
                if count == level, peek(level) == UInt8(ascii: "]") {
                    advance(level + 1)
                    return true
                }
            }
            return true
        }
    }
}
