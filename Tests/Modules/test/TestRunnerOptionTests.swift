import Foundation
import TestSupport
import Testing

/// Options that choose tests, repeat them, and report their results.
@Suite(.timed) struct TestRunnerOptionTests {
    private typealias Fixture = TestRunnerFixture

    private static let doors = [
        "a_test.lua": """
        t.describe("door #slow", function()
          t.it("opens", function() end)
          t.it("shuts (twice)", {tags = {"loud"}}, function() end)
        end)
        t.it("alone", function() end)
        """
    ]

    private func names(_ arguments: [String]) throws -> [String] {
        let run = try Fixture.run(Self.doors, ["--list"] + arguments)
        return run.output.split(separator: "\n").map { String($0.split(separator: " ").last ?? "") }
    }

    @Test("tests are chosen by text, tag, line and part") func testsAreChosenBy() throws {
        #expect(try names(["--filter", "shuts (twice)"]) == ["(twice)"])
        #expect(try names(["--filter", "opens", "--filter", "alone"]) == ["opens", "alone"])
        #expect(try names(["--filter", "o.ens"]) == ["opens"] && names(["--plain", "--filter", "o.ens"]) == [])
        #expect(try names(["--tags", "slow"]) == ["opens", "(twice)"])
        #expect(try names(["--skip-tags", "loud,other"]) == ["opens", "alone"])
        #expect(try names(["a_test.lua:3"]) == ["(twice)"])
        #expect(try names(["a_test.lua:4"]) == ["opens", "(twice)"])
        #expect(try names(["--shard", "1/2"]) + names(["--shard", "2/2"]) != [])
        #expect(try Set(names(["--shard", "1/2"])).isDisjoint(with: names(["--shard", "2/2"])))
        // The parts are disjoint for all seeds; each machine has its own seed.
        let parts = try names(["--shuffle", "--seed", "1", "--shard", "1/2"])
        #expect(try Set(parts).isDisjoint(with: names(["--shuffle", "--seed", "2", "--shard", "2/2"])))
        #expect(try names(["--shard", "1/2"]).count + names(["--shard", "2/2"]).count == 3)
    }

    @Test("an option with a wrong value is refused") func whatIsNoChoice() throws {
        for (arguments, message) in [
            (["--shard", "3/2"], "--shard needs a part and how many there are, like 2/3, got '3/2'"),
            (["--report", "xml=a"], "--report needs a format and a file, like junit=out.xml, got 'xml=a'"),
            (["--coverage-min", "200"], "--coverage-min needs a number from 0 to 100, got '200'"),
            (["--retries", "x"], "--retries needs a whole number, 0 or more, got 'x'"),
            (["--tags", ""], "--tags needs words, like a,b"),
            (["--coverage="], "--coverage= needs a file behind it"),
            (["--report", "tap=x", "--report", "json=x"], "--report: two reports cannot be in the same file, 'x'"),
        ] {
            let run = try Fixture.run([:], arguments)
            #expect(run.errors == "rlhost: test: \(message)\n" && run.status == 64)
        }
    }

    @Test("--forbid-only refuses tests that are marked only") func onlyCanBeForbidden() throws {
        let run = try Fixture.run(["a_test.lua": "t.only('x', print)"], ["--forbid-only"])
        #expect(run.output.contains("a_test.lua:1: some tests are marked 'only'") && run.status == 1)
    }

    @Test("a test that fails now and then is reported as flaky") func whatFailsNowAnd() throws {
        let files = ["a_test.lua": "t.it('x', function() N = (N or 0) + 1 t.equal(N, 3) end)"]
        let run = try Fixture.run(files, ["--retries", "2", "--report", "junit=out.xml"]) { directory in
            let xml = try String(contentsOfFile: directory + "/out.xml", encoding: .utf8)
            #expect(xml.contains("<flakyFailure type=\"assertion\"") && xml.contains("failures=\"0\""))
        }
        #expect(run.output.contains("ok    x flaky: passed on try 3") && run.output.contains("1 passed, 1 flaky"))
        #expect(run.status == 0)
        #expect(try Fixture.run(files, ["--retries", "1"]).status == 1)
    }

    @Test("tests can be repeated, with a seed each") func testsCanBeRepeated() throws {
        let files = [
            "a_test.lua": "t.it('x', function() S = S or {} S[#S + 1] = math.random(1 << 40) assert(#S < 3) end)"
        ]
        let run = try Fixture.run(files, ["--repeat", "5", "--seed", "7"])
        #expect(run.output.contains("in run 3, with --seed 9") && run.status == 1, "\(run.output)")
        #expect(try Fixture.run(files, ["--repeat", "2"]).status == 0)
    }

