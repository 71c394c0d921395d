import Foundation
import TestSupport
import Testing

/// A test that damages its process fails alone.
@Suite(.timed) struct TestRunnerSurvivalTests {
    private typealias Fixture = TestRunnerFixture

    @Test("a file that cannot be interrupted while it loads is ended") func aFileThatCannot() throws {
        let run = try Fixture.run(
            ["a_test.lua": "os.execute 'sleep 600'", "b_test.lua": "t.it('y', print)"], ["--timeout", "0.2"])
        #expect(run.output.contains("loading the file took longer than 0.2 s and could not be interrupted"))
        #expect(run.output.contains("1 passed, 1 file broken") && run.status == 1)
    }

    @Test("a loop in a coroutine is interrupted while a file loads") func aLoopInA() throws {
        let run = try Fixture.run(
            ["a_test.lua": "coroutine.wrap(function() while true do end end)()"], ["--timeout", "0.2"])
        #expect(
            run.output.contains("a_test.lua:1: the file took longer than 0.2 s") || run.output.contains("the file took")
        )
        #expect(run.seconds < 5 && run.status == 1)
    }

    @Test("a finalizer that does not end is ended") func aFinalizerThatDoes() throws {
        let run = try Fixture.run(
            [
                "a_test.lua":
                    "t.it('x', function() G = setmetatable({}, {__gc = function() while true do end end}) end)"
            ], ["--timeout", "0.2"])
        #expect(run.output.contains("ok    x") && run.output.contains("after its last test"), "\(run.output)")
        #expect(run.status == 1)
    }

    @Test("a test's own time-out takes precedence over that of the command line") func aTestSOwn() throws {
        let run = try Fixture.run(
            [
                "a_test.lua": """
                t.it('may', {timeout = 60, real_time = true}, function() rl.sleep(0.5) end)
                t.it('blocks', {timeout = 0.1}, function() os.execute 'sleep 600' end)
                """
            ], ["--timeout", "0.2"])
        #expect(
            run.output.contains("ok    may") && run.output.contains("longer than 0.1 s and could not"), "\(run.output)")
    }

    @Test("endless recursion is reported at once") func runawayRecursionIsNamed() throws {
        let run = try Fixture.run(["a_test.lua": "t.it('x', function() local function f() return 1 + f() end f() end)"])
        #expect(run.output.contains("a_test.lua:1: stack overflow"), "\(run.output)")
        #expect(run.output.split(separator: "\n").count < 40 && run.output.contains("more\n"))
        #expect(run.seconds < 15)
    }

    @Test("neither programs nor printed output can pass for test results") func programsCannotAnswerFor() throws {
        let run = try Fixture.run(
            [
                "a_test.lua": """
                t.it('writes', function()
                  os.execute "echo hello >&3 2>/dev/null"
                  print "\\0rlhost:9999\\0"
                end)
                t.it('closes', function() require 'luv'.fs_close(1) end)
                t.it('prints', function() io.stderr:write 'still here' end)
                """,
                "b_test.lua": "t.it('y', function() print 'and here' end)",
            ], ["--jobs", "1"])
        #expect(run.output.contains("still here") && run.output.contains("and here"), "\(run.output)")
        #expect(run.output.contains("ok    writes") && run.output.contains("ok    prints"))
        #expect(run.output.contains("descriptor N (standard output) is closed"))
    }

    @Test("a test with a deadlock inside a run fails") func aDeadlockInsideA() throws {
        let run = try Fixture.run([
            "a_test.lua": "t.it('x', function() local p = rl.port() rl.current():add(p) rl.run() print 'on' end)"
        ])
        #expect(
            run.output.contains("waits for ever in a run of the loop") && !run.output.contains("on\n"), "\(run.output)")
    }

    @Test("a thread that does not stop fails its own test only") func aThreadThatDoes() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('blocks', function() rl.thread(function() os.execute 'sleep 30' end) end)
            for i = 1, 2 do t.it('innocent ' .. i, function() end) end
            """
        ])
        #expect(run.output.contains("2 passed, 1 failed") && run.seconds < 15, "\(run.output)")
    }

    @Test("all hooks run even if one of them fails") func allHooksRunWhatever() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.after_each(function() print 'outer' end)
            t.describe('g', function()
              t.after_each(function() error 'inner' end)
              t.it('x', function() end)
            end)
            """
        ])
        #expect(run.output.contains("outer\n") && run.output.contains("a_test.lua:3: inner"), "\(run.output)")
    }

    @Test("programs that are still running are reported, and ended") func whatIsLeftOf() throws {
        let mark = "4\(getpid())"
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('daemon', function() os.execute "sleep \(mark) >/dev/null 2>&1 &" end)
            t.it('crash', function() os.execute "setsid sleep \(mark) >/dev/null 2>&1 & kill -KILL $PPID; sleep 1" end)
            t.it('after', print)
            """
        ])
        #expect(run.output.contains("program 'sleep \(mark)' still runs"), "\(run.output)")
        #expect(run.output.contains("SIGKILL") && run.output.contains("1 passed, 2 failed"))
        #expect(try !Self.runs("sleep \(mark)"))
    }

    private static func runs(_ command: String) throws -> Bool {
        for entry in try FileManager.default.contentsOfDirectory(atPath: "/proc") where Int(entry) != nil {
            let line = (try? String(contentsOfFile: "/proc/\(entry)/cmdline", encoding: .utf8)) ?? ""
            if line.replacingOccurrences(of: "\0", with: " ").hasPrefix(command) { return true }
        }
        return false
    }

    @Test("Control-C reports the results so far, and leaves nothing behind") func controlCReportsWhat() throws {
        try Binary.withDirectory { directory in
            let mark = "5\(getpid())"
            let text = """
                local t = require 'runloop.test'
                t.it('fails', function() t.equal(1, 2) end)
                t.it('long', {timeout = 60}, function()
                  print 'begun'
                  local p <close> = t.spawn { 'sleep', '\(mark)' }
                  p:wait { within = 100 }
                end)
                """
            try text.write(toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            let process = try Binary.Process(["test", "--report", "junit=out.xml", "a_test.lua"], directory: directory)
            #expect(process.waitForOutput("begun"))
            process.signal(SIGINT)
            let end = process.finish()
            #expect(end.status == 130)
            #expect(
                end.output.contains("expected 2, got 1") && end.output.contains("interrupted by SIGINT"),
                "\(end.output)")
            #expect(end.output.contains("1 failed, 1 not run"))
            let xml = try String(contentsOfFile: directory + "/out.xml", encoding: .utf8)
            #expect(xml.hasSuffix("</testsuites>\n") && xml.contains("expected 2, got 1"))
            #expect(try !Self.runs("sleep \(mark)"))
        }
    }

    @Test("positions are complete however long the paths are") func positionsAreWholeHowever() throws {
        let directory = String(repeating: "directory/", count: 8)
        let run = try Fixture.run(
            [
                directory + "x_test.lua": """
                t.it('asserts', function() t.equal(1, 2) end)
                t.it('errors', function() error 'x' end)
                t.it('in a callback', function() rl.after(1, function() error 'y' end) rl.sleep(2) end)
                """
            ], [directory + "x_test.lua"])
        for line in 1...3 { #expect(run.output.contains("   \(directory)x_test.lua:\(line): "), "\(run.output)") }
        #expect(!run.output.contains("..."))
    }

    @Test("changes that tests make to their process are undone, and reported") func whatTestsChangeOf() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('observer', function() rl.notifications:observe('n', print) end)
            t.it('hears nothing', function() rl.notifications:post 'n' end)
            t.it('skips late', function() rl.after(1, function() t.skip 'late' end) rl.sleep(2) end)
            t.it('hides', function() rl.on_error(function() end) rl.after(1, function() t.equal(1, 2) end) rl.sleep(2) end)
            t.it('in a thread', function() assert(rl.thread(function() require 'runloop.test'.equal(1, 2) end):join()) end)
            t.it('long', function() t.equal(('x'):rep(300) .. 'a', ('x'):rep(300) .. 'b') end)
            """
        ])
        #expect(run.output.contains("observer of notification \"n\""))
        #expect(run.output.contains("skip  skips late: late") && run.output.contains("ok    hears nothing"))
        #expect(run.output.contains("FAIL  hides") && run.output.contains("the strings differ from byte 301 on"))
        #expect(!run.output.contains("table: 0x"), "\(run.output)")
    }

    @Test("a thread that is cancelled while its callback waits fails no test") func aThreadThatIs() throws {
        let script = """
            local th = rl.thread(function()
              local rl = require 'runloop'
              rl.after(0, function() rl.sleep(10) end)
              rl.sleep(100)
            end)
            rl.sleep(0.05)
            th:cancel()
            print(th:join())
            """
        let plain = try Binary.run(["-e", script])
        #expect(plain.status == 0 && plain.errors == "" && plain.output.hasPrefix("false"), "\(plain)")
        #expect(try Fixture.run(["a_test.lua": "t.it('x', function() \(script) end)"]).status == 0)
    }

    @Test("a link to a parent directory is followed once") func aLinkToWhere() throws {
        let run = try Fixture.run(["tests/a_test.lua": "os.execute 'ln -sfn . tests/loop' t.it('x', function() end)"])
        let again = try Fixture.run(["tests/a_test.lua": "os.execute 'ln -sfn . tests/loop' t.it('x', function() end)"])
        #expect(run.output == again.output && run.output.contains("1 passed"))
    }
}
