/// Turns the bytes of a terminal into keys: UTF-8, the escape sequences of xterm, rxvt, the Linux console and similar
/// terminals, and bracketed pastes.
///
/// The decoder has no clock. So an Escape waits for the next byte, however late, as in Emacs (`Esc f` is Alt-f).
package struct KeyDecoder {
    private enum State {
        case ground, escape, controlSequence, applicationKey, consoleFunctionKey, paste
    }

    private var state = State.ground
    private var utf8 = UTF8Decoder()
    private var parameters: [UInt8] = []
    private var isMeta = false
    private var pasted: [UInt8] = []

    package init() {}

    /// Set for the next scalar to be delivered as `.literal`.
    var quotesNext = false

    /// The longest paste in bytes. Without this limit, if the end of a paste got lost, all later keys would count as
    /// pasted.
    static let longestPaste = 64 << 20

    /// Whether no character or sequence is incomplete, so that plain ASCII may bypass `push`.
    var isAtRest: Bool { state == .ground && !utf8.isInside && !quotesNext }

    /// Whether the last bytes begin with an Escape and may be the start of a longer sequence.
    package var isInsideSequence: Bool { state != .ground && state != .paste }

    /// Ends an incomplete sequence. An owner with a clock calls this if no byte has followed for a moment. Returns the
    /// keys for the bytes so far.
    package mutating func flush() -> [Key] {
        guard isInsideSequence else { return [] }
        let rest = parameters.map { Key.scalar(Unicode.Scalar($0)) }
        var keys: [Key] =
            switch state {
            case .controlSequence: [.meta("[")] + rest
            case .consoleFunctionKey: [.meta("["), .scalar("[")]
            case .applicationKey: [.meta("O")]
            default: [.scalar("\u{1B}")]
            }
        if isMeta { keys.insert(.scalar("\u{1B}"), at: 0) }
        reset()
        return keys
    }

    /// Forgets incomplete characters and sequences.
    package mutating func reset() { self = KeyDecoder() }

    /// Takes one byte, and returns the keys that the byte completes: at most two. O(1) amortised.
    package mutating func push(_ byte: UInt8) -> (first: Key?, second: Key?) {
        switch state {
        case .ground:
            if quotesNext, !utf8.isInside, byte < 0x80 {
                quotesNext = false
                return (.literal(Unicode.Scalar(byte)), nil)
            }
            return decode(byte)
        case .escape: return afterEscape(byte)
        case .controlSequence: return insideControlSequence(byte)
        case .applicationKey:
            state = .ground
            guard byte >= 0x20 else { return restart(byte) }
            // The Enter key of a number pad in application mode.
            if byte == UInt8(ascii: "M"), !isMeta { return (.scalar("\r"), nil) }
            return (cursorKey(byte, applicationModifiers(byte)), nil)
        case .consoleFunctionKey:
            state = .ground
            guard byte >= 0x20 else { return restart(byte) }
            // CSI [ A to CSI [ E: F1 to F5 of the Linux console.
            guard (0x41...0x45).contains(byte) else { return (.unknown, nil) }
            defer { isMeta = false }
            return (.function(Int(byte) - 0x40, isMeta ? .alt : []), nil)
        case .paste:
            pasted.append(byte)
            return (endOfPaste(), nil)
        }
    }

    private mutating func decode(_ byte: UInt8) -> (first: Key?, second: Key?) {
        let (first, second) = utf8.push(byte)
        return (first.flatMap { key($0) }, second.flatMap { key($0) })
    }

    private mutating func key(_ scalar: Unicode.Scalar) -> Key? {
        if quotesNext {
            quotesNext = false
            return .literal(scalar)
        }
        if isMeta {
            isMeta = false
            return .meta(scalar)
        }
        guard scalar == "\u{1B}" else { return .scalar(scalar) }
        state = .escape
        return nil
    }

    private mutating func restart(_ byte: UInt8) -> (first: Key?, second: Key?) {
        // A control character inside a sequence means that the sequence was cut short. Handle the control character as
        // a key.
        state = .ground
        isMeta = false
        return decode(byte)
    }

    private mutating func afterEscape(_ byte: UInt8) -> (first: Key?, second: Key?) {
        state = .ground
        switch byte {
        case 0x1B:
            state = .escape
            isMeta = true
            return (nil, nil)
        case UInt8(ascii: "["):
            state = .controlSequence
            parameters.removeAll(keepingCapacity: true)
            return (nil, nil)
        case UInt8(ascii: "O"):
            state = .applicationKey
            return (nil, nil)
        default:
            isMeta = true
            return decode(byte)
        }
    }

    private mutating func insideControlSequence(_ byte: UInt8) -> (first: Key?, second: Key?) {
        switch byte {
        case UInt8(ascii: "[") where parameters.isEmpty:
            state = .consoleFunctionKey
            return (nil, nil)
        // "$" ends a sequence in rxvt. In the standard, "$" is an intermediate byte.
        case 0x20...0x23, 0x25...0x3F:
            if parameters.count < 64 { parameters.append(byte) }
            return (nil, nil)
        case 0x24, 0x40...0x7E:
            state = .ground
            return (controlKey(byte), nil)
        default: return restart(byte)
        }
    }

    private mutating func endOfPaste() -> Key? {
        let terminator: StaticString = "\u{1B}[201~"
        let length = terminator.utf8CodeUnitCount
        guard pasted.last == UInt8(ascii: "~") || pasted.count >= Self.longestPaste else { return nil }
        let isEnd = terminator.withUTF8Buffer { pasted.suffix(length).elementsEqual($0) }
        if isEnd { pasted.removeLast(length) }
        guard isEnd || pasted.count >= Self.longestPaste else { return nil }
        state = .ground
        defer { pasted = [] }
        return .paste(pasted)
    }
}

