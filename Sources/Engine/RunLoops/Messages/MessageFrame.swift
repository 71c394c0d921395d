/// What goes over a message port's connection: a head of 24 bytes, and data. docs/message-ports.md has it byte by byte.
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
    /// Bytes of data at most.
    static let longest = 16 << 20

    var kind: Kind
    /// Numbered by the client, from 1 on.
    var conversation: UInt64
    var id: Int32 = 0
    var data: [UInt8] = []

    /// Why bytes are no frame.
    struct Malformed: Error, Equatable { let reason: String }

    /// Appends the frame as it travels.
    func write(to bytes: inout [UInt8]) {
        precondition(data.count <= Self.longest, "a frame's length is checked before it is made")
        bytes.append(contentsOf: [0x52, 0x4C, Self.version, kind.rawValue])
        Self.append(UInt32(data.count), to: &bytes)
        Self.append(conversation, to: &bytes)
        Self.append(UInt32(bitPattern: id), to: &bytes)
        Self.append(UInt32(0), to: &bytes)
        bytes.append(contentsOf: data)
    }

    /// The number by which recordings join sending and receiving: what both sides know, made one.
    static func flow(of sender: Int32, to port: String, conversation: UInt64) -> UInt32 {
        var hash: UInt32 = 0x811C_9DC5
        func mix(_ byte: UInt8) { hash = (hash ^ UInt32(byte)) &* 0x0100_0193 }
        withUnsafeBytes(of: sender.littleEndian) { $0.forEach(mix) }
        withUnsafeBytes(of: conversation.littleEndian) { $0.forEach(mix) }
        for byte in port.utf8 { mix(byte) }
        // Not one of those that a loop counts.
        return hash | 1 << 31
    }

    private static func append<Number: FixedWidthInteger>(_ number: Number, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
