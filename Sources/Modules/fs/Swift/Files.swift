internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The file operations of `runloop.fs`. Each call may block, so a thread of a small pool performs it.
enum Files {
    private static let pool = WorkPool("files", limit: 4)

    enum Answer: Sendable {
        case done
        case text(String)
        case bytes([UInt8])
        case number(Int)
        case program(ValueProgram)

        var program: ValueProgram {
            var program = ValueProgram()
            switch self {
            case .done: program.append(true)
            case .text(let text): program.append(text)
            case .bytes(let bytes): program.append(bytes: bytes)
            case .number(let number): program.append(number)
            case .program(let whole): return whole
            }
            return program
        }
    }

    /// file(function's name, operation, path, …): the task waits for the answer.
    static func run(_ call: Call) throws(Misuse) -> Int32 {
        let operation = try call.argument(1, Text.self)
        let name = operation == "link_stat" ? "stat" : operation
        let path = try call.argument(2, Text.self)
        let other = call.string(3)
        let bytes = call.bytes(3).map { Array($0) } ?? []
        let number = call.integer(3) ?? call.integer(4) ?? 0
        let flags = (call.boolean(5), call.boolean(6))
        return try call.wait(in: WaitName.of("fs.\(name)") ?? "a call of runloop.fs") { answer throws(SystemError) in
            do throws(SystemError) {
                try pool.run {
                    answer(perform(operation, path, other ?? "", bytes, number, flags).map(\.program))
                }
            } catch {
                throw SystemError(operation, path, errno: error.errno, reason: "no thread can be started (\(path))")
            }
        }
    }

    private static func perform(
        _ operation: String, _ path: String, _ other: String, _ bytes: [UInt8], _ number: Int, _ flags: (Bool, Bool)
    ) -> Result<Answer, SystemError> {
        switch operation {
        case "read": return read(path, number)
        case "write": return write(path, bytes, mode: mode_t(number), appends: flags.0, syncs: flags.1)
        case "list": return list(path).map { .program($0) }
        case "stat": return information(path)
        case "link_stat": return information(path, follows: false)
        case "make_directory": return made(mkdir, path, mode_t(number))
        case "remove": return check("remove", path) { unlinkOrRemove($0) }
        case "rename":
            return check("rename", "\(path) → \(other)", path) { old in other.withAnyCString { Glibc.rename(old, $0) } }
        case "link":
            return check("link", "\(path) → \(other)", path) { old in other.withAnyCString { Glibc.link(old, $0) } }
        case "symbolic_link":
            return check("symlink", other, path) { old in other.withAnyCString { symlink(old, $0) } }
        case "read_link":
            let target = path.withAnyCString { Directory.target(ofLink: $0) }
            return target.map { .success(.bytes($0)) } ?? .failure(SystemError("readlink", path))
        case "real_path":
            return System.realPath(of: path).map { .success(.text($0)) } ?? .failure(SystemError("realpath", path))
        case "temporary_directory": return temporaryDirectory(path)
        case "copy": return copy(path, other)
        default: return .failure(SystemError(operation, path, errno: ENOSYS))
        }
    }

    private static func check(
        _ call: String, _ subject: String, _ path: String? = nil, _ body: (UnsafePointer<CChar>) -> Int32
    ) -> Result<Answer, SystemError> {
        (path ?? subject).withAnyCString(body) == 0 ? .success(.done) : .failure(SystemError(call, subject))
    }

    private static func made(
        _ make: (UnsafePointer<CChar>, mode_t) -> Int32, _ path: String, _ mode: mode_t
    ) -> Result<Answer, SystemError> {
        check("mkdir", path) { make($0, mode) }
    }

    private static func unlinkOrRemove(_ path: UnsafePointer<CChar>) -> Int32 {
        if unlink(path) == 0 { return 0 }
        // unlink(2) of a directory gives EISDIR on Linux, and EPERM in POSIX.
        return errno == EISDIR || errno == EPERM ? rmdir(path) : -1
    }

