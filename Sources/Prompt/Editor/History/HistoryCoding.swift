/// Encodes an entry as one line of text.
///
/// A line holds one entry in UTF-8. `\n` stands for a line break, `\\` for a backslash, `\xHH` for any other control
/// character; a backslash before anything else stands for itself. So most entries look the same in the file as when
/// they were typed. Every line can be decoded, even if it was written by hand or cut short.
enum HistoryCoding {
    /// Returns the line for an entry, including its `\n`. O(n).
    static func encode(_ entry: String) -> [UInt8] {
        var line: [UInt8] = []
        line.reserveCapacity(entry.utf8.count + 1)
        for byte in entry.utf8 {
            switch byte {
            case 0x0A: line += [0x5C, UInt8(ascii: "n")]
            case 0x5C: line += [0x5C, 0x5C]
            case 0x00..<0x20, 0x7F: line += [0x5C, UInt8(ascii: "x"), digit(byte >> 4), digit(byte & 15)]
            default: line.append(byte)
            }
        }
        line.append(0x0A)
        return line
    }

    /// Returns the entry for a line, which is given without its `\n`. Invalid UTF-8 becomes U+FFFD. O(n).
    static func decode(_ line: some Collection<UInt8>) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(line.count)
        var rest = line[...]
        while let byte = rest.popFirst() {
            guard byte == 0x5C, let next = rest.first else {
                bytes.append(byte)
                continue
            }
            switch next {
            case UInt8(ascii: "n"):
                bytes.append(0x0A)
                rest.removeFirst()
            case 0x5C:
                bytes.append(0x5C)
                rest.removeFirst()
            case UInt8(ascii: "x"):
                let digits = rest.dropFirst().prefix(2).compactMap { value($0) }
                if digits.count == 2 {
                    bytes.append(digits[0] << 4 | digits[1])
                    rest.removeFirst(3)
                } else {
                    bytes.append(byte)
                }
            default: bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x61...0x66: digit - 0x57
        case 0x41...0x46: digit - 0x37
        default: nil
        }
    }
}