    @Test("a test that fails in one of several runs is reported with the run") func whatIsFlakyIn() throws {
        let files = ["a_test.lua": "t.it('x', function() N = (N or 0) + 1 assert(N ~= 3) end)"]
        let run = try Fixture.run(files, ["--repeat", "4", "--retries", "1"])
        #expect(run.output.contains("ok    x flaky: passed on try 2 of run 3"), "\(run.output)")
    }

    @Test("reports in UTF-8 show other bytes") func whatIsNoUtf() throws {
        let files = ["a_test.lua": "t.it('x \\xff\\u{e9}', function() print '\\xfe' error '\\xfd' end)"]
        let reports = ["tap", "tap14", "junit", "json", "github"].flatMap { ["--report", "\($0)=out.\($0)"] }
        _ = try Fixture.run(files, reports) { directory in
            for format in ["tap", "tap14", "junit", "json", "github"] {
                let text = try String(contentsOfFile: directory + "/out.\(format)", encoding: .utf8)
                #expect(text.contains("x \u{FFFD}\u{E9}"), "\(text)")
            }
        }
    }

    @Test("two reports of one format have the same contents") func twoReports() throws {
        let files = [
            "a_test.lua": "t.it('a', print) t.it('b', function() print 'x' error 'no' end)",
            "b_test.lua": "error 'broken'",
        ]
        let reports = ["--report", "junit=1.xml", "--report", "junit=2.xml", "--format", "junit"]
        let run = try Fixture.run(files, reports) { directory in
            let one = try String(contentsOfFile: directory + "/1.xml", encoding: .utf8)
            #expect(try one == String(contentsOfFile: directory + "/2.xml", encoding: .utf8))
            #expect(one.components(separatedBy: "<testcase ").count == 4, "\(one)")
        }
        #expect(run.output.components(separatedBy: "<testcase ").count == 4, "\(run.output)")
    }

