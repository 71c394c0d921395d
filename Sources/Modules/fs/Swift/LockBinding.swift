internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The native functions of fs.lock: one attempt without waiting, and pauses between attempts.
enum LockBinding {
    static let entries: [Library.Entry] = [
        .init("try_lock") { Call.run($0) { call throws(Misuse) in try attempt(call) } },
        .init("unlock") { Call.act($0) { call throws(Misuse) in try unlock(call) } },
        .init("lock_holder") { Call.run($0) { call throws(Misuse) in try holder(call) } },
        .init("is_own_lock") { Call.answer($0) { call throws(Misuse) in try isOwn(call) } },
        .init("lock_pause", saidAs: "fs.lock") { Call.run($0) { call throws(Misuse) in try pause(call) } },
    ]

    /// The locks of a Lua state, by descriptor. The locks that are left end with this object: while a state is closed,
    /// finalizers cannot call the host.
    private final class Part: HostPart {
        var files: [Int32: String] = [:]
        deinit { for (descriptor, file) in files { LockBinding.end(descriptor, file) } }
    }

    /// For each file: the number of its locks that this process holds.
    private static let own = Linux.Lock<[String: Int]>([:])
    private static let pool = WorkPool("locks", limit: 4)

    /// try_lock(path, shared): returns a descriptor and the file's identity as a text; false and the identity if
    /// another process has the lock; or nil, problem, code.
    private static func attempt(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        let operation = (call.stack.boolean(2) ? LOCK_SH : LOCK_EX) | LOCK_NB
        while true {
            let flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
            var descriptor = path.withAnyCString { open($0, flags | O_CREAT, 0o600) }
            if descriptor < 0, errno == EISDIR { descriptor = path.withAnyCString { open($0, flags) } }
            // If the file belongs to another user, the system may refuse O_CREAT although the file exists.
            if descriptor < 0, errno == EACCES {
                descriptor = path.withAnyCString { open($0, flags) }
                if descriptor < 0, errno == ENOENT { errno = EACCES }
            }
            guard descriptor >= 0 else { return call.fail(SystemError("open", path)) }
            var information = stat()
            guard fstat(descriptor, &information) == 0 else {
                let failure = SystemError("stat", path)
                Descriptor.close(descriptor)
                return call.fail(failure)
            }
            let file = identity(information)
            guard flock(descriptor, operation) == 0 else {
                let failure = SystemError("flock", path)
                Descriptor.close(descriptor)
                guard failure.errno == EWOULDBLOCK || failure.errno == EINTR else { return call.fail(failure) }
                call.stack.push(false)
                guard call.stack.push(file) else { throw .noMemory }
                return call.values(2)
            }
            // If another file has taken the name between open and flock, the lock is on a file that has lost the name.
            var named = stat()
            if path.withAnyCString({ stat($0, &named) }) == 0, identity(named) == file {
                own.withLock { $0[file, default: 0] += 1 }
                call.luaHost.part(Part.self).files[descriptor] = file
                call.stack.push(Int(descriptor))
                guard call.stack.push(file) else { throw .noMemory }
                return call.values(2)
            }
            Descriptor.close(descriptor)
        }
    }

    private static func identity(_ information: stat) -> String { "\(information.st_dev):\(information.st_ino)" }

    /// unlock(descriptor, file)
    private static func unlock(_ call: Call) throws(Misuse) {
        let descriptor = try call.number32()
        let file = try call.argument(2, Text.self)
        let part = call.luaHost.part(Part.self)
        guard part.files[descriptor] == file else { return }
        part.files[descriptor] = nil
        end(descriptor, file)
    }

    private static func end(_ descriptor: Int32, _ file: String) {
        // Closing alone would not free the lock while a child that has not begun its program yet has a copy of the
        // descriptor.
        _ = flock(descriptor, LOCK_UN)
        Descriptor.close(descriptor)
        own.withLock { own in
            let count = (own[file] ?? 1) - 1
            own[file] = count > 0 ? count : nil
        }
    }

    private static func isOwn(_ call: Call) throws(Misuse) -> Bool {
        let file = try call.argument(1, Text.self)
        return own.withLock { $0[file] != nil }
    }

    /// lock_holder(file): returns the number of the process that holds the lock, as /proc/locks says; nil if unknown.
    private static func holder(_ call: Call) throws(Misuse) -> Int32 {
        let parts = try call.argument(1, Text.self).split(separator: ":").compactMap { UInt64($0) }
        guard parts.count == 2, case .success(.bytes(let bytes)) = Files.read("/proc/locks", 1 << 20) else {
            return call.answerNil()
        }
        // The parts of a device's number, as gnu_dev_major(3) takes them apart.
        let device = parts[0]
        let high = device >> 8 & 0xfff | device >> 32 & ~0xfff
        let low = device & 0xff | device >> 12 & 0xffff_ff00
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            // 1: FLOCK  ADVISORY  WRITE 4711 08:01:1311 0 EOF
            let words = line.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
            guard words.count >= 6, words[1] == "FLOCK", let process = Int(words[4]), process > 0 else { continue }
            let place = words[5].split(separator: ":")
            guard place.count == 3, UInt64(place[0], radix: 16) == high, UInt64(place[1], radix: 16) == low,
                UInt64(place[2]) == parts[1]
            else { continue }
            return call.answer(process)
        }
        return call.answerNil()
    }

    /// lock_pause(seconds): waits in real time, even in a test. The test's clock stands still meanwhile, as it does
    /// while a test waits for a program.
    private static func pause(_ call: Call) throws(Misuse) -> Int32 {
        let seconds = call.number(1) ?? 0
        return try call.wait(in: WaitName.of("fs.lock") ?? "a call of runloop.fs") { answer throws(SystemError) in
            try pool.run {
                usleep(UInt32(max(0, min(seconds, 0.5)) * 1e6))
                var program = ValueProgram()
                program.append(true)
                answer(.success(program))
            }
        }
    }
}
