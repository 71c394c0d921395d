import Foundation
import TestSupport
import Testing

@Suite("Command line: signals", .timed)
struct CommandLineSignalTests {
    /// Standard output is not flushed, so standard error shows that the program has begun.
    private static let head = "io.write 'buffered' io.stderr:write 'ready\\n' "

    /// Starts a program, sends a signal when it computes or sleeps, and returns how it ended.
    private func end(_ text: String, _ signal: Int32) throws -> Binary.Result {
        let process = try Binary.Process(["-e", Self.head + Binary.interruptible(text)])
        #expect(process.waitForErrors("ready\n"))
        process.settle()
        process.signal(signal)
        var result = process.finish(timeout: 30)
        #expect(!result.timedOut, "\(text)")
        result.errorBytes.removeFirst("ready\n".utf8.count)
        return result
    }

    /// Lua code that never ends by itself.
    static let busy = [
        "while true do end", "coroutine.wrap(function() while true do end end)()",
        "coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end)()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(function() for i = 1, 1e5 do end end) end",
        "while true do pcall(function() while true do pcall(function() for i = 1, 1e5 do end end) end end) end",
        "while true do xpcall(function() for i = 1, 1e5 do end end, debug.traceback) end",
        "local function deep() return 1 + deep() end while true do pcall(deep) end",
        "while true do pcall(coroutine.wrap(function() for i = 1, 1e6 do end end)) end",
        "coroutine.wrap(function() while true do pcall(function() for i = 1, 1e5 do end end) end end)()",
        "table.sort({3, 2, 1, 4}, function() while true do end end)",
        "local t = setmetatable({}, {__index = function() while true do end end}) print(t.x)",
        "rl.after(0, function() while true do end end)", "rl.task(function() rl.sleep(0) while true do end end)",
    ]

    @Test("SIGINT is an error in the Lua code that runs, wherever that is", arguments: busy)
    func interrupt(_ text: String) throws {
        let result = try end(text, SIGINT)
        #expect(result.status == 1 && result.errors.contains("interrupted!"), "\(result)")
        #expect(result.output == "buffered")
    }

    @Test("SIGTERM ends Lua code that runs, quietly, with 143", arguments: busy)
    func terminate(_ text: String) throws {
        let result = try end(text, SIGTERM)
        #expect(result.status == 143 && result.errors.isEmpty && result.output == "buffered")
    }

    @Test("a script that catches the error continues after SIGINT, but SIGTERM ends it later")
    func caught() throws {
        let text = "local ok, e = pcall(function() while true do end end) for i = 1, 1e6 do end print(ok, e) os.exit(7)"
        let interrupted = try end(text, SIGINT)
        #expect(interrupted.status == 7 && interrupted.output == "bufferedfalse\tinterrupted!\n")
        let terminated = try end(text.replacing("os.exit(7)", with: ""), SIGTERM)
        #expect(terminated.status == 143 && terminated.output == "bufferedfalse\tinterrupted!\n")
    }

    /// Scripts whose loop waits, and their output when a signal ends them.
    static let waiting: [(text: String, output: String)] = [
        ("rl.observe('exit', function() io.write ' exit' end) rl.every(60, print)", " exit"),
        (
            "rl.observe('exit', function() io.write ' exit' end) rl.after(0, function() rl.run() end) rl.every(60, "
                + "print)",
            " exit exit"
        ),
        ("local c <close> = setmetatable({}, {__close = function() io.write ' closed' end}) rl.sleep(60)", " closed"),
        ("rl.task(function() while true do pcall(rl.sleep, 0.01) end end)", ""),
        ("rl.every(60, print) while true do rl.run {timeout = 1} end", ""),
        ("rl.every(60, print) while true do pcall(rl.run, {timeout = 1}) end", ""),
        ("setmetatable({}, {__gc = function() io.write ' collected' end}) rl.every(60, print)", " collected"),
    ]

    @Test(
        "while the loop waits, SIGINT ends with 130 and SIGTERM with 143; observers of the exit are called",
        arguments: waiting)
    func endOfWait(_ text: String, _ output: String) throws {
        for (signal, status) in [(SIGINT, Int32(130)), (SIGTERM, 143)] {
            let result = try end(text, signal)
            #expect(result.status == status && result.errors.isEmpty, "\(result)")
            #expect(result.output == "buffered\(output)")
        }
    }

    @Test("a second signal ends a process that is stuck outside of Lua", .disabled(if: Binary.isUnderThreadSanitizer))
    func stuck() throws {
        let process = try Binary.Process(["-e", "print 'ready' print(('a'):rep(40):find(('a*'):rep(20) .. 'b'))"])
        #expect(process.waitForOutput("ready\n"))
        process.settle()
        process.signal(SIGINT)
        process.settle()
        process.signal(SIGINT)
        #expect(process.finish(timeout: 30).signal == SIGINT)
    }

    @Test("SIGQUIT prints what keeps the loop alive, and the program continues")
    func why() throws {
        for text in [
            "rl.after(0.3, function() print 'end' end)",
            "rl.every(60, print) local t = os.clock() while os.clock() - t < 0.3 do end print 'end' os.exit()",
            "rl.every(60, print) coroutine.wrap(function() local t = os.clock() while os.clock() - t < 0.3 do end "
                + "print 'end' end)() os.exit()",
        ] {
            let result = try end(text, SIGQUIT)
            #expect(result.status == 0 && result.output == "bufferedend\n")
            #expect(result.errors.contains("timer ("), "\(result.errors)")
        }
    }

    @Test("SIGQUIT leaves the script its debug hook")
    func hook() throws {
        let result = try end(
            """
            local n = 0 debug.sethook(function() n = n + 1 end, '', 100)
            local t = os.clock() while os.clock() - t < 0.2 do end
            local before = n for i = 1, 1e5 do end print(n > before)
            """, SIGQUIT)
        #expect(result.status == 0 && result.output == "bufferedtrue\n")
    }

    @Test("a signal at any moment of the start ends the process")
    func startup() throws {
        for delay in [0, 500, 1000, 2000, 4000, 8000] as [UInt32] {
            let process = try Binary.Process(["-e", "rl.every(60, print)"])
            usleep(delay)
            process.signal(SIGTERM)
            let result = process.finish(timeout: 30)
            #expect(result.signal == SIGTERM || result.status == 143)
        }
    }
}
