/// The candidates shown below the entry, page by page.
struct Listing {
    let candidates: [String]
    /// The first candidate on the page.
    var first = 0
    /// How many candidates the last drawing had room for.
    var shown = 0

    init(candidates: [String]) { self.candidates = candidates }

    /// Turns to the next page, and from the last one to the first.
    mutating func turn() {
        first += shown
        if first >= candidates.count { first = 0 }
    }

    /// The rows of the current page and how many candidates are on it. Column by column, as `ls` does it.
    func page(columns: Int, rows room: Int) -> (rows: [[Cell]], count: Int) {
        let pending = candidates[first...].map { Self.truncated(Cell.cells($0), columns: columns - 1) }
        // Measuring all of a long list for one page would make it as wide as its longest name.
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
