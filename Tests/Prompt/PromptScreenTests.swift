import Foundation
import TestSupport
import Testing

/// The text around the typed line, and the state of the terminal.
@Suite("The prompt's screen", .timed)
struct PromptScreenTests {
    @Test("a timer that prints every 50 ms leaves the line intact at every step", arguments: [(80, 24), (20, 5)])
    func outputWhileTyping(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.until("the prompt") { $0.isAtPrompt }
        let start = "n = 0 rl.every(0.05, function() n = n + 1 print('tick ' .. n) io.stderr:write('!\\n') end)\r"
        try session.type(start)
        try session.until("ticks") { $0.screen.lines.contains("tick 2") }
        let words = "local text = 'a long line that is typed slowly while others print' return #text"
        var typed = ""
        for character in words {
            typed.append(character)
            try session.type(String(character))
            let expected = "> " + typed
            try session.until("'\(expected)'") { Self.isWhole($0, expected) }
        }
        // Editing in the middle, and a paste.
        try session.type("\u{01}\u{1B}[200~x = 1 \u{1B}[201~\u{05}")
        typed = "x = 1 " + typed
        try session.until("the paste") { Self.isWhole($0, "> " + typed) }
        let count = { (session: PromptSession) in session.screen.transcript.count { $0.hasPrefix("tick ") } }
        let before = count(session)
        try session.until("more ticks") { count($0) > before + 3 && Self.isWhole($0, "> " + typed) }
        try session.type("\u{15}rl.stop() n = -1e9 error 'x'\r")
        try session.until("the error") { $0.screen.transcript.contains { $0.contains("]:1: x") } }
        // Nothing was lost or torn.
        let ticks = session.screen.transcript.compactMap { line in
            line.hasPrefix("tick ") ? Int(line.dropFirst(5)) : nil
        }.filter { $0 > 0 }
        #expect(ticks == Array(1...ticks.count))
        #expect(session.screen.problems.isEmpty)
    }

    /// Whether the entry, its rows joined, is at the bottom, with the cursor after it.
    private static func isWhole(_ session: PromptSession, _ entry: String) -> Bool {
        let columns = session.screen.columns
        var text = ""
        var index = session.screen.row
        let needed = (entry.utf8.count) / columns + 1
        for _ in 0..<needed where index >= 0 {
            text = session.screen.rows[index].places.map(\.text).joined() + text
            index -= 1
        }
        let isCursorRight = session.screen.column == entry.utf8.count % columns
        let shown = text.withoutBlanksAtEnd
        let wanted = entry.withoutBlanksAtEnd
        // An entry larger than the screen shows its end.
        return isCursorRight
            && (shown == wanted || needed > session.screen.rows.count - 1 && wanted.hasSuffix(shown.suffix(columns)))
    }

