import TestSupport
import Testing

/// Warnings about mistakes that have no other effect: objects that are never added to a loop, and observers of the last
/// exit that expect the loop to continue.
@Suite("Objects that were never in a loop", .timed) struct ForgottenTests {
    private static let objects = [
        "rl.timer { delay = 1, callback = print }": "timer",
        "rl.timer { delay = 1, callback = print, name = 'poll' }": "timer \"poll\"",
        "rl.source { name = 's' }": "source \"s\"",
        "rl.port()": "port", "rl.observer { activities = 'all', callback = print }": "observer",
        "rl.fd_port { fd = 0, callback = print }": "fd_port",
        "rl.message_port { name = 'com.example.forgotten', callback = print }":
            "message_port \"com.example.forgotten\"",
        "require 'runloop.process'.signal { name = 'HUP', callback = print }": "signal \"HUP\"",
    ]

    @Test("-W warns when an object that was never in a loop is collected", arguments: objects.keys.sorted())
    func warned(object: String) throws {
        let kind = Self.objects[object] ?? ""
        try Binary.withDirectory { directory in
            let script =
                "local rl = require 'runloop'\nlocal a = \(object)\na = nil\ncollectgarbage()\nprint 'collected'\n"
            let environment = ["XDG_RUNTIME_DIR": directory]
            let told = try Binary.run(["-W", "--slow=10", "-"], input: script, environment: environment)
            #expect(
                told.errors == "rlhost: warning: \(kind) made at stdin:2 was collected and had never been in a loop\n",
                "\(told)")
            let quiet = try Binary.run(["-"], input: script, environment: environment)
            #expect(quiet.errors == "" && quiet.output == "collected\n", "\(quiet)")
        }
    }

    @Test("-W also warns at the end of the program, but not of objects that were used or invalidated")
    func used() throws {
        let script = """
            local rl = require "runloop"
            local loop = rl.current()
            local timer = rl.timer { delay = 0, callback = function() end }
            loop:add(timer)
            local source = rl.source {}
            loop:add(source, "never run")
            loop:remove(source, "never run")
            local given_up = rl.timer { delay = 1, callback = print }
            given_up:invalidate()
            rl.after(0, function() end)
            rl.at(rl.time(), function() end)
            pcall(rl.timer, { delay = 1 })
            local kept = rl.timer { delay = 1, callback = print }
            """
        let run = try Binary.run(["-W", "--slow=10", "-"], input: script)
        #expect(
            run.errors == "rlhost: warning: timer made at stdin:13 was collected and had never been in a loop\n",
            "\(run)")
        #expect(run.status == 0)
    }

    @Test("-W also warns in threads that begin when warnings are on")
    func threads() throws {
        let script = """
            local rl = require "runloop"
            local function forget() require "runloop".timer { delay = 1, callback = print } collectgarbage() \
            warn "own" end
            rl.thread(forget):join()
            warn "@off"
            rl.thread(forget):join()
            """
        let run = try Binary.run(["-W", "--slow=10", "-"], input: script)
        #expect(
            run.errors
                == "rlhost: warning: timer made at stdin:2 was collected and had never been in a loop\n"
                + "Lua warning: own\n",
            "\(run)")
        #expect(try Binary.run(["-"], input: script).errors.isEmpty)
    }

    @Test("items that observers of the last exit add are served, on the main thread and on others")
    func added() throws {
        let script = """
            local rl = require "runloop"
            local function work(name)
              local rl = require "runloop"
              local rounds = 0
              rl.observe({ "exit" }, function()
                rounds = rounds + 1
                if rounds < 3 then rl.after(0, print, name, rounds) end
              end)
              rl.after(0, print, name, "first")
            end
            local thread = rl.thread(work, "thread")
            thread:join()
            work "main"
            """
        let run = try Binary.run(
            ["-"], input: script.replacing("print, name", with: "function(_, ...) print(...) end, name"))
        let lines = ["thread", "main"].flatMap { name in ["first", "1", "2"].map { "\(name)\t\($0)\n" } }
        #expect(run.output == lines.joined() && run.errors.isEmpty && run.status == 0, "\(run)")
    }

    @Test("an observer of the program's last exit gets an error if it waits")
    func waits() throws {
        let script = """
            local rl = require "runloop"
            rl.observe({ "exit" }, function() print "exit" rl.sleep(0.01) print "after" end)
            rl.after(0, function() end)
            """
        let run = try Binary.run(["-"], input: script)
        #expect(run.output == "exit\n" && run.status == 1, "\(run)")
        #expect(run.errors.contains("stdin:2: rl.sleep: the loop's last run is over"), "\(run)")
        #expect(run.errors.contains("rl.on_shutdown"), "\(run)")
    }

    @Test("an observer that runs the loop after SIGTERM gets an error, too")
    func runs() throws {
        let script = """
            local rl = require "runloop"
            rl.observe({ "exit" }, function() print "exit" rl.run { timeout = 60 } print "after" end)
            rl.after(0.01, function() io.popen("kill -TERM $PPID"):close() end)
            rl.after(60, print)
            """
        let run = try Binary.run(["-"], input: script, timeout: 30)
        #expect(run.output == "exit\n" && run.signal == 15, "\(run)")
        #expect(run.errors.contains("stdin:2: rl.run: the loop's last run is over"), "\(run)")
    }

    @Test("if the loop continues, observers of the exit may wait like any other")
    func goesOn() throws {
        let script = """
            local rl = require "runloop"
            local observer = rl.observe({ "exit" }, function(observer)
              observer:invalidate()
              rl.sleep(0.01)
              print("after", rl.run { mode = "inner", timeout = 0 })
            end)
            rl.after(0, function() end)
            print(rl.run())
            """
        let run = try Binary.run(["-"], input: script)
        #expect(run.output == "finished\nafter\tfinished\n" && run.errors == "", "\(run)")
    }
}
