import Foundation
import Glibc
import TestSupport
import Testing

/// Keys for completion and history.
@Suite("The prompt's keys", .timed)
struct PromptKeyTests {
    @Test(
        "Control-C drops the typed text; on an empty line it gives a hint, and twice in a second leaves",
        arguments: PromptSession.sizes)
    func controlC(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("half a line")
        try session.until(ending: "> half a line|")
        try session.type("\u{03}")
        try session.until(ending: "> half a line^C", "> |")
        try session.type("function f()\rreturn 1")
        try session.until(ending: "> function f()", ">> return 1|")
        try session.type("\u{03}")
        try session.until(ending: "> function f()", ">> return 1^C", "> |")
        // The key arrives together with the text typed before and after it.
        try session.type("one\u{03}two")
        try session.until(ending: "> one^C", "> two|")
        try session.type("\u{15}\u{03}")
        try session.until(ending: "(press Control-C again to leave, or Control-D)", "> |")
        try session.type("\u{03}")
        #expect(try session.finish() == 130)
    }

    @Test("Control-C is not lost, whatever the loop does at that moment", arguments: PromptSession.sizes)
    func everyControlC(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.enter("rl.every(0.001, function() for i = 1, 2000 do end end)")
        for number in 1...30 {
            try session.type("\(number)")
            try session.until(ending: "> \(number)|")
            try session.type("\u{03}")
            try session.until(ending: "> \(number)^C", "> |")
        }
    }

    @Test(
        "Control-C interrupts an entry that waits, computes, runs the loop or reads, and a callback that does not end",
        arguments: PromptSession.sizes)
    func interruptions(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        for entry in [
            "rl.sleep(60)", Binary.interruptible("while true do end"), "rl.every(60, print) rl.run()", "io.read()",
            "while true do rl.sleep(0) end", "rl.task(rl.sleep, 60):await()",
        ] {
            session.forget()
            try session.type("print 'begins' \(entry)\r")
            try session.until("the entry") { $0.text.contains("begins") }
            try session.type("\u{03}")
            try session.until("the end of \(entry)") { session in
                session.isAtPrompt && session.text.dropFirst().contains { $0.hasSuffix("interrupted!") }
            }
        }
        session.forget()
        try session.type("rl.after(0, function() print 'begins' \(Binary.interruptible("while true do end")) end)\r")
        try session.until("the callback") { $0.text.contains("begins") }
        try session.type("typed\u{03}")
        try session.until("the end of the callback, and what was typed") { session in
            session.text.contains { $0.hasSuffix("interrupted!") } && session.text.last == "> typed|"
        }
        // A SIGINT of another process has the effect of the key.
        session.signal(SIGINT)
        try session.until(ending: "> typed^C", "> |")
        session.signal(SIGINT)
        try session.until(ending: "(press Control-C again to leave, or Control-D)", "> |")
    }

    @Test("Control-D deletes forward in a line, and leaves on an empty one", arguments: PromptSession.sizes)
    func controlD(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("123\u{01}\u{04}\u{05}\r")
        try session.until(ending: "> 23", "23", "> |")
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
        #expect(session.screen.problems.isEmpty)
    }

