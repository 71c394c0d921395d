internal import CLinux

/// What the operating system has refused, with what was asked of it and about what.
public struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The system call, or what stands for several of them: "open", "lock".
    public let call: String
    /// A path, a name, a number; empty where the call alone says what it is about.
    public let subject: String
    /// The error number of the C library.
    public let errno: Int32
    /// In words that fit the case better than those of the C library, if there are any; they name the subject themselves.
    public let reason: String?

    /// - Parameter errno: without one, the calling thread's last: ask before anything else may change it.
    public init(_ call: String, _ subject: String = "", errno: Int32? = nil, reason: String? = nil) {
        self.errno = errno ?? linux_errno()
        self.call = call
        self.subject = subject
        self.reason = reason
    }

    /// "ENOENT"
    public var name: String { Self.name(of: errno) }

    /// "no such file or directory (/tmp/nothing)", without the name of the error.
    public var message: String { reason ?? Self.text(of: errno) + (subject.isEmpty ? "" : " (\(subject))") }

    /// "ENOENT: no such file or directory (/tmp/nothing)"
    public var description: String { "\(name): \(message)" }

    /// "ENOENT"; "EUNKNOWN" for a number that is no error.
    public static func name(of errno: Int32) -> String { String(cString: linux_error_name(errno)) }

    /// The number of "ENOENT"; nil for a name that is no error's.
    public static func number(of name: String) -> Int32? { (1...133).first { Self.name(of: $0) == name } }

    /// "no such file or directory". Without the capital, since it stands after a colon; "RFS specific error" keeps its.
    public static func text(of errno: Int32) -> String {
        let text = String(cString: linux_error_text(errno))
        guard text.utf8.dropFirst().first.map({ (0x61...0x7A).contains($0) }) ?? false else { return text }
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}
