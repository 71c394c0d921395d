import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Attaching to a process", .timed)
struct AttachTests {
    @Test("-e runs entries in the process, in order, shows their values, and stops at the first that fails")
    func entries() throws {
        let target = try AttachedProcess()
        let run = try target.attach(
            "-e", "counter >= 0, 'text', { 1, { 2 } }", "-e", "local a = 20 function twice() return a * 2 end",
            "-e", "a = a + 1", "-e", "twice()", "-e", "=nil", "-e", "_, _1", "-e", "rl.sleep(0.02) return 'slept'")
        #expect(run.output == "true\ttext\t{ 1, { 2 } }\n42\nnil\nnil\tnil\nslept\n", "\(run)")
        #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
        let failed = try target.attach("-e", "print 'before'", "-e", "error 'boom'", "-e", "print 'never'")
        #expect(failed.status == 1 && failed.output == "before\n")
        #expect(
            failed.errors.contains(/^rlhost: \(attach\):1: boom\nstack traceback:\n/), "\(failed.errors)")
        let wrong = try target.attach("-e", "x x")
        #expect(wrong.status == 1 && wrong.errors.contains("syntax error near 'x'"), "\(wrong)")
        let unfinished = try target.attach("-e", "for i = 1, 2 do")
        #expect(unfinished.status == 1 && unfinished.errors.contains("<eof>"), "\(unfinished)")
    }

    @Test("output of an entry goes to its client, output of callbacks stays in the process")
    func output() throws {
        let target = try AttachedProcess()
        let run = try target.attach(
            "-e", "dump(7)", "-e", "rl.after(0.01, function() print 'from the callback' end) return 1",
            "-e", "rl.sleep(0.1) print 'from the entry'")
        #expect(run.output == "dump\t7\nwrite 7\nstdout\n1\nfrom the entry\n", "\(run)")
        let nested = try target.attach(
            "-e", "rl.after(0.01, function() print 'inside' end) rl.run { timeout = 0.05 } print 'around'")
        #expect(nested.output == "around\n", "\(nested)")
        #expect(target.process.waitForOutput("inside"))
        #expect(target.process.outputText == "ready\nfrom the callback\ninside\n")
        // Reading finds no input, and does not stop the process.
        #expect(try target.value("io.read() == nil, io.stdin:read('a')") == "true\t")
        #expect(try target.value("io.write('x') == io.stdout") == "xtrue")
    }

    @Test("clients have their own locals and results, share the globals, and leave nothing else")
    func separation() throws {
        let target = try AttachedProcess()
        let names = "local n = 0 for k in pairs(_G) do n = n + 1 end return n, rawget(_G, 'rl'), rawget(_G, 'help')"
        let before = try target.value(names)
        #expect(before.hasSuffix("\tnil\tnil"))
        #expect(
            try target.attach("-e", "local mine = 1 shared = 2", "-e", "mine + shared", "-e", "_").output == "3\n3\n")
        #expect(try target.value("mine, shared, _, _1, help ~= nil, rl ~= nil") == "nil\t2\tnil\tnil\ttrue\ttrue")
        #expect(try target.value("shared = nil return 0") == "0")
        #expect(try target.value(names) == before)
        // Values that the script has given these names stay visible.
        #expect(
            try AttachedProcess(["--attach"], "help, _ = 'own', 'too' \(AttachedProcess.script)").value("help, _")
                == "own\ttoo")
    }

    @Test("the process reports each client's arrival and departure, and keeps no memory of it")
    func traces() throws {
        let target = try AttachedProcess()
        _ = try target.value("1")
        let descriptors = target.settledDescriptors
        let client = try target.start("-e", "print 'here' rl.sleep(100)")
        #expect(client.waitForOutput("here"))
        #expect(target.descriptors > descriptors)
        client.signal(SIGTERM)
        #expect(client.finish().status == 143)
        #expect(target.process.waitForErrors("process \(client.pid) has detached after"))
        let lines = target.process.errorText.split(separator: "\n").filter { $0.contains(" \(client.pid) ") }
        #expect(lines.count == 2)
        #expect(lines.first?.contains(/^rlhost: \d+-\d\d-\d\d \d\d:\d\d:\d\d process \d+ has attached$/) == true)
        #expect(try target.value("rl.why():find 'attach' == nil") == "true")
        #expect(target.settledDescriptors == descriptors)
    }

    @Test("a process with nothing to do ends, attachable or not, and notifies its clients")
    func ends() throws {
        let idle = try Binary.run(["--attach", "-e", "local rl = require 'runloop' rl.attach() print(rl.why())"])
        #expect(idle.status == 0 && !idle.output.contains("attach") && idle.seconds < 20, "\(idle)")
        let target = try AttachedProcess(
            ["--attach"], "print 'ready' io.flush() require('runloop').after(1.5, function() end)")
        let client = try target.start()
        client.write("'first'\n")
        #expect(client.waitForOutput("first"))
        #expect(target.process.finish().status == 0)
        let run = client.finish()
        #expect(run.status == 69 && run.errors == "process \(target.pid) has ended\n", "\(run)")
        let other = try AttachedProcess()
        let exit = try other.attach("-e", "print 'last words' os.exit(7)")
        #expect(exit.status == 69 && exit.output == "last words\n", "\(exit)")
        #expect(exit.errors == "rlhost: attach: process \(other.pid) has ended\n")
        #expect(other.process.finish().status == 7)
        #expect(other.files.isEmpty)
    }

    @Test(
        "Control-C ends the entry, whatever it does, and nothing else",
        arguments: [
            "rl.sleep(1000)", "while true do end", "while true do pcall(function() while true do end end) end",
            "rl.run()", "rl.every(0.01, function() end) rl.run { mode = 'default' }",
            "rl.current():add(rl.timer { delay = 1000, callback = print }, 'private') rl.run { mode = 'private' }",
            "coroutine.wrap(function() while true do end end)()", "rl.task(function() rl.sleep(1000) end):await()",
            "return setmetatable({}, { __tostring = function() while true do end end })",
        ])
    func interruption(code: String) throws {
        let target = try AttachedProcess()
        let client = try target.start("-e", "print 'here' \(code)")
        #expect(client.waitForOutput("here"))
        target.settle()
        client.signal(SIGINT)
        let run = client.finish(timeout: 20)
        #expect(run.status == 130, "\(run)")
        #expect(run.errors.contains("interrupted!"), "\(run)")
        let before = try target.value("counter")
        #expect(try target.value("rl.sleep(0.05) return counter > \(before)") == "true")
        #expect(target.process.outputText == "ready\n")
    }

    @Test(
        "the entry of a client that dies ends, and its resources are freed",
        arguments: ["rl.sleep(1000)", "while true do end", "while true do pcall(rl.sleep, 1000) end", "rl.run()"])
    func death(code: String) throws {
        let target = try AttachedProcess()
        let client = try target.start(
            "-e", "held = setmetatable({}, { __mode = 'v' }) closed = 0",
            "-e",
            "local t = {} held[1] = t local c <close> = setmetatable({}, { __close = function() closed = closed + 1 "
                + "end })",
            "-e",
            "local d <close> = setmetatable({}, { __close = function() closed = closed + 10 end }) print 'here' \(code)"
        )
        #expect(client.waitForOutput("here"))
        target.settle()
        client.signal(SIGKILL)
        #expect(client.finish().signal == SIGKILL)
        #expect(target.process.waitForErrors("has detached"))
        var state = ""
        for _ in 0..<100 where state != "0\t11" {
            state = try target.value("collectgarbage() collectgarbage() return #held, closed")
        }
        #expect(state == "0\t11")
        #expect(try target.value("rl.why():find 'rl.sleep' == nil") == "true")
    }

    @Test("a client waits for a busy process, and reports that")
    func busy() throws {
        let target = try AttachedProcess()
        let first = try target.start("-e", "print 'here' busy(5)")
        #expect(first.waitForOutput("here"))
        let second = try target.start("-e", "'turn'")
        // The third client gives up before its turn, so its entry must not run.
        let third = try target.start("-e", "wrong = true")
        #expect(second.waitForErrors("is busy; the code waits for its turn"))
        #expect(third.waitForErrors("is busy"))
        third.signal(SIGINT)
        let result = second.finish()
        #expect(result.status == 0 && result.output == "turn\n", "\(result)")
        #expect(third.finish().status == 130)
        #expect(first.finish().status == 0)
        #expect(try target.value("wrong") == "nil")
    }

    @Test("an error in a callback of an entry does not end the process, unlike the script's own")
    func lateErrors() throws {
        let target = try AttachedProcess()
        _ = try target.value("rl.after(0.01, function() error 'late' end)")
        #expect(target.process.waitForErrors(": late\n"))
        #expect(try target.value("rl.task(function() rl.sleep(0.01) error 'later' end) ~= nil") == "true")
        #expect(target.process.waitForErrors(": later\n"))
        #expect(try target.value("1") == "1")
    }

    @Test("many clients at once get their own answers")
    func several() throws {
        let target = try AttachedProcess()
        let clients = try (0..<8).map { number in
            try target.start(
                "-e", "local n = \(number)", "-e", "for i = 1, 20 do print(n, i) rl.sleep(0.005) end", "-e", "n * 100")
        }
        for (number, client) in clients.enumerated() {
            let run = client.finish()
            let expected = (1...20).map { "\(number)\t\($0)\n" }.joined() + "\(number * 100)\n"
            #expect(run.output == expected && run.status == 0, "\(run)")
        }
    }

    @Test("large output arrives completely, and a slow client does not delay the process")
    func volume() throws {
        let target = try AttachedProcess()
        let run = try target.attach("-e", "('x'):rep(20000000)", "-e", "for i = 1, 50000 do print(i) end")
        #expect(run.output == String(repeating: "x", count: 20_000_000) + "\n" + (1...50000).map { "\($0)\n" }.joined())
        let large = try target.attach(input: "print(#[=[\(String(repeating: "y", count: 17_000_000))]=])\n'next'\n")
        #expect(large.status == 1 && large.output == "\"next\"\n" && large.errors.contains("16777216 can be sent"))
        // A stopped process runs no entry, but keeps the output of one that was run with -e.
        let slow = try target.start(
            "-e", "print 'here' rl.sleep(0.2) for i = 1, 40 do io.write(('z'):rep(1000000)) end done = true")
        #expect(slow.waitForOutput("here"))
        slow.signal(SIGSTOP)
        var done = ""
        for _ in 0..<40 where done != "true" {
            usleep(50_000)
            done = try target.value("done")
        }
        #expect(done == "true")
        slow.signal(SIGCONT)
        let late = slow.finish()
        #expect(late.status == 0 && late.errors.isEmpty, "\(late.errors)")
        #expect(late.outputBytes.count == 40_000_000 + "here\n".utf8.count)
    }
}
