internal import CStreams

/// An address in few bytes, since every connection has one. An IPv4 address is stored in place; for others, memory is
/// allocated.
struct SmallAddress {
    private var host: UInt32 = 0
    private var port: UInt16 = 0
    private var isV4 = false
    private var other: Box?

    private final class Box {
        var address: net_address
        init(_ address: net_address) { self.address = address }
    }

    init() {}

    init(_ address: net_address) {
        var address = address
        if net_family_of(&address) == NET_V4.rawValue {
            isV4 = true
            host = address.of.v4.sin_addr.s_addr
            port = UInt16(bigEndian: address.of.v4.sin_port)
        } else {
            other = Box(address)
        }
    }

    var isNone: Bool { !isV4 && other == nil }

    /// "127.0.0.1:80"; nil without an address.
    var text: String? {
        if isV4 {
            let bytes = UInt32(bigEndian: host)
            return "\(bytes >> 24).\(bytes >> 16 & 255).\(bytes >> 8 & 255).\(bytes & 255):\(port)"
        }
        return other.map { Self.text(&$0.address) }
    }

    static func text(_ address: UnsafePointer<net_address>, withPort: Bool = true) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 160) { buffer in
            guard let start = buffer.baseAddress else { return "" }
            let length = net_describe(address, withPort ? 1 : 0, start, 160)
            return UnsafeRawBufferPointer(start: start, count: length).withMemoryRebound(to: UInt8.self) {
                String(decoding: $0, as: UTF8.self)
            }
        }
    }
}

extension net_address {
    /// NET_V4, NET_V6 or NET_LOCAL.
    var family: Int32 { withUnsafePointer(to: self) { net_family_of($0) } }
}

extension [UInt8] {
    /// Passes the bytes as a C string.
    func withCPath<Result>(_ body: (UnsafePointer<CChar>?) -> Result) -> Result {
        (self + [0]).withUnsafeBytes { body($0.assumingMemoryBound(to: CChar.self).baseAddress) }
    }
}
