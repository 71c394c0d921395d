import TestSupport
import Testing

/// Callbacks that read the terminal whose keys the prompt reads.
@Suite("Reading at the prompt", .timed)
struct PromptInputTests {
    @Test(
        "a callback that reads gets the terminal like an entry, and then the prompt returns",
        arguments: PromptSession.sizes)
    func callbacks(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.enter("function ask(q) io.write(q, '? ') local a = io.read() print('<' .. tostring(a) .. '>') end")
        session.forget()
        try session.type("rl.after(0.3, function() ask 'one' ask 'two' end)\rtyped")
        try session.until("the question") { $0.text.last == "one? |" }
        // Text that was typed before stays at the prompt, and is not taken as the answer.
        try session.type("first\r")
        try session.until("the second question") { $0.text.suffix(3) == ["one? first", "<first>", "two? |"] }
        try session.type("secondx\u{7F}\r")
        try session.until(ending: "two? second", "<second>", "> typed|")
        try session.type("\u{15}'still ' .. 'here'\r")
        try session.until("the value") { $0.isAtPrompt && $0.text.contains("\"still here\"") }
        // A task that reads twice, and an entry that waits meanwhile.
        session.forget()
        try session.type("rl.task(function() rl.sleep(0.1) ask 'three' rl.sleep(0.1) ask 'four' end):await()\r")
        try session.until("the question") { $0.text.last == "three? |" }
        try session.type("3\r")
        try session.until("the next question") { $0.text.last == "four? |" }
        try session.type("4\r")
        try session.until(ending: "four? 4", "<4>", "> |")
        #expect(session.screen.problems.isEmpty)
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
    }

    @Test(
        "Control-C ends a read in a callback, Control-D its input; typed text stays",
        arguments: PromptSession.sizes)
    func interrupts(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.enter("function ask() io.write '? ' local a = io.read() print(a) end")
        session.forget()
        try session.type("rl.after(0.3, ask)\rtyped")
        try session.until("the question") { $0.text.last == "? |" }
        try session.type("half\u{03}")
        try session.until("the prompt") { $0.text.contains("interrupted!") && $0.text.last == "> typed|" }
        try session.type("\u{15}")
        session.forget()
        try session.type("rl.after(0.1, ask)\r")
        try session.until("the question") { $0.text.last == "? |" }
        try session.type("\u{04}")
        try session.until("the end of input") { $0.text.contains("? nil") && $0.isAtPrompt }
        session.forget()
        try session.type(
            "rl.after(0.1, function() io.write '! ' for l in io.lines() do print(#l) end print 'over' end)\r")
        try session.until("the loop") { $0.text.last == "! |" }
        try session.type("abc\rdefg\r\u{04}")
        try session.until(ending: "over", "> |")
        #expect(session.text.contains("3") && session.text.contains("4"))
        // C's functions, too.
        session.forget()
        try session.type("rl.after(0.1, debug.debug)\r")
        try session.until("the debugger") { $0.text.last == "lua_debug> |" }
        try session.type("print(6 * 7)\r")
        try session.until("the debugger's answer") { $0.text.suffix(2) == ["42", "lua_debug> |"] }
        try session.type("cont\r")
        try session.untilPrompt()
        #expect(session.screen.problems.isEmpty)
    }

    @Test(
        "bytes that are not UTF-8 are shown, and stay unchanged when typed, pasted, saved and loaded",
        arguments: PromptSession.sizes)
    func otherBytes(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        let latin = Array("x = 'gr".utf8) + [0xFC, 0xDF] + Array("e'".utf8)
        try session.type(bytes: latin)
        try session.until(ending: "> x = 'gr<fc><df>e'|")
        // Each invalid byte counts as one character for keys, and so does a valid character between them.
        try session.type(bytes: [0x02, 0x02, 0x08] + [0xE2, 0x82, 0xAC, 0xFF] + [0x05])
        try session.until(ending: "> x = 'gr<fc>€<ff>e'|")
        try session.type("\r")
        try session.untilPrompt()
        try session.enter("x:byte(3), #x", showing: "252\t8".untabbed)
        session.forget()
        try session.type(bytes: Array("\u{1B}[200~#'".utf8) + [0xE9, 0x41, 0xFE] + Array("'\u{1B}[201~\r".utf8))
        try session.until(ending: "> #'<e9>A<fe>'", "3", "> |")
        try session.type("\u{1B}[A")
        try session.until(ending: "> #'<e9>A<fe>'|")
        try session.type("\r")
        try session.until(ending: "> #'<e9>A<fe>'", "3", "> |")
        try session.enter(".save s.lua", showing: "entries")
        try session.enter("x = nil")
        try session.enter(".load s.lua")
        try session.enter("#x", showing: "8")
        #expect(session.screen.problems.isEmpty)
        session.forget()
        let plain = #"p = io.popen("$RLHOST -i 2>/dev/null", "w") p:write "= #'\xff\xfe'\n" p:close()"#
        try session.type(plain + "\r")
        try session.until("the length") { $0.text.contains { $0.hasPrefix("> 2") } && $0.isAtPrompt }
    }

    @Test("readers that would share the keys with the prompt are refused, also in threads")
    func refusals() throws {
        let session = try PromptSession()
        try session.untilPrompt()
        for (call, name) in [
            ("rl.on_readable(io.stdin, print)", "rl.on_readable"),
            ("rl.fd_port { fd = 0, callback = print }", "rl.fd_port"),
            ("rl.fd_port { fd = io.stdin, callback = print }", "rl.fd_port"),
            ("rl.wait_readable(0)", "rl.wait_readable"),
            ("require 'runloop.net'.input()", "net.input"), ("require 'runloop.net'.open(0)", "net.open"),
            ("require 'runloop.terminal'.open():raw()", "terminal:raw"),
        ] {
            try session.enter(call, showing: "\(name): standard input is the terminal whose keys the")
        }
        try session.enter("rl.on_writable(0, function(p) p:invalidate() print 'writable' end)", showing: "writable")
        try session.enter(
            "print(rl.thread(function() return io.read() end):join())",
            showing: "true\tnil\tDevice or resource busy\t16".untabbed)
        try session.enter("io.stdin:seek() == nil, io.type(io.stdin)", showing: "true\t\"file\"".untabbed)
    }
}

extension String {
    /// As a terminal shows it.
    fileprivate var untabbed: String {
        split(separator: "\t", omittingEmptySubsequences: false).map(String.init).reduce(nil) { (line: String?, part) in
            guard let line else { return part }
            return line + String(repeating: " ", count: 8 - line.count % 8) + part
        } ?? ""
    }
}
