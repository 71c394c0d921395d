/// Protocol buffers, as far as a trace needs them: numbers, texts, and nested messages.
extension [UInt8] {
    mutating func append(varint number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }

    mutating func append(_ field: UInt64, _ number: UInt64) {
        append(varint: field << 3)
        append(varint: number)
    }

    mutating func append(_ field: UInt64, fixed number: UInt64) {
        append(varint: field << 3 | 1)
        for shift in stride(from: 0, to: 64, by: 8) { append(UInt8(truncatingIfNeeded: number >> UInt64(shift))) }
    }

    mutating func append(_ field: UInt64, _ text: String) {
        append(varint: field << 3 | 2)
        append(varint: UInt64(text.utf8.count))
        append(contentsOf: text.utf8)
    }

    /// Appends the bytes that `body` appends, as a nested message.
    mutating func append(_ field: UInt64, _ body: (inout [UInt8]) -> Void) {
        append(varint: field << 3 | 2)
        let start = count
        // The length is in front of the bytes, and nearly always takes one byte.
        append(0)
        body(&self)
        let length = count - start - 1
        if length < 0x80 {
            self[start] = UInt8(length)
        } else {
            var prefix: [UInt8] = []
            prefix.append(varint: UInt64(length))
            replaceSubrange(start...start, with: prefix)
        }
    }
}
