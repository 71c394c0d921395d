import LineEditor

/// The contents of a terminal like xterm: a grid of cells, a cursor that waits after the last column, and the rows that
/// have scrolled off the top. Only sequences that the editor may use are known; any other is a problem.
package struct Screen {
    package struct Place: Equatable {
        /// A cluster; empty for the right half of a wide one.
        package var text = " "
        package var style = ""

        package init(text: String = " ", style: String = "") {
            self.text = text
            self.style = style
        }
    }

    package struct Row: Equatable {
        package var places: [Place]
        /// Whether the next row continues this one, because text ran over the edge.
        package var wraps = false

        package var text: String {
            var text = ""
            // Most rows are mostly blank, and the random test reads millions of them.
            guard let last = places.lastIndex(where: { $0.text != " " }) else { return text }
            for place in places[...last] { text += place.text }
            return text.unicodeScalars.last == " " ? text.withoutBlanksAtEnd : text
        }
    }

    package private(set) var columns: Int
    package private(set) var rows: [Row]
    package private(set) var scrolledOff: [Row] = []
    package var row = 0
    package var column = 0
    package var isWrapPending = false
    package var style = ""
    package var problems: [String] = []

    /// Whether joined emoji and flags are drawn scalar by scalar, as on terminals without support for clusters.
    package var isNaive = false

    // The place of the last character; nil if something else has happened since.
    private var last: (row: Int, column: Int)?
    private var utf8 = UTF8Decoder()
    private var sequence: [UInt8]?

    package init(columns: Int, rows: Int) {
        self.columns = columns
        self.rows = Array(repeating: Self.blank(columns), count: rows)
    }

    private static func blank(_ columns: Int) -> Row { Row(places: Array(repeating: Place(), count: columns)) }

    /// All rows as text, without blanks at their ends and without blank rows at the bottom.
    package var lines: [String] {
        var lines = rows.map(\.text)
        while lines.last == "" { lines.removeLast() }
        return lines
    }

    /// All text so far, with rows joined where text was wrapped.
    package var transcript: [String] {
        var result: [String] = []
        var isContinued = false
        for row in scrolledOff + rows {
            if isContinued { result[result.count - 1] += row.text } else { result.append(row.text) }
            isContinued = row.wraps
        }
        while result.last == "" { result.removeLast() }
        return result
    }

    package mutating func write(_ bytes: [UInt8]) {
        for byte in bytes {
            if sequence != nil {
                inSequence(byte)
            } else if (0x20..<0x7F).contains(byte), !utf8.isInside {
                print(Unicode.Scalar(byte))
            } else {
                let (first, second) = utf8.push(byte)
                for scalar in [first, second] { if let scalar { receive(scalar) } }
            }
        }
    }

    private mutating func receive(_ scalar: Unicode.Scalar) {
        if scalar.value >= 0x20, scalar.value != 0x7F { return print(scalar) }
        last = nil
        switch scalar {
        case "\r": (column, isWrapPending) = (0, false)
        case "\n":
            isWrapPending = false
            lineFeed()
        case "\u{08}":
            if isWrapPending { isWrapPending = false }
            column = max(column - 1, 0)
        case "\t":
            column = min(column / 8 * 8 + 8, columns - 1)
            isWrapPending = false
        case "\u{1B}": sequence = []
        default: problems.append("control \(scalar.value)")
        }
    }

    private mutating func lineFeed() {
        if row + 1 < rows.count {
            row += 1
        } else {
            scrolledOff.append(rows.removeFirst())
            rows.append(Self.blank(columns))
        }
    }

    private mutating func print(_ scalar: Unicode.Scalar) {
        if joins(scalar) { return }
        var width = CharacterWidth.of(scalar)
        if width == 0 {
            problems.append("U+\(String(scalar.value, radix: 16)) has nothing to combine with")
            width = 1
        }
        if isWrapPending || column + width > columns {
            rows[row].wraps = true
            column = 0
            isWrapPending = false
            lineFeed()
        }
        put(String(scalar), width: width)
        last = (row, column)
        column += width
        if column >= columns {
            column = columns - 1
            isWrapPending = true
        }
    }

    private mutating func joins(_ scalar: Unicode.Scalar) -> Bool {
        guard let last else { return false }
        let old = rows[last.row].places[last.column].text
        // Fast path for nearly all output: a scalar below U+0300 never joins an ASCII character.
        if scalar.value < 0x300, old.utf8.count <= 1 { return false }
        let joined = old + String(scalar)
        guard joined.count == 1, !isNaive || CharacterWidth.of(scalar) == 0 else { return false }
        let oldWidth = CharacterWidth.of(old.unicodeScalars)
        let width = isNaive ? oldWidth : CharacterWidth.of(joined.unicodeScalars)
        rows[last.row].places[last.column].text = joined
        if width > oldWidth, last.column + 1 < columns {
            blankHalf(at: last.column + 1)
            rows[last.row].places[last.column + 1] = Place(text: "", style: style)
            column = min(last.column + width, columns - 1)
            isWrapPending = last.column + width >= columns
        }
        return true
    }

    private mutating func put(_ text: String, width: Int) {
        for column in column..<column + width { blankHalf(at: column) }
        rows[row].places[column] = Place(text: text, style: style)
        if width == 2 { rows[row].places[column + 1] = Place(text: "", style: style) }
    }

    // A wide character that loses one half loses the other, too.
    private mutating func blankHalf(at column: Int) {
        if rows[row].places[column].text.isEmpty, column > 0 { rows[row].places[column - 1] = Place() }
        if column + 1 < columns, rows[row].places[column + 1].text.isEmpty { rows[row].places[column + 1] = Place() }
    }
}

