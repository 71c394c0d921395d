internal import CStreams

/// An address to listen at or connect to: a port of a host, or a Unix socket.
public enum Place: Equatable, Sendable {
    /// "": this machine only, both families; "*": all its interfaces.
    case host(String, port: Int)
    case path([UInt8])
    case abstract([UInt8])
    /// An inherited socket: the number of its descriptor.
    case inherited(Int32)

    /// A mistake in a text or table that should name a place.
    public struct Mistake: Error { public let text: String }

    /// Parses "8080", "host:80", "[::1]:80", "*:80", "unix:/path" and "unix:@name".
    public init(parsing text: String, bytes: [UInt8]) throws(Mistake) {
        if bytes.starts(with: "unix:".utf8) {
            let name = Array(bytes.dropFirst(5))
            self = name.first == UInt8(ascii: "@") ? .abstract(Array(name.dropFirst())) : .path(name)
            try check()
            return
        }
        if text.hasPrefix(Self.inheritedPrefix), let number = Int32(text.dropFirst(Self.inheritedPrefix.count)),
            number >= 0
        {
            self = .inherited(number)
            return
        }
        let noPort = Mistake(
            text: "\"\(text)\" names no port: it is \"host:port\", \"[address]:port\", \"*:port\" or \"unix:/path\"")
        guard let colon = text.lastIndex(of: ":") else {
            guard let port = Self.port(text) else { throw noPort }
            self = .host("", port: port)
            return
        }
        var host = String(text[..<colon])
        guard let port = Self.port(String(text[text.index(after: colon)...])) else {
            throw Mistake(text: "\"\(text)\" has no port from 0 to 65535 after the last colon")
        }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            guard Self.host(host, port: port).isNumeric else { throw noPort }
            throw Mistake(text: "\"\(text)\": an IPv6 address with a port is written \"[\(host)]:\(port)\"")
        }
        self = .host(host, port: port)
    }

    /// No host can have this name, because of the blank.
    static let inheritedPrefix = "descriptor "

    private static func port(_ text: String) -> Int? {
        guard !text.isEmpty, text.utf8.count <= 5, text.utf8.allSatisfy({ (48...57).contains($0) }),
            let port = Int(text),
            port <= 65535
        else { return nil }
        return port
    }

    /// Throws if this cannot be the name of a place. A path that is too long passes: see `refusal`.
    public func check() throws(Mistake) {
        switch self {
        case .host(let host, _):
            if host.utf8.contains(0) { throw Mistake(text: "a host name must not contain a zero byte") }
        case .path(let name), .abstract(let name):
            if name.isEmpty { throw Mistake(text: "the name of a Unix socket must not be empty") }
            if case .path = self, name.contains(0) { throw Mistake(text: "a path must not contain a zero byte") }
        case .inherited: break
        }
    }

    /// The error that the kernel would return for a path that is too long for a Unix socket.
    var refusal: StreamFailure? {
        switch self {
        case .path(let name), .abstract(let name):
            guard name.count > 107 else { return nil }
            return StreamFailure(
                "ENAMETOOLONG",
                "file name too long: the path of a socket has at most 107 bytes, this one \(name.count) (\(text))")
        case .host, .inherited: return nil
        }
    }

    /// "127.0.0.1:80", for messages.
    public var text: String {
        switch self {
        case .host(let host, let port):
            let name = host.isEmpty ? "localhost" : host
            return name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
        case .path(let name): return "unix:" + String(decoding: name, as: UTF8.self)
        case .abstract(let name): return "unix:@" + String(decoding: name, as: UTF8.self)
        case .inherited(let number): return Self.inheritedPrefix + "\(number)"
        }
    }

    /// The addresses are known without a name lookup.
    public var isNumeric: Bool { addresses?.isEmpty == false }

    /// The addresses; nil if a lookup is needed.
    var addresses: [net_address]? {
        var address = net_address()
        switch self {
        case .path(let name): return net_local(name, name.count, 0, &address) != 0 ? [address] : []
        case .abstract(let name): return net_local(name, name.count, 1, &address) != 0 ? [address] : []
        case .inherited: return []
        case .host(let host, let port):
            // localhost is the loopback interface for every resolver (RFC 6761).
            let isLocal = host.isEmpty || host == "localhost" || host.hasSuffix(".localhost")
            let texts = isLocal ? ["127.0.0.1", "::1"] : host == "*" ? ["::", "0.0.0.0"] : [host]
            let found = texts.compactMap { text in
                net_parse(text, UInt16(truncatingIfNeeded: port), &address) != 0 ? address : nil
            }
            return found.isEmpty ? nil : found
        }
    }
}
