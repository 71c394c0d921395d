extension TextBuffer {
    /// Returns the start of the line that contains an offset. O(length of the line).
    func startOfLine(_ offset: Int) -> Int {
        var start = offset
        while start > 0, scalars[start - 1] != "\n" { start -= 1 }
        return start
    }

    /// Returns the end of the line that contains an offset: its `\n`, or the end of the text.
    func endOfLine(_ offset: Int) -> Int {
        var end = offset
        while end < count, scalars[end] != "\n" { end += 1 }
        return end
    }

    /// Whether only blanks are between the start of the line and the cursor.
    var isCursorInIndentation: Bool {
        scalars[startOfLine(cursor)..<cursor].allSatisfy { $0 == " " || $0 == "\t" }
    }

    /// Letters, digits and characters that combine with them. As in Emacs and readline `_` separates words, so that the
    /// cursor can stop inside a long identifier.
    static func isWord(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0..<0x80: false
        default:
            switch scalar.properties.generalCategory {
            case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: true
            case .decimalNumber, .letterNumber, .nonspacingMark, .spacingMark, .enclosingMark: true
            default: false
            }
        }
    }

    /// The end of the word at or after an offset.
    func endOfWord(after offset: Int) -> Int {
        var end = offset
        while end < count, !Self.isWord(scalars[end]) { end += 1 }
        while end < count, Self.isWord(scalars[end]) { end += 1 }
        return boundary(atOrAfter: end)
    }

    /// The start of the word at or before an offset.
    func startOfWord(before offset: Int) -> Int {
        var start = offset
        while start > 0, !Self.isWord(scalars[start - 1]) { start -= 1 }
        while start > 0, Self.isWord(scalars[start - 1]) { start -= 1 }
        return boundary(atOrBefore: start)
    }

    /// Returns the start of the text between blanks at or before an offset, for Control-W.
    func startOfBlankSeparatedWord(before offset: Int) -> Int {
        func isBlank(_ scalar: Unicode.Scalar) -> Bool { scalar == " " || scalar == "\t" || scalar == "\n" }
        var start = offset
        while start > 0, isBlank(scalars[start - 1]) { start -= 1 }
        while start > 0, !isBlank(scalars[start - 1]) { start -= 1 }
        return boundary(atOrBefore: start)
    }

    /// Returns the width, in columns, of the text between a line's start and an offset in the line. The cursor keeps
    /// this column when it goes up and down. Wrapping and the prompt do not count.
    func column(of offset: Int) -> Int {
        var walker = GlyphWalker(self, range: startOfLine(offset)..<offset)
        var column = 0
        while let glyph = walker.next() { column += glyph.width(at: column) }
        return column
    }

    /// Returns the offset in the line from `start` that is nearest to a column without passing it.
    func offset(inLineFrom start: Int, column goal: Int) -> Int {
        var walker = GlyphWalker(self, range: start..<endOfLine(start))
        var column = 0
        while let glyph = walker.next() {
            column += glyph.width(at: column)
            if column > goal { return glyph.offset }
        }
        return endOfLine(start)
    }
}

extension TextBuffer {
    /// Converts an offset in UTF-8 bytes to scalars. If the offset is inside of a scalar, returns the start of the
    /// scalar. O(n).
    func offset(utf8 target: Int) -> Int {
        var bytes = 0
        for (index, scalar) in scalars.enumerated() {
            bytes += UTF8.width(scalar)
            if bytes > target { return index }
        }
        return count
    }

    /// Converts an offset in scalars to UTF-8 bytes. O(n).
    func utf8Offset(of offset: Int) -> Int { scalars[..<offset].reduce(0) { $0 + UTF8.width($1) } }
}
