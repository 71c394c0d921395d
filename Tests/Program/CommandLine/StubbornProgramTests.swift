import Foundation
import TestSupport
import Testing

/// Programs that are hard to end.
@Suite("Command line: stubborn programs", .timed, .disabled(if: Binary.isUnderThreadSanitizer))
struct StubbornProgramTests {
    /// Code in which Lua's hooks do not run, or that catches each interruption in another place.
    static let stubborn = [
        "xpcall(error, function() while true do end end)",
        "local function nest(n) pcall(coroutine.wrap(function() if n > 0 then nest(n - 1) end while true do end end)) "
            + "while true do end end nest(5)",
        "setmetatable({}, {__gc = function() while true do end end}) collectgarbage()",
        "io.popen('exec sleep 9 2>/dev/null'):read 'a'",
        "rl.after(0, function() rl.after(0, function() error(setmetatable({}, {__tostring = function() while true do "
            + "end end})) end) rl.run { timeout = 9 } end)",
    ]

    private func end(_ text: String, _ signal: Int32, times: Int) throws -> Binary.Result {
        let process = try Binary.Process(["-e", "print 'ready' " + text])
        #expect(process.waitForOutput("ready\n"))
        for _ in 0..<times {
            process.settle()
            process.signal(signal)
        }
        return process.finish(timeout: 45)
    }

    @Test("one SIGTERM ends the program", arguments: stubborn)
    func terminate(_ text: String) throws {
        let result = try end(text, SIGTERM, times: 1)
        #expect(!result.timedOut && result.status == 143, "\(result)")
    }

    @Test("a second Control-C ends the program, as under lua", arguments: stubborn)
    func interrupt(_ text: String) throws {
        let result = try end(text, SIGINT, times: 2)
        #expect(!result.timedOut && result.status != 0, "\(result)")
        #expect(result.seconds < 20, "\(result)")
    }

    @Test("a signal ends a program that still reads its script", arguments: [SIGTERM, SIGINT])
    func reading(_ signal: Int32) throws {
        let process = try Binary.Process(["-"])
        process.write("print 'never'")
        // The same happens under lua, which has no handler for Control-C yet while it reads.
        process.settle()
        process.signal(signal)
        let result = process.finish(timeout: 30)
        #expect(!result.timedOut && result.status == 128 + signal && result.output == "", "\(result)")
    }

    @Test("a program ends although os.execute runs another")
    func executing() throws {
        let process = try Binary.Process([
            "-e", "io.stdout:write 'ready' io.stdout:flush() os.execute 'exec sleep 5 >/dev/null 2>&1'",
        ])
        #expect(process.waitForOutput("ready"))
        process.settle()
        process.signal(SIGTERM)
        let result = process.finish(timeout: 30)
        #expect(result.status == 143 && result.seconds < 4.5, "\(result)")
    }

    @Test("a program ends although finalizers wait for others, and what was printed is not lost")
    func closing() throws {
        let process = try Binary.Process([
            "-e", "print 'ready' io.stdout:setvbuf 'full' print 'kept' io.popen('exec sleep 20 2>/dev/null'):read 'a'",
        ])
        #expect(process.waitForOutput("ready\n"))
        process.settle()
        process.signal(SIGTERM)
        let result = process.finish(timeout: 30)
        #expect(result.status == 143 && result.seconds < 12 && result.output == "ready\nkept\n", "\(result)")
    }

    @Test("a second SIGTERM ends the program in a few seconds")
    func insisting() throws {
        let text =
            "while true do local ok = pcall(error) for i = 1, 10 do xpcall(function() while true do end end, print) "
            + "end while true do pcall(function() while true do end end) end end"
        let result = try end(text, SIGTERM, times: 2)
        #expect(result.status == 143 && result.seconds < 15, "\(result)")
    }

    @Test("a script that catches Control-C twice continues")
    func handled() throws {
        let text = """
            for i = 1, 2 do
              if i == 1 then print(pcall(function() while true do end end))
              else print(pcall(function() while true do end end)) end
              io.stdout:flush()
            end
            """
        let process = try Binary.Process(["-e", "print 'ready' " + text])
        #expect(process.waitForOutput("ready\n"))
        process.settle()
        process.signal(SIGINT)
        #expect(process.waitForOutput("false\t"))
        process.settle()
        process.signal(SIGINT)
        let result = process.finish()
        #expect(result.status == 0 && result.output.components(separatedBy: "interrupted!").count == 3, "\(result)")
    }

    /// Work of threads in which Lua's hooks do not run, but which a signal ends. These programs have a separate pipe
    /// that never has anything to read.
    static let blocked = [
        "rl.thread(function() local x <close> = closing() io.open('/dev/stdin'):read() end)",
        "rl.thread(function() local x <close> = closing() io.read() end)",
        "rl.thread(function() local x <close> = closing() pcall(io.read) io.read() end)",
        "rl.task(rl.blocking, function() local x <close> = closing() io.read() end)",
    ]

    @Test("SIGTERM ends the wait of a thread that reads, which frees its resources", arguments: blocked)
    func reading(_ text: String) throws {
        let closing = """
            function closing()
              return setmetatable({}, { __close = function(_, e) io.stderr:write("closed: ", tostring(e), "\\n") end })
            end
            """
        // A thread takes upvalues with it, and no globals.
        let local = "local closing = (function() \(closing) return closing end)() "
        let process = try Binary.Process(["-e", "print 'ready' " + local + text])
        #expect(process.waitForOutput("ready\n"))
        process.settle()
        process.signal(SIGTERM)
        let result = process.finish(timeout: 30)
        #expect(!result.timedOut && result.status == 143, "\(result)")
        #expect(result.errors.hasPrefix("closed: "), "\(result)")
    }

    @Test(
        "a file from which a thread reads does not delay the end",
        .enabled(if: Soak.isLong, "it waits for 15 s until the thread is given up"))
    func locked() throws {
        // This program has to be killed: no interruption ends a loop in C, and the file stays locked.
        let text =
            "rl.thread(function() string.rep('a', 60):find(('a-'):rep(60) .. 'b') end) rl.thread(function() io.popen "
            + "'sleep 20':read() end)"
        let process = try Binary.Process(["-e", "print 'ready' " + text])
        #expect(process.waitForOutput("ready\n"))
        process.settle()
        process.signal(SIGTERM)
        let result = process.finish(timeout: 15)
        #expect(!result.timedOut && result.status == 143, "\(result)")
    }

    @Test("when programs that ignore SIGTERM have been killed, the host waits no longer")
    func killed() throws {
        // The shell's children outlive it for a moment, and the last of them may stay as a zombie.
        let text = """
            require "runloop.process".start { "sh", "-c", "trap '' TERM; while :; do echo; sleep 0.05; done", output = "beats" }
            rl.sleep(0.3)
            os.exit(0, true)
            """
        let folder = try AttachedProcess.makeFolder()
        // Another process may interfere: one of three tries has to succeed.
        let delays = try (0..<3).map { _ in
            let run = try Binary.run(["-e", text], directory: folder.url.path)
            #expect(run.status == 0, "\(run)")
            let beats = folder.url.appending(path: "beats").path
            let last = try FileManager.default.attributesOfItem(atPath: beats)[.modificationDate] as? Date
            return Date().timeIntervalSince(last ?? .distantPast)
        }
        #expect(delays.contains { $0 < 0.7 }, "\(delays)")
    }
}
