/// Divides an entry into rows of the screen, and selects those that are shown.
///
/// A layout is a value for one drawing. It divides only visible lines and their neighbours. This takes O(n) once to
/// find the line breaks, then O(visible text), plus the length of a line that is longer than the screen.
struct Layout {
    let buffer: TextBuffer
    let columns: Int
    private let first: PromptRows
    private let continuation: PromptRows
    private let styles: [LineEditor.Style]
    /// Whether the cursor may stay after the last column, because the entry is finished and no longer edited.
    private let isFinal: Bool
    private let lineStarts: [Int]
    private var cache: [Int: [Row]] = [:]

    /// A row of the screen. It has a row of the prompt, a range of the text, or both.
    struct Row {
        var promptRow: Int?
        var range: Range<Int>
    }

    /// A row of the entry: the line, and the row within it.
    struct Position: Equatable {
        var line = 0
        var row = 0
    }

    init(
        _ buffer: TextBuffer, columns: Int, prompt: PromptRows, continuation: PromptRows, styles: [LineEditor.Style],
        isFinal: Bool
    ) {
        self.buffer = buffer
        self.columns = columns
        first = prompt
        self.continuation = continuation
        self.styles = styles
        self.isFinal = isFinal
        var starts = [0]
        for (index, scalar) in buffer.scalars.enumerated() where scalar == "\n" { starts.append(index + 1) }
        lineStarts = starts
    }

    /// Returns at most `height` rows, which contain the cursor. `top` is the first row of the last drawing; it changes
    /// only as far as the cursor requires.
    mutating func frame(height: Int, top: inout Position) -> Frame {
        let line = line(of: buffer.cursor)
        let cursor = Position(line: line, row: row(of: buffer.cursor, inLine: line))
        settle(&top, cursor: cursor, height: height)
        var frame = Frame(rows: [])
        var position: Position? = top
        while let here = position, frame.rows.count < height {
            if here == cursor {
                frame.cursorRow = frame.rows.count
                frame.cursorColumn = column(of: buffer.cursor, at: here)
            }
            frame.rows.append(cells(at: here))
            position = after(here)
        }
        return frame
    }

    private mutating func settle(_ top: inout Position, cursor: Position, height: Int) {
        if top.line >= lineStarts.count { top = Position(line: lineStarts.count - 1, row: .max) }
        top.row = min(top.row, rows(ofLine: top.line).count - 1)
        if (cursor.line, cursor.row) < (top.line, top.row) { top = cursor }
        if distance(from: top, to: cursor, limit: height) == nil { top = above(cursor, by: height - 1) }
        // Do not show blank rows at the bottom while rows above are hidden.
        let last = Position(line: lineStarts.count - 1, row: rows(ofLine: lineStarts.count - 1).count - 1)
        if let used = distance(from: top, to: last, limit: height) {
            top = above(top, by: height - 1 - used)
        }
    }

    /// How many rows `end` is below `start`; nil for `limit` or more.
    private mutating func distance(from start: Position, to end: Position, limit: Int) -> Int? {
        var position = start
        for count in 0..<limit {
            if position == end { return count }
            guard let next = after(position) else { return nil }
            position = next
        }
        return nil
    }

    // Returns the position some rows further up, or the first row of the entry.
    private mutating func above(_ position: Position, by rows: Int) -> Position {
        var position = position
        var left = rows
        while left > 0, let before = before(position) {
            position = before
            left -= 1
        }
        return position
    }

    private mutating func before(_ position: Position) -> Position? {
        if position.row > 0 { return Position(line: position.line, row: position.row - 1) }
        guard position.line > 0 else { return nil }
        return Position(line: position.line - 1, row: rows(ofLine: position.line - 1).count - 1)
    }

    private mutating func after(_ position: Position) -> Position? {
        if position.row + 1 < rows(ofLine: position.line).count {
            return Position(line: position.line, row: position.row + 1)
        }
        return position.line + 1 < lineStarts.count ? Position(line: position.line + 1, row: 0) : nil
    }

    private func line(of offset: Int) -> Int {
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return low
    }

    private func prompt(ofLine line: Int) -> PromptRows { line == 0 ? first : continuation }
}

extension Layout {
    private mutating func rows(ofLine line: Int) -> [Row] {
        if let rows = cache[line] { return rows }
        let rows = makeRows(ofLine: line)
        cache[line] = rows
        return rows
    }

    private func makeRows(ofLine line: Int) -> [Row] {
        let start = lineStarts[line]
        let end = line + 1 < lineStarts.count ? lineStarts[line + 1] - 1 : buffer.count
        let prompt = prompt(ofLine: line).rows
        var rows = prompt.indices.dropLast().map { Row(promptRow: $0, range: start..<start) }
        var rowStart = start
        var promptRow: Int? = prompt.count - 1
        var column = prompt.last?.columns ?? 0
        func finish(at offset: Int) {
            rows.append(Row(promptRow: promptRow, range: rowStart..<offset))
            promptRow = nil
            rowStart = offset
            column = 0
        }
        var walker = GlyphWalker(buffer, range: start..<end)
        while let glyph = walker.next() {
            if column >= columns { finish(at: glyph.offset) }
            var width = width(of: glyph, at: column)
            if column + width > columns {
                finish(at: glyph.offset)
                width = self.width(of: glyph, at: 0)
            }
            column += width
        }
        let isFull = column >= columns
        finish(at: end)
        // The cursor cannot be after the last column, so it gets a new row.
        if isFull, buffer.cursor == end, !isFinal { finish(at: end) }
        return rows
    }

    private func width(of glyph: Glyph, at column: Int) -> Int {
        let width = glyph.width(at: column)
        return switch glyph.kind {
        // A tab never wraps: it ends at the edge of the screen, as on a terminal.
        case .tab: min(width, columns - column)
        // The displayed form of a byte, such as `<ff>`, may be wider than a very narrow terminal.
        case .byte: min(width, columns)
        default: width
        }
    }

    private mutating func row(of offset: Int, inLine line: Int) -> Int {
        let rows = rows(ofLine: line)
        let firstText = prompt(ofLine: line).rows.count - 1
        return rows.indices.last { $0 >= firstText && rows[$0].range.lowerBound <= offset } ?? firstText
    }

    private mutating func cells(at position: Position) -> [Cell] {
        let row = rows(ofLine: position.line)[position.row]
        var cells: [Cell] = []
        if let promptRow = row.promptRow { cells = prompt(ofLine: position.line).rows[promptRow] }
        var column = cells.columns
        var walker = GlyphWalker(buffer, range: row.range)
        while let glyph = walker.next() {
            let style = glyph.offset < styles.count ? styles[glyph.offset] : .plain
            Cell.append(glyph, of: buffer, at: column, limit: columns - column, style: style, to: &cells)
            column += width(of: glyph, at: column)
        }
        return cells
    }

    private mutating func column(of offset: Int, at position: Position) -> Int {
        let row = rows(ofLine: position.line)[position.row]
        var column = row.promptRow.map { prompt(ofLine: position.line).rows[$0].columns } ?? 0
        var walker = GlyphWalker(buffer, range: row.range.lowerBound..<offset)
        while let glyph = walker.next() { column += width(of: glyph, at: column) }
        return column
    }
}
