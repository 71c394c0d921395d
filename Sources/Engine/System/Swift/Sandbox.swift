internal import CLinux
internal import Glibc

/// The kernel's restrictions of this process from some moment on: see docs/sandbox.md.
package enum Sandbox {
    /// The kinds of things that can be allowed, by the names of their options.
    package enum Kind: UInt32, CaseIterable, Sendable {
        case read, write, connect, listen, run, env, modules

        // Do not print the case itself: each start in a sandbox would then search the runtime's reflection data.
        package var name: String {
            switch self {
            case .read: "read"
            case .write: "write"
            case .connect: "connect"
            case .listen: "listen"
            case .run: "run"
            case .env: "env"
            case .modules: "modules"
            }
        }

        fileprivate var number: linux_allowance { linux_allowance(rawValue: rawValue) }
    }

    /// The allowances of a sandbox that the process has not entered yet.
    ///
    /// C code keeps the list: with a Swift array, each start in a sandbox would take 40,000 more instructions, because
    /// the runtime must instantiate generic types.
    package final class Description {
        fileprivate var sandbox: OpaquePointer?

        package init() { sandbox = linux_new_sandbox() }

        deinit { linux_free_sandbox(sandbox) }

        /// - Parameter value: Ends with a NUL; nil for all of the kind. An invalid value fails `enter`.
        package func allow(_ kind: Kind, _ value: UnsafePointer<CChar>?) { linux_allow(sandbox, kind.number, value) }

        /// - Parameter option: An option such as "--allow-read=/etc".
        /// - Returns: False for another option.
        package func allow(option: UnsafePointer<CChar>) -> Bool { linux_allow_option(sandbox, option) != 0 }

        /// Allows reading a script, if it exists. Call it after `allow`.
        package func allow(script: UnsafePointer<CChar>) { linux_allow_script(sandbox, script) }

        /// Whether something of a kind is allowed.
        package func allows(_ kind: Kind) -> Bool { linux_allows_some(sandbox, kind.number) != 0 }

        /// The name of the kind that was allowed first; nil if nothing is allowed.
        package var first: String? { linux_first_allowed(sandbox).map { String(cString: $0) } }

        /// The names that message ports of this process may take.
        package var ports: [String] {
            var names: [String] = []
            while let name = linux_listened_port(sandbox, Int32(names.count)) { names.append(String(cString: name)) }
            return names
        }
    }

    package struct Failure: Error {
        package let message: String
        /// 64: an invalid value. 66: a missing file. 69: a restriction that the kernel cannot enforce.
        package let status: Int32

        package init(message: String, status: Int32) {
            self.message = message
            self.status = status
        }
    }

    package static var isEntered: Bool { linux_is_sandboxed() != 0 }
    package static var allowsModules: Bool { linux_allows_modules() != 0 }

    /// Closes descriptors that the parent process has left open, except those of systemd. Call it before this process
    /// opens descriptors of its own.
    package static func closeInherited() { linux_close_inherited() }

    /// Enters a sandbox for good.
    ///
    /// - Parameters:
    ///   - templates: Search paths such as package.path. Files that match their templates may be read.
    ///   - portDirectory: The directory of message ports; nil if no ports are allowed.
    ///   - goesOn: Whether to enter a sandbox that the kernel cannot enforce completely.
    /// - Returns: The restrictions that are not enforced, in lines.
    package static func enter(
        _ description: Description, templates: (UnsafePointer<CChar>?, UnsafePointer<CChar>?),
        portDirectory: String?, goesOn: Bool
    ) throws(Failure) -> String {
        guard let sandbox = description.sandbox else { throw Failure(message: "not enough memory", status: 1) }
        if let list = templates.0 { linux_allow_templates(sandbox, list) }
        if let list = templates.1 { linux_allow_templates(sandbox, list) }
        if let portDirectory { linux_set_port_directory(sandbox, strdup(portDirectory)) }
        let result = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 1024) { text in
            guard let room = text.baseAddress else { return Failure(message: "not enough memory", status: 1) }
            let status = linux_enter_sandbox(sandbox, goesOn ? 1 : 0, room)
            return Failure(message: String(cString: room), status: status)
        }
        guard result.status == 0 else { throw result }
        // From now on the sandbox belongs to the process.
        description.sandbox = nil
        return result.message
    }

    /// Returns `refusal` for C.
    package static let refusing: @convention(c) (Int32, UnsafePointer<CChar>?) -> UnsafePointer<CChar>? = {
        linux_refusal(linux_allowance(rawValue: UInt32($0)), $1)
    }

    /// The number of threads of this process; 0 without /proc.
    package static var threads: Int { Int(linux_threads()) }

    /// If the sandbox forbids something, returns the end of a message about it, with the option that would allow it.
    package static func refusal(_ kind: Kind, _ subject: String) -> String? {
        guard isEntered else { return nil }
        return linux_refusal(kind.number, subject).map { String(cString: $0) }
    }

    /// Returns such a message for an error of the system, with its subject.
    static func refusal(of call: String, _ subject: String, errno: Int32) -> String? {
        guard isEntered, [EACCES, EPERM, EXDEV].contains(errno) else { return nil }
        var text: String?
        switch call {
        case "open", "read", "opendir", "readdir", "stat", "chdir", "readlink", "realpath":
            text = refusal(.read, subject) ?? refusal(.write, subject)
        case "create", "write", "remove", "unlink", "mkdir", "mkdtemp", "fchmod", "symlink", "close", "copy":
            text = refusal(.write, subject)
        case "rename", "link":
            let arrow = Array(" → ".utf8), bytes = Array(subject.utf8)
            let place = bytes.indices.first { bytes[$0...].starts(with: arrow) } ?? bytes.endIndex
            text =
                refusal(.write, String(decoding: bytes[..<place], as: UTF8.self))
                ?? refusal(.write, String(decoding: bytes[place...].dropFirst(arrow.count), as: UTF8.self))
        case "inotify_add_watch": text = "not allowed by the sandbox: --allow-read"
        case "openpt":
            text = refusal(.read, "/dev/ptmx") ?? refusal(.write, "/dev/ptmx")
            return text.map { "\($0) (/dev/ptmx)" }
        case "posix_spawn": text = refusal(.run, subject)
        case "connect": text = refusal(.connect, "port:\(subject)")
        case "bind", "listen", "lock": text = refusal(.listen, "port:\(subject)")
        case "sendto": text = refusal(.connect, "unix:\(subject)")
        default: break
        }
        return text.map { "\($0) (\(subject))" }
    }
}
