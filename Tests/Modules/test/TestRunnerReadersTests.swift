import Foundation
import TestSupport
import Testing

/// Reports in the forms that other programs read, and events that a test run must report.
@Suite(.timed) struct TestRunnerReadersTests {
    private typealias Fixture = TestRunnerFixture

    private static let several = [
        "sub/a_test.lua": """
        t.describe('a <group>', function()
          t.it('passes', function() io.write 'printed & ' end)
          t.it('fails', function() t.equal('one\\n  two: "x" # y\\n\\\\', 'other') end)
          t.it('is flaky', { retries = 2 }, function() N = (N or 0) + 1 assert(N > 1) end)
          t.it('is known to fail', { fails = 'bug #7' }, function() error 'no' end)
          t.skip('is skipped', print)
        end)
        """, "b_test.lua": "error 'broken'",
    ]

    private static let green = [
        "a_test.lua": """
        t.it('passes', print)
        t.it('is known to fail', { fails = 'later' }, function() error 'x' end)
        t.skip('is skipped', print)
        """
    ]

    private static func prove(_ files: [String: String], _ format: String) throws -> (status: Int32, output: String) {
        try Binary.withDirectory { directory in
            for (name, text) in files {
                let url = URL(fileURLWithPath: directory).appendingPathComponent(name)
                try FileManager.default.createDirectory(
                    at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
                try ("local t = require 'runloop.test' " + text).write(to: url, atomically: true, encoding: .utf8)
            }
            let run = try Binary.run(
                ["prove", "-v", "--exec", "\(Binary.path) test --format \(format)"] + files.keys.sorted(),
                directory: directory, program: "/usr/bin/env", name: "env")
            return (run.status, run.output + run.errors)
        }
    }

    @Test("prove reads TAP") func proveReads() throws {
        let green = try Self.prove(Self.green, "tap")
        #expect(green.status == 0 && green.output.contains("Result: PASS"), "\(green.output)")
        #expect(green.output.contains("not ok 2 - is known to fail # TODO later"), "\(green.output)")
        let several = try Self.prove(Self.several, "tap")
        #expect(several.status != 0 && !several.output.contains("Parse errors"), "\(several.output)")
        #expect(
            several.output.contains("Failed 1/5 subtests") || several.output.contains("Failed test:  2"),
            "\(several.output)")
    }

    @Test("TAP 14 has a version line of its own, and reports of several lines") func tap14() throws {
        let run = try Fixture.run(Self.several, ["--format", "tap14", "sub"])
        #expect(run.output.hasPrefix("TAP version 14\n") && run.output.contains("  report: |-\n"), "\(run.output)")
        let old = try Fixture.run(Self.several, ["--format", "tap", "sub"])
        #expect(old.output.hasPrefix("TAP version 13\n"), "\(old.output)")
        #expect(old.output.contains(#"  report: "sub/a_test.lua:3: "#), "\(old.output)")
    }

    @Test("JUnit's XML is valid by published schemas", arguments: ["jenkins-junit-10", "ant-junit"])
    func schemas(_ name: String) throws {
        let schema = String(name.prefix { $0 != "-" })
        try _ = Fixture.run(Self.several, ["--report", "junit=x.xml,schema=\(schema)"]) { directory in
            let lint = try Binary.run(
                [
                    "xmllint", "--noout", "--schema", "\(Binary.repository)/Tests/Host/Scripts/Schemas/\(name).xsd",
                    "x.xml",
                ],
                directory: directory, program: "/usr/bin/env", name: "env")
            let text = try String(contentsOfFile: directory + "/x.xml", encoding: .utf8)
            #expect(lint.status == 0, "\(lint.errors)\(text)")
            #expect(text.contains("printed &amp; ") && text.contains("<error "), "\(text)")
        }
    }

    @Test("an unknown schema is refused as wrong use") func unknownSchema() throws {
        for (report, message) in [
            ("junit=x.xml,schema=nobody", "--report: schema must be jenkins or ant, got 'nobody'"),
            ("tap=x.tap,schema=ant", "--report: schema is for junit, got 'tap=x.tap,schema=ant'"),
        ] {
            let run = try Fixture.run(["a_test.lua": "t.it('x', print)"], ["--report", report])
            #expect(run.status == 64 && run.errors == "rlhost: test: \(message)\n", "\(run.errors)")
        }
    }

