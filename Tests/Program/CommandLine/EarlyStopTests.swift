import Foundation
import TestSupport
import Testing

@Suite("rl.stop before the automatic run", .timed)
struct EarlyStopTests {
    /// If a loop began to run, the script would print something, or never end.
    private static let begin = """
        local rl = require 'runloop'
        rl.source { modes = 'default', perform = print }
        rl.after(0, print, 'timer')
        rl.observe('all', print)
        rl.on_shutdown(print)

        """

    @Test(
        "the run after the main chunk does not begin",
        arguments: [
            "rl.stop()", "rl.current():stop()", "rl.main():stop()", "rl.task(rl.stop)", "rl.stop() rl.stop()",
            "rl.run { mode = 'nothing is in it' } rl.stop()", "rl.stop() rl.run { mode = 'nothing is in it' }",
        ])
    func main(_ code: String) throws {
        for arguments in [["-e", Self.begin + code], ["-"]] {
            let run = try Binary.run(arguments, input: Self.begin + code, timeout: 20)
            #expect(run.status == 0 && run.output + run.errors == "" && !run.timedOut, "\(run)")
        }
    }

    @Test("an explicit run clears the stop, and the automatic run begins after it")
    func explicit() throws {
        let code = """
            local rl = require 'runloop'
            rl.after(0, function() print 'first' end)
            local later = rl.after(60, print)
            rl.stop()
            print(rl.run { timeout = 0.1 })
            later:invalidate()
            rl.after(0, function() print 'second' end)
            """
        #expect(try Binary.run(["-e", code]).output == "first\ntimed_out\nsecond\n")
    }

    @Test("a main chunk that stops the loop and then waits ends with status 13")
    func waits() throws {
        try Binary.withDirectory { directory in
            for (call, name) in [("rl.stop()", "rl.stop()"), ("rl.current():stop()", "loop:stop()")] {
                try "local rl = require 'runloop'\n\n\(call)\nrl.sleep(0.01)\nprint 'no'\n".write(
                    toFile: directory + "/x.lua", atomically: true, encoding: .utf8)
                let run = try Binary.run(["x.lua"], directory: directory, timeout: 20)
                #expect(run.status == 13 && run.output == "", "\(run)")
                let reason = "the loop was stopped before it ran: \(name) at x.lua:3"
                #expect(run.errors.hasPrefix("rlhost: the main chunk never ended: \(reason)\n"), "\(run)")
            }
        }
    }

    @Test("the run after a thread's function does not begin", arguments: ["", "rl.sleep(0.01)"])
    func thread(_ wait: String) throws {
        let code = """
            local rl = require 'runloop'
            local thread = rl.thread(function()
              local rl = require 'runloop'
              rl.every(10, print)
              rl.stop() \(wait)
              return 5, 6
            end)
            print(thread:join(10))
            """
        #expect(try Binary.run(["-e", code], timeout: 20).output == "true\t5\t6\n")
    }

    @Test("a stop from another thread at any moment ends the program")
    func anyMoment() throws {
        for delay in 0..<12 {
            let code = """
                local rl = require 'runloop'
                rl.source { modes = 'default', perform = print }
                rl.thread { function()
                  local rl = require 'runloop'
                  rl.sleep(\(delay) * 0.0002)
                  rl.main():stop()
                end, keeps_alive = false }
                """
            let run = try Binary.run(["-e", code], timeout: 20)
            #expect(run.status == 0 && !run.timedOut, "\(delay) \(run)")
        }
    }
}
