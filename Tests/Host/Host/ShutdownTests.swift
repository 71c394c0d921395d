import Foundation
import TestSupport
import Testing

@Suite("Shutting down", .timed)
struct ShutdownTests {
    private static let prologue = """
        local rl = require "runloop"
        local function closing(name) return setmetatable({}, { __close = function(_, err) print("closed", name, err) \
        end }) end
        local function kill(signal) io.popen("kill -" .. signal .. " $PPID"):close() end

        """

    private static func run(_ script: String) throws -> Binary.Result {
        try Binary.run(["-"], input: prologue + script, timeout: 30)
    }

    @Test(
        "shutdown functions run newest first, may wait, and then the tasks are closed, newest first",
        arguments: [SIGTERM, SIGINT])
    func functions(signal: Int32) throws {
        let name = signal == SIGTERM ? "TERM" : "INT"
        let run = try Self.run(
            """
            rl.task(function() local c <close> = closing "older" rl.sleep(60) end)
            rl.task(function() local c <close> = closing "newer" rl.sleep(60) end)
            rl.on_shutdown(function(reason) print("last", reason) end)
            rl.on_shutdown(function(reason) rl.sleep(0.02) print("first", reason) end)
            rl.after(0.01, function() kill "\(name)" end)
            """)
        #expect(
            run.output
                == "first\tSIG\(name)\nlast\tSIG\(name)\nclosed\tnewer\tcancelled\nclosed\tolder\tcancelled\n", "\(run)"
        )
        #expect(run.signal == signal && run.errors == "", "\(run)")
    }

    @Test("a shutdown function that computes is cancelled at its limit, and named")
    func computing() throws {
        let run = try Self.run(
            """
            rl.on_shutdown(function() print "the other one" end)
            rl.on_shutdown(function() while true do local _ = {} end end, { limit = 0.1 })
            rl.on_shutdown(function() rl.sleep(0.01) while true do pcall(function() while true do local _ = {} end \
            end) end end, { limit = 0.1 })
            rl.after(0.01, function() kill "TERM" end)
            """)
        #expect(run.output == "the other one\n" && run.signal == SIGTERM, "\(run)")
        #expect(run.errors.split(separator: "\n").count { $0.hasSuffix(" has not ended within 0.1 s") } == 2, "\(run)")
    }

    @Test("a script may call rl.shutdown, with a reason; the status is 0")
    func asked() throws {
        let run = try Self.run(
            """
            local main <close> = closing "main"
            rl.on_shutdown(function(reason) print(reason) end)
            rl.after(0.01, function() rl.shutdown "enough" end)
            rl.sleep(60)
            """)
        #expect(run.output == "enough\nclosed\tmain\tcancelled\n" && run.status == 0 && run.errors == "", "\(run)")
        let plain = try Self.run("rl.after(0.01, function() rl.shutdown() print 'goes on' end) rl.every(60, print)")
        #expect(plain.output == "goes on\n" && plain.status == 0, "\(plain)")
    }

    @Test("the signal interrupts no callback, and a shutdown function is cancelled at its limit, and named")
    func limits() throws {
        let run = try Self.run(
            """
            rl.on_shutdown(function() print "the other one" end)
            rl.on_shutdown(function() local c <close> = closing "slow" rl.sleep(60) end, { limit = 0.02 })
            rl.after(0.01, function()
              kill "TERM"
              for i = 1, 1e6 do end
              print "whole"
            end)
            """)
        #expect(run.output == "whole\nclosed\tslow\tcancelled\nthe other one\n", "\(run)")
        #expect(run.errors.contains("has not ended within 0.02 s") && run.signal == SIGTERM, "\(run)")
    }

    @Test("a shutdown function that fails does not keep the others from running")
    func failing() throws {
        let run = try Self.run(
            """
            rl.on_shutdown(function() print "still" end)
            rl.on_shutdown(function() error "fails" end)
            rl.after(0.01, function() rl.shutdown() end)
            """)
        #expect(run.output == "still\n" && run.status == 1 && run.errors.contains("fails"), "\(run)")
        #expect(run.errors.contains("\nin shutdown function made at "), "\(run)")
    }

    @Test("a second signal ends the program at once")
    func second() throws {
        let run = try Self.run(
            """
            rl.on_shutdown(function() print "waits" io.stdout:flush() kill "TERM" rl.sleep(60) end, { limit = 60 })
            rl.after(0.01, function() kill "TERM" end)
            """)
        #expect(run.output == "waits\n" && run.signal == SIGTERM && run.seconds < 20, "\(run)")
    }

    @Test("without shutdown functions SIGTERM closes the variables of all tasks, newest first")
    func tasks() throws {
        let run = try Self.run(
            """
            local main <close> = closing "main"
            rl.task(function() local c <close> = closing "older" rl.sleep(60) end)
            rl.after(0, function() local c <close> = closing "callback" rl.sleep(60) end)
            rl.after(0.05, function() kill "TERM" end)
            rl.sleep(60)
            """)
        let closed = ["callback", "older", "main"].map { "closed\t\($0)\tcancelled\n" }.joined()
        #expect(run.output == closed && run.signal == SIGTERM && run.errors == "", "\(run)")
    }

    @Test("SIGTERM closes the variables of threads, too, and reports no error for it")
    func threads() throws {
        let run = try Self.run(
            """
            rl.on_error(function(err) if rl.is_cancelled(err) then print "told" end end)
            rl.thread(function()
              local rl = require "runloop"
              local thread <close> = setmetatable({}, { __close = function(_, why) print("thread", why) \
            io.stdout:flush() end })
              rl.sleep(60)
            end)
            rl.after(0, function() rl.sleep(60) end)
            rl.after(0.1, function() kill "TERM" end)
            """)
        #expect(run.output == "thread\tcancelled\n" && run.signal == SIGTERM && run.errors == "", "\(run)")
    }

    @Test("SIGTERM ends a program that is inside C code a second later, as under lua")
    func cCode() throws {
        let run = try Self.run("os.execute '(sleep 0.2; kill -TERM $PPID) & exec sleep 20 >/dev/null 2>&1'")
        #expect(run.signal == SIGTERM && run.seconds < 15, "\(run)")
        let handler = try Self.run(
            "os.execute '(sleep 0.2; kill -TERM $PPID) >/dev/null 2>&1 &' "
                + "xpcall(error, function() while true do end end)"
        )
        #expect(handler.signal == SIGTERM && handler.seconds < 15, "\(handler)")
    }

    @Test("a signal that the parent ignores stays ignored", arguments: ["TERM", "INT"])
    func ignored(signal: String) throws {
        let script = "io.popen('kill -\(signal) $PPID'):close() print 'alive'"
        let run = try Binary.run(
            ["-c", "trap '' \(signal); exec \"$0\" -e \"$1\"", Binary.path, script], program: "/bin/sh", name: "sh")
        #expect(run.output == "alive\n" && run.status == 0, "\(run)")
    }

    @Test("a signal that comes while finalizers run ends the program")
    func finalizers() throws {
        let run = try Self.run("setmetatable({}, { __gc = function() kill 'TERM' end })")
        #expect(run.signal == SIGTERM, "\(run)")
    }

    @Test("misuse raises errors that name the function")
    func misuse() throws {
        let script = try TaskScript(
            """
            local function try(f, ...) log(select(2, pcall(f, ...))) end
            try(rl.on_shutdown, 1) try(rl.on_shutdown, print, 1) try(rl.on_shutdown, print, { limit = -1 })
            try(rl.on_shutdown, print, { limits = 1 })
            """)
        #expect(
            script.journal == [
                "script:1: rl.on_shutdown: argument #1 must be a function, got 1",
                "script:1: rl.on_shutdown: argument #2 must be an options table, got 1",
                "script:1: rl.on_shutdown: field 'limit' must be a number of seconds, 0 or more, got -1",
                "script:1: rl.on_shutdown: unknown field 'limits' (did you mean 'limit'?)",
            ])
    }
}