    @Test("a run without tests is an error") func ofNothing() throws {
        let run = try Fixture.run([
            "a_test.lua": """
            t.it('forall', function() t.forall(t.gen.integer(), print, { runs = 0 }) end)
            t.it('spawn', function() t.spawn { 'cat', virtual_time = true } end)
            """, "b_test.lua": "t.each({}, 'case %d', print)",
        ])
        #expect(run.output.contains("option 'runs' must be 1 or more, got 0"), "\(run.output)")
        #expect(
            run.output.contains("field 'virtual_time' works with rlhost only, and 'cat' is "), "\(run.output)")
        #expect(run.output.contains("t.each: argument #1 must contain a case"), "\(run.output)")
    }

    @Test("a snapshot that no test uses is named, and removed when asked") func unusedSnapshots() throws {
        try Binary.withDirectory { directory in
            func run(_ text: String, _ arguments: [String] = []) throws -> String {
                try ("local t = require 'runloop.test' " + text)
                    .write(toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
                return try Binary.run(["test"] + arguments, directory: directory).output
            }
            let snap = { FileManager.default.fileExists(atPath: directory + "/a_test.snap") }
            let both = "t.it('x', function() t.snapshot(1) end) t.it('y', function() t.snapshot(2) end)"
            #expect(try !run(both, ["--update"]).contains("no test uses"))
            let one = "t.it('x', function() t.snapshot(1) end)"
            #expect(
                try run(one).contains("a_test.snap: no test uses the snapshot 'y › 1': rlhost test --update removes it")
            )
            #expect(try !run(both, ["--filter", "x"]).contains("no test uses"))
            // A test that has failed, or is skipped, may have used it.
            #expect(try !run(one + " t.it('y', function() error 'x' t.snapshot(2) end)").contains("no test uses"))
            #expect(try !run(one + " t.skip('y', function() t.snapshot(2) end)", ["--update"]).contains("no test uses"))
            #expect(try run(one).contains("'y › 1'"))
            _ = try run(one, ["--update"])
            #expect(try !run(one).contains("no test uses") && snap())
            #expect(try run("t.it('x', print)").contains("'x › 1'"))
            _ = try run("t.it('x', print)", ["--update"])
            #expect(!snap())
        }
    }

    @Test("one seed determines random numbers in programs, too") func seeds() throws {
        let text = """
            t.it('starts some', function()
              for _ = 1, 2 do
                local p <close> = t.spawn { t.rlhost, '-e', [[
                  local keys, order = {}, {}
                  for i = 1, 30 do keys['key' .. i] = true end
                  for key in pairs(keys) do order[#order + 1] = key end
                  local th = rl.thread(function() return math.random(1e9) end)
                  local inner = require 'runloop.process'.run { os.getenv 'RLHOST', '-e', 'print(math.random(1e9))' }
                  print(math.random(1e9), select(2, th:join()), inner.output, table.concat(order, ' '))]], virtual_time = true,
                  env = { RLHOST = t.rlhost } }
                p:wait { within = 100 }
                print(p:output(), p:errors())
              end
            end)
            """
        func run(_ seed: String) throws -> String {
            let found = try Fixture.run(["a_test.lua": text], ["--seed", seed])
            #expect(found.status == 0, "\(found.output)")
            return found.output.split(separator: "\n").filter { $0.contains("key1") }.joined(separator: "\n")
        }
        let first = try run("4")
        #expect(try first == run("4") && first != run("5") && first.contains("key1"))
        let lines = first.split(separator: "\n")
        #expect(lines.count == 2 && lines[0] != lines[1])
        for wrong in ["-1", "x", "", "9223372036854775808"] {
            let run = try Binary.run(["-e", "print(1)"], environment: ["RLHOST_SEED": wrong])
            #expect(run.status == 64 && run.errors.contains("RLHOST_SEED must be a whole number"), "\(run.errors)")
        }
        let last = try Binary.run(
            ["-e", "print(math.random(1e9))"], environment: ["RLHOST_SEED": "9223372036854775807"])
        #expect(last.status == 0, "\(last.errors)")
    }

    @Test("a thread of a C module may write to any pipe") func foreignThread() throws {
        let text = """
            local module = package.loadlib('./writer.so', 'luaopen_writer')()
            t.it('waits for it', function()
              local fd = module.start()
              local events = rl.wait_readable(fd, 5)
              t.truthy(events and events:find 'r', events)
              t.truthy(rl.now() >= 0.2 and rl.now() < 4, rl.now())
              module.close(fd)
            end)
            """
        let source = "\(Binary.repository)/Tests/Host/Scripts/thread-writer.c"
        try Binary.withDirectory { directory in
            let compiled = try Binary.shell(
                "clang -O1 -w -shared -fPIC $(pkg-config --cflags lua5.4) -o \(directory)/writer.so \(source)")
            #expect(compiled.status == 0, "\(compiled.errors)")
            try ("local t, rl = require 'runloop.test', require 'runloop' " + text)
                .write(toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["test"], directory: directory)
            #expect(run.status == 0, "\(run.output)")
        }
    }

    @Test("the report names the program for which time stood still, and its call") func namesThePrograms() throws {
        let run = try Fixture.run(
            ["a_test.lua": "t.it('waits', function() local p <close> = t.spawn { 'sleep', '30' } rl.sleep(3600) end)"],
            ["--timeout", "1"])
        #expect(run.output.contains("the test waited for a program"), "\(run.output)")
        #expect(
            run.output.range(of: #"process \d+ \(sleep 30\) is in (clock_)?nanosleep"#, options: .regularExpression)
                != nil, "\(run.output)")
    }
}
