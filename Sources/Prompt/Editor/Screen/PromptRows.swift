/// A prompt divided into the rows that it takes. The text of the line begins after the last of them.
struct PromptRows {
    /// At least one row. The last row has room for at least one more column.
    let rows: [[Cell]]

    /// Interprets colours in a prompt (`CSI … m`) and line breaks. Drops readline's marks U+0001 and U+0002 and all
    /// other control characters. O(n).
    init(_ text: String, columns: Int) {
        var rows: [[Cell]] = [[]]
        var width = 0
        for (piece, style) in Self.pieces(text) {
            for (index, line) in piece.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                if index > 0 {
                    rows.append([])
                    width = 0
                }
                for cell in Cell.cells(String(line), style: style) {
                    if width + cell.width > columns {
                        rows.append([])
                        width = 0
                    }
                    rows[rows.count - 1].append(cell)
                    width += cell.width
                }
            }
        }
        if width >= columns { rows.append([]) }
        self.rows = rows
    }

    private static func pieces(_ text: String) -> [(String, LineEditor.Style)] {
        var pieces: [(String, LineEditor.Style)] = []
        var style = LineEditor.Style.plain
        var piece = String.UnicodeScalarView()
        let scalars = TextBuffer.normalised(text.unicodeScalars)
        var index = 0
        while index < scalars.count {
            let scalar = scalars[index]
            index += 1
            if scalar == "\u{1B}", index < scalars.count, scalars[index] == "[" {
                let start = index + 1
                index = start
                while index < scalars.count, !(0x40...0x7E).contains(scalars[index].value) { index += 1 }
                if index < scalars.count, scalars[index] == "m" {
                    pieces.append((String(piece), style))
                    piece = .init()
                    let parameters = TextBuffer.string(scalars[start..<index])
                    style.apply(parameters.split(separator: ";", omittingEmptySubsequences: false).map { Int($0) ?? 0 })
                }
                index += 1
            } else if scalar == "\n" || scalar == "\t" || scalar.properties.generalCategory != .control {
                piece.append(scalar == "\t" ? " " : scalar)
            }
        }
        pieces.append((String(piece), style))
        return pieces
    }
}
