internal import CLinux
internal import Glibc

/// A name that this process holds, and the socket under it: both are given up with the last reference.
///
/// Who has the lock file's lock has the name. The kernel gives it back when a process dies, however it dies, so that a name
/// is never held by the dead, and two who want it cannot both have it.
final class MessagePortName {
    let name: String
    let listener: Int32
    private let directory: Int32
    private let lock: Int32
    private let file: linux_file_id

    /// - Throws: EADDRINUSE if a live process has the name, or what the system refused.
    init(_ name: String) throws(RunLoop.MessagePort.Refusal) {
        func refuse(_ errno: Int32) -> RunLoop.MessagePort.Refusal {
            .init(
                errno: errno,
                message: errno == EADDRINUSE ? "a live process has the name \"\(name)\"" : Self.text(errno, name))
        }
        guard Self.isPossible(name) else { throw Self.impossible(name) }
        self.name = name
        let directory = try Self.openDirectory(make: true)
        let lock = linux_lock(directory, Self.lockFile(name))
        guard lock >= 0 else {
            let errno = linux_errno()
            linux_close(directory)
            throw refuse(errno)
        }
        var file = linux_file_id()
        // Unique among those who may do this at the same time: descriptors of one process, and processes.
        let temporary = ".\(linux_process())-\(lock)"
        let listener = linux_listen(directory, name, temporary, &file)
        guard listener >= 0 else {
            let errno = linux_errno()
            linux_close(lock)
            linux_close(directory)
            throw refuse(errno)
        }
        self.directory = directory
        self.lock = lock
        self.listener = listener
        self.file = file
    }

    deinit {
        // The lock goes last: until then nobody else can have put anything there.
        linux_remove(directory, name, file)
        var lockFile = stat()
        if fstat(lock, &lockFile) == 0 {
            let id = linux_file_id(device: UInt64(lockFile.st_dev), number: UInt64(lockFile.st_ino))
            linux_remove(directory, Self.lockFile(name), id)
        }
        linux_close(listener)
        linux_close(lock)
        linux_close(directory)
    }

    private static func lockFile(_ name: String) -> String { ".\(name).lock" }

    /// Connects to whoever has a name.
    ///
    /// - Throws: ENOENT if no live process has it.
    static func connect(to name: String) throws(RunLoop.MessagePort.Refusal) -> Int32 {
        guard isPossible(name) else { throw impossible(name) }
        let directory: Int32
        do throws(RunLoop.MessagePort.Refusal) {
            directory = try openDirectory(make: false)
        } catch {
            throw error.errno == ENOENT ? nobody(name) : error
        }
        defer { linux_close(directory) }
        let fd = linux_connect(directory, name)
        guard fd < 0 else { return fd }
        switch linux_errno() {
        case ENOENT, ECONNREFUSED: throw nobody(name)  // refused: what a dead process has left behind
        case EAGAIN:
            throw .init(errno: EAGAIN, message: "too many connections wait to be accepted by the port \"\(name)\"")
        case let errno: throw .init(errno: errno, message: text(errno, name))
        }
    }

    private static func nobody(_ name: String) -> RunLoop.MessagePort.Refusal {
        .init(errno: ENOENT, message: "no process has a message port of the name \"\(name)\"")
    }

    /// The names that live processes have, as far as they begin with a text. What dead processes have left under such names is
    /// removed.
    static func live(withPrefix prefix: String) throws(RunLoop.MessagePort.Refusal) -> [String] {
        let directory: Int32
        do throws(RunLoop.MessagePort.Refusal) {
            directory = try openDirectory(make: false)
        } catch {
            if error.errno == ENOENT { return [] }
            throw error
        }
        defer { linux_close(directory) }
        guard let entries = opendir("/proc/self/fd/\(directory)") else {
            throw .init(errno: linux_errno(), message: text(linux_errno(), "the directory of message ports"))
        }
        var names: Set<String> = []
        while let entry = readdir(entries) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasPrefix(prefix), isPossible(name) { names.insert(name) }
            // Of a process that was killed while it took the name or gave it up, only this is left.
            if name.hasPrefix(lockFile(prefix).dropLast(5)), name.hasSuffix(".lock") {
                names.insert(String(name.dropFirst().dropLast(5)))
            }
        }
        closedir(entries)
        return names.sorted().filter { name in
            let fd = linux_connect(directory, name)
            if fd >= 0 {
                linux_close(fd)
                return true
            }
            // Who gets the name of a dead process gives its files up with it.
            if linux_errno() == ECONNREFUSED || linux_errno() == ENOENT { _ = try? MessagePortName(name) }
            return false
        }
    }

    // MARK: What can be a name

    static let longest = 100

    /// 1 to 100 bytes; no "/" and no NUL, which no file's name can have; no "." at the start, where the lock files have it.
    static func isPossible(_ name: String) -> Bool {
        let bytes = name.utf8
        return (1...longest).contains(bytes.count) && bytes.first != UInt8(ascii: ".")
            && !bytes.contains { $0 == 0 || $0 == UInt8(ascii: "/") }
    }

    private static func impossible(_ name: String) -> RunLoop.MessagePort.Refusal {
        .init(
            errno: EINVAL,
            message: "a name has 1 to \(longest) bytes, does not begin with \".\" and contains neither \"/\" nor NUL")
    }

    // MARK: The directory

    private static func openDirectory(make: Bool) throws(RunLoop.MessagePort.Refusal) -> Int32 {
        var owner = UInt32.max
        var mode: UInt32 = 0
        var path = "/tmp/rlhost-\(linux_user())"
        if let runtime = linux_environment("XDG_RUNTIME_DIR").map({ String(cString: $0) }), runtime.hasPrefix("/") {
            // One that does not exist, or is not private, is as good as none.
            let fd = linux_open_private_directory(runtime, 0, &owner, &mode)
            if fd >= 0 {
                linux_close(fd)
                path = runtime + "/rlhost"
            } else if ![ENOENT, ENOTDIR, EACCES, ELOOP].contains(linux_errno()) {
                // It may be all right: elsewhere nobody would find us.
                throw .init(errno: linux_errno(), message: text(linux_errno(), runtime))
            }
        }
        let fd = linux_open_private_directory(path, make ? 1 : 0, &owner, &mode)
        guard fd < 0 else { return fd }
        let errno = linux_errno()
        guard errno == EACCES, owner != .max else {
            throw .init(errno: errno, message: text(errno, path))
        }
        throw .init(
            errno: EACCES,
            message:
                "\(path) must be a directory of user \(linux_user()) with mode 0700; it is user \(owner)'s and has mode "
                + "0\(String(mode, radix: 8))")
    }

    private static func text(_ errno: Int32, _ subject: String) -> String {
        "\(String(cString: linux_error_text(errno)).lowercased()) (\(subject))"
    }
}
