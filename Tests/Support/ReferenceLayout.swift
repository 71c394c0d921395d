import LineEditor

/// The layout of an entry on an endless screen, computed in the simplest way: character by character, from the start,
/// without caches, windows or differences.
package struct ReferenceLayout {
    package private(set) var rows = [""]
    package private(set) var cursorRow = 0
    package private(set) var cursorColumn = 0
    private var column = 0
    private let columns: Int

    package init(text: String, cursor: Int, prompt: String, continuation: String, columns: Int) {
        self.columns = columns
        write(prompt)
        if column >= columns { breakRow() }
        var offset = 0
        for character in text {
            if offset == cursor { placeCursor(before: character) }
            if character == "\n" {
                breakRow()
                write(continuation)
                if column >= columns { breakRow() }
            } else {
                draw(character)
            }
            offset += character.utf8.count
        }
        if offset == cursor { placeCursor(before: nil) }
    }

    private mutating func write(_ prompt: String) {
        for character in prompt { character == "\n" ? breakRow() : draw(character) }
    }

    private mutating func breakRow() {
        rows.append("")
        column = 0
    }

    private mutating func placeCursor(before character: Character?) {
        let isLineEnd = character == nil || character == "\n"
        let width = isLineEnd ? 1 : self.width(character ?? " ")
        if column + width > columns { breakRow() }
        (cursorRow, cursorColumn) = (rows.count - 1, column)
    }

    private func width(_ character: Character) -> Int {
        if character == "\t" { return column >= columns ? 1 : min(8 - column % 8, columns - column) }
        return looks(character).width
    }

    private mutating func draw(_ character: Character) {
        if column + width(character) > columns { breakRow() }
        let width = width(character)
        rows[rows.count - 1] += character == "\t" ? String(repeating: " ", count: width) : looks(character).text
        column += width
    }

    private func looks(_ character: Character) -> (text: String, width: Int) {
        if let ascii = character.asciiValue, (0x20..<0x7F).contains(ascii) { return (String(character), 1) }
        let scalars = Array(character.unicodeScalars)
        let first = scalars[0]
        if scalars.count == 1 {
            if first.value < 0x20 || first.value == 0x7F {
                return ("^\(Character(Unicode.Scalar(UInt8(first.value) ^ 0x40)))", 2)
            }
            if (0x80..<0xA0).contains(first.value) || first.value == 0xAD { return ("\u{FFFD}", 1) }
        }
        let isSelector = first.properties.isVariationSelector
        let joins = !first.properties.isEmojiModifier && first != "\u{200D}" && first != "\u{200C}"
        if !isSelector, joins, ("a" + String(first)).count == 1, !(0xE0000...0xE0FFF).contains(first.value) {
            let cluster = "\u{25CC}" + String(String.UnicodeScalarView(scalars.prefix(16)))
            return (cluster, CharacterWidth.of(cluster.unicodeScalars))
        }
        if CharacterWidth.of(first) == 0 || isSelector || first.properties.isEmojiModifier { return ("\u{FFFD}", 1) }
        return (String(String.UnicodeScalarView(scalars.prefix(16))), CharacterWidth.of(scalars))
    }

    /// The rows without blanks at their ends.
    package var trimmedRows: [String] { rows.map(\.withoutBlanksAtEnd) }
}

extension String {
    /// Works on scalars, since a blank may have become a part of the character before it.
    package var withoutBlanksAtEnd: String {
        guard unicodeScalars.last == " " else { return self }
        var scalars = unicodeScalars
        while scalars.last == " " { scalars.removeLast() }
        return String(scalars)
    }
}
