/// Follows the output of programs, to know where its last line ends.
struct OutputTracker {
    /// The width of the terminal.
    var columns = 80

    /// The position in its row at which output has stopped, and the state that is needed to continue there.
    private struct Place {
        /// 0 to `columns`. The value `columns` means that the last column is used, and the next character wraps.
        var column = 0
        var hasContent = false
        var hasWrapped = false
        /// Whether a program has moved the cursor in a way that is not tracked here.
        var isUnknown = false
        /// The last cluster written, and its colours.
        var cluster = ""
        var clusterColors: [UInt8] = []
        /// The colour sequences since the last reset.
        var colors: [UInt8] = []
    }

    private enum State { case ground, escape, controlSequence, string, stringEscape }

    private var place = Place()
    // The position that the output on the screen has reached. `place` is the position after all tracked bytes, some of
    // which may not be on the screen yet.
    private var written = Place()
    private var state = State.ground
    private var utf8 = UTF8Decoder()
    private var held: [UInt8] = []
    private var followsReturn = false

    /// A sequence longer than this many bytes is no longer held back.
    static let longestHeld = 4096

    /// Whether the cursor is not at the start of an empty row.
    var isLineUnfinished: Bool { written.hasContent || written.isUnknown || written.column > 0 }

    /// The sequences that restore the colours in which the output stopped.
    var colors: [UInt8] { written.colors }

    /// Whether `resume` can find the place again.
    var canResume: Bool { !written.isUnknown }

    /// Returns whether the unfinished line keeps its position if the screen gets another width.
    func fits(columns: Int) -> Bool { !written.hasWrapped && written.column < min(columns, self.columns) }

    /// Notes that the screen now shows all tracked bytes.
    mutating func commit() { written = place }

    /// Called when the cursor is at the start of a fresh row.
    mutating func reset() {
        place = Place()
        written = place
    }

    /// Called when bytes that were not tracked were written.
    mutating func followEcho(endsLine: Bool) {
        if endsLine { control(0x0A) } else { place.isUnknown = true }
        written = place
    }

    /// Returns the bytes that were held back because they are not yet a whole character or sequence.
    mutating func takeHeld() -> [UInt8] {
        defer {
            held = []
            state = .ground
            utf8 = UTF8Decoder()
        }
        return held
    }

    /// Leaves the unfinished line for a fresh row below it.
    func suspend(into output: inout [UInt8]) {
        output.append(sequence: "\r\n")
    }

    /// Moves the cursor from the row below back to the place where the output stopped.
    func resume(into output: inout [UInt8]) {
        output.append(sequence: "\u{1B}[A")
        if written.column < columns {
            if written.column > 0 { output.append(sequence: "\u{1B}[\(written.column)C") }
        } else {
            // The row is full. Write its last character again: only that restores the state in which the next character
            // wraps.
            let start = columns - max(CharacterWidth.of(written.cluster.unicodeScalars), 1)
            if start > 0 { output.append(sequence: "\u{1B}[\(start)C") }
            output.append(contentsOf: written.clusterColors)
            output.append(contentsOf: written.cluster.utf8)
            if !written.clusterColors.isEmpty { output.append(sequence: "\u{1B}[m") }
        }
        output.append(contentsOf: written.colors)
    }

    /// Tracks output of a program, and appends the bytes for the terminal, with CR LF for LF. O(n).
    mutating func track(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
        output.reserveCapacity(output.count + bytes.count)
        for byte in bytes {
            switch state {
            case .ground: ground(byte, into: &output)
            case .escape, .controlSequence, .string, .stringEscape: sequence(byte, into: &output)
            }
        }
    }

    private mutating func ground(_ byte: UInt8, into output: inout [UInt8]) {
        if (0x20..<0x7F).contains(byte), !utf8.isInside {
            output.append(byte)
            followsReturn = false
            return printASCII(byte)
        }
        if byte == 0x1B, !utf8.isInside {
            state = .escape
            held.append(byte)
            return
        }
        let (first, second) = utf8.push(byte)
        if first != nil, second != nil || utf8.isInside || byte == 0x1B {
            // The byte does not continue the held sequence, so pass that sequence on unchanged.
            output.append(contentsOf: held)
            held = []
            print("\u{FFFD}")
            if byte == 0x1B {
                state = .escape
                held.append(byte)
                return
            }
            if let second { return finish(second, byte, into: &output) }
            held.append(byte)
        } else if let first {
            finish(first, byte, into: &output)
        } else {
            held.append(byte)
        }
    }

