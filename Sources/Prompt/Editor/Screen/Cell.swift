/// One place on the screen: a cluster and its style.
struct Cell: Equatable {
    var text: String
    /// Columns, 1 or 2.
    var width: Int
    var style: LineEditor.Style
    /// Whether terminals disagree about the width of this cell.
    var isContested = false

    /// Whether this is one ASCII character, whose width is the same on every terminal.
    var isPlain: Bool { text.utf8.count == 1 }

    /// Returns the cells of one line of text that is not part of the entry, such as a candidate. Control characters are
    /// made visible.
    static func cells(_ text: String, style: LineEditor.Style = .plain) -> [Cell] {
        let buffer = TextBuffer(Array(text.unicodeScalars))
        var walker = GlyphWalker(buffer, range: 0..<buffer.count)
        var cells: [Cell] = []
        while let glyph = walker.next() { append(glyph, of: buffer, at: 0, limit: 1, style: style, to: &cells) }
        return cells
    }

    /// Appends the cells of a glyph at a column; `limit` is the room for a tab, in columns.
    static func append(
        _ glyph: Glyph, of buffer: TextBuffer, at column: Int, limit: Int, style: LineEditor.Style,
        to cells: inout [Cell]
    ) {
        switch glyph.kind {
        case .text(let width):
            // Limit the number of marks on a letter, which is higher than any script needs: thousands of marks would
            // make each redraw slow.
            let scalars = buffer.scalars[glyph.offset..<glyph.offset + min(glyph.length, 16)]
            let contested = glyph.length > 1 && CharacterWidth.isContested(scalars)
            cells.append(
                Cell(text: TextBuffer.string(scalars), width: width, style: style, isContested: contested))
        case .control:
            let value = UInt8(truncatingIfNeeded: buffer.scalars[glyph.offset].value)
            cells.append(Cell(text: "^", width: 1, style: style))
            cells.append(Cell(text: String(Unicode.Scalar(value ^ 0x40)), width: 1, style: style))
        case .tab:
            for _ in 0..<min(glyph.width(at: column), limit) { cells.append(Cell(text: " ", width: 1, style: style)) }
        case .mark(let width):
            let scalars = buffer.scalars[glyph.offset..<glyph.offset + min(glyph.length, 16)]
            cells.append(
                Cell(
                    text: "\u{25CC}" + TextBuffer.string(scalars), width: width, style: style, isContested: width > 1))
        case .byte(let byte):
            let digits = String(byte, radix: 16)  // Two digits: the byte is 0x80 or more.
            let text = "<\(digits)>".prefix(limit > 1 ? limit : 4)
            cells += text.map { Cell(text: String($0), width: 1, style: style) }
        case .hidden: cells.append(Cell(text: "\u{FFFD}", width: 1, style: style))
        }
    }
}

extension [Cell] {
    /// Columns taken by all cells together.
    var columns: Int { reduce(0) { $0 + $1.width } }
}