extension KeyDecoder {
    /// The numbers between `CSI` and its final byte; a missing one counts as 0.
    private func numbers() -> [Int] {
        parameters.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map { part in
            part.prefix { $0 != UInt8(ascii: ":") }.number(upTo: 0x11_0000)
        }
    }

    private mutating func controlKey(_ final: UInt8) -> Key {
        let numbers = numbers()
        var modifiers = numbers.count > 1 ? Self.modifiers(numbers[1]) : []
        if isMeta { modifiers.insert(.alt) }
        isMeta = false
        if parameters.first == UInt8(ascii: "<"), final == UInt8(ascii: "M") || final == UInt8(ascii: "m") {
            return mouse(final)
        }
        // A sequence with a private prefix is an answer of the terminal, not a key.
        if let first = parameters.first, (0x3C...0x3F).contains(first) { return .unknown }
        switch final {
        case UInt8(ascii: "~"):
            if numbers.first == 200 {
                state = .paste
                pasted = []
                return .unknown
            }
            if numbers.count == 3, numbers[0] == 27 { return Self.character(numbers[2], modifiers) }
            return numberedKey(numbers.first ?? 0, modifiers)
        case UInt8(ascii: "^"): return numberedKey(numbers.first ?? 0, modifiers.union(.control))
        case UInt8(ascii: "$"): return numberedKey(numbers.first ?? 0, modifiers.union(.shift))
        case UInt8(ascii: "@"): return numberedKey(numbers.first ?? 0, modifiers.union([.shift, .control]))
        case UInt8(ascii: "u"): return Self.character(numbers.first ?? 0, modifiers)
        case UInt8(ascii: "Z"): return .named(.backTab, modifiers)
        // rxvt sends small letters for Shift with an arrow.
        case UInt8(ascii: "a")...UInt8(ascii: "d"): return cursorKey(final, modifiers.union(.shift))
        default:
            // Some terminals leave the leading "1;" out: CSI 5 C is Control-Right.
            if numbers.count == 1, numbers[0] > 1 { modifiers.formUnion(Self.modifiers(numbers[0])) }
            return cursorKey(final, modifiers)
        }
    }

    private func applicationModifiers(_ final: UInt8) -> Key.Modifiers {
        // rxvt sends ESC O a ... ESC O d for Control with an arrow.
        (UInt8(ascii: "a")...UInt8(ascii: "d")).contains(final) ? .control : []
    }

