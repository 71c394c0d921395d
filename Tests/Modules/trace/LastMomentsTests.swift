import Foundation
import Glibc
import TestSupport
import Testing

/// The last moments of programs whose loop does not run: they sleep, have hardly begun, or compute.
@Suite(.timed) struct LastMomentsTests {
    private static let remark = "nothing was recorded until now; everything is from now on"

    @Test(
        "SIGUSR2 makes a program write and report a file, whatever it does and however early",
        arguments: ["rl.after(1000, print)", "rl.sleep(1000)", "rl.source { modes = 'default' }", "while true do end"])
    func young(_ body: String) throws {
        try Binary.withDirectory { directory in
            let script = "rl = require 'runloop' print 'ready' io.flush() \(body)"
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.shell(
                """
                $RLHOST app.lua > ready 2> said & process=$!
                until [ -s ready ]; do sleep 0.05; done
                kill -USR2 $process
                for n in $(seq 1200); do [ -s said ] && break; sleep 0.05; done
                kill -KILL $process
                cat said; head -c 15 app-$process.html
                """, directory: directory)
            let said = run.output.wholeMatch(
                of: /rlhost: the last moments are in \S+\/app-\d+\.html: (.*)\n<!doctype html>/)
            #expect(said.map { String($0.1) } == Self.remark, "\(run)")
        }
    }

    @Test("the last moments of a process whose callback holds the loop are written at once") func held() throws {
        let target = try AttachedProcess(
            ["--attach"],
            """
            local rl = require "runloop"
            rl.every(0.01, function() end)
            rl.at(rl.time() + 1.5, function() print "ready" io.flush() while true do end end, { name = "spinner" })
            """)
        let path = target.folder.url.path + "/held.json"
        let run = try Binary.run(["trace", "\(target.pid)", "-o", path], environment: target.environment)
        #expect(run.status == 0 && run.output == path + "\n" && run.errors.isEmpty, "\(run)")
        let recording = try TraceRecording(path)
        #expect(recording.events.contains { $0.name == "timer \"spinner\"" })
        let missing = try Binary.run(
            ["trace", "\(target.pid)", "-o", "/nonexistent/x.html"], environment: target.environment)
        #expect(missing.status == 1 && missing.errors.contains("trace: ENOENT: no such file"), "\(missing)")
    }

    @Test(
        "a loop without a pass since its first second has no last moments, and the command reports that",
        arguments: [true, false])
    func still(_ computes: Bool) throws {
        let target = try AttachedProcess(
            ["--attach"], "print 'ready' io.flush() \(computes ? "while true do end" : "require 'runloop'.sleep(1000)")"
        )
        let path = target.folder.url.path + "/still.html"
        let run = try Binary.run(["trace", "\(target.pid)", "-o", path], environment: target.environment)
        #expect(run.output == path + "\n" && run.errors == "rlhost: trace: \(Self.remark)\n", "\(run)")
        let off = try AttachedProcess(["--attach", "--no-recorder"], "print 'ready' io.flush() while true do end")
        let refused = try Binary.run(["trace", "\(off.pid)", "-o", path], environment: off.environment)
        #expect(
            refused.status == 1
                && refused.errors == "rlhost: trace: ENODATA: nothing is recorded: the recorder is off\n",
            "\(refused)")
    }

    @Test("timers of rl.at have names and places in reports") func moments() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                local function spin() local done = rl.now() + 0.1 repeat until rl.now() > done end
                rl.at(rl.time(), spin, { name = "backup" })
                rl.at(rl.time(), spin)
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["-W", "--slow=0.05", "--trace=x.json", "app.lua"], directory: directory)
            #expect(run.errors.contains("warning: timer \"backup\" made at app.lua:3 held the loop for"), "\(run)")
            #expect(run.errors.contains("warning: timer made at app.lua:4 held the loop for"), "\(run)")
            let recording = try TraceRecording(directory + "/x.json")
            #expect(recording.callbacks("timer", "timer \"backup\"").count == 1)
            #expect(recording.callbacks("timer", "timer").count == 1)
        }
    }
}