    private mutating func finish(_ scalar: Unicode.Scalar, _ byte: UInt8, into output: inout [UInt8]) {
        if scalar.value >= 0x20, scalar.value != 0x7F {
            output.append(contentsOf: held)
            output.append(byte)
            held = []
            followsReturn = false
            return print(scalar)
        }
        control(byte)
        // In raw mode the terminal may not add the CR itself; if it does, a second one is harmless.
        if byte == 0x0A, !followsReturn { output.append(0x0D) }
        output.append(byte)
        followsReturn = byte == 0x0D
    }
}

extension OutputTracker {
    private mutating func printASCII(_ byte: UInt8) {
        advance(1)
        place.cluster = String(Unicode.Scalar(byte))
        place.clusterColors = place.colors
    }

    private mutating func print(_ scalar: Unicode.Scalar) {
        let joined = place.cluster + String(scalar)
        // Accents and the parts of an emoji belong to the cell of the character before them.
        if !place.cluster.isEmpty, joined.count == 1, joined.unicodeScalars.count <= 32 {
            let more =
                CharacterWidth.of(joined.unicodeScalars) - CharacterWidth.of(place.cluster.unicodeScalars)
            place.column = min(place.column + max(more, 0), columns)
            place.cluster = joined
            return
        }
        let width = CharacterWidth.of(scalar)
        guard width > 0 else { return }
        advance(width)
        place.cluster = String(scalar)
        place.clusterColors = place.colors
    }

    private mutating func advance(_ width: Int) {
        if place.column + width > columns {
            place.column = 0
            place.hasWrapped = true
        }
        place.column += width
        place.hasContent = true
    }

    private mutating func control(_ byte: UInt8) {
        switch byte {
        case 0x0A:
            let colors = place.colors
            place = Place()
            place.colors = colors
        case 0x0D: place.column = 0
        case 0x08: place.column = max(min(place.column, columns - 1) - 1, 0)
        case 0x09: if place.column < columns { place.column = min(place.column / 8 * 8 + 8, columns - 1) }
        case 0x0B, 0x0C: place.isUnknown = true
        default: return
        }
        place.cluster = ""
    }

    private mutating func sequence(_ byte: UInt8, into output: inout [UInt8]) {
        held.append(byte)
        switch state {
        case .escape:
            switch byte {
            case UInt8(ascii: "["): state = .controlSequence
            case UInt8(ascii: "]"), UInt8(ascii: "P"), UInt8(ascii: "X"), UInt8(ascii: "^"), UInt8(ascii: "_"):
                state = .string
            case 0x20...0x2F: break
            default:
                place.isUnknown = true
                release(into: &output)
            }
        case .controlSequence:
            if (0x40...0x7E).contains(byte) { controlSequence(byte) }
            if (0x40...0x7E).contains(byte) || byte < 0x20 || byte >= 0x80 {
                if byte < 0x20 || byte >= 0x80 { place.isUnknown = true }
                release(into: &output)
            }
        case .string:
            if byte == 0x07 || byte == 0x18 || byte == 0x1A { release(into: &output) }
            if byte == 0x1B { state = .stringEscape }
        case .stringEscape: release(into: &output)
        case .ground: break
        }
        if held.count > Self.longestHeld {
            place.isUnknown = true
            output.append(contentsOf: held)
            held = []
        }
    }

    private mutating func release(into output: inout [UInt8]) {
        output.append(contentsOf: held)
        held = []
        state = .ground
        followsReturn = false
    }

    private mutating func controlSequence(_ final: UInt8) {
        let parameters = held.dropFirst(2).dropLast()
        let number = parameters.number(upTo: 10_000)
        switch final {
        case UInt8(ascii: "m"):
            if parameters.isEmpty || parameters.elementsEqual([0x30]) {
                place.colors = []
            } else if place.colors.count < 256 {
                place.colors.append(contentsOf: held)
            }
            return
        case UInt8(ascii: "C"): place.column = min(min(place.column, columns - 1) + max(number, 1), columns - 1)
        case UInt8(ascii: "D"): place.column = max(min(place.column, columns - 1) - max(number, 1), 0)
        case UInt8(ascii: "G"): place.column = min(max(number, 1), columns) - 1
        // Sequences that erase, set modes or ask the terminal do not move the cursor.
        case UInt8(ascii: "K"), UInt8(ascii: "J"), UInt8(ascii: "h"), UInt8(ascii: "l"), UInt8(ascii: "n"),
            UInt8(ascii: "c"), UInt8(ascii: "q"), UInt8(ascii: "t"):
            break
        default: place.isUnknown = true
        }
        place.cluster = ""
    }
}
