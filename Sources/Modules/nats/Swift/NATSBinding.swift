internal import Glibc
internal import Lua
internal import LuaRunLoops

/// The native functions of `runloop.nats`, which is written in Lua.
enum NATSBinding {
    static let functions = Library([
        .init("suspended") { Call.answer($0) { _ in seconds(of: CLOCK_BOOTTIME) - seconds(of: CLOCK_MONOTONIC) } }
    ])

    /// Returns the time of a clock. Their difference is the time for which the machine was suspended.
    private static func seconds(of clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }
}
