import Foundation
import TestSupport
import Testing

/// Every kind of failure, and its exact report.
@Suite(.timed) struct TestRunnerReportTests {
    @Test("tests that pass are listed by group") func whatPassesIsListed() throws {
        try TestRunnerFixture.expect(
            """
            t.describe("outer", function()
              t.it("one", function() end)
              t.describe("inner", function() t.it("two", function() assert(true) end) end)
              t.skip("three", function() end)
              t.it("four")
              t.it("five", function() t.skip("no network") end)
            end)
            """,
            """
            x_test.lua
              outer
                ok    one
                inner
                  ok    two
                skip  three
                skip  four: not written yet
                skip  five: no network

            2 passed, 3 skipped (time)
            """, status: 0)
    }

    @Test("a failed assertion shows how the values differ") func anAssertionShowsIn() throws {
        try TestRunnerFixture.expect(
            """
            t.it("compares", function()
              t.equal({ name = "a", list = { 1, 2, 3 }, deep = { x = { y = 1 } } },
                { name = "b", list = { 1, 3 }, deep = { x = { y = "1" } }, more = true })
            end)
            """,
            """
            x_test.lua
              FAIL  compares

            1) compares
               x_test.lua:2: the tables differ
                 .deep.x.y: expected "1", got 1
                 .list[2]: not expected: got 2
                 .more: missing: expected true
                 .name: expected "b", got "a"

            0 passed, 1 failed (time)
            """)
    }

    @Test("texts of several lines are compared by lines") func textsOfSeveralLines() throws {
        try TestRunnerFixture.expect(
            #"""
            local function check(text) t.equal(text, "one\ntwo\nthree\n", "the answer") end
            t.it("compares", function() check("one\n2\nthree\n") end)
            """#,
            """
            x_test.lua
              FAIL  compares

            1) compares
               x_test.lua:1: the answer: the texts differ (- expected, + got)
                   one
                 - two
                 + 2
                   three
               traceback:
                 x_test.lua:1: in upvalue 'check'
                 x_test.lua:2: in the test

            0 passed, 1 failed (time)
            """)
    }

    @Test("an error in a callback fails the test that made it") func anErrorInA() throws {
        try TestRunnerFixture.expect(
            """
            t.it("fails", function()
              rl.timer { delay = 1, callback = print }
              rl.after(1, function() error("oops") end)
              rl.sleep(2)
            end)
            t.it("is another", function() rl.sleep(2) end)
            """,
            """
            x_test.lua
              FAIL  fails
              ok    is another

            1) fails
               x_test.lua:3: oops
               in timer made at x_test.lua:3

            1 passed, 1 failed (time)
            """)
    }

    @Test("a task that failed and that nobody awaits fails its test") func aTaskThatFailed() throws {
        try TestRunnerFixture.expect(
            """
            t.it("fails", function()
              rl.task(function() error("in a task") end)
            end)
            """,
            """
            x_test.lua
              FAIL  fails

