internal import CStreams

/// A descriptor that this process has inherited from the one that started it.
public struct InheritedSocket {
    public enum Kind: String, Sendable { case listener, stream, datagram, other }

    public let descriptor: Int32
    public let kind: Kind
    /// The local address: "127.0.0.1:80", "unix:/run/door".
    public let address: String?

    /// Returns nil if the descriptor does not exist. Programs that this process starts no longer inherit it.
    public init?(descriptor: Int32) {
        let found = net_inherit(descriptor)
        guard found >= 0 else { return nil }
        self.descriptor = descriptor
        switch UInt32(found) {
        case NET_LISTENER.rawValue: kind = .listener
        case NET_STREAM.rawValue: kind = .stream
        case NET_DATAGRAM.rawValue: kind = .datagram
        default: kind = .other
        }
        var own = net_address()
        address = kind != .other && net_local_address(descriptor, &own) == 0 ? SmallAddress.text(&own) : nil
    }
}
