import Foundation
import Glibc
import TestSupport
import Testing

/// Another terminal can follow the output of a script, and load its modules again.
@Suite("Following a process's output", .timed)
struct AttachFollowTests {
    private static let script = """
        local rl = require "runloop"
        n = 0
        rl.every(0.02, function() n = n + 1 print("tick", n) end)
        print "ready" io.flush()
        """

    @Test("several clients can follow, the script's own output stays, and no client loses output")
    func follow() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let first = try target.start("--follow")
        let second = try target.start("--follow")
        #expect(first.waitForErrors("what the script prints from now on is shown here, too"))
        #expect(first.waitForOutput("tick\t") && second.waitForOutput("tick\t"))
        // The output of an entry goes to its client.
        let entry = try target.attach("-e", "print 'an entry'")
        #expect(entry.output == "an entry\n")
        first.signal(SIGINT)
        let end = first.finish()
        #expect(end.status == 130 && !end.output.contains("an entry"))
        second.signal(SIGKILL)
        _ = second.finish()
        let seen = try Int(target.value("n")) ?? 0
        #expect(target.process.waitForOutput("tick\t\(seen + 5)\n"))
        #expect(!target.process.errorText.contains("rror"), "\(target.process.errorText)")
    }

    @Test("other threads' prints are followed as well")
    func threads() throws {
        let target = try AttachedProcess(
            ["--attach"],
            """
            local rl = require "runloop"
            rl.thread(function()
              local rl = require "runloop"
              local n = 0
              rl.every(0.02, function() n = n + 1 print("thread", n) end)
              rl.run()
            end)
            rl.every(1000, print)
            print "ready" io.flush()
            """)
        let client = try target.start("--follow")
        #expect(client.waitForOutput("thread\t"))
        client.signal(SIGINT)
        #expect(client.finish().status == 130)
        #expect(target.process.waitForOutput("thread\t"))
        // The follower receives nothing any more.
        #expect(try target.value("1 + 1") == "2")
    }

    @Test("the prompt shows the parameters of a call from the process")
    func hints() throws {
        let target = try AttachedProcess(
            ["--attach"], "function own(first, second) end " + Self.script.replacing("print(\"tick\", n)", with: ""))
        let session = try target.prompt(environment: ["NO_COLOR": ""])
        try session.until("the prompt") { ($0.text.last ?? "").contains("> |") }
        try session.type("own(")
        try session.until("the hint") { ($0.text.last ?? "").hasSuffix("> own(|first, second)") }
        try session.type("1, ")
        try session.until("the rest of it") { ($0.text.last ?? "").hasSuffix("> own(1, |second)") }
        try session.type("2)")
        try session.until("no hint") { ($0.text.last ?? "").hasSuffix("> own(1, 2)|") }
    }

    @Test("at the prompt, .follow begins and ends, with output above the typed text")
    func prompt() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let session = try target.prompt()
        try session.until("the prompt") { ($0.text.last ?? "").contains("> |") }
        try session.type(".follow\r")
        try session.until("ticks") { $0.text.contains { $0.hasPrefix("tick ") } }
        try session.type("1 + 1")
        try session.until("the text below them") { ($0.text.last ?? "").hasSuffix("> 1 + 1|") }
        try session.type("\r")
        try session.until("the result") { $0.text.contains("2") }
        try session.type(".follow\r")
        try session.until("the end") { $0.text.contains("what the script prints is no longer shown") }
        let wrong = try Binary.run(["attach", "--follow"])
        #expect(wrong.status == 64 && wrong.errors.contains("--follow needs a process"))
    }

    @Test("a module is loaded again in the process")
    func reload() throws {
        let target = try AttachedProcess(
            ["--attach"], "package.path = arg[0]:match '.*/' .. '?.lua;' .. package.path " + Self.script)
        let path = target.folder.url.appending(path: "mod.lua")
        try "local M = {} function M.f() return 1 end return M".write(to: path, atomically: true, encoding: .utf8)
        #expect(try target.value("require 'mod'.f()") == "1")
        try "local M = {} function M.f() return 2 end return M".write(to: path, atomically: true, encoding: .utf8)
        let done = try target.attach("-e", ".reload mod", "-e", "require 'mod'.f()")
        #expect(done.output.hasSuffix("1 function replaced, 0 new; all other values are kept\n2\n") && done.status == 0)
        let none = try target.attach("-e", ".reload nope")
        #expect(none.errors == ".reload: no module 'nope' is loaded\n" && none.status == 1, "\(none)")
    }
}
