import Foundation
import TestSupport
import Testing

/// The runner itself: options, formats, order. The test library has tests in Lua.
@Suite(.timed) struct TestRunnerTests {
    @Test("the example project passes", arguments: [[], ["--shuffle", "--jobs", "2"]]) func theExampleProjectPasses(
        _ options: [String]
    ) throws {
        let run = try Binary.run(["test"] + options, directory: "\(Binary.repository)/docs/examples/testing")
        #expect(run.status == 0 && run.output.contains("9 passed"), "\(run.output)\(run.errors)")
    }

    private static let names = (1...8).map { "t.it('\($0)', function() io.write('<\($0)>') io.flush() end) " }.joined()

    private func order(_ options: [String]) throws -> String {
        let run = try TestRunnerFixture.run(["a_test.lua": Self.names, "b_test.lua": Self.names], options)
        #expect(run.status == 0)
        return run.output.matches(of: /<(\d)>/).map { String($0.1) }.joined()
    }

    @Test("the same seed gives the same order, another seed another order") func theSameSeedGives() throws {
        let inOrder = try order([])
        #expect(inOrder == "1234567812345678")
        let first = try order(["--shuffle", "--seed", "1"])
        #expect(first != inOrder && first.sorted() == inOrder.sorted())
        #expect(try order(["--shuffle", "--seed", "1"]) == first)
        #expect(try order(["--shuffle", "--seed", "2"]) != first)
    }

    @Test("the seed is printed if it has an effect, and makes math.random repeat") func theSeedIsPrinted() throws {
        let files = ["a_test.lua": "t.it('x', function() print(math.random(1000000)) end)"]
        let run = try TestRunnerFixture.run(files, ["--shuffle", "--seed", "77"], keepsSeed: true)
        #expect(run.output.hasSuffix("1 passed (time)\nseed: 77\n"))
        #expect(try TestRunnerFixture.run(files, ["--shuffle", "--seed", "77"], keepsSeed: true).output == run.output)
        #expect(try !TestRunnerFixture.run(files, ["--seed", "77"], keepsSeed: true).output.contains("seed"))
    }

    @Test(
        "the seed determines the order of tables, in all states",
        .enabled(if: (try? Binary.shell("setarch -R true").status) == 0, "the system forbids fixed addresses"))
    func theSeedDecidesAboutTheOrderOf() throws {
        let order = """
            local keys = {} for k in pairs { alpha = 1, beta = 2, gamma = 3, delta = 4, eps = 5, zeta = 6, eta = 7 } do
              keys[#keys + 1] = k end return table.concat(keys, ' ')
            """
        let text = """
            local function order() \(order) end
            t.it('x', function() print('main', order()) print('thread', select(2, rl.thread(order):join())) end)
            """
        func run(_ seed: Int, _ environment: [String: String] = [:]) throws -> [Substring] {
            try TestRunnerFixture.run(
                ["a_test.lua": text, "b_test.lua": text, "c_test.lua": text], ["--seed", "\(seed)", "--jobs", "2"],
                environment: environment
            ).output.split(separator: "\n").filter { $0.contains("alpha") }
        }
        let first = try run(1)
        #expect(first.count == 6 && Set(first).count == 2, "\(first)")
        #expect(try run(1, ["ANOTHER": String(repeating: "x", count: 1000)]) == first)
        #expect(try Set((2...6).map { try run($0)[0] }).count > 1)
    }

    @Test("--list, --filter and only choose tests") func filtersListsAndLonely() throws {
        let files = [
            "a_test.lua": """
            t.describe("door", function()
              t.it("opens", function() end)
              t.it("shuts", function() end)
            end)
            """,
            "b_test.lua": "t.it('alone', {only = true}, print) t.it('other', error)",
        ]
        let listed = try TestRunnerFixture.run(files, ["--list"])
        #expect(listed.output == "a_test.lua: door › opens\na_test.lua: door › shuts\nb_test.lua: alone\n")
        let filtered = try TestRunnerFixture.run(files, ["--filter", "^door s", "a_test.lua"])
        #expect(filtered.output == "a_test.lua\n  door\n    ok    shuts\n\n1 passed (time)\n")
        let alone = try TestRunnerFixture.run(files, ["b_test.lua"])
        #expect(alone.output.hasSuffix("1 passed (time)\nonly: 1 other tests were skipped\n"))
    }

    @Test("fail-fast stops at the first failure") func failFastStopsAt() throws {
        let run = try TestRunnerFixture.run(
            ["a_test.lua": "t.it('1', print) t.it('2', error) t.it('3', print)", "b_test.lua": "t.it('4', print)"],
            ["--fail-fast", "--jobs", "1"])
        #expect(run.status == 1)
        #expect(run.output.hasSuffix("\n1 passed, 1 failed, 1 not run, 1 file not loaded (time)\n"))
        #expect(!run.output.contains("b_test.lua"))
    }

