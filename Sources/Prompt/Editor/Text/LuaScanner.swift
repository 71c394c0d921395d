/// A lexer of Lua 5.4 source, finished or not: knows where strings, comments, names and numbers end.
struct LuaScanner {
    enum Kind { case blank, name, keyword, constant, string, number, comment, symbol }

    private static let keywords: Set<String> = [
        "and", "break", "do", "else", "elseif", "end", "for", "function", "goto", "if", "in", "local", "not", "or",
        "repeat", "return", "then", "until", "while",
    ]
    private static let constants: Set<String> = ["false", "nil", "true"]
    let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    /// Returns the next token and its range; nil at the end. Each blank is a token.
    mutating func next() -> (kind: Kind, range: Range<Int>)? {
        let start = position
        return peek().map { (take(startingWith: $0), start..<position) }
    }

    private mutating func take(startingWith byte: UInt8) -> Kind {
        switch byte {
        case 0x20, 0x09...0x0D:
            advance(1)
            return .blank
        case UInt8(ascii: "-") where peek(1) == byte:
            advance(2)
            if !skipLongBracket() { skip { $0 != 0x0A } }
            return .comment
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            skipShortString()
            return .string
        case UInt8(ascii: "["):
            if skipLongBracket() { return .string }
            advance(1)
        case UInt8(ascii: ".") where peek(1) == byte: advance(2)  // The dots of `a..4` do not begin a number.
        case UInt8(ascii: ".") where peek(1).map(Self.isDigit) == true, _ where Self.isDigit(byte):
            skipNumber()
            return .number
        case _ where Self.isName(byte):
            let name = takeName()
            return Self.constants.contains(name) ? .constant : Self.keywords.contains(name) ? .keyword : .name
        default: advance(1)
        }
        return .symbol
    }

    private func peek(_ distance: Int = 0) -> UInt8? {
        position + distance < bytes.count ? bytes[position + distance] : nil
    }

    private mutating func advance(_ count: Int) { position = min(position + count, bytes.count) }

    private mutating func skip(while condition: (UInt8) -> Bool) {
        while let byte = peek(), condition(byte) { position += 1 }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func isName(_ byte: UInt8) -> Bool {
        (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x5F || isDigit(byte)
    }

    private mutating func takeName() -> String {
        let start = position
        skip(while: Self.isName)
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func skipNumber() {
        let isHexadecimal = peek() == 0x30 && peek(1).map { $0 | 0x20 } == UInt8(ascii: "x")
        if isHexadecimal { advance(2) }
        let exponent = UInt8(ascii: isHexadecimal ? "p" : "e")
        while let byte = peek(), Self.isName(byte) || byte == UInt8(ascii: ".") {
            // Two dots in a row are an operator: 1..2 is an error in Lua, but the user is typing 1 .. 2.
            if byte == UInt8(ascii: "."), peek(1) == byte { return }
            advance(1)
            if byte | 0x20 == exponent, peek() == UInt8(ascii: "+") || peek() == UInt8(ascii: "-") { advance(1) }
        }
    }

    private mutating func skipShortString() {
        let quote = peek()
        advance(1)
        while let byte = peek(), byte != 0x0A {
            if byte == 0x5C {
                // \z and a backslash at the end of a line continue the string after the line break.
                let isSkippingBlanks = peek(1) == UInt8(ascii: "z")
                advance(2)
                if isSkippingBlanks { skip { $0 == 0x20 || (0x09...0x0D).contains($0) } }
                continue
            }
            advance(1)
            if byte == quote { return }
        }
    }

    /// Skips `[==[ … ]==]`, to the end of the text if it is not closed. Returns false if no long bracket begins here.
    private mutating func skipLongBracket() -> Bool {
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
