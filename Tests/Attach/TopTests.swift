import Foundation
import TestSupport
import Testing

@Suite("rlhost top", .timed)
struct TopTests {
    /// Two loops that have been recorded for a while: `slow` blocks the main one.
    private static let script = """
        local rl = require "runloop"
        local function compute(seconds) local done = rl.now() + seconds repeat until rl.now() >= done end
        rl.thread { function()
          local rl = require "runloop"
          rl.every(0.01, function() end)
          rl.task(function() rl.sleep(2000) end)
        end, name = "worker" }
        local slow = rl.timer { interval = 0.1, name = "slow", callback = function() compute(0.03) end }
        rl.current():add(slow)
        rl.task(function() rl.sleep(1000) end)
        rl.after(2.5, function() print "ready" io.flush() end)
        """

    @Test("--once prints loops and places; --tasks prints the calls in which tasks wait")
    func once() throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let run = try Binary.run(["top", "\(target.pid)", "--once"], environment: target.environment)
        #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
        let lines = run.output.split(separator: "\n").map(String.init)
        #expect(lines[0].hasPrefix("process \(target.pid): 2 loops, "), "\(run)")
        #expect(lines.contains { $0.hasPrefix("main ") && $0.contains("timer \"slow\" target.lua:8") }, "\(run)")
        #expect(lines.contains { $0.hasPrefix("worker ") }, "\(run)")
        #expect(lines.contains { $0.contains("timer \"slow\"  target.lua:8") && $0.contains("ms") }, "\(run)")
        let tasks = try Binary.run(
            ["top", "\(target.pid)", "--once", "--tasks", "--sort=number"], environment: target.environment)
        #expect(tasks.output.contains(/\nmain +task made at \S*target.lua:10: waits in rl.sleep/), "\(tasks)")
        #expect(tasks.output.contains(/\nworker +task made at \S*target.lua:6: waits in rl.sleep/), "\(tasks)")
        #expect(lines.contains { $0.hasPrefix("by kind: timer ") }, "\(run)")
    }

    @Test("a process that has just begun is shown with its running callback, and no earlier counts")
    func young() throws {
        let script = """
            local rl = require "runloop"
            rl.every(0.02, function() end)
            rl.thread { function() require "runloop".every(0.02, function() end) end, name = "worker" }
            print "ready" io.flush()
            """
        let target = try AttachedProcess(["--attach"], script)
        let run = try Binary.run(["top", "\(target.pid)", "--once"], environment: target.environment)
        let lines = run.output.split(separator: "\n").map(String.init)
        #expect(lines.first?.hasPrefix("process \(target.pid): 2 loops, ") ?? false, "\(run)")
        for name in ["main", "worker"] {
            let cells = lines.first { $0.hasPrefix(name) }?.split(separator: " ").map(String.init) ?? []
            // 50 timers in a second, each of them short.
            let (awake, calls) = (
                Double(cells.dropFirst().first?.dropLast() ?? "") ?? 100,
                Double(cells.dropFirst(3).first ?? "") ?? 0
            )
            #expect(awake < 30 && calls > 20 && calls < 60, "\(run)")
        }
        let quiet = try AttachedProcess(
            ["--attach", "--no-recorder"], "print 'ready' io.flush() require 'runloop'.every(1, print)")
        let refusal = try Binary.run(["top", "\(quiet.pid)", "--once"], environment: quiet.environment)
        #expect(
            refusal.status == 69 && refusal.output.isEmpty && refusal.errors.contains("its recorder is off"),
            "\(refusal)")
    }

    @Test("shows a loop that is held, and for how long")
    func held() throws {
        let target = try AttachedProcess(
            ["--attach"],
            """
            local rl = require "runloop"
            rl.every(0.01, function() end)
            rl.after(1.5, function() print "ready" io.flush() while true do end end)
            """)
        ProcessActivity.awaitWork(target.pid, seconds: 0.3)
        let run = try Binary.run(["top", "\(target.pid)", "--once"], environment: target.environment)
        #expect(run.output.contains(/timer \S+:3 for [\d.]+ m?s/), "\(run)")
        // The callback has run for longer than the measured time, but its share is at most the whole.
        let short = try Binary.run(
            ["top", "\(target.pid)", "--once", "-d", "0.1"], environment: target.environment)
        let shares = short.output.matches(of: /([\d.]+)%/).compactMap { Double($0.output.1) }
        #expect(shares.contains { $0 > 90 } && shares.allSatisfy { $0 <= 100 }, "\(short)")
        let tasks = try Binary.run(["top", "\(target.pid)", "--once", "--tasks"], environment: target.environment)
        #expect(tasks.output.contains(/\nmain +its loop does not answer: it is busy/), "\(tasks)")
    }

    @Test("code that a client has entered is shown as an entry, not as the main chunk")
    func entry() throws {
        let target = try AttachedProcess(
            ["--attach"], "require 'runloop'.every(0.02, function() end) print 'ready' io.flush()")
        // The recording begins with the loop's first second.
        Thread.sleep(forTimeInterval: 1.2)
        // On a busy machine the measurement may start so late that the entry is over.
        var looks: [String] = []
        while looks.count < 10, !(looks.last?.contains("entry  (attach)") ?? false) {
            let entered = try Binary.run(
                ["attach", "\(target.pid)", "-e", "local n = 0 for i = 1, 1e5 do n = n + i end"],
                environment: target.environment)
            #expect(entered.status == 0, "\(entered)")
            let run = try Binary.run(["top", "\(target.pid)", "--once", "-d", "2"], environment: target.environment)
            looks.append(run.output)
        }
        #expect(looks.last?.contains("entry  (attach)") ?? false, "\(looks)")
        #expect(looks.allSatisfy { !$0.contains("main chunk") }, "\(looks)")
    }

    @Test("shows a screen that keys sort, pause and end", arguments: [(80, 24), (200, 50)])
    func live(columns: Int, rows: Int) throws {
        let target = try AttachedProcess(["--attach"], Self.script)
        let top = try PromptSession(
            ["top", "\(target.pid)"], columns: columns, rows: rows, environment: target.environment)
        try top.until("a screen") { shows($0) { $0.contains("*AWAKE") && $0.contains("timer \"slow\"") } }
        try top.type("g")
        try top.until("a screen") { shows($0) { $0.contains("*LONGEST") } }
        try top.type(" ")
        try top.until("a screen") { shows($0) { $0.contains("paused") } }
        try top.type(" t")
        try top.until("a screen") { shows($0) { $0.contains("THREAD") && $0.contains("waits in rl.sleep") } }
        try top.type("q")
        #expect(try top.finish() == 0)
    }

    private func shows(_ session: PromptSession, _ condition: (String) -> Bool) -> Bool {
        condition(session.screen.rows.map(\.text).joined(separator: "\n"))
    }

    @Test("without a process, or a terminal, the error names the remedy")
    func misuse() throws {
        let target = try AttachedProcess(["--attach=app"], Self.script)
        let run = try Binary.run(["top", "app", "--once"], environment: target.environment)
        #expect(run.output.hasPrefix("process \(target.pid) (app): 2 loops"), "\(run)")
        let options: [([String], String)] = [
            (["-d", "0"], "'-d' needs a number of seconds, from 0.1 to 3600"),
            (["--sort=size"], "--sort: one of awake, passes, callbacks, late, longest, number, not 'size'"),
            (["-x"], "unknown option '-x'; 'rlhost top --help' lists them"),
            (["1", "2"], "one process at a time, not '1' and '2'"),
        ]
        for (arguments, message) in options {
            let run = try Binary.run(["top"] + arguments)
            #expect(run.status == 64 && run.errors == "rlhost: top: \(message)\n", "\(run)")
        }
        let gone = try Binary.run(["top", "999999999", "--once"])
        #expect(gone.status == 69 && gone.errors == "rlhost: top: there is no process 999999999\n", "\(gone)")
    }
}
