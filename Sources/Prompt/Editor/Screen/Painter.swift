/// Draws frames on a terminal by writing only the differences, and keeps track of the cursor.
///
/// The painter needs only CR, LF, CUU, CUD, CUF, EL, ED and SGR. It never relies on automatic wrapping: it moves to
/// each row explicitly, so it does not matter whether a terminal wraps before or after the last column.
struct Painter {
    /// The frame on the terminal; nil if there is none and the cursor is at the start of a fresh row.
    private(set) var shown: Frame?

    private var row = 0
    /// The cursor's column; nil right after the last column was written, since terminals disagree about where the
    /// cursor is then.
    private var column: Int? = 0

    /// Whether styles are written.
    var usesColor = false

    /// Draws a frame over the one that is shown. At the end, the cursor is at its place in the frame.
    mutating func paint(_ frame: Frame, columns: Int, into output: inout [UInt8]) {
        let old = shown?.rows ?? []
        if shown == nil {
            // Erase everything below: a program that moved the cursor may have left text there.
            output.append(sequence: "\u{1B}[J")
            row = 0
            column = 0
        }
        var reached = max(old.count, 1)
        for (index, cells) in frame.rows.enumerated() {
            let previous = index < old.count ? old[index] : []
            if index < reached, previous == cells { continue }
            rewrite(index, previous, cells, reached: &reached, columns: columns, into: &output)
        }
        if old.count > frame.rows.count {
            move(to: frame.rows.count, 0, reached: &reached, into: &output)
            output.append(sequence: "\u{1B}[J")
        }
        move(to: frame.cursorRow, frame.cursorColumn, reached: &reached, into: &output)
        shown = frame
    }

    /// Removes the frame from the screen; the cursor goes to the beginning of the frame's first row.
    mutating func erase(into output: inout [UInt8]) {
        guard let frame = shown else { return }
        var reached = frame.rows.count
        move(to: 0, 0, reached: &reached, into: &output)
        output.append(sequence: "\u{1B}[J")
        shown = nil
    }

    /// Leaves the frame on the screen for good; the cursor goes to a fresh row below it.
    mutating func leave(into output: inout [UInt8]) {
        guard let frame = shown else { return }
        var reached = frame.rows.count
        move(to: frame.rows.count, 0, reached: &reached, into: &output)
        shown = nil
    }

    /// Forgets the frame because the terminal was cleared or rearranged; the cursor is at the start of a row.
    mutating func forget() { shown = nil }

    /// Returns the place of the frame after the terminal has changed its width: how many rows the cursor is below the
    /// first row, and how many rows there are. `reflows`: the terminal wraps rows that have become too long, instead of
    /// cutting them.
    func extent(columns: Int, reflows: Bool) -> (cursorRow: Int, rows: Int) {
        guard let frame = shown else { return (0, 0) }
        guard reflows else { return (frame.cursorRow, frame.rows.count) }
        let heights = frame.rows.map { max(1, ($0.columns + columns - 1) / columns) }
        let above = heights[..<frame.cursorRow].reduce(0, +)
        return (above + frame.cursorColumn / columns, heights.reduce(0, +))
    }
}

extension Painter {
    private mutating func rewrite(
        _ index: Int, _ old: [Cell], _ new: [Cell], reached: inout Int, columns: Int, into output: inout [UInt8]
    ) {
        // Terminals disagree about the width of some characters, so columns after such a character are uncertain. Write
        // a row with such a character from its start.
        let isPlain = old.allSatisfy(\.isPlain) && new.allSatisfy(\.isPlain)
        var common = 0
        if isPlain {
            while common < old.count, common < new.count, old[common] == new[common] { common += 1 }
        }
        move(to: index, common, reached: &reached, into: &output)
        if !isPlain, !old.isEmpty { output.append(sequence: "\u{1B}[K") }
        var style = LineEditor.Style.plain
        var width = common
        for cell in new[common...] {
            if usesColor, cell.style != style {
                style = cell.style
                output.append(sequence: style.sequence)
            }
            output.append(contentsOf: cell.text.utf8)
            width += cell.width
            if cell.isContested, width < columns {
                output.append(UInt8(ascii: "\r"))
                output.append(sequence: "\u{1B}[\(width)C")
            }
        }
        if style != .plain { output.append(sequence: LineEditor.Style.plain.sequence) }
        // Erasing after the last column would erase the last character.
        if isPlain, old.count > new.count, width < columns { output.append(sequence: "\u{1B}[K") }
        column = width < columns ? width : nil
        row = index
    }

    private mutating func move(to target: Int, _ goal: Int, reached: inout Int, into output: inout [UInt8]) {
        if target < row {
            output.append(sequence: "\u{1B}[\(row - target)A")
        } else if target > row {
            // Move to existing rows without scrolling; make further rows with line feeds.
            let existing = min(target, reached - 1)
            if existing > row { output.append(sequence: "\u{1B}[\(existing - row)B") }
            if target > existing {
                for _ in max(existing, row)..<target { output.append(sequence: "\r\n") }
                column = 0
                reached = target + 1
            }
        }
        row = target
        guard column != goal else { return }
        if column != 0 { output.append(UInt8(ascii: "\r")) }
        if goal > 0 { output.append(sequence: "\u{1B}[\(goal)C") }
        column = goal
    }
}

extension [UInt8] {
    mutating func append(sequence text: String) { append(contentsOf: text.utf8) }
}