    /// Returns whether there is enough memory for the bytes, which exist three times: here, on their way to Lua, and in
    /// Lua. An array that finds no memory would end the process. Asks the kernel, since the compiler removes a malloc
    /// whose memory is freed at once.
    private static func hasMemory(for count: Int) -> Bool {
        guard count >= 1 << 20 else { return true }
        guard let probe = mmap(nil, 3 * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            probe != MAP_FAILED
        else { return false }
        munmap(probe, 3 * count)
        return true
    }

    /// Reads at most `limit` bytes. A longer file is refused, not cut.
    static func read(_ path: String, _ limit: Int) -> Result<Answer, SystemError> {
        let fd = path.withAnyCString { open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }
        guard fd >= 0 else { return .failure(SystemError("open", path)) }
        defer { close(fd) }
        var status = stat()
        guard fstat(fd, &status) == 0 else { return .failure(SystemError("fstat", path)) }
        if status.st_mode & S_IFMT == S_IFDIR { return .failure(SystemError("read", path, errno: EISDIR)) }
        if status.st_mode & S_IFMT != S_IFREG {
            // A non-blocking read of a pipe without writers reports the end. The read waits until data arrive or a
            // writer has closed the pipe.
            var first = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
            if status.st_mode & S_IFMT == S_IFIFO { while poll(&first, 1, -1) < 0, errno == EINTR {} }
            _ = fcntl(fd, F_SETFL, 0)
        }
        func tooLong() -> SystemError {
            SystemError("read", path, errno: EFBIG, reason: "file longer than \(limit) bytes (\(path))")
        }
        if Int(status.st_size) > limit { return .failure(tooLong()) }
        guard hasMemory(for: Int(status.st_size)) else { return .failure(SystemError("read", path, errno: ENOMEM)) }
        var bytes = [UInt8](repeating: 0, count: max(4096, min(limit, Int(status.st_size)) + 1))
        var count = 0
        while true {
            if count == bytes.count {
                guard hasMemory(for: 2 * count) else { return .failure(SystemError("read", path, errno: ENOMEM)) }
                bytes.append(contentsOf: [UInt8](repeating: 0, count: count))
            }
            let n = bytes.withUnsafeMutableBytes { buffer in
                buffer.baseAddress.map { Glibc.read(fd, $0 + count, buffer.count - count) } ?? 0
            }
            if n < 0 {
                if errno == EINTR { continue }
                return .failure(SystemError("read", path))
            }
            count += n
            if count > limit { return .failure(tooLong()) }
            if n == 0 { break }
        }
        bytes.removeLast(bytes.count - count)
        return .success(.bytes(bytes))
    }

    /// Writes a new file and renames it over the old one. A program that reads at the same time gets the old file or
    /// the new one, always whole.
    ///
    /// - Parameter mode: 0 keeps the old file's mode, or uses the process's mask if there is no old file.
    private static func write(
        _ path: String, _ bytes: [UInt8], mode: mode_t, appends: Bool, syncs: Bool
    ) -> Result<Answer, SystemError> {
        let cPath = path.cBytes
        let permissions = mode != 0 ? UInt32(mode) : 0o666
        do throws(SystemError) {
            if appends {
                let file = try OutputFile.appending(to: cPath, named: path, mode: permissions, waits: true)
                try put(bytes, file, path, syncs: syncs)
            } else {
                let file = try OutputFile(replacing: cPath, named: path, mode: permissions, waits: true)
                // The process's mask applies only if the caller gives no mode.
                if mode != 0, file.replaces, fchmod(file.descriptor.number, mode) != 0 {
                    throw SystemError("fchmod", path)
                }
                try put(bytes, file.descriptor, path, syncs: syncs)
                try file.putInPlace()
            }
            return .success(.done)
        } catch { return .failure(error) }
    }

    private static func put(
        _ bytes: [UInt8], _ file: Descriptor, _ path: String, syncs: Bool
    ) throws(SystemError) {
        let error = bytes.withUnsafeBytes { Descriptor.write($0, to: file.number) }
        guard error == 0 else { throw SystemError("write", path, errno: error) }
        guard !syncs || fsync(file.number) == 0 else { throw SystemError("fsync", path) }
    }

    static func kind(of mode: mode_t) -> String {
        switch mode & S_IFMT {
        case S_IFREG: "file"
        case S_IFDIR: "directory"
        case S_IFLNK: "link"
        case S_IFIFO: "pipe"
        case S_IFSOCK: "socket"
        case S_IFCHR, S_IFBLK: "device"
        default: "other"
        }
    }

    /// Returns { { name =, kind = }, … }, sorted by name.
    static func list(_ path: String) -> Result<ValueProgram, SystemError> {
        path.withAnyCString { path in
            do throws(SystemError) {
                let entries = try Directory.entries(of: path)
                var program = ValueProgram()
                program.table { table in
                    for entry in entries {
                        table.element { program in
                            program.table { table in
                                table.field("name") { $0.append(bytes: entry.name) }
                                table.field("kind") { $0.append("\(entry.kind)") }
                            }
                        }
                    }
                }
                return .success(program)
            } catch {
                return .failure(error)
            }
        }
    }

    private static func information(_ path: String, follows: Bool = true) -> Result<Answer, SystemError> {
        var status = stat()
        guard path.withAnyCString({ follows ? stat($0, &status) : lstat($0, &status) }) == 0 else {
            return .failure(SystemError("stat", path))
        }
        func seconds(_ time: timespec) -> Double { Double(time.tv_sec) + Double(time.tv_nsec) / 1e9 }
        var program = ValueProgram()
        program.table { table in
            table.field("kind") { $0.append(kind(of: status.st_mode)) }
            table.field("size") { $0.append(Int(status.st_size)) }
            table.field("mode") { $0.append(Int(status.st_mode & 0o7777)) }
            table.field("modified") { $0.append(seconds(status.st_mtim)) }
            table.field("accessed") { $0.append(seconds(status.st_atim)) }
            table.field("changed") { $0.append(seconds(status.st_ctim)) }
            table.field("uid") { $0.append(Int(status.st_uid)) }
            table.field("gid") { $0.append(Int(status.st_gid)) }
            table.field("links") { $0.append(Int(status.st_nlink)) }
            table.field("device") { $0.append(Int(bitPattern: UInt(status.st_dev))) }
            table.field("inode") { $0.append(Int(bitPattern: UInt(status.st_ino))) }
        }
        return .success(.program(program))
    }

    private static func temporaryDirectory(_ prefix: String) -> Result<Answer, SystemError> {
        do throws(SystemError) { return .success(.text(try Directory.makeTemporary(prefix))) } catch {
            return .failure(error)
        }
    }

    /// Reads and writes to the end of a file, and adds the number of bytes to `total`.
    private static func pass(
        _ from: Int32, _ to: Int32, _ path: String, _ other: String, _ total: inout Int
    ) -> SystemError? {
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { buffer in
            while true {
                let n = Glibc.read(from, buffer.baseAddress, buffer.count)
                if n == 0 { return nil }
                if n < 0 {
                    if errno == EINTR { continue }
                    return SystemError("read", path)
                }
                let error = Descriptor.write(UnsafeRawBufferPointer(rebasing: buffer[..<n]), to: to)
                guard error == 0 else { return SystemError("write", other, errno: error) }
                total += n
            }
        }
    }

    /// Copies a file, inside the kernel if possible. The new file gets the permissions of the old one.
    private static func copy(_ path: String, _ other: String) -> Result<Answer, SystemError> {
        let from = path.withAnyCString { open($0, O_RDONLY | O_CLOEXEC) }
        guard from >= 0 else { return .failure(SystemError("open", path)) }
        defer { close(from) }
        var status = stat()
        guard fstat(from, &status) == 0 else { return .failure(SystemError("fstat", path)) }
        if status.st_mode & S_IFMT == S_IFDIR { return .failure(SystemError("copy", path, errno: EISDIR)) }
        var there = stat()
        if other.withAnyCString({ stat($0, &there) }) == 0, there.st_dev == status.st_dev, there.st_ino == status.st_ino
        {
            return .failure(SystemError("copy", other, errno: EINVAL, reason: "it is the same file (\(other))"))
        }
        let to = other.withAnyCString { open($0, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, status.st_mode & 0o777) }
        guard to >= 0 else { return .failure(SystemError("create", other)) }
        var failure: SystemError?
        var total = 0
        while failure == nil {
            let n = sendfile(to, from, nil, 1 << 20)
            if n == 0 { break }
            if n > 0 {
                total += n
            } else if errno == EINVAL || errno == ENOSYS || errno == EXDEV {
                // The kernel cannot copy from files such as those of /proc.
                failure = pass(from, to, path, other, &total)
                break
            } else if errno != EINTR {
                failure = SystemError("copy", other)
            }
        }
        if close(to) != 0, failure == nil { failure = SystemError("close", other) }
        return failure.map { .failure($0) } ?? .success(.number(total))
    }
}
