internal import CLuaCodecs
internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The functions of `runloop.crypto` that are not in C because they wait or need the host.
enum CryptoBinding {
    static let functions = Library(
        "crypto.",
        [
            .native("open", crypto_open),
            .init("seeded") { Call.answer($0, seeded) },
            .init("derive", saidAs: "crypto.pbkdf2") { Call.run($0) { call throws(Misuse) in try derive(call) } },
        ])

    /// seeded(n): returns bytes that the seed of a test determines; nothing without a seed.
    private static func seeded(_ call: Call) -> ValueProgram {
        var program = ValueProgram()
        let host = call.luaHost
        guard host.seeded != nil, let count = call.integer(1), 0...(1 << 20) ~= count else { return program }
        var bytes: [UInt8] = []
        while bytes.count < count {
            withUnsafeBytes(of: host.seeded?.next() ?? 0) { bytes.append(contentsOf: $0) }
        }
        program.append(bytes: Array(bytes.prefix(count)))
        return program
    }

    private static let pool = WorkPool("crypto", limit: 2)

    /// Bytes that are wiped when nobody uses them any more.
    private final class Secret: @unchecked Sendable {
        // Sendable: only one thread at a time uses it.
        var bytes: [UInt8]

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        deinit {
            bytes.withUnsafeMutableBytes { bytes in
                if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
            }
        }
    }

    /// derive(name, password, salt, rounds, length): the task waits for the key. `check_pbkdf2` has checked a script's
    /// arguments, and has opened libcrypto.
    private static func derive(_ call: Call) throws(Misuse) -> Int32 {
        let name = try call.argument(1, Text.self)
        let password = Secret(call.bytes(2).map { Array($0) } ?? [])
        let salt = call.bytes(3).map { Array($0) } ?? []
        let rounds = Int32(clamping: max(1, call.integer(4) ?? 1))
        let count = call.integer(5) ?? 1
        guard 1...(1 << 20) ~= count else { throw call.wrong(5, "a number of bytes") }
        return try call.wait(in: WaitName.of("crypto.pbkdf2") ?? "a call of runloop.crypto") {
            answer throws(SystemError) in
            try pool.run {
                let key = Secret(Array(repeating: 0, count: count))
                let isDone = name.withCString { name in
                    password.bytes.withUnsafeBytes { password in
                        salt.withUnsafeBytes { salt in
                            key.bytes.withUnsafeMutableBytes { key in
                                crypto_derive(
                                    name, password.baseAddress?.assumingMemoryBound(to: CChar.self),
                                    Int32(clamping: password.count),
                                    salt.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(clamping: salt.count),
                                    rounds, key.baseAddress?.assumingMemoryBound(to: CChar.self),
                                    Int32(clamping: count))
                            }
                        }
                    }
                }
                var program = ValueProgram()
                program.append(bytes: key.bytes)
                answer(isDone != 0 ? .success(program) : .failure(SystemError("pbkdf2", name, errno: ENOMEM)))
            }
        }
    }
}
