import Foundation
import TestSupport
import Testing

/// Tests with a real wall clock that is set while the program runs: virtual time cannot show this.
@Suite("The wall clock", .timed) struct WallClockTests {
    /// A library that gives the program a clock under the test's control.
    private static let shim = Result {
        let source = Binary.repository + "/Tests/Host/Scripts/wall-clock.c"
        let target = FileManager.default.temporaryDirectory.appendingPathComponent("rlhost-clock-\(getpid()).so").path
        let compiled = try Binary.run(
            ["clang", "-O1", "-w", "-shared", "-fPIC", "-o", target, source], program: "/usr/bin/env", name: "env")
        guard compiled.status == 0 else { throw Binary.Failure(description: "clang: \(compiled.errors)") }
        return target
    }

    private func run(_ script: String, jump: String) throws -> Binary.Result {
        try Binary.run(["-l", "rl=runloop", "-e", script], environment: ["JUMP": jump, "LD_PRELOAD": Self.shim.get()])
    }

    @Test("a timer in an hour fires at once when the clock is set forward by an hour")
    func forward() throws {
        let result = try run(
            "rl.at(rl.time() + 3600, function() print(rl.now() - START < 100) end) START = rl.now()", jump: "3600:0.2")
        #expect(result.output == "true\n", "\(result)")
    }

    @Test("a due timer fires later when the clock is set back")
    func back() throws {
        let script = """
            local start, moment = rl.now(), rl.time() + 0.3
            rl.at(moment, function() print(rl.now() - start >= 2.3, rl.time() >= moment) end)
            """
        let result = try run(script, jump: "-2:0.1")
        #expect(result.output == "true\ttrue\n", "\(result)")
    }

    @Test("a mode that did not run handles the jump when it runs")
    func otherMode() throws {
        let script = """
            rl.at(rl.time() + 3600, function() print "came" end, { modes = "own" })
            rl.after(0.5, function() print(rl.run { mode = "own" }) end)
            """
        let result = try run(script, jump: "3600:0.1")
        #expect(result.output == "came\nfinished\n", "\(result)")
    }

    @Test("after seven hours of sleep, jobs follow their rule for missed runs, and timers continue")
    func slept() throws {
        // A process whose machine sleeps does not run meanwhile. When it continues, the wall clock has advanced and the
        // monotonic clock has not.
        let script = """
            local schedule = require "runloop.schedule"
            local start, began, calls = rl.now(), rl.time(), {}
            for _, missed in ipairs { "skip", "once", "all" } do
              calls[missed] = 0
              schedule.cron("0 * * * *", function() calls[missed] = calls[missed] + 1 end, { missed = missed, \
            utc = true })
            end
            rl.at(began + 3600, function() calls.at = "at" end)
            local later = rl.at(began + 8 * 3600, print)
            rl.after(3, function()
              print(calls.at, calls.once, calls.all, calls.skip <= 1)
              print(rl.now() - start < 3600, rl.time() - began > 25200, later:fire_date() - rl.now() < 3601)
              os.exit()
            end)
            print "ready" io.stdout:flush()
            """
        let process = try Binary.Process(
            ["-l", "rl=runloop", "-e", script], environment: ["JUMP": "25200:1", "LD_PRELOAD": Self.shim.get()])
        #expect(process.waitForOutput("ready\n"))
        process.signal(SIGSTOP)
        usleep(1_500_000)
        process.signal(SIGCONT)
        let result = process.finish()
        #expect(result.output == "ready\nat\t1\t7\ttrue\ntrue\ttrue\ttrue\n", "\(result)")
    }

    @Test("without a descriptor for watching the clock, rl.at returns that error")
    func refused() throws {
        let script = """
            ulimit -n 24
            exec "$RLHOST" -l rl=runloop -e '
              rl.now()
              local files = {}
              for file in function() return io.open "/dev/null" end do files[#files + 1] = file end
              print(rl.at(rl.time() + 1, print))'
            """
        let result = try Binary.shell(script)
        #expect(result.output.hasPrefix("nil\tEMFILE: too many open files"), "\(result)")
    }
}
