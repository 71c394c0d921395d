/// The candidates shown below the entry, page by page.
struct Listing {
    let candidates: [String]
    /// The range of the text that a candidate replaces.
    let range: Range<Int>
    /// The user's own text in that range, stored before the first candidate replaces it. It returns after the last
    /// candidate.
    var typed: [Unicode.Scalar] = []
    /// The candidate that is inserted in the text.
    private(set) var chosen: Int?
    /// The first candidate on the page.
    var first = 0
    /// The number of candidates in the last drawing.
    var shown = 0

    init(candidates: [String], range: Range<Int> = 0..<0) {
        self.candidates = candidates
        self.range = range
    }

    /// Selects the next candidate in a direction. After the last candidate comes the state without a selection, and
    /// then the first candidate.
    mutating func choose(_ direction: Int) {
        let count = candidates.count + 1
        let next = ((chosen.map { $0 + 1 } ?? 0) + direction + count) % count
        chosen = next == 0 ? nil : next - 1
        // Shows the page of the selected candidate.
        guard let chosen, shown > 0 else { return first = 0 }
        if chosen < first || chosen >= first + shown { first = chosen - chosen % shown }
    }

    /// Returns the rows of the current page, and the number of candidates on it. Fills column by column, as `ls` does.
    func page(columns: Int, rows room: Int) -> (rows: [[Cell]], count: Int) {
        let pending = candidates[first...].enumerated().map { index, text in
            let style = LineEditor.Style(attributes: first + index == chosen ? .reversed : [])
            return Self.truncated(Cell.cells(text, style: style), columns: columns - 1)
        }
        // Measure only the candidates that may fit on this page. Otherwise the longest name of a long list would
        // determine the width of all pages.
        let candidates = Array(pending.prefix(max(room, 1) * columns))
        let width = (candidates.map(\.columns).max() ?? 0) + 2
        let perRow = max((columns + 1) / width, 1)
        let fits = pending.count <= room * perRow
        let count = fits ? pending.count : min(max(room - 1, 0) * perRow, pending.count)
        let height = (count + perRow - 1) / perRow
        var rows: [[Cell]] = []
        for row in 0..<height {
            var cells: [Cell] = []
            for index in stride(from: row, to: count, by: height) {
                let gap = max((index / height) * width - cells.columns, 0)
                cells += repeatElement(Cell(text: " ", width: 1, style: .plain), count: gap)
                cells += candidates[index]
            }
            rows.append(cells)
        }
        if !fits, room > 0 {
            let more = Cell.cells("… and \(pending.count - count) more", style: .init(attributes: .dim))
            rows.append(Self.truncated(more, columns: columns))
        }
        return (rows, count)
    }

    private static func truncated(_ cells: [Cell], columns: Int) -> [Cell] {
        guard cells.columns > columns else { return cells }
        var result: [Cell] = []
        var width = 0
        for cell in cells {
            if width + cell.width > columns - 1 { break }
            result.append(cell)
            width += cell.width
        }
        return result + [Cell(text: "…", width: 1, style: .plain)]
    }
}