    @Test("threads that print leave the line intact", arguments: PromptSession.sizes)
    func threads(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.enter("function work(name) for i = 1, 25 do print(name .. i) require 'runloop'.sleep(0.01) end end")
        session.forget()
        try session.type("rl.thread(work, 'a') rl.thread(work, 'b') rl.thread(work, 'c') x = 1\r")
        // While the entry runs, the terminal itself echoes keys, as for any program.
        try session.until("the prompt") { $0.isAtPrompt && $0.text.count > 1 }
        var typed = "> "
        for character in "while three threads print, this is typed" {
            typed.append(character)
            try session.type(String(character))
            try session.until("'\(typed)'") { Self.isWhole($0, typed) }
        }
        try session.until("the last of each") { session in
            ["a25", "b25", "c25"].allSatisfy(session.text.contains) && Self.isWhole(session, typed)
        }
        for name in ["a", "b", "c"] {
            #expect(
                session.text.filter { $0.wholeMatch(of: /[abc]\d+/) != nil && $0.hasPrefix(name) }
                    == (1...25).map { "\(name)\($0)" })
        }
        #expect(session.screen.problems.isEmpty)
    }

    @Test(
        "output of C modules, children and partial lines is kept apart from the line, too",
        arguments: PromptSession.sizes)
    func otherOutput(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("do io.write 'no newline' end\r")
        try session.until(ending: "> do io.write 'no newline' end", "no newline", "> |")
        try session.type("os.execute '(sleep 0.1; echo late) &' os.execute 'echo child'\rabc")
        try session.until("late output above the line") { session in
            session.text.contains("late") && session.text.contains("child")
                && session.text.last == "> abc|"
        }
        #expect(session.screen.problems.isEmpty)
    }

    @Test("an error in a callback is shown above the line, and the loop goes on", arguments: PromptSession.sizes)
    func callbackErrors(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.enter("rl.after(0.05, function() error('in a timer') end)")
        try session.type("rl.after(0.1, function() print 'later' end)\rtyped")
        try session.until("the callbacks") { session in
            session.text.contains { $0.contains("in a timer") } && session.text.contains("later")
                && session.text.last == "> typed|"
        }
    }

    @Test(
        "runs the start-up file before the first prompt, unless the environment is ignored",
        arguments: PromptSession.sizes)
    func startUpFile(columns: Int, rows: Int) throws {
        let folder = try PromptFolder()
        let files = ["config/rlhost/init.lua": "print 'started up' greeting = 'hello'"]
        let none = try PromptSession(
            columns: columns, rows: rows, environment: ["XDG_CONFIG_HOME": "/nonexistent"], files: files, folder: folder
        )
        try none.untilPrompt()
        #expect(!none.text.contains("started up"))
        let environment = ["XDG_CONFIG_HOME": folder.url.path + "/config"]
        let session = try PromptSession(columns: columns, rows: rows, environment: environment, folder: folder)
        try session.until(ending: "started up", "> |")
        try session.type("greeting\r")
        try session.until(ending: "\"hello\"", "> |")
        let ignoring = try PromptSession(
            ["-E", "-i"], columns: columns, rows: rows, environment: environment, folder: folder)
        try ignoring.untilPrompt()
        #expect(!ignoring.text.contains("started up"))
    }

    @Test("draws the line again when the terminal's size changes", arguments: PromptSession.sizes)
    func resizing(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        let line = String(repeating: "abcdefghi ", count: 5)
        try session.type("\u{0C}" + line)
        try session.until("the line") { Self.isWhole($0, "> " + line) }
        for (columns, rows) in [(30, 10), (70, 6), (20, 5), (80, 24)] {
            session.resize(columns, rows)
            // The program prints the size that it knows.
            try session.type("x\u{7F}y")
            try session.until("the line in \(columns) columns") { Self.isWhole($0, "> " + line + "y") }
            try session.type("\u{7F}")
            try session.until("the line as it was") { Self.isWhole($0, "> " + line) }
        }
        #expect(session.screen.problems.isEmpty)
        try session.type("\u{15}os.execute 'stty size'\r")
        try session.until("the size for children") { $0.text.contains("24 80") }
    }

    @Test("works on a terminal that cannot move the cursor", arguments: PromptSession.sizes)
    func dumb(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows, environment: ["TERM": "dumb"])
        try session.untilPrompt()
        try session.type("1 + 1\r")
        try session.until(ending: "> 1 + 1", "2", "> |")
        // A long line scrolls sideways in its row.
        let long = (1...12).map { "word\($0)" }.joined(separator: " ")
        try session.type("-- " + long)
        try session.until("its end") { session in
            session.screen.rows[session.screen.row].text.hasSuffix("word12")
        }
        try session.type("\u{03}")
        try session.until("the prompt") { $0.isAtPrompt }
        try session.type("rl.after(0.02, function() print 'printed' end) x = 1\rabc")
        try session.until("output above the line") { $0.text.contains("printed") && $0.text.last == "> abc|" }
        try session.type("\u{15}\u{1B}[A")
        try session.until("the last entry") { $0.screen.rows[$0.screen.row].text.hasSuffix("x = 1") }
        try session.type("\u{03}\u{04}")
        #expect(try session.finish() == 0)
        // The program writes no escape sequence at all.
        #expect(session.screen.problems.isEmpty && session.sequences == 0)
    }

    @Test(
        "colours the prompt, values and errors on a terminal, unless colours are turned off",
        arguments: PromptSession.sizes)
    func colours(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows, environment: ["NO_COLOR": ""])
        try session.untilPrompt()
        try session.type("{ 'x' }\r")
        try session.until("the value") { $0.isAtPrompt && $0.screen.lines.contains(#"{ "x" }"#) }
        let row = try #require(session.screen.rows.firstIndex { $0.text == #"{ "x" }"# })
        #expect(session.screen.rows[row].places[2].style != "")
        #expect(session.screen.rows[row].places[0].style == "")
        #expect(session.screen.rows[session.screen.row].places[0].style != "")
        try session.enter("error('e', 0)", showing: "e")
        #expect(
            (session.screen.scrolledOff + session.screen.rows).contains {
                $0.places[0] == .init(text: "e", style: "31")
            })
        let plain = try PromptSession(columns: columns, rows: rows)
        try plain.untilPrompt()
        try plain.type("{ 'x' } error 'e'\r{ 'x' }\r")
        try plain.until("the value") { $0.isAtPrompt && $0.screen.lines.contains(#"{ "x" }"#) }
        #expect(plain.screen.rows.allSatisfy { $0.places.allSatisfy { $0.style == "" } })
    }

    @Test("restores the terminal, also at os.exit and after reading input", arguments: PromptSession.sizes)
    func terminalSettings(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("print 'reads' return io.read()\r")
        try session.until("the entry") { $0.text.contains("reads") }
        try session.type("echoed\n")
        try session.until(ending: "reads", "echoed", "\"echoed\"", "> |")
        try session.type("os.execute 'stty -a | grep -o -- \"-*icanon\"'\r")
        try session.until("the settings") { $0.text.contains("icanon") && $0.isAtPrompt }
        // Pagers read their keys from the terminal behind standard error.
        session.forget()
        try session.type("os.execute 'exec 3<$(readlink /proc/self/fd/2); echo asks; read x <&3; echo got $x'\r")
        try session.until("the question") { $0.text.contains("asks") }
        try session.type("keys\n")
        try session.until("the answer") { $0.text.contains("got keys") && $0.isAtPrompt }
        try session.type("io.write 'bye' os.exit(3)\r")
        #expect(try session.finish() == 3)
        #expect(session.text.last?.hasPrefix("bye") == true)
    }
}
