internal import Linux

/// What the world has refused: a code that programs compare, and words that name what was tried.
///
/// Codes are the C library's ("ECONNREFUSED"), and a few of our own: "EOF" for an end of input that came too early,
/// "ENOTFOUND" for a name, "TLS_CERTIFICATE", "TLS_TRUNCATED", "TLS".
public final class StreamFailure: Error, Sendable, CustomStringConvertible {
    public let code: String
    /// "connection refused (127.0.0.1:9)", without the code.
    public let message: String
    /// The message says it all: the code is for programs, and not part of the text.
    let isPlain: Bool

    /// The time that was given is over.
    public static let timedOut = StreamFailure(plain: "ETIMEDOUT", "timed out")

    public init(_ code: String, _ message: String) {
        self.code = code
        self.message = message
        isPlain = false
    }

    convenience init(_ mistake: HostName.Mistake) { self.init(mistake.code, mistake.message) }

    init(plain code: String, _ message: String) {
        self.code = code
        self.message = message
        isPlain = true
    }

    /// - Parameters:
    ///   - errno: an error number, positive.
    ///   - subject: the address, the path: what was tried.
    public convenience init(errno: Int32, _ subject: String = "") {
        let text = SystemError.text(of: errno)
        self.init(SystemError.name(of: errno), subject.isEmpty ? text : "\(text) (\(subject))")
    }

    /// "ECONNREFUSED: connection refused (127.0.0.1:9)"; "timed out"
    public var description: String { isPlain ? message : "\(code): \(message)" }
}
