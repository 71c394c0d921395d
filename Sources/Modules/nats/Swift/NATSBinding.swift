internal import CLuaCodecs
internal import Glibc
internal import Lua
internal import LuaRunLoops

/// The native functions of `runloop.nats`, which is written in Lua.
enum NATSBinding {
    static let functions = Library([
        .init("suspended") { Call.answer($0) { _ in seconds(of: CLOCK_BOOTTIME) - seconds(of: CLOCK_MONOTONIC) } },
        .init("identity") { Call.answer($0) { _ in identity() } },
        .init("load") { Call.answer($0) { call in load(of: call.luaHost) } },
        .init("chance") { Call.answer($0) { $0.luaHost.chance() } },
    ])

    /// identity(): returns the names of machine and process: { host, pid }.
    private static func identity() -> ValueProgram {
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        let bytes = name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        var program = ValueProgram()
        program.table { program in
            program.field("host") { $0.append(bytes: bytes) }
            program.field("pid") { $0.append(Int(getpid())) }
        }
        return program
    }

    /// load(): returns numbers of the process, and how many tasks of this thread wait.
    private static func load(of host: LuaHost) -> ValueProgram {
        var program = ValueProgram()
        program.table { program in
            program.field("uptime") { $0.append(metrics_age()) }
            program.field("memory") { $0.append(Int(metrics_resident())) }
            program.field("connections") { $0.append(Int(metrics_connections())) }
            program.field("tasks") { $0.append(host.fibersThatWait().count) }
        }
        return program
    }

    /// Returns the time of a clock. Their difference is the time for which the machine was suspended.
    private static func seconds(of clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }
}