    private mutating func cursorKey(_ final: UInt8, _ modifiers: Key.Modifiers) -> Key {
        let modifiers = isMeta ? modifiers.union(.alt) : modifiers
        isMeta = false
        switch final {
        case UInt8(ascii: "A"), UInt8(ascii: "a"): return .named(.up, modifiers)
        case UInt8(ascii: "B"), UInt8(ascii: "b"): return .named(.down, modifiers)
        case UInt8(ascii: "C"), UInt8(ascii: "c"): return .named(.right, modifiers)
        case UInt8(ascii: "D"), UInt8(ascii: "d"): return .named(.left, modifiers)
        case UInt8(ascii: "H"): return .named(.home, modifiers)
        case UInt8(ascii: "F"): return .named(.end, modifiers)
        case UInt8(ascii: "P")...UInt8(ascii: "S"): return .function(Int(final) - 0x4F, modifiers)
        default: return .unknown
        }
    }

    private func numberedKey(_ number: Int, _ modifiers: Key.Modifiers) -> Key {
        switch number {
        case 1, 7: .named(.home, modifiers)
        case 2: .named(.insert, modifiers)
        case 3: .named(.delete, modifiers)
        case 4, 8: .named(.end, modifiers)
        case 5: .named(.pageUp, modifiers)
        case 6: .named(.pageDown, modifiers)
        case 11...15: .function(number - 10, modifiers)
        case 17...21: .function(number - 11, modifiers)
        case 23...26: .function(number - 12, modifiers)
        case 28, 29: .function(number - 13, modifiers)
        case 31...34: .function(number - 14, modifiers)
        default: .unknown
        }
    }

    /// CSI < buttons ; column ; row, and M for a press or m for a release.
    private func mouse(_ final: UInt8) -> Key {
        let numbers = parameters.dropFirst().split(separator: UInt8(ascii: ";")).map { $0.number(upTo: 100_000) }
        guard numbers.count == 3 else { return .unknown }
        let code = numbers[0]
        var modifiers: Key.Modifiers = []
        if code & 4 != 0 { modifiers.insert(.shift) }
        if code & 8 != 0 { modifiers.insert(.alt) }
        if code & 16 != 0 { modifiers.insert(.control) }
        let button = code & 3 == 3 ? 0 : code & 3 + 1
        let action: Key.Mouse.Action
        switch (code & 64 != 0, code & 32 != 0) {
        case (true, _): action = code & 3 == 0 ? .wheelUp : .wheelDown
        case (_, true): action = button == 0 ? .move : .drag
        default: action = final == UInt8(ascii: "m") ? .release : .press
        }
        return .mouse(
            Key.Mouse(
                action: action, button: code & 64 != 0 ? 0 : button, column: numbers[1], row: numbers[2],
                modifiers: modifiers))
    }

    private static func modifiers(_ parameter: Int) -> Key.Modifiers {
        (2...16).contains(parameter) ? Key.Modifiers(rawValue: UInt8(parameter - 1) & 7) : []
    }

    /// A key that is reported by its code point. Terminals do so on request, so that programs can distinguish Control-I
    /// from Tab.
    private static func character(_ code: Int, _ modifiers: Key.Modifiers) -> Key {
        guard var scalar = Unicode.Scalar(UInt32(clamping: code)) else { return .unknown }
        if scalar == "\r", !modifiers.isEmpty { return .meta("\r") }
        if modifiers.contains(.control), (0x40...0x7F).contains(scalar.value) {
            scalar = Unicode.Scalar(UInt8(scalar.value & 0x1F))
        }
        return modifiers.contains(.alt) ? .meta(scalar) : .scalar(scalar)
    }
}

extension Sequence<UInt8> {
    /// Returns the number that the digits make. Once the number has reached `most`, further digits do not count.
    func number(upTo most: Int) -> Int {
        reduce(0) { (0x30...0x39).contains($1) && $0 < most ? $0 * 10 + Int($1 - 0x30) : $0 }
    }
}
