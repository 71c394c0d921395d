/// The negotiated parameters of a connection.
public struct TLSInfo: Sendable {
    /// "TLSv1.3"
    public let version: String
    public let cipher: String
    /// The protocol chosen by ALPN.
    public let protocolName: String?
    /// The peer's certificate.
    public let certificate: Certificate?

    public struct Certificate: Sendable {
        public let subject: String
        public let issuer: String
        /// Hosts and addresses for which it is valid.
        public let names: [String]
        public let notAfter: String
        /// SHA-256, in hexadecimal.
        public let fingerprint: String
        public let isVerified: Bool
    }
}
