/// The fields of one protocol buffer message, in order. The reader ends on any input, and stays within the bytes.
struct ProtobufReader {
    enum Value {
        /// A number of any width.
        case number(UInt64)
        /// A text, bytes or a message.
        case bytes(UnsafeRawBufferPointer)
    }

    private let bytes: UnsafeRawBufferPointer
    private(set) var position = 0
    /// Whether the message ended within a field, as the last message of a killed program may.
    private(set) var isCut = false

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Returns the number and value of the next field; nil at the end.
    mutating func next() -> (UInt64, Value)? {
        guard position < bytes.count else { return nil }
        guard let tag = varint() else { return cut() }
        switch tag & 7 {
        case 0:
            guard let number = varint() else { return cut() }
            return (tag >> 3, .number(number))
        case 1: return fixed(8).map { (tag >> 3, .number($0)) } ?? cut()
        case 5: return fixed(4).map { (tag >> 3, .number($0)) } ?? cut()
        case 2:
            guard let length = varint(), length <= UInt64(bytes.count - position) else { return cut() }
            let value = UnsafeRawBufferPointer(rebasing: bytes[position..<(position + Int(length))])
            position += Int(length)
            return (tag >> 3, .bytes(value))
        default: return cut()
        }
    }

    private mutating func cut() -> (UInt64, Value)? {
        isCut = true
        position = bytes.count
        return nil
    }

    private mutating func varint() -> UInt64? {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while position < bytes.count, shift < 70 {
            let byte = bytes[position]
            position += 1
            if shift < 64 { number |= UInt64(byte & 0x7F) << shift }
            if byte < 0x80 { return number }
            shift += 7
        }
        return nil
    }

    private mutating func fixed(_ count: Int) -> UInt64? {
        guard bytes.count - position >= count else { return nil }
        var number: UInt64 = 0
        for index in 0..<count { number |= UInt64(bytes[position + index]) << UInt64(index * 8) }
        position += count
        return number
    }
}

extension ProtobufReader.Value {
    /// 0 if the value is not a number.
    var number: UInt64 { if case .number(let number) = self { number } else { 0 } }

    /// Empty if the value is not a text.
    var text: String { if case .bytes(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { "" } }

    /// The fields of a message; empty if the value is not a message.
    var fields: ProtobufReader {
        if case .bytes(let bytes) = self { ProtobufReader(bytes) } else { ProtobufReader(.init(start: nil, count: 0)) }
    }
}
