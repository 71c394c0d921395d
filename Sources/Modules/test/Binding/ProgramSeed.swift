internal import Glibc
internal import Linux
internal import Lua
public import LuaRunLoops

/// The number that determines everything random in a program: `math.random`, and the order of tables.
public enum ProgramSeed {
    /// The environment variable with the seed.
    public static let variable = "RLHOST_SEED"
    // Only the main thread uses this variable, and sets it before other threads begin.
    nonisolated(unsafe) private static var seed: Int64?

    /// Reads the environment. A program with a seed restarts itself, with addresses that are not random. Returns an
    /// error message, or nil.
    public static func take() -> String? {
        guard let text = getenv(variable).map({ String(cString: $0) }) else { return nil }
        guard text.utf8.allSatisfy({ 48...57 ~= $0 }), let number = Int64(text) else {
            return "\(variable) must be a whole number from 0 to \(Int64.max), got '\(text)'"
        }
        seed = number
        if WorkerProcess.fixAddresses() { LuaHost.fixSeed(UInt32(truncatingIfNeeded: number ^ (number >> 32))) }
        return nil
    }

    /// Seeds a state and its threads. Returns an error message, or nil.
    public static func adopt(_ host: LuaHost) -> String? {
        guard let seed else { return nil }
        let threads = Lock(0)
        let before = host.threads.world.prepare
        host.threads.world.prepare = { host in
            let number = threads.withLock { count in
                count += 1
                return count
            }
            return host.seed(seed, number) ?? before(host)
        }
        return host.seed(seed, 0)
    }
}

extension LuaHost {
    fileprivate func seed(_ seed: Int64, _ number: Int) -> String? {
        seeded = SeededNumbers(seed: UInt64(bitPattern: seed), number: number)
        return load(.text("math.randomseed(\(seed), \(number))", name: "=[rlhost]")) ?? callLoaded([])
    }
}
