internal import CLinux
internal import Glibc
internal import Linux
import Synchronization

/// A name that this process holds, with its socket. The name and the socket are given up with the last reference.
///
/// A process has a name as long as it holds the lock of the name's lock file. The kernel releases the lock when the
/// process dies in any way, so that a dead process never holds a name, and two processes cannot hold the same one. The
/// next process that takes a name removes the files that a killed process has left.
final class MessagePortName {
    let name: String
    let listener: Descriptor
    private let directory: Descriptor
    private let lock: Descriptor
    private let file: linux_file_id

    /// - Throws: EADDRINUSE if a live process has the name; EINVAL for an impossible name; errors of the system.
    init(_ name: String) throws(SystemError) {
        guard Self.isPossible(name) else { throw Self.impossible(name) }
        self.name = name
        directory = try Self.openDirectory(make: true)
        do throws(SystemError) {
            lock = try Descriptor(linux_lock(directory.number, Self.lockFile(name)), "lock", name)
        } catch {
            guard error.errno == EADDRINUSE else { throw error }
            throw SystemError(
                error.call, name, errno: EADDRINUSE, reason: "a live process has the name \"\(name)\"")
        }
        var file = linux_file_id()
        // No other file has this name: the process number and the descriptor of the lock are unique while both exist.
        let temporary = ".\(linux_process())-\(lock.number)"
        do throws(SystemError) {
            listener = try Descriptor(linux_listen(directory.number, name, temporary, &file), "listen", name)
        } catch {
            throw Self.wantOfProc(error) ?? error
        }
        self.file = file
        let this = Unmanaged.passUnretained(self).toOpaque()
        Self.held.withLock { _ = $0.insert(UInt(bitPattern: this)) }
        Ending.at(.giveNamesUp) { MessagePortName.giveAllUp() }
        clearOnce()
    }

    deinit {
        let this = Unmanaged.passUnretained(self).toOpaque()
        // `giveAllUp` may be using this object on another thread. It holds the lock meanwhile, so take the lock here.
        Self.held.withLock { _ = $0.remove(UInt(bitPattern: this)) }
        giveUp()
    }

    /// The names of this process, by their addresses.
    private static let held = Lock<Set<UInt>>([])
    private let process = linux_process()

    /// Gives up the names that all threads of the process hold. Called at the end of the process, when Swift does not
    /// release objects.
    private static func giveAllUp() {
        held.withLock { held in
            for address in held {
                guard let pointer = UnsafeRawPointer(bitPattern: address) else { continue }
                Unmanaged<MessagePortName>.fromOpaque(pointer).takeUnretainedValue().giveUp()
            }
            held = []
        }
    }

    private func giveUp() {
        // After a fork, the child must leave the parent's files alone.
        guard process == linux_process() else { return }
        // The lock file goes last: until then no other process can have put files there.
        linux_remove(directory.number, name, file)
        var lockFile = stat()
        if fstat(lock.number, &lockFile) == 0 {
            let id = linux_file_id(device: UInt64(lockFile.st_dev), number: UInt64(lockFile.st_ino))
            linux_remove(directory.number, Self.lockFile(name), id)
        }
    }

    private static func lockFile(_ name: String) -> String { ".\(name).lock" }

    // MARK: Files of killed processes

    private static let hasCleared = Atomic(false)

    /// Removes files of killed processes. Does so once in each process, and for at most `mostCleared` names, to take
    /// little time.
    private func clearOnce() {
        guard !Self.hasCleared.exchange(true, ordering: .relaxed), linux_begin_clearing(directory.number) == 0
        else { return }
        defer { linux_end_clearing(directory.number) }
        guard let entries = try? Directory.entries(of: directory) else { return }
        let locks = entries.map { String(decoding: $0.name, as: UTF8.self) }.filter {
            $0.hasPrefix(".") && $0.hasSuffix(".lock")
        }
        // Each process starts at a different index of the list, so that many processes together clear all of it.
        let start = locks.isEmpty ? 0 : Int(process) % locks.count
        for lock in (locks[start...] + locks[..<start]).prefix(Self.mostCleared) {
            let name = String(lock.dropFirst().dropLast(5))
            if name != self.name { linux_clear(directory.number, name, lock) }
        }
    }

    private static let mostCleared = 256

    /// Connects to the process that has a name.
    ///
    /// - Throws: ENOENT if no live process has it; EAGAIN if too many connections wait there; errors of the system.
    static func connect(to name: String) throws(SystemError) -> Int32 {
        guard isPossible(name) else { throw impossible(name) }
        let fd: Int32
        if let connected = try connectByDoorman(name) {
            fd = connected
        } else {
            let directory: Descriptor
            do throws(SystemError) {
                directory = try openDirectory(make: false)
            } catch {
                throw error.errno == ENOENT ? nobody(name) : error
            }
            fd = linux_connect(directory.number, name)
        }
        guard fd < 0 else { return fd }
        let error = SystemError("connect", name)
        if let want = wantOfProc(error) { throw want }
        switch error.errno {
        case ENOENT, ECONNREFUSED: throw nobody(name)  // ECONNREFUSED: a dead process has left the socket
        case EAGAIN:
            throw SystemError(
                "connect", name, errno: EAGAIN,
                reason: "too many connections wait to be accepted by the port \"\(name)\"")
        default: throw error
        }
    }

    /// If an ENOENT is due to a missing /proc, returns an error whose text says so. Sockets are opened by paths such as
    /// /proc/self/fd/5, which some containers lack.
    private static func wantOfProc(_ error: SystemError) -> SystemError? {
        guard error.errno == ENOENT, access("/proc/self/fd", F_OK) != 0 else { return nil }
        return SystemError(
            error.call, error.subject, errno: ENOENT,
            reason: "there is no /proc/self/fd, which message ports need: mount /proc")
    }

