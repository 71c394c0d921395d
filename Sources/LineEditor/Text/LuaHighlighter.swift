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

    private static let constants: Set<String> = ["false", "nil", "true"]

    /// The coloured stretches of a text, in order and apart from each other. Fits `LineEditor.highlight`.
    public func highlight(_ text: String) -> [LineEditor.Highlight] {
        var scanner = LuaScanner(bytes: Array(text.utf8))
        var result: [LineEditor.Highlight] = []
        while let byte = scanner.peek() {
            let start = scanner.position
            guard let style = style(startingWith: byte, &scanner) else { continue }
            result.append(LineEditor.Highlight(range: start..<scanner.position, style: style))
        }
        return result
    }

    private func style(startingWith byte: UInt8, _ scanner: inout LuaScanner) -> LineEditor.Style? {
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
        case UInt8(ascii: ".") where scanner.peek(1).map(LuaScanner.isDigit) == true:
            scanner.skipNumber()
            return number
        default:
            guard LuaScanner.isName(byte) else {
                scanner.advance(1)
                return nil
            }
            let name = scanner.takeName()
            guard LuaScanner.keywords.contains(name) else { return nil }
            return Self.constants.contains(name) ? constant : keyword
        }
    }
}