    @Test(
        "Control-Z returns the terminal to the shell, and fg shows the line again", arguments: PromptSession.sizes)
    func controlZ(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows, shell: true)
        try session.until(ending: "$ |")
        try session.type("$RLHOST\r")
        try session.untilPrompt()
        try session.type("1 + 1\u{1B}[D\u{1A}")
        try session.until("the shell") { $0.text.last == "$ |" }
        try session.type("stty -a | grep -o -- '-*icanon'\r")
        try session.until(ending: "icanon", "$ |")
        try session.type("fg\r")
        try session.until("the line") { $0.text.last == "> 1 + |1" }
        try session.type("4\r")
        try session.until(ending: "> 1 + 41", "42", "> |")
        // Control-Z also works while an entry waits, and SIGTSTP from another process does the same.
        try session.type("print 'waits' rl.sleep(0.3) return 'slept'\r")
        try session.until("the entry") { $0.text.contains("waits") }
        try session.type("\u{1A}")
        try session.until("the shell") { $0.text.last == "$ |" }
        try session.type("fg\r")
        try session.until(ending: "\"slept\"", "> |")
        try session.type("rl.after(0.1, function() os.execute 'kill -STOP $PPID' end) typed = 1\rty")
        try session.until("the shell") { $0.text.last == "$ |" }
        try session.type("fg\n")  // the shell has not got its settings back
        try session.until("the line") { $0.text.last == "> ty|" }
        try session.type("ped\r")
        try session.until(ending: "> typed", "1", "> |")
        try session.type("\u{04}")
        try session.until(ending: "$ |")
    }

    @Test("SIGTERM ends the prompt with its status, and the terminal is restored", arguments: PromptSession.sizes)
    func termination(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows, shell: true)
        try session.until(ending: "$ |")
        try session.type("$RLHOST; echo $?; stty -a | grep -o -- '-*icanon'\r")
        try session.untilPrompt()
        try session.type("rl.after(0.05, function() os.execute 'kill $PPID' end) local x = 1\rtyped")
        try session.until(ending: "143", "icanon", "$ |")
        let own = try PromptSession(columns: columns, rows: rows)
        try own.untilPrompt()
        own.signal(SIGTERM)
        #expect(try own.finish() == 143)
    }

    @Test("edits with the keys of Emacs", arguments: PromptSession.sizes)
    func editing(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        for (keys, expected) in [
            ("abc\u{01}X", "X|abc"), ("abc\u{1B}[HX\u{1B}[FY", "XabcY|"), ("abc\u{02}\u{02}\u{06}X", "abX|c"),
            ("one two\u{1B}bX", "one X|two"), ("one two\u{01}\u{1B}fX", "oneX| two"),
            ("one two\u{1B}[1;5DX", "one X|two"), ("one two\u{17}\u{01}\u{19}", "two|one"),
            ("one two\u{01}\u{1B}d\u{19}\u{19}", "oneone| two"), ("abc\u{02}\u{0B}X", "abX|"), ("abc\u{15}X", "X|"),
            ("ab\u{14}", "ba|"), ("abc\u{1F}X", "X|"), ("abc\u{1B}[D\u{1B}[D\u{1B}[3~", "a|c"),
            ("ab\u{7F}c", "ac|"), ("word\u{01}\u{1B}u", "WORD|"),
            // Wide and combining characters count with the width at which they are displayed.
            ("日本e\u{301}👍x\u{02}\u{02}\u{02}X", "日本X|e\u{301}👍x"), ("日本👍\u{7F}\u{7F}", "日|"),
            ("'日本語日本語日本語日本語'\u{02}X", "'日本語日本語日本語日本語X|'"),
        ] {
            session.forget()
            try session.type(keys)
            try session.until(ending: "> \(expected)")
            try session.type("\u{03}")
            try session.until("an empty line") { $0.isAtPrompt }
        }
        #expect(session.screen.problems.isEmpty)
    }

    @Test("takes a paste as one entry", arguments: PromptSession.sizes)
    func paste(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("\u{1B}[200~for i = 1, 2 do\r\tprint(i)\rend\u{1B}[201~")
        try session.until(ending: "> for i = 1, 2 do", ">>      print(i)", ">> end|")
        try session.type("\r")
        try session.until(ending: ">> end", "1", "2", "> |")
        let long = String(repeating: "x", count: 30_000)
        try session.type("\u{1B}[200~text = '\(long)'\u{1B}[201~\r#text\r")
        try session.until(ending: "> #text", "30000", "> |")
        #expect(session.screen.problems.isEmpty)
    }

    @Test("Control-R searches the history, and the arrows go through it", arguments: PromptSession.sizes)
    func search(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("'one'\r'two'\r'three'\r")
        try session.until(ending: "> 'three'", "\"three\"", "> |")
        try session.type("\u{12}n")
        try session.until(ending: "reverse search 'n': 'o|ne'")
        try session.type("\r")
        try session.until(ending: "> 'one'", "\"one\"", "> |")
        try session.type("kept\u{12}tw\u{07}")
        try session.until(ending: "> kept|")
        try session.type("\u{10}\u{10}")
        try session.until(ending: "> 'three'|")
        try session.type("\u{0E}\u{0E}")
        try session.until(ending: "> kept|")
        // The arrows search for entries that begin like the line.
        try session.type("\u{15}'t\u{1B}[A\u{1B}[A")
        try session.until(ending: "> 'two'|")
        try session.type("\u{1B}[B\u{1B}[B")
        try session.until(ending: "> 't|")
    }

    @Test(
        "Tab completes fields, methods, globals, keywords, modules and files, and runs no code",
        arguments: PromptSession.sizes)
    func completion(columns: Int, rows: Int) throws {
        let session = try PromptSession(
            columns: columns, rows: rows, files: ["some_file.txt": "", "module_of_mine.lua": "error 'loaded'"])
        try session.untilPrompt()
        try session.enter("name, loop = 'x', rl.current()")
        try session.enter("trap = setmetatable({}, {__index = function() os.exit(9) end})")
        try session.enter("local kept_local = { inner_field = 1 }")
        for (typed, completed) in [
            ("string.for", "string.format"), ("rl.wait_r", "rl.wait_readable"), ("rl.current():n", "rl.current():n"),
            ("loop:next", "loop:next_fire_date"), ("tabl", "table"), ("whil", "while"),
            ("require 'runl", "require 'runloop"), ("require('mod", "require('module_of_mine"),
            ("io.open('some", "io.open('some_file.txt"), ("name:upp", "name:upper"), ("trap.fie", "trap.fie"),
            ("kept_lo", "kept_local"), (".ins", ".inspect"), ("-- tabl", "-- tabl"),
            ("kept_local.inn", "kept_local.inner_field"),
        ] {
            session.forget()
            // The letter shows that Tab has been handled.
            try session.type(typed + "\tX")
            try session.until(ending: "> \(completed)X|")
            try session.type("\u{03}")
            try session.until("an empty line") { $0.isAtPrompt }
        }
        // With several candidates, the first Tab inserts their common beginning, and the second one shows a list.
        session.forget()
        try session.type("string.re\t")
        try session.until("what they share") { $0.text.first == "> string.re|" }
        try session.type("\t")
        try session.until("the list") {
            $0.text.joined(separator: " ").contains("rep") && $0.text.joined().contains("reverse")
        }
        #expect(session.screen.problems.isEmpty)
    }

    @Test("stores entries in a file, and reads them at the next start", arguments: PromptSession.sizes)
    func history(columns: Int, rows: Int) throws {
        let folder = try PromptFolder()
        let environment = ["XDG_STATE_HOME": folder.url.path + "/state"]
        let first = try PromptSession(columns: columns, rows: rows, environment: environment, folder: folder)
        try first.untilPrompt()
        try first.type("'remember' .. ' me'\r")
        try first.until(ending: "\"remember me\"", "> |")
        try first.type("\u{04}")
        #expect(try first.finish() == 0)
        let path = folder.url.path + "/state/rlhost/history"
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let second = try PromptSession(columns: columns, rows: rows, environment: environment, folder: folder)
        try second.untilPrompt()
        try second.type("\u{1B}[A")
        try second.until(ending: "> 'remember' .. ' me'|")
        let third = try PromptSession(
            columns: columns, rows: rows,
            environment: ["XDG_STATE_HOME": folder.url.path + "/other", "RLHOST_HISTORY": ""], folder: folder)
        try third.untilPrompt()
        try third.type("1\r\u{04}")
        #expect(try third.finish() == 0)
        #expect(!FileManager.default.fileExists(atPath: folder.url.path + "/other"))
    }
}
