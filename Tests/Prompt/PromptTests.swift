import Foundation
import TestSupport
import Testing

/// Every row of the prompt's table is tried in two sizes. Typed text appears as a terminal shows it.
@Suite("The prompt", .timed)
struct PromptTests {
    @Test("shows a banner, evaluates expressions first, leaves at Control-D", arguments: PromptSession.sizes)
    func basics(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        #expect(session.text.first?.hasPrefix("rlhost 0.") == true)
        try session.type("1 + 1\r")
        try session.until(ending: "> 1 + 1", "2", "> |")
        try session.type("=3\r")
        try session.until(ending: "> =3", "3", "> |")
        try session.enter("x = 5 =x", showing: "near '='")
        try session.type("x = 7\rx\r")
        try session.until(ending: "> x = 7", "> x", "7", "> |")
        try session.type("print()\rdo end\r_, _1\r")
        try session.until("the values") {
            $0.text.suffix(6) == ["> print()", "", "> do end", "> _, _1", "7       7", "> |"]
        }
        try session.type("_PROMPT, _PROMPT2 = 'lua$ ', '.. '\r")
        try session.until(ending: "> _PROMPT, _PROMPT2 = 'lua$ ', '.. '", "lua$ |")
        try session.type("f(\r")
        try session.until(ending: "lua$ f(", ".. |")
        try session.type("\u{03}")
        try session.until(ending: ".. ^C", "lua$ |")
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
        #expect(session.screen.problems.isEmpty)
    }

    @Test(
        "reads several lines until an entry is complete, also after an operator at a line's end",
        arguments: PromptSession.sizes)
    func continuation(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("1 +\r")
        try session.until(ending: "> 1 +", ">> |")
        try session.type("2\r")
        try session.until(ending: "> 1 +", ">> 2", "3", "> |")
        try session.type("for i = 1, 2 do\rprint(i)\rend\r")
        try session.until(ending: "> for i = 1, 2 do", ">> print(i)", ">> end", "1", "2", "> |")
        try session.enter("s = \"abc", showing: "unfinished string")
        // The whole entry comes back, and can be changed in its middle.
        try session.type("\u{1B}[A\u{1B}[A")
        try session.until(ending: "> for i = 1, 2 do", ">> print(i)", ">> end|")
        try session.type("\u{10}\u{05}\u{02} + 5\r")
        try session.until(ending: "> for i = 1, 2 do", ">> print(i + 5)", ">> end", "6", "7", "> |")
        #expect(session.screen.problems.isEmpty)
    }

    @Test("keeps the locals of earlier entries on the screen, too", arguments: PromptSession.sizes)
    func localsOnAScreen(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("local n = 40\rfunction f() return n end\rn = n + 2\rf()\r")
        try session.until(ending: "> f()", "42", "> |")
    }

