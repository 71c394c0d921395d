internal import CStreams
internal import Glibc
internal import Linux

/// TLS settings that connections share: certificate, authorities, protocols. Making a context is expensive: use it for
/// many connections.
///
/// The first context loads OpenSSL 3. Thread-safe.
public final class TLSContext: @unchecked Sendable {
    // Sendable: OpenSSL's contexts are thread-safe once they are made.
    let context: OpaquePointer
    public let isServer: Bool

    public struct Settings: Hashable, Sendable {
        public var isServer = false
        /// Check the peer's certificate. A server asks for a certificate only if this is true.
        public var verifies = true
        /// Trusted authorities: a file, a directory of hashed files, or certificates as text (PEM); nil: those of the
        /// system, or SSL_CERT_FILE and SSL_CERT_DIR.
        public var authorities: String?
        /// The certificate and its key, each as a file or as text (PEM). If `key` is nil, the file of the certificate
        /// must contain the key, too.
        public var certificate: String?
        public var key: String?
        /// Protocols for ALPN, in order of preference.
        public var protocols: [String] = []
        public var needsTLS13 = false
        /// A server's handshake stops when the client has named a server: see `Stream.continueTLS`.
        public var asksForName = false
        public init() {}
    }

    /// - Throws: the mistake in a certificate or key, or ENOENT; "TLS_MISSING" if OpenSSL is not installed; EMFILE,
    ///   ENFILE or ENOMEM if it cannot be loaded for now.
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
