/// Turns bytes that arrive in arbitrary portions into scalars.
///
/// Each maximal part of an ill-formed sequence becomes one U+FFFD, so all input is accepted.
package struct UTF8Decoder {
    private var value: UInt32 = 0
    private var missing = 0
    private var allowed: ClosedRange<UInt8> = 0x80...0xBF

    package init() {}

    /// Whether a sequence has begun that needs more bytes.
    package var isInside: Bool { missing > 0 }

    /// The result of one byte: nothing, one scalar, or a replacement for an incomplete sequence and a scalar.
    package typealias Output = (first: Unicode.Scalar?, second: Unicode.Scalar?)

    /// Takes one byte. O(1).
    package mutating func push(_ byte: UInt8) -> Output {
        guard missing > 0 else { return (start(byte), nil) }
        guard allowed.contains(byte) else {
            // The byte belongs to the next sequence: it may be an Escape or a Control-C, which must not be lost.
            missing = 0
            return ("\u{FFFD}", start(byte))
        }
        allowed = 0x80...0xBF
        value = value << 6 | UInt32(byte & 0x3F)
        missing -= 1
        return (missing == 0 ? Unicode.Scalar(value) ?? "\u{FFFD}" : nil, nil)
    }

    private mutating func start(_ byte: UInt8) -> Unicode.Scalar? {
        allowed = 0x80...0xBF
        switch byte {
        case 0x00...0x7F: return Unicode.Scalar(byte)
        case 0xC2...0xDF: expect(1, byte & 0x1F)
        case 0xE0...0xEF:
            expect(2, byte & 0x0F)
            if byte == 0xE0 { allowed = 0xA0...0xBF }
            if byte == 0xED { allowed = 0x80...0x9F }
        case 0xF0...0xF4:
            expect(3, byte & 0x07)
            if byte == 0xF0 { allowed = 0x90...0xBF }
            if byte == 0xF4 { allowed = 0x80...0x8F }
        default: return "\u{FFFD}"
        }
        return nil
    }

    private mutating func expect(_ count: Int, _ bits: UInt8) {
        missing = count
        value = UInt32(bits)
    }
}
