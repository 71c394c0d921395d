/// Draws one line of an entry in one row, with only CR, BS and blanks. Lines that are too long scroll sideways.
struct DumbPainter {
    private var shownColumns = 0
    private var cursorColumn = 0
    private var line: Int?
    private var content: [Cell] = []

    /// Called when the cursor is at the start of an empty row.
    mutating func forget() { self = DumbPainter() }

    /// Blanks the row and returns to its start.
    mutating func erase(into output: inout [UInt8]) {
        guard line != nil else { return }
        output.append(UInt8(ascii: "\r"))
        output.append(contentsOf: repeatElement(0x20, count: shownColumns))
        output.append(UInt8(ascii: "\r"))
        forget()
    }

    mutating func paint(
        _ buffer: TextBuffer, prompt: String, continuation: String, columns: Int, into output: inout [UInt8]
    ) {
        let number = buffer.scalars[..<buffer.cursor].count { $0 == "\n" }
        // Write out the lines that the cursor has passed since the last drawing, since it cannot go back up later.
        if let passed = line, number > passed {
            let ends = buffer.scalars.indices.filter { buffer.scalars[$0] == "\n" }
            for (index, end) in ends[passed..<number].enumerated() {
                let prefix = passed + index == 0 ? prompt : continuation
                paint(line: passed + index, of: buffer, cursor: end, prompt: prefix, columns: columns, into: &output)
                next(&output)
            }
        }
        let prefix = number == 0 ? prompt : continuation
        paint(line: number, of: buffer, cursor: buffer.cursor, prompt: prefix, columns: columns, into: &output)
    }

    private mutating func paint(
        line number: Int, of buffer: TextBuffer, cursor offset: Int, prompt: String, columns: Int,
        into output: inout [UInt8]
    ) {
        let width = max(columns - 1, 1)
        let prefix = PromptRows(prompt, columns: width).rows.last ?? []
        let before = prefix + cells(of: buffer, buffer.startOfLine(offset)..<offset)
        let after = cells(of: buffer, offset..<buffer.endOfLine(offset))
        // Scroll by half a row, so that not every key rewrites the row.
        let step = max(width / 2, 1)
        let cursor = before.columns
        let skipped = cursor < width ? 0 : (cursor - width) / step * step + step
        let cells = Self.window(before + after, skipping: skipped, width: width)
        draw(cells, cursor: cursor - skipped, into: &output)
        line = number
    }

    private mutating func next(_ output: inout [UInt8]) {
        output.append(sequence: "\r\n")
        forget()
    }

    private mutating func draw(_ cells: [Cell], cursor: Int, into output: inout [UInt8]) {
        if line == nil || cells != content {
            let isAppended = line != nil && cells.starts(with: content) && cursorColumn == content.columns
            if !isAppended { output.append(UInt8(ascii: "\r")) }
            for cell in isAppended ? cells[content.count...] : cells[...] { output.append(contentsOf: cell.text.utf8) }
            let blanks = max(shownColumns - cells.columns, 0)
            output.append(contentsOf: repeatElement(0x20, count: blanks))
            cursorColumn = cells.columns + blanks
            shownColumns = cells.columns
            content = cells
        }
        if cursor < cursorColumn { output.append(contentsOf: repeatElement(0x08, count: cursorColumn - cursor)) }
        if cursor > cursorColumn {
            output.append(UInt8(ascii: "\r"))
            var column = 0
            for cell in cells where column < cursor {
                output.append(contentsOf: cell.text.utf8)
                column += cell.width
            }
        }
        cursorColumn = cursor
    }

    private func cells(of buffer: TextBuffer, _ range: Range<Int>) -> [Cell] {
        var cells: [Cell] = []
        var walker = GlyphWalker(buffer, range: range)
        while let glyph = walker.next() {
            // Tabs have a fixed width, so that columns after the cursor do not depend on the text before it.
            Cell.append(glyph, of: buffer, at: 4, limit: 4, style: .plain, to: &cells)
        }
        return cells
    }

    private static func window(_ cells: [Cell], skipping skipped: Int, width: Int) -> [Cell] {
        var result: [Cell] = []
        var column = 0
        for cell in cells {
            let end = column + cell.width
            if column < skipped, end > skipped { result.append(Cell(text: " ", width: 1, style: .plain)) }
            if column >= skipped, end <= skipped + width { result.append(cell) }
            if end > skipped + width { break }
            column = end
        }
        return result
    }
}
