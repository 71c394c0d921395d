internal import CLinux
internal import Glibc
internal import Linux
import Synchronization

/// A name that this process holds, and the socket under it: both are given up with the last reference.
///
/// Who has the lock file's lock has the name. The kernel gives it back when a process dies, however it dies, so that a name
/// is never held by the dead, and two who want it cannot both have it. The files that a process leaves which is killed are removed by
/// the next one that takes a name.
final class MessagePortName {
    let name: String
    let listener: Descriptor
    private let directory: Descriptor
    private let lock: Descriptor
    private let file: linux_file_id

    /// - Throws: EADDRINUSE if a live process has the name, or what the system refused.
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
        // Unique among those who may do this at the same time: descriptors of one process, and processes.
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
        // Whoever gives up all names at this moment has this one still, and we wait for that.
        Self.held.withLock { _ = $0.remove(UInt(bitPattern: this)) }
        giveUp()
    }

    /// Those that this process has, by their addresses.
    private static let held = Lock<Set<UInt>>([])
    private let process = linux_process()

    /// Gives up all names, of whichever thread: for the end of the process, at which nothing is released.
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
        // A child that was forked has no part in it.
        guard process == linux_process() else { return }
        // The lock goes last: until then nobody else can have put anything there.
        linux_remove(directory.number, name, file)
        var lockFile = stat()
        if fstat(lock.number, &lockFile) == 0 {
            let id = linux_file_id(device: UInt64(lockFile.st_dev), number: UInt64(lockFile.st_ino))
            linux_remove(directory.number, Self.lockFile(name), id)
        }
    }

    private static func lockFile(_ name: String) -> String { ".\(name).lock" }

    // MARK: What the dead have left

    private static let hasCleared = Atomic(false)

    /// Removes what processes have left that were killed: once in each process, and as much as takes no time worth mentioning.
    private func clearOnce() {
        guard !Self.hasCleared.exchange(true, ordering: .relaxed), linux_begin_clearing(directory.number) == 0
        else { return }
        defer { linux_end_clearing(directory.number) }
        guard let entries = try? Directory.entries(of: directory) else { return }
        let locks = entries.map { String(decoding: $0.name, as: UTF8.self) }.filter {
            $0.hasPrefix(".") && $0.hasSuffix(".lock")
        }
        // Where others have looked, there is less to find.
        let start = locks.isEmpty ? 0 : Int(process) % locks.count
        for lock in (locks[start...] + locks[..<start]).prefix(Self.mostCleared) {
            let name = String(lock.dropFirst().dropLast(5))
            if name != self.name { linux_clear(directory.number, name, lock) }
        }
    }

    private static let mostCleared = 256

    /// Connects to whoever has a name.
    ///
    /// - Throws: ENOENT if no live process has it.
    static func connect(to name: String) throws(SystemError) -> Int32 {
        guard isPossible(name) else { throw impossible(name) }
        let directory: Descriptor
        do throws(SystemError) {
            directory = try openDirectory(make: false)
        } catch {
            throw error.errno == ENOENT ? nobody(name) : error
        }
        let fd = linux_connect(directory.number, name)
        guard fd < 0 else { return fd }
        let error = SystemError("connect", name)
        if let want = wantOfProc(error) { throw want }
        switch error.errno {
        case ENOENT, ECONNREFUSED: throw nobody(name)  // refused: what a dead process has left behind
        case EAGAIN:
            throw SystemError(
                "connect", name, errno: EAGAIN,
                reason: "too many connections wait to be accepted by the port \"\(name)\"")
        default: throw error
        }
    }

    /// The kernel finds the sockets by the paths of descriptors, which are not there in every container.
    private static func wantOfProc(_ error: SystemError) -> SystemError? {
        guard error.errno == ENOENT, access("/proc/self/fd", F_OK) != 0 else { return nil }
        return SystemError(
            error.call, error.subject, errno: ENOENT,
            reason: "there is no /proc/self/fd, which message ports need: mount /proc")
    }

    private static func nobody(_ name: String) -> SystemError {
        SystemError("connect", name, errno: ENOENT, reason: "no process has a message port of the name \"\(name)\"")
    }

    /// The names that live processes have, as far as they begin with a text. What dead processes have left under such names is
    /// removed.
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
            // Of a process that was killed while it took the name or gave it up, only this is left.
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

    private static func impossible(_ name: String) -> SystemError {
        SystemError(
            "bind", name, errno: EINVAL,
            reason: "a name has 1 to \(longest) bytes, does not begin with \".\" and contains neither \"/\" nor NUL")
    }

    // MARK: The directory

    private static func openDirectory(make: Bool) throws(SystemError) -> Descriptor {
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
                throw SystemError("open", runtime)
            }
        }
        let fd = linux_open_private_directory(path, make ? 1 : 0, &owner, &mode)
        guard fd < 0 else { return Descriptor(fd) }
        let error = SystemError("open", path)
        guard error.errno == EACCES, owner != .max else { throw error }
        throw SystemError(
            "open", path, errno: EACCES,
            reason:
                "\(path) must be a directory of user \(linux_user()) with mode 0700; it is user \(owner)'s and has mode "
                + "0\(String(mode, radix: 8))")
    }
}
