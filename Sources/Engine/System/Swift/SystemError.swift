internal import CLinux
internal import Glibc

/// An error of the operating system, with the call that failed and its subject.
public struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The name of the system call, such as "open", or a word for a group of calls, such as "lock".
    public let call: String
    /// A path, a name or a number; empty if the call needs none.
    public let subject: String
    /// The errno of the C library.
    public let errno: Int32
    /// A text to use instead of the C library's text, if it explains the case better. The text includes the subject.
    public let reason: String?

    /// - Parameter errno: The error number. Nil takes the calling thread's errno, so make the error before another call
    ///   changes that.
    public init(_ call: String, _ subject: String = "", errno: Int32? = nil, reason: String? = nil) {
        let number = errno ?? linux_errno()
        let refusal = reason == nil ? Sandbox.refusal(of: call, subject, errno: number) : nil
        self.errno = refusal == nil ? number : EACCES
        self.call = call
        self.subject = subject
        self.reason = reason ?? refusal
    }

    /// The name of the error, such as "ENOENT".
    public var name: String { Self.name(of: errno) }

    /// A text without the name of the error, such as "no such file or directory (/tmp/nothing)".
    public var message: String { reason ?? Self.text(of: errno) + (subject.isEmpty ? "" : " (\(subject))") }

    /// The name and the text, such as "ENOENT: no such file or directory (/tmp/nothing)".
    public var description: String { "\(name): \(message)" }

    /// Returns a name such as "ENOENT"; "EUNKNOWN" for a number that is not an error.
    public static func name(of errno: Int32) -> String { String(cString: linux_error_name(errno)) }

    /// Returns the number of a name such as "ENOENT"; nil for a name that is not an error.
    public static func number(of name: String) -> Int32? { (1...133).first { Self.name(of: $0) == name } }

    /// Returns a text such as "no such file or directory". The text begins with a lower-case letter, since it follows a
    /// colon; "RFS specific error" keeps its capitals.
    public static func text(of errno: Int32) -> String {
        let text = String(cString: linux_error_text(errno))
        guard text.utf8.dropFirst().first.map({ (0x61...0x7A).contains($0) }) ?? false else { return text }
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}
