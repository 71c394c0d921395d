/// The structure of Lua text that the editor needs: blocks for indentation, matching brackets, and the last argument
/// for Alt-. The text may be unfinished, or may not be Lua at all. All functions are O(n).
public struct LuaStructure: Sendable {
    public init() {}

    private struct Token {
        var kind: LuaScanner.Kind
        var range: Range<Int>
        var text: String
    }

    /// The blanks of one level.
    private static let step = 2
    private static let opening: Set<String> = ["function", "do", "then", "repeat", "else", "{"]
    private static let closing: Set<String> = ["end", "until", "else", "elseif", "}"]
    private static let partners: [String: String] = ["(": ")", "[": "]", "{": "}"]

    private func tokens(_ text: String) -> [Token] {
        let bytes = Array(text.utf8)
        var scanner = LuaScanner(bytes: bytes)
        var tokens: [Token] = []
        while let (kind, range) = scanner.next() {
            if kind == .blank { continue }
            tokens.append(Token(kind: kind, range: range, text: String(decoding: bytes[range], as: UTF8.self)))
        }
        return tokens
    }

    // MARK: Indentation

    /// Returns the blanks for the start of a text's last line; nil inside of a long string or comment, where blanks
    /// matter.
    ///
    /// A line that opens blocks indents the next lines by one step, however many blocks it opens. The line that closes
    /// the blocks returns to the indentation of the line that opened them.
    public func indentation(of text: String) -> String? {
        let lastLine = text.utf8.lastIndex(of: 0x0A).map { text.utf8.distance(from: text.utf8.startIndex, to: $0) + 1 }
        guard let lastLine else { return "" }
        // The line where each open block began, with its indentation.
        var open: [(line: Int, indentation: Int)] = []
        var lineStart = 0
        var line = 0
        let bytes = Array(text.utf8)
        func blanks(at start: Int) -> Int { bytes[start...].prefix { $0 == 0x20 || $0 == 0x09 }.count }
        var scanned = 0
        var closer: Int?
        for token in tokens(text) {
            if token.range.lowerBound < lastLine, token.range.upperBound >= lastLine {
                if token.kind == .string || token.kind == .comment { return nil }
            }
            while let end = bytes[scanned..<token.range.lowerBound].firstIndex(of: 0x0A) {
                lineStart = end + 1
                line += 1
                scanned = end + 1
            }
            scanned = token.range.lowerBound
            let isInLastLine = token.range.lowerBound >= lastLine
            let isFirst = token.range.lowerBound == lineStart + blanks(at: lineStart)
            if isInLastLine, !isFirst { break }
            guard token.kind == .keyword || token.kind == .symbol else { continue }
            if Self.closing.contains(token.text), let block = open.popLast(), isInLastLine {
                closer = block.indentation
            }
            if Self.opening.contains(token.text), !isInLastLine {
                open.append((line, blanks(at: lineStart)))
            }
        }
        if let closer { return String(repeating: " ", count: closer) }
        guard let block = open.last else { return "" }
        return String(repeating: " ", count: block.indentation + Self.step)
    }

    // MARK: Brackets

    /// Returns the offsets, in UTF-8 bytes, of two matching brackets. One of them is directly before or after the
    /// cursor.
    public func brackets(_ text: String, cursor: Int) -> (Int, Int)? {
        var open: [Token] = []
        for token in tokens(text) where token.kind == .symbol {
            if Self.partners[token.text] != nil {
                open.append(token)
            } else if Self.partners.values.contains(token.text) {
                guard let partner = open.popLast(), Self.partners[partner.text] == token.text else { return nil }
                let pair = (partner.range.lowerBound, token.range.lowerBound)
                if [pair.0, pair.1].contains(cursor - 1) || pair.0 == cursor { return pair }
            }
        }
        return nil
    }

    // MARK: The last argument

    /// Returns the last operand of an entry: a name with its fields, a string or a number; nil if there is none.
    public func lastArgument(of text: String) -> String? {
        let tokens = tokens(text).filter { $0.kind != .comment }
        let isArgument = { (token: Token) in [.name, .string, .number, .constant].contains(token.kind) }
        guard var first = tokens.lastIndex(where: isArgument) else { return nil }
        let last = first
        // A field includes the expression before it.
        while first >= 2, tokens[last].kind == .name, [".", ":"].contains(tokens[first - 1].text),
            tokens[first - 2].kind == .name
        {
            first -= 2
        }
        return String(
            decoding: Array(text.utf8)[tokens[first].range.lowerBound..<tokens[last].range.upperBound], as: UTF8.self)
    }
}
