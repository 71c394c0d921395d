import Foundation
import TestSupport
import Testing

/// The prompt's display of values, errors and help.
@Suite("The prompt's values", .timed)
struct PromptValueTests {
    /// Lines without the prompts.
    private func lines(_ input: String) throws -> (lines: [String], errors: String) {
        let run = try Binary.run(["-i"], input: input)
        let text = run.output.replacing(/(?m)^(>>? )+/, with: "")
        return (text.split(separator: "\n", omittingEmptySubsequences: false).dropFirst().map(String.init), run.errors)
    }

    @Test("functions are shown with name, parameters and place, or as built in")
    func functions() throws {
        let (lines, _) = try lines(
            """
            function area(width, height, ...) return width * height end
            area
            { f = area, print }
            string.rep, rl.sleep
            load "return 1"
            rl.current().run
            coroutine.create(area)

            """)
        #expect(
            lines.prefix(4) == [
                "function area(width, height, ...) stdin:1",
                "{ function print(...) built in, f = function(width, height, ...) stdin:1 }",
                "function string.rep(s, n, sep) built in\tfunction rl.sleep(seconds) built in",
                "function(...) [string \"return 1\"]:0",
            ])
        #expect(lines[4] == "function loop:run(options) built in")
        #expect(lines[5].hasPrefix("thread 0x") && lines[5].hasSuffix("suspended"))
    }

    @Test("texts are quoted, and nothing in a value reaches the terminal as a command for it")
    func harmless() throws {
        let (lines, _) = try lines(
            #"""
            "nil", nil, "1", 1
            "a\27[2J\xc2\x9b2J", "\u{202e}abc", "\xff", "日本"
            setmetatable({}, { __tostring = function() return "P\27[2J\ry" end })
            { [setmetatable({}, { __tostring = function() return "\7key" end })] = 1 }
            utf8 = nil
            { "é", "\xff" }

            """#)
        #expect(lines[0] == "\"nil\"\tnil\t\"1\"\t1")
        let texts: [String] = [#""a\27[2J\xc2\x9b2J""#, #""\xe2\x80\xaeabc""#, #""\xff""#, "\"日本\""]
        #expect(lines[1] == texts.joined(separator: "\t"))
        #expect(lines[2] == #"P\x1b[2J\ry"#)
        #expect(lines[3] == #"{ [\x07key] = 1 }"#)
        #expect(lines[4] == #"{ "é", "\xff" }"#)
    }

    @Test("arrays stand in columns, numbers to the right")
    func columns() throws {
        let (lines, _) = try lines(
            """
            local t = {} for i = 1, 120 do t[i] = i end return t
            { "one", "two", "three", "four", "five", "six", "a longer one", "x", "yy", "zzz" }

            """)
        #expect(
            lines[0] == "{"
                && lines[1] == "    1,   2,   3,   4,   5,   6,   7,   8,   9,  10,  11,  12,  13,  14,  15,")
        #expect(
            lines[7] == "   91,  92,  93,  94,  95,  96,  97,  98,  99, 100," && lines[8] == "  … 20 more"
                && lines[9] == "}")
        #expect(lines[10] == "{" && lines[11].hasPrefix("  \"one\",") && lines[11].contains("\"two\""))
    }

    @Test(".inspect shows upvalues, metatables and the state of an object")
    func inspecting() throws {
        let (lines, _) = try lines(
            """
            local limit = { 5 }
            function check(x) return x < limit[1] end
            .inspect check
            .inspect setmetatable({ a = 1 }, { __tostring = function() return "OBJ" end, __index = { b = 2 } })
            local timer = rl.timer { interval = 2, name = "poll", callback = check }
            rl.current():add(timer)
            .inspect timer

            """)
        let text = lines.joined(separator: "\n")
        #expect(text.contains("function check(x) stdin:1 { limit = { 5 } }"))
        #expect(
            text.contains("OBJ {") && text.contains("a = 1") && text.contains("<metatable> = {")
                && text.contains("b = 2"))
        #expect(text.contains("interval = 2.0") && text.contains("callback = function(x) stdin:1"))
        #expect(text.contains("modes = { \"default\"") && text.contains("name = \"poll\""))
    }

    @Test(
        "an error that is a table is shown as a table, and .traceback shows the last error")
    func errors() throws {
        let (lines, errors) = try lines(
            """
            error { code = 5 }
            _error.code
            local n = 1
            error("in " .. n)
            .traceback
            setmetatable({}, { __tostring = function() return "text" end })
            error(_)

            """)
        #expect(errors.hasPrefix("{ code = 5 }\nstack traceback:\n"))
        #expect(lines[0] == "5")
        let trace = "stdin:1: in 1\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in main chunk\n\t[C]: in ?"
        #expect(errors.contains(trace) && lines.joined(separator: "\n").contains(trace))
        #expect(errors.hasSuffix("\ntext\n"))
    }

    @Test("a string continues after a backslash or \\z, too many locals are an error, and .load names its file")
    func entries() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "load-\(UUID().uuidString).lua")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data("\n\nerror 'loaded'\n".utf8).write(to: file)
        let names = (1...200).map { "v\($0)" }
        let (lines, errors) = try lines(
            names.map { "local \($0) = 1" }.joined(separator: "\n") + "\n" + names.joined(separator: "+") + "\n"
                + "x = \"a\\\nb\"\nx\ny = 'a\\z\n   b'\ny\nz = \"abc\n.load \(file.path)\n")
        #expect(errors.contains("the entry uses 200 locals of earlier entries; Lua allows 190"))
        #expect(lines.prefix(2) == ["\"a\\nb\"", "\"ab\""])
        #expect(errors.contains("unfinished string near") && errors.contains("\(file.lastPathComponent):3: loaded\n"))
    }

    @Test("the error for an unfinished entry at the end of input names the missing word")
    func unfinished() throws {
        let (lines, errors) = try lines("print(1)\nfunction f()\nprint(2)\n")
        #expect(
            lines.first == "1" && errors.contains("'end' expected (to close 'function' at line 1) near <eof>"),
            "\(errors)")
    }

    @Test(".load and rlhost run the file of .save, and .load reports files that it cannot load")
    func saved() throws {
        try Binary.withDirectory { directory in
            let text = "x = 3\nx + 1 -- more\n=x, 'y'\nreturn x * 2;\nprint(x)\n.save s.lua\n.load s.lua\n"
            let first = try Binary.run(["-i"], input: text, directory: directory)
            let values = "4\n3\ty\n6\n3\n"
            #expect(first.output.contains(values) && first.errors.isEmpty, "\(first)")
            let second = try Binary.run(["s.lua"], directory: directory)
            #expect(second.output == values && second.status == 0, "\(second)")
            try "\u{FEFF}print 'marked'\n".write(toFile: directory + "/bom.lua", atomically: true, encoding: .utf8)
            let load = try Binary.shell(
                "$RLHOST -e 'io.open(\"c.lua\", \"w\"):write(string.dump(load \"\"))'; "
                    + "printf '.load bom.lua\\n.load .\\n.load c.lua\\n' | $RLHOST -i 2>&1", directory: directory)
            #expect(load.output.contains("marked\n") && load.output.contains(".load: cannot open .: Is a directory\n"))
            #expect(load.output.contains(".load: c.lua is compiled already; dofile \"c.lua\" runs it\n"), "\(load)")
        }
    }

    @Test(
        "help follows types to their fields, knows Lua's library and own functions, and breaks lines between words"
    )
    func help() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "own-\(UUID().uuidString).lua")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data("-- Doubles a number.\n-- Twice as much.\nfunction double(n)\n  return 2 * n\nend\n".utf8).write(
            to: file)
        let (lines, errors) = try lines(
            """
            help(rl.timer)
            help "TimerOptions"
            help "rl.timer.tolerance"
            rl.sleep?
            ?string.gsub
            help "table"
            help(rl)
            dofile "\(file.path)"
            help(double)
            help "nothing like it"

            """)
        let text = lines.joined(separator: "\n")
        #expect(text.matches(of: /interval +number, optional: seconds between fires/).count == 2)
        #expect(text.contains("rl.timer(options):\n  tolerance  number, optional: seconds by which"))
        #expect(text.contains("rl.sleep(seconds)\n\nWaits for some seconds"))
        #expect(text.contains("string.gsub(s, pattern, repl, n)\n\nThe text with matches"))
        #expect(text.contains("table.concat(list, sep, i, j)  The elements of a list"))
        #expect(text.contains("rl.now()  Returns the monotonic clock:"))
        #expect(text.contains("own-") && text.contains("Doubles a number.\nTwice as much."))
        #expect(text.contains("there is no 'nothing like it'") && errors.isEmpty)
        // Lines of examples are not wrapped.
        #expect(lines.allSatisfy { $0.count <= 80 || $0.hasPrefix("    ") })
    }

    @Test(".timers shows each timer once, .tasks the places, times and subjects of waits, .time the time of an entry")
    func lists() throws {
        let (lines, _) = try lines(
            """
            for i = 1, 8 do rl.every(30, print) end
            rl.every(40, print)
            .timers
            a = rl.task(function() local function deep() rl.sleep(100) end deep() end)
            b = rl.task(function() a:await() end)
            rl.sleep(0.05)
            .tasks
            .time rl.sleep(0.03)
            .mode nonsense

            """)
        #expect(lines.count { $0.contains("timer (every 30 s") } == 8)
        #expect(lines.count { $0.contains("timer (every 40 s") } == 2)  // made, and listed
        // A busy machine may make each time longer.
        #expect(
            lines.contains {
                $0.contains(/task made at stdin:1: waits in rl.sleep at stdin:1, [\d.]+ s to go, for [\d.]+ s/)
            })
        #expect(
            lines.contains {
                $0.contains(/waits in task:await at stdin:1, task made at stdin:1, for [\d.]+ s/)
            })
        let timed = try #require(
            lines.compactMap { $0.firstMatch(of: /took ([\d.]+) s; the loop stood still for ([\d.]+) s/) }.first)
        let (total, computed) = try (#require(Double(timed.1)), #require(Double(timed.2)))
        #expect(computed > 0 && total - computed > 0.0299, "\(timed.0)")
    }
}
