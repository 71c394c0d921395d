import Foundation
import TestSupport
import Testing

/// `rlhost trace PID`, and the recordings of tests.
@Suite(.timed) struct TraceProcessTests {
    @Test("a running process writes its last moments, and further events") func aProcessThatRuns() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                rl.timer { name = "tick", interval = 0.01, modes = { "common" }, callback = function() end }
                print "ready"
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.shell(
                """
                export XDG_RUNTIME_DIR=$PWD
                $RLHOST --attach=ticker app.lua > ready & process=$!
                until [ -s ready ]; do sleep 0.05; done
                $RLHOST trace ticker -o first.json && $RLHOST trace $process -o next.json 0.3 && $RLHOST trace $process
                $RLHOST trace $process -o /nonexistent/x.html; echo $?
                { $RLHOST trace $process -o cut.json 30; echo $?; } & tracer=$!
                until [ -s cut.json ]; do sleep 0.05; done
                sleep 0.5
                kill -KILL $process
                wait $tracer
                """, directory: directory)
            let lines = run.output.split(separator: "\n")
            #expect(lines.count == 5 && lines[0].hasSuffix("/first.json") && lines[1].hasSuffix("/next.json"), "\(run)")
            let refused = "rlhost: trace: ENOENT: no such file or directory (/nonexistent/x.html)\n"
            #expect(run.errors.contains(refused) && !run.errors.contains("traceback") && lines[3] == "1", "\(run)")
            #expect(lines.last == "69" && run.errors.contains("has the recording up to then"), "\(run)")
            #expect(try !TraceRecording(directory + "/first.json").events.isEmpty)
            let next = try TraceRecording(directory + "/next.json")
            #expect(next.callbacks("timer", "timer \"tick\"").count > 3 && next.faults.isEmpty)
            let page = try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasPrefix("ticker-") }
            #expect(page.count == 1, "without -o it has the process's name: \(page)")
        }
    }

    @Test("a number without a process gives an error") func aProcessThatIs() throws {
        let run = try Binary.run(["trace", "999999999"])
        #expect(run.status == 69 && run.errors == "rlhost: trace: there is no process 999999999\n", "\(run)")
    }

    @Test("a test that ends its process, or has to be killed, leaves a recording that the report names")
    func aTestThatDies() throws {
        let test = """
            local function work()
              rl.timer { name = "tick", interval = 0.1, modes = { "common" }, callback = function() end }
              rl.sleep(1)
            end
            t.it("crashes", function() work() os.execute "kill -SEGV $PPID" rl.sleep(1) end)
            t.it("spins", { timeout = 0.2 }, function()
              work()
              os.execute "sleep 600"
            end)
            t.it("goes for good", function() work() os.execute "kill -KILL $PPID" rl.sleep(1) end)
            t.it("is well", function() end)
            """
        let run = try TestRunnerFixture.run(["a_test.lua": test], ["--trace=moments"]) { directory in
            let files = try FileManager.default.contentsOfDirectory(atPath: directory + "/moments").sorted()
            #expect(files == ["a_test crashes.html", "a_test spins.html"])
            for file in files {
                let page = try String(contentsOfFile: directory + "/moments/" + file, encoding: .utf8)
                #expect(page.count > 40_000 && page.contains("text/x-rlhost"))
            }
        }
        #expect(run.status == 1)
        #expect(run.output.contains("recording: moments/a_test crashes.html"), "\(run)")
        #expect(run.output.contains("recording: moments/a_test spins.html"), "\(run)")
        #expect(run.output.contains("it has left no recording"), "\(run)")
    }

    @Test("names cannot command a terminal, and bytes that are not text are escaped") func oddNames() throws {
        let script = """
            local function wait() require "runloop".sleep(0.01) end
            rl.timer { name = "a\\u{9b}31m\\xff\\u{202e}b", delay = 0.001, modes = "default", callback = wait }
            rl.thread { wait, name = "t\\x9b\\u{2028}" }
            wait()
            """
        try Binary.withDirectory { directory in
            let run = try Binary.run(["--trace=x.json", "-e", script], directory: directory)
            #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
            let text = try String(contentsOfFile: directory + "/x.json", encoding: .utf8)
            #expect(text.contains(#"a\\xc2\\x9b31m\\xff\\xe2\\x80\\xaeb"#), "\(text)")
            #expect(text.contains(#"{"name":"t\\x9b\\xe2\\x80\\xa8"}"#), "\(text)")
        }
    }

    @Test("each test has its own recording, even if test names are similar") func names() throws {
        let long = String(repeating: "long ", count: 50)
        let test = """
            for _ = 1, 2 do t.it("one name", function() error "x" end) end
            t.it("x/y", function() error "x" end)
            t.it("x_y", function() error "x" end)
            t.it("g h", function() error "x" end)
            t.describe("g", function() t.it("h", function() error "x" end) end)
            t.each({ 1, 2 }, "\(long)%d", function() error "x" end)
            t.it("", function() error "x" end)
            """
        let run = try TestRunnerFixture.run(["a b_test.lua": test, "a_b_test.lua": test], ["--trace=moments", "."]) {
            directory in
            let files = try FileManager.default.contentsOfDirectory(atPath: directory + "/moments").sorted()
            #expect(files.count == 18, "\(files)")
        }
        let told = run.output.matches(of: /recording: (.*)\n/).map { $0.1 }
        #expect(told.count == 18 && Set(told).count == 18, "\(run)")
        for name in ["one name", "one name 2", "x_y", "x_y 2", "g h", "g h 2"] {
            #expect(run.output.contains("recording: moments/a_b_test \(name).html\n"))
        }
    }

    @Test("a test that fails leaves a recording, the same each time, and the report names it") func aTestThatFails()
        throws
    {
        let test = """
            t.describe("outer", function()
              t.it("late / never", function()
                rl.timer { name = "tick", interval = 0.1, modes = { "common" }, callback = function() end }
                local thread = rl.thread(function() require "runloop".sleep(0.5) end)
                rl.perform(function() end)
                rl.sleep(1)
                local fs = require "runloop.fs"
                for _ = 1, 5 do fs.write("x", "y") fs.read "x" end
                rl.all_of { rl.task(fs.list, "."), rl.task(fs.stat, "x"), rl.task(fs.read, "x") }
                thread:join()
                t.equal(1, 2)
              end)
              t.it("is well", function() end)
            end)
            """
        var pages: [Data] = []
        for _ in 1...2 {
            let run = try TestRunnerFixture.run(["a_test.lua": test], ["--trace=moments", "--seed=1"]) { directory in
                let files = try FileManager.default.contentsOfDirectory(atPath: directory + "/moments")
                #expect(files == ["a_test outer late _ never.html"])
                for file in files {
                    pages.append(try Data(contentsOf: URL(filePath: directory + "/moments/" + file)))
                }
            }
            #expect(run.status == 1)
            #expect(run.output.contains("recording: moments/a_test outer late _ never.html"), "\(run)")
        }
        #expect(pages.count == 2 && pages.first == pages.last)
        #expect(pages.first.map { $0.count > 40_000 } == true)
        let wrong = try TestRunnerFixture.run(["a_test.lua": test], ["--trace="])
        #expect(wrong.status == 64 && wrong.errors.contains("--trace needs a directory"), "\(wrong)")
    }
}
