/// A frame on the connection of a message port: a head of 24 bytes, and data. docs/message-ports.md describes each
/// byte.
struct MessageFrame {
    enum Kind: UInt8 {
        case request = 1
        case send = 2
        case reply = 3
        case done = 4
        case failure = 5
        case bye = 6
    }

    static let headSize = 24
    static let version: UInt8 = 1
    /// The largest number of bytes of data.
    static let longest = 16 << 20

    var kind: Kind
    /// The client numbers conversations from 1.
    var conversation: UInt64
    var id: Int32 = 0
    var data: [UInt8] = []

    /// The reason why bytes are not a frame.
    struct Malformed: Error, Equatable { let reason: String }

    /// Appends the frame in the format of the connection.
    func write(to bytes: inout [UInt8]) {
        precondition(data.count <= Self.longest, "a frame's length is checked before it is made")
        bytes.append(contentsOf: [0x52, 0x4C, Self.version, kind.rawValue])
        Self.append(UInt32(data.count), to: &bytes)
        Self.append(conversation, to: &bytes)
        Self.append(UInt32(bitPattern: id), to: &bytes)
        Self.append(UInt32(0), to: &bytes)
        bytes.append(contentsOf: data)
    }

    /// The flow number that joins the send and the receipt of a message in recordings: a hash of data that both sides
    /// know.
    static func flow(of sender: Int32, to port: String, conversation: UInt64) -> UInt32 {
        var hash: UInt32 = 0x811C_9DC5
        func mix(_ byte: UInt8) { hash = (hash ^ UInt32(byte)) &* 0x0100_0193 }
        withUnsafeBytes(of: sender.littleEndian) { $0.forEach(mix) }
        withUnsafeBytes(of: conversation.littleEndian) { $0.forEach(mix) }
        for byte in port.utf8 { mix(byte) }
        // The highest bit distinguishes this number from the flow numbers that recorders count up.
        return hash | 1 << 31
    }

    private static func append<Number: FixedWidthInteger>(_ number: Number, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
