import Foundation
import Glibc
import TestSupport
import Testing

/// A user can find out where a process is stuck, and attach to it although it was not prepared for that.
@Suite("Attaching to a process that is busy, or was not prepared", .timed)
struct AttachWhereTests {
    static let script = """
        local rl = require "runloop"
        ticks = 0
        rl.every(0.01, function() ticks = ticks + 1 end)
        local function inner() local n = 0 while not free do n = n + 1 end end
        function hang()
          rl.current():add(rl.timer { delay = 0, name = "hog", callback = function() inner() end }) end
        waiting = rl.task(function() local function deep() rl.sleep(1000) end deep() end)
        print "ready" io.flush()
        """

    @Test("a process opens its port on request, also while it is busy, and reports where it is")
    func unprepared() throws {
        let target = try AttachedProcess([], Self.script)
        #expect(try target.attach("-e", "rl.sleep(0.1) return ticks > 0").output == "true\n")
        #expect(try target.attach("--where").output == "nothing runs: the loop waits in mode \"default\"\n")
        let another = try AttachedProcess([], Self.script + " hang() require('runloop').after(0, print, 'x')")
        ProcessActivity.awaitWork(another.pid)
        let busy = try another.attach("--where", timeout: 10)
        #expect(busy.status == 0, "\(busy)")
        #expect(busy.output.hasPrefix("the callback of timer \"hog\" made at "), "\(busy)")
        #expect(
            busy.output.contains("target.lua:4\nstack traceback:\n\t") && busy.output.contains("in upvalue 'inner'"))
        // Only the callback ends; the process continues.
        let interrupted = try another.attach("-e", ".interrupt", "-e", "rl.sleep(0.1) return ticks > 0", timeout: 10)
        #expect(interrupted.output.hasPrefix("interrupted: the callback of timer \"hog\""), "\(interrupted)")
        #expect(interrupted.output.hasSuffix("\ntrue\n") && interrupted.status == 0, "\(interrupted)")
        #expect(another.process.waitForErrors("in timer \"hog\""))
        #expect(try another.attach("-e", ".interrupt").output == "nothing runs that could be interrupted\n")
        // The list of processes has both.
        let list = try Binary.run(["attach"], environment: target.environment)
        #expect(list.output.contains("\(target.pid)") && list.output.contains("\(another.pid)"))
    }

    @Test("an option, the environment or a call forbids attaching")
    func forbidden() throws {
        for (options, environment, script) in [
            (["--no-attach"], [:], ""), ([], ["RLHOST_ATTACH": "off"], ""),
            ([], [:], "require('runloop').attach(false)"),
        ] as [([String], [String: String], String)] {
            let folder = try AttachedProcess.makeFolder()
            let places = ["XDG_RUNTIME_DIR": folder.url.path]
            let process = try Binary.Process(
                options + ["-e", script, "-e", Self.script], environment: places.merging(environment) { $1 })
            defer { process.signal(SIGKILL) }
            #expect(process.waitForOutput("ready"))
            let refused = try Binary.run(["attach", "\(process.pid)", "-e", "1"], environment: places)
            #expect(refused.status == 69 && refused.errors.contains("--no-attach, RLHOST_ATTACH=off"), "\(refused)")
            // The signal alone, without a request in the process, does nothing.
            process.signal(SIGURG)
            process.settle()
            #expect(try Binary.run(["attach", "\(process.pid)", "-e", "1"], environment: places).status == 69)
        }
    }

    @Test("a client does not wait without end for a process in a C function")
    func inC() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let sleeper = try target.start("-e", "print 'here' os.execute 'sleep 3'")
        #expect(sleeper.waitForOutput("here"))
        target.settle()
        let answer = try target.attach("--where")
        #expect(answer.output.hasPrefix("it is in a C function or a system call"), "\(answer)")
        #expect(sleeper.finish().status == 0)
    }

    @Test("commands work with -e, list tasks and timers, and wrong ones give status 1")
    func commands() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let run = try target.attach(
            "-e", ".why", "-e", ".tasks", "-e", ".timers", "-e", ".inspect { 1 }", "-e", ".help rl.sleep", "-e",
            "waiting:traceback()")
        #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
        #expect(run.output.contains("waits in rl.sleep at ") && run.output.contains("timer (every 0.01 s"))
        #expect(run.output.contains("target.lua:7, 99") || run.output.contains("target.lua:7, 1000"), "\(run)")
        #expect(run.output.contains("\n{ 1 }\nrl.sleep(seconds)\n"))
        #expect(run.output.contains("stack traceback:\n\t[C]: in ") && run.output.contains("in local 'deep'"))
        #expect(try target.attach("-e", ".nonsense").status == 1)
        #expect(try target.attach("-e", ".load /nonexistent").status == 1)
    }

    @Test("an entry for a busy process is announced at once, and Control-C withdraws it")
    func takenBack() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let session = try target.prompt()
        let prompt = "\(target.pid)> "
        try session.until("the prompt") { $0.picture.last == prompt + "|" }
        try session.type("hang()\r")
        try session.until("the prompt") { $0.picture.last == prompt + "|" && $0.picture.contains(prompt + "hang()") }
        ProcessActivity.awaitWork(target.pid)
        let begin = Date()
        try session.type("\u{0C}wrong = true\r")
        try session.until("the notice", seconds: 2) { $0.picture.joined().contains("is busy") }
        #expect(Date().timeIntervalSince(begin) < 2)
        try session.type("\u{03}")
        try session.until("the prompt", seconds: 2) {
            $0.picture.last == prompt + "|" && $0.text.contains("interrupted!")
        }
        // Meanwhile the user can see where the process is, by a command or Control-\, and continue to type.
        try session.type("\u{0C}first = 'first'\rfirst\r")
        try session.until("the notice", seconds: 2) { $0.picture.joined().contains("is busy") }
        try session.type("\u{0C}.where\r")
        try session.until("where it is", seconds: 2) { $0.picture.contains { $0.contains("timer \"hog\"") } }
        try session.type("\u{0C}\u{1C}")
        try session.until("where it is", seconds: 2) { $0.picture.contains { $0.contains("timer \"hog\"") } }
        try session.type("\u{0C}.interrupt\r")
        try session.until("what had waited", seconds: 3) {
            $0.picture.contains("\"first\"") && $0.picture.last == prompt + "|"
        }
        try session.type("\u{0C}hang()\r")
        try session.until("the prompt") { $0.picture.last == prompt + "|" }
        ProcessActivity.awaitWork(target.pid)
        // `.why` gets no answer either, but the prompt still reacts to the keyboard.
        try session.type("\u{0C}.why\r")
        try session.until("the notice", seconds: 2) { $0.picture.joined().contains("is busy") }
        try session.type("\u{03}typed")
        try session.until("what is typed", seconds: 2) { $0.picture.last == prompt + "typed|" }
        try session.type("\u{15}\u{0C}.where\r")
        try session.until("where it is") { $0.picture.contains { $0.contains("timer \"hog\"") } }
        try session.type("\u{0C}.interrupt\r")
        try session.until("the end of the callback") { $0.picture.contains { $0.hasPrefix("interrupted: ") } }
        try session.type("\u{0C}wrong, ticks > 0\r")
        try session.until("the answer") { $0.picture.contains("nil     true") }
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
    }

    @Test("nothing that -e prints is lost, however slow the reader")
    func whole() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let slow = try target.start(
            "-e", "print 'here' local wide = ('.'):rep(24) for i = 1, 200000 do print(wide, i) end")
        #expect(slow.waitForOutput("here"))
        slow.signal(SIGSTOP)
        ProcessActivity.awaitRest(target.pid)
        slow.signal(SIGCONT)
        let run = slow.finish()
        #expect(run.status == 0 && run.errors.isEmpty)
        #expect(run.output.utf8.count { $0 == 10 } == 200_001 && run.output.hasSuffix(".\t200000\n"))
    }

    @Test("an entry that loops in a message handler ends with its client")
    func handlers() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let client = try target.start("-e", "print 'here' xpcall(error, function() while true do end end)")
        #expect(client.waitForOutput("here"))
        ProcessActivity.awaitWork(target.pid)
        client.signal(SIGKILL)
        #expect(target.process.waitForErrors("has detached"))
        #expect(try target.attach("-e", "ticks > 0", timeout: 20).output == "true\n")
    }

    @Test("a process is found wherever its sockets are")
    func places() throws {
        let target = try AttachedProcess(["--attach=elsewhere"], Self.script)
        let run = try Binary.run(["attach", "elsewhere", "-e", "1"], environment: ["XDG_RUNTIME_DIR": "/nonexistent"])
        #expect(run.status == 0 && run.output == "1\n", "\(run)")
        #expect(try Binary.run(["attach", "\(target.pid)", "-e", "2"]).output == "2\n")
    }

    @Test("an entry that computes shows where it is at Control-\\")
    func whereInEntry() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let session = try target.prompt()
        try session.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        try session.type("while not free do end\r")
        ProcessActivity.awaitWork(target.pid)
        try session.type("\u{1C}")
        try session.until("where it is", seconds: 2) {
            $0.picture.contains { $0.hasPrefix("an entry of process ") && $0.contains("runs at ") }
        }
        try session.type("\u{03}")
        try session.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
    }

    @Test("SIGQUIT shows the stack and the kind of the running code")
    func quit() throws {
        let target = try AttachedProcess([], Self.script + " hang()")
        ProcessActivity.awaitWork(target.pid)
        target.process.signal(SIGQUIT)
        #expect(target.process.waitForErrors("the callback of timer \"hog\" made at "))
        #expect(target.process.waitForErrors("in upvalue 'inner'"))
        let chunk = try AttachedProcess([], Self.script + " while true do end")
        ProcessActivity.awaitWork(chunk.pid)
        chunk.process.signal(SIGQUIT)
        #expect(chunk.process.waitForErrors("the main chunk runs at "))
    }
}
