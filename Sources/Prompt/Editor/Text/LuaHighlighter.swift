/// Colours for Lua 5.4 source: keywords, strings, numbers and comments.
///
/// A lexer, not a parser: unfinished text, and text that is not Lua, is coloured as far as possible. O(n).
public struct LuaHighlighter: Sendable {
    public var keyword = LineEditor.Style(foreground: 5)
    public var constant = LineEditor.Style(foreground: 3)
    public var string = LineEditor.Style(foreground: 2)
    public var number = LineEditor.Style(foreground: 6)
    public var comment = LineEditor.Style(attributes: .dim)

    public init() {}

    /// Returns the coloured ranges of a text, in order and without overlaps. Fits `LineEditor.highlight`.
    public func highlight(_ text: String) -> [LineEditor.Highlight] {
        var scanner = LuaScanner(bytes: Array(text.utf8))
        var result: [LineEditor.Highlight] = []
        while let (kind, range) = scanner.next() {
            guard let style = style(of: kind) else { continue }
            result.append(LineEditor.Highlight(range: range, style: style))
        }
        return result
    }

    private func style(of kind: LuaScanner.Kind) -> LineEditor.Style? {
        switch kind {
        case .keyword: keyword
        case .constant: constant
        case .string: string
        case .number: number
        case .comment: comment
        case .blank, .name, .symbol: nil
        }
    }
}