            1) fails
               x_test.lua:2: in a task
               in task made at x_test.lua:2

            0 passed, 1 failed (time)
            """)
    }

    @Test("items that a test leaves behind are listed with the places where they were made") func whatATestLeaves()
        throws
    {
        try TestRunnerFixture.expect(
            """
            local file
            t.it("leaves", function()
              rl.every(5, print)
              rl.task(function() rl.sleep(100) end)
              file = io.open("/dev/null")
              rl.thread { function() require "runloop".sleep(100) end, name = "worker" }
              t.spawn { "sleep", "100" }
            end)
            t.it("does not", function() rl.sleep(1000) end)
            """,
            """
            x_test.lua
              FAIL  leaves (time)
              ok    does not

            1) leaves
               x_test.lua:2: the test leaves something behind
                 timer (every 5 s, made at x_test.lua:3)
                 task made at x_test.lua:4 waits in rl.sleep (x_test.lua:4: in function <x_test.lua:4>)
                 thread "worker" (made at x_test.lua:6) still runs
                 program 'sleep' still runs (started at x_test.lua:7)
                 descriptor N (/dev/null, opened at x_test.lua:5)

            1 passed, 1 failed (time)
            """)
    }

    @Test("a time-out is reported with the place where each task waits") func aTimeOutSays() throws {
        try TestRunnerFixture.expect(
            """
            local function forever() while true do rl.sleep(0.001) end end
            t.it("hangs", { timeout = 0.2 }, function()
              local task = rl.task(forever)
              task:await()
            end)
            t.it("spins", { timeout = 0.2 }, function()
              while true do end
            end)
            """,
            """
            x_test.lua
              FAIL  hangs (time)
              FAIL  spins (time)

            1) hangs
               the test took longer than 0.2 s
                 the test waits in task:await
                   x_test.lua:4: in the test
                 task made at x_test.lua:3 waits in rl.sleep
                   x_test.lua:1: in function <x_test.lua:1>

            2) spins
               the test took longer than 0.2 s
                 it was running at
                   x_test.lua:7: in the test

            0 passed, 2 failed (time)
            """)
    }

    @Test("a time-out names what is due repeatedly, and the clock only if the script reads it")
    func whatIsDueAgain() throws {
        let reads = "the clock was read again and again"
        let test = """
            t.it("spins", { timeout = 0.2 }, function()
              local function again() rl.after(0, again) end
              again()
              rl.sleep(1)
            end)
            """
        let spins = try TestRunnerFixture.run(["x_test.lua": test]).output
        // The time-out may come while the timer's function runs, and then names the timer.
        let isDue = spins.contains("something is due again and again while the clock stands still at 0 s:\n")
        #expect(isDue || spins.contains("it was running at\n"), "\(spins)")
        #expect(spins.contains("timer made at x_test.lua:2") && !spins.contains(reads), "\(spins)")
        let works = test.replacing("rl.after(0, again)", with: "for i = 1, 20000 do i = i + 1 end rl.after(0, again)")
        #expect(!(try TestRunnerFixture.run(["x_test.lua": works]).output).contains(reads))
        let loop = "t.it('looks', { timeout = 0.2 }, function() repeat until rl.now() >= 5 end)"
        let looks = try TestRunnerFixture.run(["x_test.lua": loop]).output
        #expect(looks.contains(reads) && !looks.contains("something is due"), "\(looks)")
    }

    @Test("a test that nothing can wake fails at once") func aTestThatNothing() throws {
        try TestRunnerFixture.expect(
            """
            t.it("waits", function()
              local a, b
              a = rl.task(function() rl.sleep(1) b:await() end)
              b = rl.task(function() a:await() end)
              b:await()
            end)
            """,
            """
            x_test.lua
              FAIL  waits

            1) waits
               the test never ended: nothing is left that could wake it
                 the test waits in task:await
                   x_test.lua:5: in the test
                 task made at x_test.lua:3 waits in task:await
                   x_test.lua:3: in function <x_test.lua:3>
                 task made at x_test.lua:4 waits in task:await
                   x_test.lua:4: in function <x_test.lua:4>

            0 passed, 1 failed (time)
            """)
    }

    @Test("an unexpected exit fails its test, and the others run") func anUnexpectedExitIs() throws {
        try TestRunnerFixture.expect(
            """
            t.it("exits", function() pcall(os.exit, 3) end)
            t.it("dies", function() os.execute("kill -9 $PPID") end)
            t.it("is fine", function() end)
            """,
            """
            x_test.lua
              FAIL  exits
              FAIL  dies
              ok    is fine

            1) exits
               x_test.lua:1: os.exit(3) was called
               traceback:
                 x_test.lua:1: in the test

            2) dies
               x_test.lua:2: the process was ended by signal 9 (SIGKILL)

            1 passed, 2 failed (time)
            """)
    }

    @Test("a callback that ran too seldom or too often fails its test") func aCallbackThatRan() throws {
        try TestRunnerFixture.expect(
            """
            t.it("seldom", function() rl.after(60, t.expect(function() end, 2)) end)
            t.it("never", function() local f = t.expect(print) end)
            t.it("often", function()
              local timer <close> = rl.every(1, t.expect(function() end, 2))
              rl.sleep(5)
            end)
            t.it("right", function() rl.after(60, t.expect(function() end)) end)
            """,
            """
            x_test.lua
              FAIL  seldom
              FAIL  never
              FAIL  often
              ok    right

            1) seldom
               x_test.lua:1: an expected callback did not run as often as it had to
                 x_test.lua:1: expected to run 2 times, ran once

            2) never
               x_test.lua:2: an expected callback did not run as often as it had to
                 x_test.lua:2: expected to run once, ran never

            3) often
               a callback that must run 2 times ran once more (expected at x_test.lua:4)
               in timer made at x_test.lua:4

            1 passed, 3 failed (time)
            """)
    }

    @Test("groups that fail are counted as groups, apart from broken files") func groupsThatFail() throws {
        let group =
            "t.describe('g', function() t.after_all(function() error 'late' end) t.it('x', function() end) end)\n"
        let run = try TestRunnerFixture.run(
            ["a_test.lua": group + group, "b_test.lua": "error 'broken'"],
            ["--report", "junit=x.xml", "--report", "json=x.json"])
        #expect(run.output.contains("2 passed, 2 groups failed, 1 file broken") && run.status == 1)
        let one = try TestRunnerFixture.run(["a_test.lua": group])
        #expect(one.output.contains("1 passed, 1 group failed (") && one.status == 1)
    }

    @Test("a syntax error in a test file is reported") func aSyntaxErrorIn() throws {
        let transcript = try TestRunnerFixture.run([
            "bad_test.lua": "t.it('x' function() end)", "good_test.lua": "t.it('y', print)",
        ])
        #expect(
            transcript.output == """
                bad_test.lua
                  FAIL  the file
                good_test.lua

                  ok    y

                1) bad_test.lua
                   bad_test.lua:1: ')' expected near 'function'

                1 passed, 1 file broken (time)

                """)
        #expect(transcript.status == 1)
    }

    @Test("an error while a file is loaded is reported, and so are items that it leaves scheduled") func anErrorWhileA()
        throws
    {
        let transcript = try TestRunnerFixture.run([
            "a_test.lua": "local x = nil + 1", "b_test.lua": "rl.every(1, print) t.it('x', print)",
        ])
        #expect(
            transcript.output == """
                a_test.lua
                  FAIL  the file
                b_test.lua
                  FAIL  the file

                1) a_test.lua
                   a_test.lua:1: attempt to perform arithmetic on a nil value

                2) b_test.lua
                   loading the file leaves something behind: schedule it in a test or in before_each
                     timer (every 1 s, made at b_test.lua:1)

                0 passed, 2 files broken (time)

                """)
    }

    @Test("a run that finds no tests has its own exit status") func noTestsFoundIs() throws {
        let empty = try TestRunnerFixture.run(["lib.lua": "return 1"])
        #expect(empty.output == "" && empty.errors == "rlhost: test: no test found in .\n" && empty.status == 5)
        let filtered = try TestRunnerFixture.run(["a_test.lua": "t.it('x', print)"], ["--filter", "nothing"])
        #expect(filtered.errors == "rlhost: test: no test found whose name matches 'nothing'\n" && filtered.status == 5)
    }

    @Test("wrong use has another status than failures") func wrongUseIsTold() throws {
        for (arguments, message) in [
            (["--filtr", "x"], "unknown option '--filtr' (did you mean '--filter'?)"),
            (["--jobs", "0"], "--jobs needs a whole number, 1 or more, got '0'"),
            (["--format", "xml"], "--format must be readable, tap, tap14, junit, json or github, got 'xml'"),
            (["--filter", "["], "--filter: malformed pattern (missing ']'); --plain takes it literally"),
            (["--seed"], "--seed needs a value"), (["--list=1"], "--list takes no value"),
            (["missing"], "cannot find 'missing': ENOENT: no such file or directory"),
        ] {
            let transcript = try TestRunnerFixture.run([:], arguments)
            #expect(transcript.errors == "rlhost: test: \(message)\n")
            #expect(transcript.status == 64 && transcript.output == "")
        }
    }

    @Test("a report that cannot be written is a failure") func aReportThatCannotBeWrittenIs() throws {
        try Binary.withDirectory { directory in
            try "return { answer = 42 }\n".write(toFile: directory + "/m.lua", atomically: true, encoding: .utf8)
            try "require 'runloop.test'.it('x', function() require 'm' end)".write(
                toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            let full = try Binary.shell("$RLHOST test --format junit a_test.lua > /dev/full", directory: directory)
            #expect(full.status == 1 && full.errors.contains("cannot write standard output: No space left"), "\(full)")
            for options in ["--report tap=/dev/full", "--coverage=/dev/full", "--coverage=missing/lcov.info"] {
                let run = try Binary.shell("$RLHOST test \(options) a_test.lua", directory: directory)
                let reason =
                    options.contains("missing")
                    ? "ENOENT: no such file or directory (missing/lcov.info)" : "ENOSPC: no space left on device"
                #expect(run.status == 1 && run.errors.contains(reason), "\(run)")
            }
            #expect(try Binary.shell("$RLHOST test a_test.lua | head -0", directory: directory).errors == "")
        }
    }
}
