/// Reads JSON, one value after the other. The reader ends on any input, and reports errors with their line.
struct JSONReader {
    enum Value {
        case string(String)
        /// The digits of a number: nanoseconds have more of them than a Double can hold.
        case number(String)
        case object([(String, Value)])
        case other

        /// The text of a string or a number; otherwise empty.
        var text: String {
            switch self {
            case .string(let text), .number(let text): text
            default: ""
            }
        }

        /// The value as a count: 0 if it is negative; without its fraction.
        var count: UInt64 {
            let text = text
            if text.hasPrefix("0x") { return UInt64(text.dropFirst(2), radix: 16) ?? 0 }
            return UInt64(text) ?? Double(text).flatMap { $0 > 0 && $0 < 1.8e19 ? UInt64($0) : nil } ?? 0
        }

        /// Microseconds with a fraction as nanoseconds; nil if the value is not a number.
        var nanoseconds: UInt64? {
            let text = text
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            if parts.count == 2, let whole = UInt64(parts[0]), whole < .max / 2000, !parts[1].isEmpty,
                let fraction = UInt64((parts[1] + "000").prefix(3)), UInt64(parts[1].prefix(18)) != nil
            {
                return whole * 1000 + fraction
            }
            guard let number = Double(text), number >= 0, number < 1.8e16 else { return nil }
            return UInt64(number * 1000)
        }
    }

    private let bytes: UnsafeRawBufferPointer
    private(set) var position = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { position >= bytes.count }

    /// Returns the next byte that is not a blank.
    mutating func peek() -> UInt8? {
        while position < bytes.count, [0x20, 0x0A, 0x0D, 0x09].contains(bytes[position]) { position += 1 }
        return position < bytes.count ? bytes[position] : nil
    }

    mutating func skip() { position += 1 }

    func place(of position: Int) -> String {
        "line \(bytes[..<min(position, bytes.count)].count { $0 == UInt8(ascii: "\n") } + 1)"
    }

    func failure(_ wanted: String) -> Recording.Conversion.Failure {
        let found = isAtEnd ? "its end" : "'\(String(decoding: bytes[position..<(position + 1)], as: UTF8.self))'"
        return .malformed("\(place(of: position)): expected \(wanted), found \(found)")
    }

    mutating func value(depth: Int = 0) throws(Recording.Conversion.Failure) -> Value {
        guard depth < 64 else { throw .malformed("\(place(of: position)): more than 64 nested values") }
        switch peek() {
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "{"):
            var fields: [(String, Value)] = []
            skip()
            while let next = peek(), next != UInt8(ascii: "}") {
                if !fields.isEmpty {
                    guard next == UInt8(ascii: ",") else { throw failure("',' or '}'") }
                    skip()
                }
                guard peek() == UInt8(ascii: "\"") else { throw failure("a key") }
                let key = try string()
                guard peek() == UInt8(ascii: ":") else { throw failure("':'") }
                skip()
                fields.append((key, try value(depth: depth + 1)))
            }
            guard !isAtEnd else { throw failure("'}'") }
            skip()
            return .object(fields)
        case UInt8(ascii: "["):
            skip()
            while let next = peek(), next != UInt8(ascii: "]") {
                if next == UInt8(ascii: ",") { skip() } else { _ = try value(depth: depth + 1) }
            }
            guard !isAtEnd else { throw failure("']'") }
            skip()
            return .other
        case nil: throw failure("a value")
        default:
            let start = position
            while position < bytes.count, isWord(bytes[position]) { position += 1 }
            let word = String(decoding: bytes[start..<position], as: UTF8.self)
            if ["true", "false", "null"].contains(word) { return .other }
            guard Double(word) != nil else {
                position = start
                throw failure("a value")
            }
            return .number(word)
        }
    }

    private func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "E"),
            UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    private mutating func string() throws(Recording.Conversion.Failure) -> String {
        skip()
        var text: [UInt8] = []
        while position < bytes.count {
            let byte = bytes[position]
            skip()
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try escape(&text)
            default: text.append(byte)
            }
        }
        throw failure("the end of a string")
    }

    private mutating func escape(_ text: inout [UInt8]) throws(Recording.Conversion.Failure) {
        guard position < bytes.count else { throw failure("the end of a string") }
        let byte = bytes[position]
        skip()
        switch byte {
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "u"):
            var code = try hex()
            // A character may take two escapes.
            if 0xD800..<0xDC00 ~= code, position + 6 <= bytes.count, bytes[position] == UInt8(ascii: "\\"),
                bytes[position + 1] == UInt8(ascii: "u")
            {
                position += 2
                code = 0x10000 + (code - 0xD800) << 10 + (try hex() &- 0xDC00) & 0x3FF
            }
            text.append(contentsOf: Character(Unicode.Scalar(code) ?? "\u{FFFD}").utf8)
        default: text.append(byte)
        }
    }

    private mutating func hex() throws(Recording.Conversion.Failure) -> UInt32 {
        guard position + 4 <= bytes.count,
            let code = UInt32(String(decoding: bytes[position..<(position + 4)], as: UTF8.self), radix: 16)
        else { throw failure("four digits") }
        position += 4
        return code
    }
}
