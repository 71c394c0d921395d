internal import CStreams
internal import Glibc
internal import Linux

/// Settings of TLS that connections share: own certificate, whom to believe, protocols. Expensive to make: use it for many.
///
/// OpenSSL 3 is loaded with the first. Thread-safe.
public final class TLSContext: @unchecked Sendable {
    // Sendable: OpenSSL's contexts are, once they are made.
    let context: OpaquePointer
    public let isServer: Bool

    public struct Settings: Hashable, Sendable {
        public var isServer = false
        /// Whether the other side's certificate is checked. A server asks for one only with this.
        public var verifies = true
        /// Whom to believe: a file, a directory of hashed files, or certificates as text (PEM); nil: whom the system believes,
        /// or SSL_CERT_FILE and SSL_CERT_DIR.
        public var authorities: String?
        /// Own: files or text (PEM); without a key, it is in the certificate's file.
        public var certificate: String?
        public var key: String?
        /// For ALPN, those one likes best first.
        public var protocols: [String] = []
        public var needsTLS13 = false
        /// A server's: the handshake stops when the client has named a server: see `Stream.continueTLS`.
        public var asksForName = false
        public init() {}
    }

    /// - Throws: what is wrong with a certificate or key, or ENOENT; "TLS_MISSING" when OpenSSL is not installed; EMFILE, ENFILE or
    ///   ENOMEM when it cannot be loaded for now.
    public init(_ settings: Settings) throws(StreamFailure) {
        isServer = settings.isServer
        var code = [CChar](repeating: 0, count: 32)
        var text = [CChar](repeating: 0, count: 512)
        let error = net_tls_load(&text, text.count)
        guard error == 0 else {
            throw StreamFailure(error == ENOPKG ? "TLS_MISSING" : SystemError.name(of: error), Self.string(text))
        }
        let protocols = settings.protocols.flatMap { [UInt8(truncatingIfNeeded: $0.utf8.count)] + Array($0.utf8) }
        func with<Result>(_ text: String?, _ body: (UnsafePointer<CChar>?) -> Result) -> Result {
            if let text { text.withCString(body) } else { body(nil) }
        }
        let made = with(settings.authorities) { ca in
            with(settings.certificate) { certificate in
                with(settings.key) { key in
                    protocols.withUnsafeBufferPointer { protocols in
                        var wanted = net_tls_settings()
                        wanted.is_server = settings.isServer ? 1 : 0
                        wanted.verifies = settings.verifies ? 1 : 0
                        wanted.ca = ca
                        wanted.certificate = certificate
                        wanted.key = key
                        wanted.protocols = protocols.baseAddress
                        wanted.protocols_length = protocols.count
                        wanted.min_minor = settings.needsTLS13 ? 3 : 2
                        wanted.asks_for_name = settings.asksForName ? 1 : 0
                        return net_tls_context_make(&wanted, &code, &text)
                    }
                }
            }
        }
        guard let made else { throw StreamFailure(Self.string(code), Self.string(text)) }
        context = made
    }

    deinit { net_tls_context_free(context) }

    private static func string(_ text: [CChar]) -> String {
        String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