    @Test("a run whose coverage cannot be written fails") func aReportOfCoverage() throws {
        let run = try Fixture.run(["a_test.lua": "t.it('x', print)"], ["--coverage=/nope/x"])
        #expect(
            run.errors.hasPrefix("rlhost: test: cannot write the coverage: ENOENT: no such file or directory (/nope/x)")
                && run.status == 1)
    }

    @Test("--last-failed runs the tests that failed, and reports if they no longer exist") func thoseThatFailedRun()
        throws
    {
        try Binary.withDirectory { directory in
            let text = "local t = require 'runloop.test' t.it('good', print) t.it('bad', error)"
            try text.write(toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            let environment = ["XDG_STATE_HOME": directory + "/state"]
            _ = try Binary.run(["test"], environment: environment, directory: directory)
            let again = try Binary.run(["test", "--last-failed"], environment: environment, directory: directory)
            #expect(again.output.contains("0 passed, 1 failed") && again.status == 1, "\(again.output)")
            // The failed test is renamed, which is reported once.
            try text.replacing("bad", with: "worse").write(
                toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            for told in ["the tests that failed last time no longer exist", "nothing failed last time"] {
                let run = try Binary.run(["test", "--last-failed"], environment: environment, directory: directory)
                #expect(run.errors.hasPrefix("rlhost: test: \(told)"), "\(run.errors)")
            }
        }
    }

    @Test("expected failures pass, and fail when they no longer fail") func expectedFailuresAndThose() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('known', {fails = 'bug 7'}, function() t.equal(1, 2) end)
            t.it('mended', {fails = true}, function() end)
            """
        ])
        #expect(run.output.contains("ok    known fails as expected: bug 7"))
        #expect(run.output.contains("a_test.lua:2: it passes, although it is expected to fail") && run.status == 1)
    }

    @Test("leaks can be allowed") func leaksCanBeAllowed() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('all', {leaks = false}, function() rl.after(1, print) end)
            t.it('timers', {leaks = {'timer'}}, function() rl.after(1, print) end)
            t.it('others', {leaks = {'port'}}, function() rl.after(1, print) end)
            """
        ])
        #expect(run.output.contains("2 passed, 1 failed"), "\(run.output)")
    }

    @Test("snapshots are made when asked, and compared") func snapshotsAreMadeWhen() throws {
        try Binary.withDirectory { directory in
            func write(_ value: String) throws {
                let text = "local t = require 'runloop.test' t.it('x', function() t.snapshot(\(value)) end)"
                try text.write(toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            }
            try write("{a = 1, b = {2}}")
            let none = try Binary.run(["test"], directory: directory)
            #expect(none.status == 1 && none.output.contains("there is no snapshot 'x › 1' yet"))
            #expect(try Binary.run(["test", "--update"], directory: directory).status == 0)
            #expect(try Binary.run(["test"], directory: directory).status == 0)
            try write("{a = 3, b = {2}}")
            let changed = try Binary.run(["test"], directory: directory)
            #expect(changed.status == 1 && changed.output.contains("+   a = 3,"), "\(changed.output)")
            // Texts that look the same but differ in their bytes.
            try write("5")
            #expect(try Binary.run(["test", "--update"], directory: directory).status == 0)
            #expect(try Binary.run(["test"], directory: directory).status == 0)
            try write("'5'")
            let other = try Binary.run(["test"], directory: directory)
            #expect(other.status == 1, "\(other.output)")
            #expect(other.output.contains("is a number, and this value is a string"), "\(other.output)")
            // Two tests with the same name do not replace each other.
            try write("1) end) t.it('x', function() t.snapshot(2")
            let two = try Binary.run(["test", "--update"], directory: directory)
            #expect(two.status == 1 && two.output.contains("its own name"), "\(two.output)")
            // A file of an earlier version, which does not name its kind.
            try write("'5'")
            let before = "\n=== x › 1\n|5\n"
            try before.write(toFile: directory + "/a_test.snap", atomically: true, encoding: .utf8)
            #expect(try Binary.run(["test"], directory: directory).status == 0)
        }
    }

    @Test("every format has the results in its own form") func everyFormatSaysIt() throws {
        let files = ["a_test.lua": "t.it('x \\u{FFFF}', function() print 'p' t.equal(1, 2) end) t.it('y', print)"]
        let json = try Fixture.run(files, ["--format", "json"]).output.split(separator: "\n")
        for line in json {
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            #expect(object?["event"] is String)
        }
        #expect(json.contains { $0.contains("\"status\":\"failed\"") && $0.contains("\"line\":1") })
        let github = try Fixture.run(files, ["--format", "github"]).output
        #expect(github.hasPrefix("::error file=a_test.lua,line=1,title=x "), "\(github)")
        let junit = try Fixture.run(files, ["--format", "junit"]).output
        #expect(junit.contains("name=\"x ?\"") && junit.hasSuffix("</testsuites>\n"), "\(junit)")
        let slow = try Fixture.run(files, ["--slowest", "1"]).output
        #expect(slow.contains("\nthe slowest:\n"))
    }

    @Test("coverage includes the rlhosts that a test starts, in any directory, and their children")
    func coverageOfPrograms() throws {
        let files = [
            "lib/app.lua": "local function f()\n  return 1\nend\nif arg[1] then\n  f()\nelse\n  print 'none'\nend\n",
            "lib/outer.lua": """
            local process = require "runloop.process"
            process.run { arg[1], "app.lua", "x" }
            os.exit(0)
            """,
            "a_test.lua": """
            t.it('runs', function()
              local p <close> = t.spawn { t.rlhost, 'lib/app.lua' }
              p:wait()
              local q <close> = t.spawn { t.rlhost, 'outer.lua', t.rlhost, directory = 'lib', virtual_time = true }
              q:wait { within = 1000 }
            end)
            """,
        ]
        let run = try Fixture.run(files, ["--coverage"]) { directory in
            let lcov = try String(contentsOfFile: directory + "/lcov.info", encoding: .utf8)
            #expect(lcov.contains("SF:lib/app.lua\n") && lcov.contains("SF:lib/outer.lua\n"), "\(lcov)")
            #expect(lcov.contains("DA:2,1\n") && lcov.contains("DA:4,2\n") && lcov.contains("DA:7,1\n"), "\(lcov)")
        }
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("a coverage below the required one fails the run") func tooLittleCoverageFails() throws {
        let files = [
            "lib.lua": "local m = {}\nfunction m.f()\n  return 1\nend\nreturn m\n",
            "a_test.lua": "t.it('x', function() require 'lib' end)",
        ]
        let run = try Fixture.run(files, ["--coverage-min", "90"])
        #expect(run.status == 1 && run.errors.contains("less than --coverage-min 90"), "\(run.errors)")
        #expect(run.output.contains("lib.lua    80.0%  3"), "\(run.output)")
        #expect(try Fixture.run(files, ["--coverage-min", "50"]).status == 0)
    }
}
