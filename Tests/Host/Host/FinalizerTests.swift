import TestSupport
import Testing

/// A script's finalizers run at any allocation, and may call anything.
@Suite("Finalizers", .timed)
struct FinalizerTests {
    /// Each collection runs a finalizer that requests an object while another object is being returned to Lua.
    private static let armed = """
        local function arm() setmetatable({}, { __gc = function() arm() rl.current() end }) end
        arm()

        """

    @Test("an object that is being returned is not lost, whatever objects finalizers request meanwhile")
    func answers() throws {
        let run = try Binary.run([
            "-e",
            Self.armed + """
                local p = assert(rl.message_port { name = "test.finalizers." .. rl.time(), callback = function() end })
                rl.current():add(p)
                for i = 1, 20000 do
                  local remote = assert(rl.remote_port(p:name()))
                  remote:invalidate()
                  if i % 50 == 0 then rl.sleep(0) end
                end
                p:invalidate()
                print "alive"
                """,
        ])
        #expect(run.output == "alive\n" && run.status == 0, "\(run)")
    }

    @Test(
        "a finalizer's call after the state is closed raises an error at the script's line"
    )
    func closing() throws {
        let run = try Binary.run([
            "-e",
            "local c = require 'runloop'.channel(1) "
                + "setmetatable({}, { __gc = function() print(pcall(c.send, c, 1)) end })",
        ])
        #expect(run.output == "false\t(command line):1: rlhost: the state is being closed\n", "\(run)")
    }

    @Test("finalizers do not disturb threads, their loops, and the loops that a source's functions get")
    func threads() throws {
        let run = try Binary.run([
            "-e",
            Self.armed + """
                local told = 0
                local s = rl.source { perform = print, schedule = function(_, loop) \
                told = told + (loop == rl.current() and 1 or 0) end }
                for i = 1, 2000 do rl.current():add(s, "m" .. i % 3) rl.current():remove(s, "m" .. i % 3) end
                for i = 1, 300 do
                  local thread = rl.thread(function(...) return ... end, i)
                  local loop = thread:loop()
                  assert(select(2, thread:join()) == i and loop == thread:loop())
                end
                print(told)
                """,
        ])
        #expect(run.output == "2000\n" && run.status == 0, "\(run)")
    }
}
