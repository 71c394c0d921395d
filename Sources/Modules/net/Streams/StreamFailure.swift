internal import Glibc
package import Linux

/// A refusal by the system or the peer: a code for programs, and a text that names the thing.
///
/// Codes are those of the C library ("ECONNREFUSED") and a few others: "EOF" for an end of input that came too early,
/// "ENOTFOUND" for a name, "TLS_CERTIFICATE", "TLS_TRUNCATED", "TLS".
public final class StreamFailure: Error, Sendable, CustomStringConvertible {
    public let code: String
    /// "connection refused (127.0.0.1:9)", without the code.
    public let message: String
    /// The message needs no code before it: the code is for programs only.
    let isPlain: Bool

    /// A time limit has expired.
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
    ///   - subject: the address or path that the call was about.
    ///   - kind: the option that would allow the call in a sandbox.
    package convenience init(errno: Int32, _ subject: String = "", refusedAs kind: Sandbox.Kind) {
        if errno == EACCES || errno == EPERM, let refusal = Sandbox.refusal(kind, subject) {
            self.init("EACCES", "\(refusal) (\(subject))")
        } else {
            self.init(errno: errno, subject)
        }
    }

    /// - Parameters:
    ///   - errno: an error number, positive.
    ///   - subject: the address or path that the call was about.
    public convenience init(errno: Int32, _ subject: String = "") {
        let text = SystemError.text(of: errno)
        self.init(SystemError.name(of: errno), subject.isEmpty ? text : "\(text) (\(subject))")
    }

    /// "ECONNREFUSED: connection refused (127.0.0.1:9)"; "timed out"
    public var description: String { isPlain ? message : "\(code): \(message)" }
}