    @Test("results go through the script's own print, as under lua, and its errors are printed")
    func ownPrint() throws {
        let run = try Binary.run(
            ["-i"],
            input: """
                standard = print
                print = function(...) io.write("<", select("#", ...), ">\\n") end
                5, nil
                _1
                print = standard
                5
                print = nil
                5
                print = function() error({}) end
                5

                """)
        let text = run.output.replacing(/(?m)^(> )+/, with: "")
        #expect(text.split(separator: "\n").dropFirst() == ["<2>", "<1>", "5"], "\(run)")
        #expect(
            run.errors == """
                error calling 'print' (attempt to call a nil value)
                error calling 'print' ((error object is a table value))

                """)
        // The script has replaced `print` before the prompt begins.
        let script = "local p = print print = function(x) p('mine', x) end"
        let early = try Binary.run(["-e", script, "-i"], input: "5\n")
        #expect(early.output.contains("mine\t5\n"), "\(early)")
    }

    @Test("keeps the locals of earlier entries, as if all were in one block")
    func locals() throws {
        let run = try Binary.run(
            ["-i"],
            input: """
                local n = 0
                function increment() n = n + 1 return n end
                increment() increment()
                n
                n = 10
                increment()
                local n = "shadows"
                increment(), n
                local a <const>, b = 1, 2
                a + b
                a = 2
                local function twice(f) return f() + f() end
                twice(increment)
                local x = 1 error("in the middle") local y = 2
                x, y
                do local inner = 1 end
                inner
                local t <close> = setmetatable({}, { __close = function() print("closed at the end") end })
                local bad <close> = 42
                local k <const> = 5; function five() return k end
                five(), k
                goto over; local skipped = 1; ::over::
                for i = 1, 2 do local loop = i end local after = 3
                after, loop
                local f = function() local deep = 1 return deep end local g = f
                g(), deep
                return n, x

                """)
        #expect(
            run.output.replacing(/(>>? )+/, with: "").split(separator: "\n").dropFirst() == [
                "2", "11", "12\t\"shadows\"", "3", "27", "1\tnil", "nil", "5\t5", "3\tnil", "1\tnil",
                "\"shadows\"\t1", "closed at the end",
            ])
        #expect(run.errors.contains("attempt to assign to const variable 'a'"))
        #expect(run.errors.contains("variable 'bad' got a non-closable value"))
        #expect(run.status == 0)
    }

    @Test("runs each entry as a task, which may wait while timers fire", arguments: PromptSession.sizes)
    func waiting(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("rl.after(0.01, function() print 'fired' end) rl.sleep(0.05) return 'slept'\r")
        try session.until("what it returns") { $0.text.suffix(3) == ["fired", "\"slept\"", "> |"] }
        // Keys that are typed while an entry waits go to the next prompt.
        try session.type("print 'waits' rl.sleep(0.05)\r1 + 1\r")
        try session.until(ending: "waits", "> 1 + 1", "2", "> |")
    }

    @Test("shows results as rl.inspect does", arguments: PromptSession.sizes)
    func results(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("{ 'a', k = 1 }\r")
        try session.until(ending: "> { 'a', k = 1 }", "{ \"a\", k = 1 }", "> |")
        try session.type("_.me = _ return _\r")
        try session.until("the cycle") { $0.isAtPrompt && $0.text.suffix(8).joined().contains("me = <cycle>") }
        try session.type("{{{{1}}}}\r")
        try session.until("the depth") { $0.isAtPrompt && $0.text.suffix(8).joined().contains("{ { {…} } }") }
    }

    @Test("shows tables to a depth of three, with sorted keys, cycles marked and no more than a hundred items")
    func inspector() throws {
        let run = try Binary.run(
            ["-i"],
            input: #"""
                { 1, "two", { b = 2, a = 1, ["a b"] = true }, x = { y = { z = { } , w = { 1 } } } }
                "a string", 'another'
                (function() local t = { } t.self = t return t end)()
                #(function() local t = {} for i = 1, 150 do t[i] = i end return t end)()
                (function() local t = {} for i = 1, 150 do t[i] = 0 end return t end)()
                _[150], _1 == _
                setmetatable({}, { __tostring = function() return "mine" end }), { "\n\0011\"" }
                setmetatable({}, { __tostring = function() error("no") end })
                nil
                print()
                1, nil, 3
                _2, _3

                """#)
        let lines = run.output.replacing(/(?m)^(>>? )+/, with: "").split(separator: "\n").map(String.init)
        #expect(lines[1] == #"{ 1, "two", { a = 1, ["a b"] = true, b = 2 }, x = { y = { w = {…}, z = {} } } }"#)
        #expect(lines[2] == "\"a string\"\t\"another\"")
        #expect(lines[3] == "{ self = <cycle> }")
        #expect(lines[4] == "150")
        #expect(lines.contains("  … 50 more"))
        #expect(lines.contains("0\ttrue"))
        #expect(lines.contains(#"mine"# + "\t" + #"{ "\n\0011\"" }"#))
        #expect(lines.contains { $0.contains("error in __tostring: stdin:1: no") })
        #expect(lines.suffix(2) == ["1\tnil\t3", "nil\t3"])
    }

    @Test("runs dot commands, and shows help", arguments: PromptSession.sizes)
    func commands(columns: Int, rows: Int) throws {
        let session = try PromptSession(
            columns: columns, rows: rows,
            files: ["load.lua": "#!/usr/bin/env rlhost\nlocal loaded = 'from a file'\nprint(loaded)"])
        try session.untilPrompt()
        try session.enter(".help", showing: ".inspect expression")
        try session.enter(".help rl.sleep", showing: "rl.sleep(seconds)")
        try session.enter("help(rl.current().run)", showing: "loop:run(")
        try session.enter("help 'timer'", showing: "timer:fire_date()  Returns when it fires")
        try session.enter(".load load.lua", showing: "from a file")
        try session.enter("loaded", showing: "from a file")
        try session.enter(".timers", showing: "no timers")
        try session.enter("t = rl.timer { delay = 60, callback = print, name = 'slow' }")
        try session.enter("rl.current():add(t)")
        try session.enter(".timers", showing: "timer \"slow\"")
        try session.enter(".why", showing: "running in \"repl\"")
        try session.enter(".mode", showing: "the prompt runs the loop in mode \"repl\"")
        try session.enter(".mode default", showing: "mode \"default\"")
        try session.enter("1 + 1", showing: "2")
        try session.enter(".inspect { a = { b = { c = { d = { 1 } } } } }", showing: "d = { 1 }")
        try session.enter("quit()", showing: ".exit or Control-D leaves")
        try session.enter("exit = 5")
        try session.enter("exit", showing: "5")
        try session.enter(".nonsense", showing: "unknown command '.nonsense'")
        try session.enter(".save saved.lua", showing: "entries written to saved.lua")
        let saved = try String(contentsOf: session.folder.url.appending(path: "saved.lua"), encoding: .utf8)
        #expect(saved.contains("\nprint(1 + 1)\nprint({ a = { b = { c = { d = { 1 } } } } })\n"))
        try session.enter(".editor", showing: "a line with a single dot")
        try session.type("local q = 6\rreturn q * 7\r.\r")
        try session.until(ending: ">> .", "42", "> |")
        // Control-C ends the mode, also for a text that was incomplete in it.
        try session.enter(".editor", showing: "a line with a single dot")
        try session.type("return 6 * 8\r")
        try session.until(ending: ">> |")
        try session.type("x\u{3}")
        try session.until(ending: ">> x^C", "> |")
        try session.type("return 6 * 8\r")
        try session.until(ending: "48", "> |")
        try session.type("f(\r.break\r")
        try session.until(ending: ">> .break", "> |")
        try session.type(".exit\r")
        #expect(try session.finish() == 0)
        #expect(session.screen.problems.isEmpty)
    }

    @Test("reads plainly if the input is not a terminal")
    func plain() throws {
        let run = try Binary.run(
            ["-i"], input: "1 +\n2\nrl.sleep(0.01) return 'slept'\nio.read()\nthis line\nerror('oops', 0)\n")
        #expect(run.output.hasPrefix("Lua 5.4") && run.output.hasSuffix("\n> >> 3\n> \"slept\"\n> \"this line\"\n> > "))
        #expect(run.errors.hasPrefix("oops\nstack traceback:") && run.status == 0)
    }
}