    @Test("jobs run files at a time and report them in order") func jobsRunFilesAt() throws {
        var files: [String: String] = [:]
        for i in 1...6 { files["\(i)_test.lua"] = "t.it('waits', {real_time = true}, function() rl.sleep(0.1) end)" }
        let run = try TestRunnerFixture.run(files, ["--jobs", "6"])
        let expected = (1...6).map { "\($0)_test.lua\n  ok    waits (time)\n" }.joined() + "\n6 passed (time)\n"
        #expect(run.output.replacing("waits\n", with: "waits (time)\n") == expected)
    }

    private static let mixed = [
        "a_test.lua": """
        t.describe("group", function()
          t.it("passes", function() print("text <&>") end)
          t.it("fails # \\"quoted\\"", function() t.equal(1, 2) end)
          t.skip("is skipped", print)
        end)
        """
    ]

    @Test("TAP has a line for each test, and a block for each failure") func tap() throws {
        let run = try TestRunnerFixture.run(Self.mixed, ["--format", "tap"])
        #expect(
            run.output == """
                TAP version 13
                # text <&>
                ok 1 - group > passes
                not ok 2 - group > fails \\# "quoted"
                  ---
                  message: "expected 2, got 1"
                  at: "a_test.lua:3"
                  kind: assertion
                  report: "a_test.lua:3: expected 2, got 1"
                  ...
                ok 3 - group > is skipped # SKIP
                1..3

                """)
        #expect(run.status == 1)
    }

    @Test("a failed assertion in a thread is reported as an assertion, whether the thread is joined or not")
    func inAThread() throws {
        let test = """
            t.it("joined", function()
              assert(rl.thread(function() require "runloop.test".equal({ 1 }, { 2 }) end):join())
            end)
            t.it("not", function()
              rl.thread { function() require "runloop.test".truthy(false) end, name = "w" }
              rl.sleep(1)
            end)
            """
        let run = try TestRunnerFixture.run(["x_test.lua": test], ["--format", "tap14"])
        #expect(run.output.components(separatedBy: "kind: assertion").count == 3, "\(run.output)")
        #expect(
            run.output.contains("at: \"x_test.lua:2\"") && run.output.contains("at: \"x_test.lua:5\""), "\(run.output)")
        #expect(!run.output.contains("x_test.lua:2: x_test.lua:2"), "\(run.output)")
        #expect(run.output.contains("in thread \"w\" made at x_test.lua:5"), "\(run.output)")
    }

    @Test("places are complete paths, for leaks as well") func longPaths() throws {
        let path = "a/very/long/path/that/is/longer/than/sixty/characters/integration/tests/x_test.lua"
        let run = try TestRunnerFixture.run([path: "t.it('leaves', function() rl.every(5, print) end)"])
        #expect(run.output.contains("timer (every 5 s, made at \(path):1)"), "\(run.output)")
    }

    @Test("JUnit has a case for each test, with failures and output") func junit() throws {
        let run = try TestRunnerFixture.run(Self.mixed, ["--format", "junit"])
        #expect(
            run.output == """
                <?xml version="1.0" encoding="UTF-8"?>
                <testsuites tests="3" failures="1" errors="0" skipped="1">
                  <testsuite name="a_test.lua" tests="3" failures="1" errors="0" skipped="1">
                    <testcase name="passes" classname="group" file="a_test.lua" line="2"/>
                    <testcase name="fails # &quot;quoted&quot;" classname="group" file="a_test.lua" line="3">
                      <failure type="assertion" message="a_test.lua:3: expected 2, got 1">a_test.lua:3: expected 2, got 1</failure>
                    </testcase>
                    <testcase name="is skipped" classname="group" file="a_test.lua" line="4">
                      <skipped message=""/>
                    </testcase>
                    <system-out>text &lt;&amp;&gt;
                </system-out>
                  </testsuite>
                </testsuites>

                """)
    }

    @Test("coverage reports which lines ran") func coverageTellsWhichLines() throws {
        let module = """
            local m = {}
            function m.half(x)
              if x % 2 ~= 0 then
                return nil
              end
              return x // 2
            end
            return m
            """
        let run = try TestRunnerFixture.run(
            [
                "half.lua": module,
                "a_test.lua": """
                t.it('x', function()
                  rl.after(1, t.expect(function() t.equal(require('half').half(4), 2) end))
                end)
                """,
            ], ["--coverage"]
        ) { directory in
            let lcov = try String(contentsOfFile: directory + "/lcov.info", encoding: .utf8)
            #expect(
                lcov == """
                    TN:
                    SF:half.lua
                    FN:2,m.half:2
                    FNDA:1,m.half:2
                    FNF:1
                    FNH:1
                    BRDA:3,0,0,0
                    BRDA:3,0,1,1
                    BRF:2
                    BRH:1
                    DA:1,1
                    DA:2,1
                    DA:3,1
                    DA:4,0
                    DA:6,1
                    DA:7,1
                    DA:8,1
                    LF:7
                    LH:6
                    end_of_record

                    """)
        }
        #expect(run.output.contains("half.lua    85.7%  4\n"), "\(run.output)")
    }

    @Test("watching runs the tests again that a change affects") func watchingRunsAgainWhat() throws {
        try Binary.withDirectory { directory in
            func write(_ name: String, _ text: String) throws {
                try text.write(toFile: directory + "/" + name, atomically: false, encoding: .utf8)
            }
            try write("lib.lua", "return 1")
            let head = "local t = require 'runloop.test' "
            try write("a_test.lua", head + "t.it('one', function() t.equal(require 'lib', 1) end)")
            try write("b_test.lua", head + "t.it('two', print)")
            let process = try Binary.Process(["test", "--watch"], directory: directory)
            #expect(process.waitForOutput("2 passed"))
            #expect(process.waitForOutput("waiting for changes"))
            try write("lib.lua", "return 2")
            #expect(process.waitForOutput("changed: lib.lua\n\na_test.lua\n  FAIL  one"))
            #expect(process.waitForOutput("0 passed, 1 failed"))
            process.signal(SIGINT)
            #expect(process.finish().status == 130)
        }
    }

    @Test("test is a subcommand only as the first word") func testIsASubcommand() throws {
        try Binary.withDirectory { directory in
            try "print('a script', ...)".write(toFile: directory + "/test", atomically: true, encoding: .utf8)
            #expect(try Binary.run(["./test", "x"], directory: directory).output == "a script\tx\n")
            #expect(try Binary.run(["--", "test"], directory: directory).output == "a script\n")
            #expect(try Binary.run(["test", "--list"], directory: directory).status == 5)
        }
    }

    @Test("options before the word hold for every file") func optionsBeforeTheWord() throws {
        let files = ["a_test.lua": "t.it('x', function() t.equal({WORD, name}, {'test', 'init'}) end)"]
        let run = try TestRunnerFixture.run(
            files, before: ["-e", "WORD = 'test'"], environment: ["LUA_INIT": "name = 'init'"])
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("outside of the runner, the library's error names the remedy") func outsideOfTheRunner() throws {
        let run = try Binary.run(["-e", "require 'runloop.test'"])
        #expect(run.errors.contains("run the tests of this file with: rlhost test FILE"))
    }

    @Test("a thousand tests take seconds at most") func aThousandTestsTake() throws {
        let tests = "for i = 1, 1000 do t.it('test ' .. i, function() rl.sleep(i) t.equal(rl.now(), i + 0.0) end) end"
        let run = try TestRunnerFixture.run(["a_test.lua": tests])
        #expect(run.output.hasSuffix("\n1000 passed (time)\n"))
    }

    @Test(
        "a busted suite runs under rlhost as under lua",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/busted"))) func aBustedSuiteRuns() throws
    {
        let suite = """
            describe("a stack", function()
              local stack
              before_each(function() stack = {} end)
              it("pushes", function() stack[1] = 1 assert.are.same({1}, stack) end)
              it("errors", function() assert.has_error(function() error("x", 0) end, "x") end)
              it("spies", function() local s = spy.new(function() end) s(1) assert.spy(s).was.called_with(1) end)
              it("fails", function() assert.equal(1, 2) end)
              pending("later")
              insulate("alone", function() _G.x = 1 it("sees x", function() assert.equal(1, x) end) end)
            end)
            """
        try Binary.withDirectory { directory in
            try suite.write(toFile: directory + "/stack_spec.lua", atomically: true, encoding: .utf8)
            let ours = try Binary.run(["/usr/bin/busted", "-o", "TAP", "stack_spec.lua"], directory: directory)
            let lua = try #require(Binary.lua)
            let theirs = try Binary.run(
                ["/usr/bin/busted", "-o", "TAP", "stack_spec.lua"], directory: directory, program: lua, name: "lua")
            #expect(ours.output == theirs.output && ours.status == theirs.status)
            #expect(ours.output.contains("ok 1 - a stack pushes") && ours.status == 1)
        }
    }
}
