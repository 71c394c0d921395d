import Foundation
import TestSupport
import Testing

@Suite("Command line: ends of the process", .timed)
struct CommandLineEndTests {
    private static let script = """
        local kept <close> = setmetatable({}, {__close = function() print 'closed' end})
        setmetatable({}, {__gc = function() print 'collected' end})
        io.write 'buffered '
        os.exit(%)
        """

    @Test(
        "os.exit does as under lua, with and without closing the state",
        arguments: [
            "", "nil", "0", "1", "3", "true", "false", "255", "-1", "-2", "'3'", "3.0", "1.5", "'x'", "{}",
            "true, true",
            "0, true", "false, true", "5, true", "5, false", "nil, true", "{}, true",
        ])
    func exit(_ arguments: String) throws {
        try Sample.compare(["-"], input: Self.script.replacing("%", with: arguments))
    }

    @Test(
        "os.exit does not turn a large number into status 0",
        arguments: ["256", "512", "1e9", "2^53", "math.maxinteger", "-256"])
    func large(_ number: String) throws {
        #expect(try Binary.run(["-e", "os.exit(\(number) // 1 | 0)"]).status == 255)
    }

    @Test("os.exit as a callback raises an error, since its argument is a timer")
    func exitAsCallback() throws {
        let run = try Binary.run(["-e", "rl.after(0, os.exit)"])
        #expect(
            run.status == 1
                && run.errors.hasPrefix(
                    "rlhost: os.exit: argument #1 must be true, false or an integer, got a timer: callbacks are "
                        + "called with their "
                        + "object, so write function() os.exit() end\n"),
            "\(run)")
    }

    @Test(
        "an error that ends the program closes the callback's variables first; errors of that are printed",
        arguments: [
            "rl.after(0, fail)", "rl.after(0, function() rl.sleep(0.01) fail() end)", "rl.perform(fail)",
            "rl.task(fail)",
            "s = rl.source { modes = 'default', perform = fail } s:signal()",
            "rl.on_readable(io.popen 'echo', function() fail() end)",
            "rl.on_error(function() fail() end) rl.after(0, error)",
        ])
    func variables(_ text: String) throws {
        let begin = "rl = require 'runloop' how = error function fail() local x <close> = setmetatable({}, "
        let head = begin + "{ __close = function() print 'closed' how('late', 0) end }) error('first', 0) end "
        let run = try Binary.run(["-e", head + text])
        #expect(run.status == 1 && run.output == "closed\n", "\(run)")
        #expect(run.errors.hasPrefix("rlhost: late, in closing a variable after: first\n"), "\(run)")
        let other = try Binary.run(["-e", head + "how = function() os.exit(7, true) end " + text])
        #expect(other.status == 7 && other.output == "closed\n", "\(other)")
    }

    @Test("an error after rl.shutdown does not give status 0", arguments: ["", "rl.on_shutdown(function() end) "])
    func errorBehindShutdown(_ before: String) throws {
        let run = try Binary.run(["-e", before + "rl.after(0.01, function() rl.shutdown() error 'x' end)"])
        #expect(run.status == 1 && run.errors.contains("x\n"), "\(run)")
    }

    @Test(
        "the last bytes of a stream do not keep the program running, even if the peer waits for more",
        arguments: [
            "a, b = net.pair() a:write 'x'", "a, b = net.pair() a:queue 'x'", "net.output():write 'x'",
            "a, b = net.pair() rl.after(0.01, function() a:write 'x' end)", "a, b = net.memory() a:write 'x'",
            "a, b = net.pair() rl.perform(function() a:write 'x' end)",
            "a, b = net.pair() loop = rl.current() loop:add(rl.observer { activities = 'before_waiting', callback = "
                + "function(o) a:write 'x' o:invalidate() end })",
            "s = net.serve(0, function(c) c:read() end) c = net.connect(s:address()) s:close() c:write 'x' c:close()",
            "p = rl.thread(function() net = require 'runloop.net' a, b = net.pair() a:write 'x' end):join()",
        ])
    func lastWrite(_ text: String) throws {
        let run = try Binary.run(["-e", "rl, net = require 'runloop', require 'runloop.net' \(text)"], timeout: 20)
        #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
    }

    @Test(
        "a program whose input is a pipe does not delay any end",
        arguments: ["os.exit(7, true)", "rl.shutdown()", "error 'x'"])
    func openInput(_ end: String) throws {
        let run = try Binary.run(
            ["-e", "rl = require 'runloop' p = require 'runloop.process'.start { 'cat', input = 'pipe' } \(end)"])
        #expect(
            run.status == (end.hasPrefix("os") ? 7 : end.hasPrefix("error") ? 1 : 0) && !run.errors.contains("inside"),
            "\(run)")
    }

    @Test("messages begin with the name by which the program was called")
    func ownName() throws {
        for (name, word) in [("lua", "lua"), ("/opt/bin/lua5.4", "lua5.4"), ("", "rlhost"), ("/", "rlhost")] {
            let run = try Binary.run(["-e", "error('no', 0)"], name: name)
            #expect(run.errors.hasPrefix("\(word): no\n"), "\(run)")
        }
        #expect(try Binary.run(["-p", "1+"]).errors == "rlhost: (command line):1: unexpected symbol near <eof>\n")
        #expect(try Binary.run(["-p", "1 -- one"]).output == "1\n")
    }

    @Test("os.exit in a coroutine, a callback and a nested run closes what the main chunk has left open")
    func deepExit() throws {
        let open = "local k <close> = setmetatable({}, {__close = function() print 'closed' end}) "
        for rest in [
            "coroutine.wrap(function() os.exit(3, true) end)()",
            "rl.after(0, function() os.exit(3, true) end) rl.run()",
            "rl.after(0, function() rl.after(0, function() os.exit(3, true) end) rl.run() end) rl.run()",
        ] {
            let result = try Binary.run(["-e", open + rest])
            #expect(result.output == "closed\n" && result.status == 3 && result.errors.isEmpty, "\(rest)")
        }
    }

    @Test("an error in a callback ends with status 1, names the callback, and loses no output")
    func callback() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                io.write "kept"
                setmetatable({}, {__gc = function() io.write " collected" end})
                local t = rl.timer { name = "poll", delay = 0.001, callback = function() error "bad" end }
                rl.current():add(t)
                """
            try Sample.write(script, to: "app.lua", in: directory)
            let result = try Binary.run(["app.lua"], directory: directory)
            #expect(result.status == 1 && result.output == "kept collected")
            #expect(result.errors.hasPrefix("rlhost: app.lua:4: bad\nstack traceback:\n"))
            #expect(result.errors.hasSuffix("\nin timer \"poll\" made at app.lua:4\n"))
        }
    }

    @Test("rl.on_error gets the error as it was raised, and the program continues")
    func handler() throws {
        let result = try Binary.run([
            "-e",
            """
            rl.on_error(function(e, info) print(type(e) == 'table' and e.x or e, info.where, #info.traceback > 5) end)
            rl.after(0.001, function() error('in it', 0) end)
            rl.after(0.002, function() print 'later' end)
            error {x = 5}
            """,
        ])
        #expect(result.status == 0 && result.errors.isEmpty)
        #expect(result.output == "5\tnil\ttrue\nin it\ttimer made at (command line):2\ttrue\nlater\n")
    }

    @Test("finalizers after one that calls os.exit run, too")
    func exitInFinalizer() throws {
        let script = """
            for _, name in ipairs { "one", "two", "three" } do
              setmetatable({}, { __gc = function() print(name) if name == "two" then os.exit(7, true) end end })
            end
            """
        let run = try Binary.run(["-e", script])
        #expect(run.output == "three\ntwo\none\n" && run.status == 7 && run.errors == "", "\(run)")
    }

    @Test("the error is printed if a function of rl.on_error fails, or is ended")
    func failingHandler() throws {
        let run = try Binary.run([
            "-e", "rl.on_error(function() error 'second' end) rl.after(0, function() error 'first' end)",
        ])
        #expect(
            run.status == 1 && run.errors.hasPrefix("rlhost: (command line):1: second\nstack traceback:\n"), "\(run)")
        #expect(
            run.errors.contains("\nin the function of rl.on_error, which was called for:\n(command line):1: first\n"),
            "\(run)")
        #expect(run.errors.hasSuffix("\nin timer made at (command line):1\n"), "\(run)")
        let ended = try Binary.run([
            "-e",
            """
            rl.on_error(function() rl.sleep(60) end)
            rl.after(0, function() error 'first' end)
            rl.after(0.1, function() io.popen("kill -TERM $PPID"):close() end)
            """,
        ])
        #expect(ended.signal == 15 && ended.errors.contains("(command line):2: first"), "\(ended)")
    }

    @Test("a main chunk that nothing can wake ends with 13, and the place where it waits")
    func neverEnded() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                local me
                local other = rl.task(function() rl.sleep(0) me:await() end)
                me = rl.task(function() other:await() end)
                other:await()
                """
            try Sample.write(script, to: "app.lua", in: directory)
            let result = try Binary.run(["app.lua"], directory: directory)
            #expect(result.status == 13 && result.errors.contains("app.lua:5: in main chunk"), "\(result.errors)")
        }
    }

    @Test("-e may wait, and the next -e runs after it")
    func waiting() throws {
        let result = try Binary.run(["-e", "rl.sleep(0.01) print 'one'", "-e", "print 'two'"])
        #expect(result.output == "one\ntwo\n" && result.status == 0 && result.errors.isEmpty)
    }

    @Test(
        "a reader that goes away ends the program quietly and soon",
        arguments: [
            "while true do print(1) end", "while true do io.write('1\\n') end",
            "while true do io.stdout:write('1\\n') end",
            "rl.every(0.001, function() print(1) end)", "while true do pcall(print, 1) end",
            "coroutine.wrap(function() while true do print(1) end end)()",
            "print(1) rl.sleep(0.05) print(2) rl.sleep(60)",
        ])
    func closedPipe(_ text: String) throws {
        let result = try Binary.shell(
            "{ \"$RLHOST\" -e \"$TEXT\"; echo $? >&2; } | head -1", environment: ["TEXT": text], timeout: 30)
        #expect(!result.timedOut && result.output == "1\n")
        #expect(result.errors == "141\n" || text.contains("60"))
    }

    @Test("a broken pipe other than standard output fails the call, and not the program")
    func otherPipe() throws {
        let text = """
            local p = io.popen('exec <&-; echo ready', 'w') os.execute('sleep 0.1')
            p:setvbuf('no') print((select(2, p:write(('x'):rep(100000)))))
            io.write('alive')
            """
        let result = try Binary.run(["-e", text])
        #expect(result.status == 0 && result.output.hasSuffix("alive") && result.output.contains("Broken pipe"))
    }

    @Test("a child has the signals of a fresh process")
    func children() throws {
        let result = try Binary.run(["-e", "print(os.execute('kill -PIPE $$'))"])
        #expect(result.output == "nil\tsignal\t13\n")
    }

    @Test(
        "a crash of the process is reported; a signal from another process is not",
        arguments: [
            ("package.loadlib('libc.so.6', 'abort')()", SIGABRT, true),
            // Lua takes the result of `rand`, 1,804,289,383, as the number of results on the stack.
            ("local x = package.loadlib('libc.so.6', 'rand')()", SIGSEGV, true),
            ("os.execute('kill -ABRT ' .. require 'runloop.process'.id()) rl.sleep(10)", SIGABRT, false),
            ("os.execute('kill -SEGV ' .. require 'runloop.process'.id()) rl.sleep(10)", SIGSEGV, false),
            ("os.execute('kill -ILL ' .. require 'runloop.process'.id()) rl.sleep(10)", SIGILL, false),
        ])
    func death(_ text: String, _ signal: Int32, _ isOwn: Bool) throws {
        let run = try Binary.run(["-e", "rl = require 'runloop' \(text)"])
        #expect(run.status == 128 + signal, "\(run)")
        #expect(run.errors == (isOwn ? "rlhost: ended by an internal failure, or for lack of memory\n" : ""), "\(run)")
    }
}
