import Foundation
import TestSupport
import Testing

/// State that a test changes and other tests share, and how the runner explains the time that a test took.
@Suite(.timed) struct TestRunnerStateTests {
    private typealias Fixture = TestRunnerFixture

    @Test("the collector's mode is restored, and changed hooks and default files are reported") func theCollectorIsAs()
        throws
    {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('stops it', function() collectgarbage 'stop' collectgarbage 'incremental' collectgarbage('setpause', 999) end)
            t.it('finds it', function()
              t.truthy(collectgarbage 'isrunning')
              t.equal(collectgarbage 'generational', 'generational')
              t.equal(collectgarbage('setpause', 200), 200)
            end)
            t.it('hooks', function() debug.sethook(function() end, 'l') end)
            t.it('has no hook', function() t.equal(debug.gethook(), nil) end)
            t.it('writes elsewhere', function() io.output('/dev/null'):close() end)
            t.it('writes', function() io.write 'written\\n' end)
            """
        ])
        #expect(
            run.output.contains("  FAIL  hooks\n") && run.output.contains("debug hook (the function at a_test.lua:7)"))
        #expect(run.output.contains("  FAIL  writes elsewhere\n") && run.output.contains("written\n  ok    writes\n"))
        #expect(run.output.contains("4 passed, 2 failed"), "\(run.output)")
    }

    @Test("the script's directory is the test file's, and paths are complete") func theScriptsDirectory() throws {
        let name = "a/directory/with/a/name/that/is/longer/than/sixty/characters/altogether/x_test.lua"
        let run = try Fixture.run([
            "sub/a_test.lua": """
            t.it('knows it', function()
              t.truthy(rl.script_directory():find('/sub$'))
              t.equal({ rl.thread(function() return require 'runloop'.script_directory() end):join() }, { true, rl.script_directory() })
            end)
            """,
            name: "t.it('leaks', function() rl.every(5, print) end)",
        ])
        #expect(run.output.contains("timer (every 5 s, made at \(name):1)"), "\(run.output)")
        #expect(run.output.contains("ok    knows it"), "\(run.output)")
    }

    @Test("a timer that is due again and again is the only item named") func dueAgain() throws {
        let run = try Fixture.run([
            "a_test.lua":
                "t.it('e', { timeout = 0.5 }, function() local function again() rl.after(0, again) end again() "
                + "rl.sleep(1) end)"
        ])
        // If the time ends while the timer's function runs, the message names the timer as running, not as due.
        let names = ["something is due again and again", " in timer made at a_test.lua:1"]
        #expect(names.contains(where: run.output.contains), "\(run.output)")
        #expect(!run.output.contains("the clock was read again and again"), "\(run.output)")
    }

    @Test("a pool's threads are a leak, and threads of the host's own are not") func threadsOfTheHost() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('blocks', function() t.equal(rl.blocking(function(n) return n + 1 end, 2), 3) end)
            t.it('blocks again', function() t.equal(rl.blocking(function() return N end), nil) end)
            t.it('closes', function() local p <close> = rl.pool { threads = 2 } t.equal(p:run(function() return 1 end), 1) end)
            t.it('forgets', function() t.equal(rl.pool({ threads = 2 }):run(function() return 1 end), 1) end)
            """
        ])
        #expect(run.output.contains("thread \"pool\" (made at a_test.lua:4) still runs"))
        #expect(run.output.contains("3 passed, 1 failed"), "\(run.output)")
    }

    @Test("the timers of an open stream are not listed as leaks, and delayed requests have places")
    func timersOfTheHost() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('leaks', function()
              local a, b = require 'runloop.net'.memory { latency = 0.05 }
              rl.task(function() a:read_line() end)
              b:write 'x'
              rl.perform { print, after = 5 }
            end)
            """
        ])
        #expect(run.output.contains("perform request (delayed, made at a_test.lua:5)"), "\(run.output)")
        #expect(run.output.contains("stream"), "\(run.output)")
        #expect(!run.output.contains("(delayed)") && !run.output.contains("host's own"), "\(run.output)")
    }

    @Test("time zones are checked") func timeZonesAreChecked() throws {
        let files = ["a_test.lua": "t.it('x', function() print(os.date('%H', 0)) end)"]
        for (zone, hour) in [("Asia/Tokyo", "09"), ("CET-1CEST,M3.5.0,M10.5.0/3", "01"), ("UTC", "00")] {
            #expect(try Fixture.run(files, ["--tz", zone]).output.contains("\n\(hour)\n"))
        }
        let local = try Fixture.run(files, ["--tz", "local"], environment: ["TZ": "Asia/Tokyo"])
        #expect(local.output.contains("\n09\n"))
        let wrong = try Fixture.run(files, ["--tz", "Berlin"])
        #expect(
            wrong.errors == "rlhost: test: --tz needs a time zone, like Europe/Berlin, UTC or local, got 'Berlin'\n"
                && wrong.status == 64)
        let option = try Fixture.run(["a_test.lua": "t.it('x', {time_zone = '../x'}, print)"])
        #expect(
            option.output.contains("t.it: option 'time_zone' must be a time zone, like \"Europe/Berlin\", got \"../x\"")
        )
    }

    @Test("an error in closing a variable does not hide the error before it") func twoErrors() throws {
        try TestRunnerFixture.expect(
            """
            t.it("fails", function()
              rl.after(1, function()
                local x <close> = setmetatable({}, { __close = function() error "second" end })
                error("first")
              end)
              rl.sleep(2)
            end)
            """,
            """
            x_test.lua
              FAIL  fails

            1) fails
               x_test.lua:3: second, in closing a variable after: x_test.lua:4: first
               in timer made at x_test.lua:2

            0 passed, 1 failed (time)
            """)
    }

    @Test("short real operations let no virtual time pass, and no time limit end")
    func realTimeBelowTheGrain() throws {
        let test = """
            local fs = require "runloop.fs"
            for i = 1, 25 do
              t.it("watch " .. i, { timeout = 3 }, function()
                local directory = fs.temporary_directory()
                t.finally(function() fs.remove(directory, { recursive = true }) end)
                local watcher <close> = fs.watch(directory)
                fs.write(directory .. "/f", "x")
                assert(watcher:next(1))
              end)
            end
            for i = 1, 25 do
              t.it("reads " .. i, function()
                local path, start = os.tmpname(), rl.now()
                t.finally(function() os.remove(path) end)
                for _ = 1, 4 do fs.write(path, "x") fs.read(path) end
                local file <close> = require "runloop.net".open(assert(io.open(path, "rb")))
                t.equal(file:read_all(), "x")
                t.equal(rl.now(), start)
              end)
            end
            t.it("says what it waits for", { timeout = 0.4 }, function()
              os.execute "test -e pipe || mkfifo pipe"
              fs.read "pipe"
            end)
            """
        // On a busy machine a wait for a file may take as long as the wait of the last test. Such a wait is reported,
        // too.
        let run = try TestRunnerFixture.run(["a_test.lua": test], ["--retries", "4"])
        #expect(run.output.contains("50 passed, 1 failed"), "\(run)")
        #expect(run.output.contains("real time passed while the test waited for a file or name"), "\(run)")
    }

    @Test("a time-out is reported with the reason why time has passed or stood still") func aTimeOutSays() throws {
        let run = try Fixture.run(
            [
                "a_test.lua": """
                t.it('a thread', {timeout = 2}, function()
                  rl.thread(function() while true do end end)
                  rl.sleep(50)
                end)
                t.it('again and again', function()
                  local function again() rl.after(0, again) end
                  again()
                  rl.sleep(1)
                end)
                t.it('for ever', function() rl.every(1000, function() end) rl.sleep(1e30) end)
                """
            ], ["--timeout", "1"])
        #expect(run.output.contains("real time passed while the test waited for a thread that works"))
        // The report depends on the code that ran when the time was over.
        let isNamed =
            run.output.contains(
                "something is due again and again while the clock stands still at 0 s:\n       timer made at "
                    + "a_test.lua:6"
            )
            || run.output.contains("it was running at\n") && run.output.contains("in timer made at a_test.lua:6")
        #expect(isNamed, "\(run.output)")
        #expect(run.output.contains("the clock has jumped to "), "\(run.output)")
    }

    @Test("output takes time proportional to its length") func muchOutputTakesAs() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            local function seconds(megabytes)
              local least = 1e9
              for _ = 1, 3 do
                local began = rl.now()
                local p <close> = t.spawn { 'sh', '-c', 'head -c ' .. megabytes .. '000000 /dev/zero; echo end' }
                p:wait_for('end', { within = 60 })
                t.equal(#p:output(), megabytes * 1000000 + 4)
                least = math.min(least, rl.now() - began)
              end
              return least
            end
            t.it('x', {real_time = true, timeout = 100}, function()
              local few, many = seconds(3), seconds(24)
              t.truthy(many < few * 32, ('%g s and %g s'):format(few, many))   -- the square is 64
            end)
            """
        ])
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("each test has its own shutdown") func shutdownOfItsOwn() throws {
        let test = """
            for i = 1, 3 do
              t.it("x" .. i, function()
                local reason
                rl.on_shutdown(function(why) reason = why end)
                rl.after(1, function() rl.shutdown("r" .. i) end)
                t.falsy(pcall(rl.sleep, 50))
                t.equal(rl.now(), 1.0)
                t.equal(reason, "r" .. i)
              end)
            end
            """
        let run = try Fixture.run(["a_test.lua": test])
        #expect(run.output.contains("3 passed (time)") && run.status == 0, "\(run.output)")
    }

    @Test("each jump of the clock costs as much as the first") func manyJumps() throws {
        let test = """
            local function jump() for _ = 1, 4000 do rl.sleep(0.001) end end
            local first, last
            local function took() local before = REAL() jump() return REAL() - before end
            t.it("first", { timeout = 100 }, function() first = took() end)
            for _ = 1, 4 do t.it("more", { timeout = 100 }, jump) end
            t.it("last", { timeout = 100 }, function() last = took() assert(last < first * 4 + 0.2, last / first) end)
            """
        // The processor time of the process, read from /proc: tests have no other way to read it.
        let clock = """
            function REAL()
              local fields = io.open '/proc/self/stat':read 'a':match '%) (.*)'
              local user = fields:match('^' .. ('%S+ '):rep(11) .. '(%d+)')
              return tonumber(user) / 100
            end
            """
        let run = try Fixture.run(["a_test.lua": clock + "\n" + test])
        #expect(run.output.contains("6 passed (time)") && run.status == 0, "\(run.output)")
    }

    @Test("functions, branches, threads and files that nobody loads are covered") func functionsBranchesThreadsAnd()
        throws
    {
        let files = [
            "src/lib.lua": """
            local m = {}
            function m.sign(x)
              if x > 0 then
                x = 1
              end
              for i = 1, x do
                m.last = i
              end
              return x
            end
            function m.unused()
              return 1
            end
            return m
            """,
            "src/never.lua": "return 1",
            "src/never_test.lua": "return 2",
            "a_test.lua": """
            package.path = 'src/?.lua'
            t.it('x', function() require 'lib'.sign(1) end)
            t.it('in a thread', function()
              assert(rl.thread(function() package.path = 'src/?.lua' require 'lib'.sign(0) end):join())
            end)
            """,
        ]
        let both = try Fixture.run(files, ["--coverage-source", "src", "a_test.lua"])
        #expect(both.output.contains("src/lib.lua      91.6%  12\n"), "\(both.output)")
        #expect(both.output.contains("src/never.lua     0.0%  1\n") && !both.output.contains("never_test"))
        #expect(both.output.contains("11 of 13 lines, 1 of 2 functions, 4 of 4 branches\n"))
        let one = try Fixture.run(files, ["--coverage", "--filter", "x", "a_test.lua"]) { directory in
            let lcov = try String(contentsOfFile: directory + "/lcov.info", encoding: .utf8)
            #expect(lcov.contains("FN:2,m.sign:2\nFN:11,m.unused:11\nFNDA:1,m.sign:2\nFNDA:0,m.unused:11\n"))
            #expect(lcov.contains("BRDA:3,0,0,1\nBRDA:3,0,1,0\nBRDA:6,0,0,1\nBRDA:6,0,1,1\nBRF:4\nBRH:3\n"), "\(lcov)")
        }
        #expect(one.output.contains("src/lib.lua    91.6%  12 3→6\n"), "\(one.output)")
    }

    @Test("coverage counts a project's file that is given by its absolute path") func aFileByIts() throws {
        let run = try Fixture.run(
            [
                "src/lib.lua": "return 1",
                "a_test.lua": """
                t.it('x', function()
                  local directory = io.popen 'pwd':read 'l'
                  package.path = directory .. '/src/?.lua'
                  t.equal(require 'lib', 1)
                end)
                """,
            ], ["--coverage"])
        #expect(run.output.contains("src/lib.lua   100.0%"), "\(run.output)")
    }

    @Test("tests run without /proc") func withoutProc() throws {
        let hides = "unshare -Urm sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh"
        guard try Binary.shell("\(hides) true").status == 0 else { return }
        let run = try Binary.withDirectory { directory in
            let test = "require 'runloop.test'.it('is well', function() end)"
            try test.write(toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            return try Binary.shell("\(hides) \"$RLHOST\" test a_test.lua", directory: directory)
        }
        #expect(run.status == 0 && run.output.contains("1 passed"), "\(run)")
    }
}