    private static func nobody(_ name: String) -> SystemError {
        SystemError("connect", name, errno: ENOENT, reason: "no process has a message port of the name \"\(name)\"")
    }

    /// Returns the names with this prefix that live processes have. Removes the files of dead processes with such
    /// names.
    static func live(withPrefix prefix: String) throws(SystemError) -> [String] {
        let directory: Descriptor
        do throws(SystemError) {
            directory = try openDirectory(make: false)
        } catch {
            if error.errno == ENOENT { return [] }
            throw error
        }
        var names: Set<String> = []
        for entry in try Directory.entries(of: directory) {
            let name = String(decoding: entry.name, as: UTF8.self)
            if name.hasPrefix(prefix), isPossible(name) { names.insert(name) }
            // A process that was killed while it took or gave up a name leaves only the lock file.
            if name.hasPrefix(lockFile(prefix).dropLast(5)), name.hasSuffix(".lock") {
                names.insert(String(name.dropFirst().dropLast(5)))
            }
        }
        return names.sorted().filter { name in
            let fd = linux_connect(directory.number, name)
            if fd >= 0 {
                linux_close(fd)
                return true
            }
            // Taking the name of a dead process and giving it up again removes its files.
            if linux_errno() == ECONNREFUSED || linux_errno() == ENOENT { _ = try? MessagePortName(name) }
            return false
        }
    }

    // MARK: Valid names

    static let longest = 100

    /// A name has 1 to 100 bytes. A name contains no "/" and no NUL, which file names cannot have, and does not begin
    /// with ".", as lock files do.
    static func isPossible(_ name: String) -> Bool {
        let bytes = name.utf8
        return (1...longest).contains(bytes.count) && bytes.first != UInt8(ascii: ".")
            && !bytes.contains { $0 == 0 || $0 == UInt8(ascii: "/") }
    }

    private static func impossible(_ name: String) -> SystemError {
        SystemError(
            "bind", name, errno: EINVAL,
            reason: "a name has 1 to \(longest) bytes, does not begin with \".\" and contains neither \"/\" nor NUL")
    }

    // MARK: The directory

    /// The names that this process took before it entered a sandbox.
    private static let kept = Lock<[MessagePortName]>([])

    /// Takes names before the process enters a sandbox, in which it cannot take any. The names stay until the process
    /// ends.
    ///
    /// - Returns: The directory of the sockets.
    static func prepareForSandbox(_ names: [String]) throws(SystemError) -> String {
        let path = try directoryPath()
        var taken: [MessagePortName] = []
        for name in names where keptName(name) == nil { taken.append(try MessagePortName(name)) }
        if !taken.isEmpty { kept.withLock { [taken] kept in kept += taken } }
        return path
    }

    /// Returns a name that was taken for the sandbox, or takes the name.
    static func take(_ name: String) throws(SystemError) -> MessagePortName {
        if let refusal = Sandbox.refusal(.listen, "port:\(name)") { throw refused("bind", name, refusal) }
        if let kept = keptName(name) { return kept }
        return try MessagePortName(name)
    }

    private static func keptName(_ name: String) -> MessagePortName? {
        kept.withLock { $0.first { $0.name == name } }
    }

    private static func refused(_ call: String, _ name: String, _ refusal: String) -> SystemError {
        SystemError(call, name, errno: EACCES, reason: "\(refusal) (\(name))")
    }

    /// Connects through the doorman, the process outside of the sandbox. Returns nil without a doorman.
    private static func connectByDoorman(_ name: String) throws(SystemError) -> Int32? {
        guard Sandbox.isEntered else { return nil }
        if let refusal = Sandbox.refusal(.connect, "port:\(name)") { throw refused("connect", name, refusal) }
        let fd = linux_connect_by_doorman(name)
        return fd == -2 ? nil : fd
    }

    private static func openDirectory(make: Bool) throws(SystemError) -> Descriptor {
        var owner = UInt32.max
        var mode: UInt32 = 0
        let path = try directoryPath()
        let fd = linux_open_private_directory(path, make ? 1 : 0, &owner, &mode)
        guard fd < 0 else { return Descriptor(fd) }
        let error = SystemError("open", path)
        guard error.errno == EACCES, owner != .max else { throw error }
        throw SystemError(
            "open", path, errno: EACCES,
            reason:
                "\(path) must be a directory of user \(linux_user()) with mode 0700; it is user \(owner)'s and has "
                + "mode 0\(String(mode, radix: 8))")
    }

    private static func directoryPath() throws(SystemError) -> String {
        // In a sandbox the environment variable is missing, so use the directory that was stored before.
        if let kept = linux_port_directory() { return String(cString: kept) }
        var owner = UInt32.max
        var mode: UInt32 = 0
        if let runtime = linux_environment("XDG_RUNTIME_DIR").map({ String(cString: $0) }), runtime.hasPrefix("/") {
            // Ignore a directory that does not exist or is not private.
            let fd = linux_open_private_directory(runtime, 0, &owner, &mode)
            if fd >= 0 {
                linux_close(fd)
                return runtime + "/rlhost"
            } else if ![ENOENT, ENOTDIR, EACCES, ELOOP].contains(linux_errno()) {
                // Do not use /tmp instead: other processes may be able to use this directory, and would look for the
                // port only here.
                throw SystemError("open", runtime)
            }
        }
        return "/tmp/rlhost-\(linux_user())"
    }
}