extension Screen {
    private mutating func inSequence(_ byte: UInt8) {
        sequence?.append(byte)
        guard let bytes = sequence else { return }
        if bytes.count == 1, byte == UInt8(ascii: "[") { return }
        guard (0x40...0x7E).contains(byte) || bytes.first != UInt8(ascii: "[") else { return }
        sequence = nil
        last = nil
        execute(String(decoding: bytes, as: UTF8.self))
    }

    private mutating func execute(_ text: String) {
        let parameters = text.dropFirst().dropLast()
        let number = Int(parameters)
        switch text.last {
        case "A":
            if row < number ?? 1 { problems.append("cursor up beyond the top") }
            row = max(row - (number ?? 1), 0)
            isWrapPending = false
        case "B":
            row = min(row + (number ?? 1), rows.count - 1)
            isWrapPending = false
        case "C":
            column = min(column + (number ?? 1), columns - 1)
            isWrapPending = false
        case "H":
            (row, column) = (0, 0)
            isWrapPending = false
        case "J" where number == 2: for row in rows.indices { rows[row] = Self.blank(columns) }
        case "J":
            eraseToEndOfRow()
            for row in rows.indices where row > self.row { rows[row] = Self.blank(columns) }
        case "K": eraseToEndOfRow()
        case "m": style = text == "[m" || text == "[0m" ? "" : String(parameters)
        case "h", "l": if parameters != "?2004" { problems.append("mode \(text)") }
        default: problems.append("sequence \(text)")
        }
    }

    private mutating func eraseToEndOfRow() {
        blankHalf(at: column)
        for column in column..<columns { rows[row].places[column] = Place() }
        rows[row].wraps = false
        isWrapPending = false
    }

    /// Changes the size as xterm does, which cuts rows, or as most others do, which wrap them again.
    package mutating func resize(columns: Int, rows count: Int, reflows: Bool) {
        last = nil
        isWrapPending = false
        if columns != self.columns {
            if reflows { reflow(columns) } else { cut(columns) }
            self.columns = columns
        }
        // Blank rows below the cursor go first, then rows at the top.
        while rows.count > count {
            if row < rows.count - 1 {
                rows.removeLast()
            } else {
                scrolledOff.append(rows.removeFirst())
                row -= 1
            }
        }
        while rows.count < count { rows.append(Self.blank(columns)) }
    }

    private mutating func cut(_ columns: Int) {
        for index in rows.indices {
            let blank = Array(repeating: Place(), count: max(columns - rows[index].places.count, 0))
            rows[index].places = Array(rows[index].places.prefix(columns)) + blank
        }
        column = min(column, columns - 1)
    }

    private mutating func reflow(_ columns: Int) {
        let height = rows.count
        var result: [Row] = []
        var cursor = (row: 0, column: 0)
        var line: [Place] = []
        var cursorInLine: Int?
        let used = max(row, rows.lastIndex { !$0.text.isEmpty } ?? 0)
        for (index, row) in rows[...used].enumerated() {
            if index == self.row { cursorInLine = line.count + column }
            line += row.places
            guard !row.wraps else { continue }
            while line.last == Place() { line.removeLast() }
            let start = result.count
            repeat {
                let part = line.prefix(columns)
                line.removeFirst(part.count)
                let blank = Array(repeating: Place(), count: columns - part.count)
                result.append(Row(places: part + blank, wraps: !line.isEmpty))
            } while !line.isEmpty
            if let offset = cursorInLine {
                cursor = (start + offset / columns, offset % columns)
                while result.count <= cursor.row { result.append(Self.blank(columns)) }
            }
            cursorInLine = nil
        }
        while result.count < height { result.append(Self.blank(columns)) }
        let excess = max(0, result.count - height)
        scrolledOff += result.prefix(excess)
        rows = Array(result.dropFirst(excess))
        (row, column) = (max(cursor.row - excess, 0), cursor.column)
    }
}
