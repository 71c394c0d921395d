import Foundation
import TestSupport
import Testing

/// Features of the prompt besides reading lines, in a terminal.
@Suite("The prompt's features", .timed)
struct PromptFeatureTests {
    @Test("an entry that catches its cancellation is ended by the next Control-C", arguments: PromptSession.sizes)
    func escalation(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.begin("while true do pcall(rl.sleep, 1) end")
        try session.type("\u{03}")
        try session.until("a hint") { $0.text.joined().contains("press Control-C again") }
        try session.type("\u{03}")
        try session.until("the prompt") { $0.text.contains("interrupted!") && $0.isAtPrompt }
        try session.enter("1 + 1", showing: "2")
    }

    @Test("with -i, the prompt appears while the script's loop runs", arguments: PromptSession.sizes)
    func interactive(columns: Int, rows: Int) throws {
        let script = """
            local rl = require "runloop"
            n = 0
            rl.every(0.01, function() n = n + 1 end)
            rl.current():add(rl.timer { interval = 0.01, callback = function() m = (m or 0) + 1 end }, "default")
            rl.sleep(0.05) slept = true rl.sleep(1000)
            """
        let session = try PromptSession(
            ["-i", "forever.lua"], columns: columns, rows: rows, files: ["forever.lua": script])
        try session.untilPrompt()
        #expect(session.text.first?.hasPrefix("rlhost 0.") == true)
        try session.enter("rl.sleep(0.2) return n > 0, m > 0, slept", showing: "true    true    true")
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
    }

    @Test(
        "Control-\\ reports the activity: at the prompt, in a wait, and during a computation",
        arguments: PromptSession.sizes)
    func explaining(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        try session.type("typed\u{1C}")
        try session.until("the reasons, and what is typed") {
            $0.text.contains { $0.contains("what keeps it alive:") } && $0.text.last == "> typed|"
        }
        try session.type("\u{15}")
        session.forget()
        try session.begin("rl.sleep(30)")
        try session.type("\u{1C}")
        try session.until("the wait") { $0.text.contains { $0.contains("waits in rl.sleep at [1]:1") } }
        try session.type("\u{03}")
        try session.untilPrompt()
        session.forget()
        try session.begin("local function inner() while true do end end inner()")
        try session.type("\u{1C}")
        try session.until("the stack") { $0.text.contains { $0.contains("in local 'inner'") } }
        try session.type("\u{03}")
        try session.untilPrompt()
    }

    @Test("Enter indents, end unindents, and a paste without brackets is not indented", arguments: PromptSession.sizes)
    func indentation(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows)
        try session.untilPrompt()
        for key in ["do\r", "x = 1\r", "e", "n", "d"] {
            let received = session.received
            try session.type(key)
            try session.until("the key's echo") { $0.received > received }
        }
        try session.until(ending: "> do", ">>   x = 1", ">> end|")
        try session.type("\r")
        try session.untilPrompt()
        try session.type("do\r   x = 2\rend\r")
        try session.until(ending: "> do", ">>    x = 2", ">> end", "> |")
    }

    @Test("Control-X Control-E and .edit open the text in the editor", arguments: PromptSession.sizes)
    func editor(columns: Int, rows: Int) throws {
        let session = try PromptSession(
            columns: columns, rows: rows, environment: ["EDITOR": "sh edit.sh"],
            files: ["edit.sh": "test -t 1 && sed -i s/one/two/ \"$1\""])
        try session.untilPrompt()
        try session.type("one = 1\u{18}\u{05}")
        try session.until("what the editor made of it") { $0.text.last == "> two = 1|" }
        try session.type("\r")
        try session.untilPrompt()
        try session.type("'one'\r")
        try session.untilPrompt()
        try session.type(".edit\r")
        try session.until("the last entry") { $0.text.last == "> 'two'|" }
        try session.type("\r")
        try session.until(ending: "> 'two'", "\"two\"", "> |")
    }

    @Test("a dumb terminal without echo gets all output, and nothing twice")
    func dumb() throws {
        let session = try PromptSession(
            environment: ["TERM": "dumb"], files: ["run.sh": "stty -echo -onlcr; exec $RLHOST"], shell: true)
        try session.until(ending: "$ |")
        try session.type("sh run.sh\r")
        try session.until("the prompt") { $0.text.last?.hasSuffix("> |") == true }
        try session.type("1 + 1\n")
        try session.until("the value") { $0.text.last?.hasSuffix("> |") == true && $0.text.joined().contains("2") }
        #expect(!session.text.joined().contains("1 + 1"))
    }

    @Test("the terminal is restored after SIGHUP and a crash", arguments: ["HUP", "SEGV", "ABRT"])
    func deaths(signal: String) throws {
        let session = try PromptSession(environment: ["SWIFT_BACKTRACE": "enable=no"], shell: true)
        try session.until(ending: "$ |")
        try session.type("stty -a | grep -o -- '-*icanon'\r")
        try session.until(ending: "icanon", "$ |")
        session.forget()
        try session.type("$RLHOST; stty -a | grep -o -- '-*icanon'\r")
        try session.untilPrompt()
        try session.type("rl.after(0.05, function() os.execute 'kill -\(signal) $PPID' end)\r")
        try session.until("the shell, and its terminal") { $0.text.last == "$ |" && $0.text.contains("icanon") }
    }

    @Test("errors are in colour on the terminal, and not in a file")
    func colors() throws {
        let session = try PromptSession(
            environment: ["NO_COLOR": ""], files: ["run.sh": "$RLHOST 2>errors.txt"], shell: true)
        try session.until(ending: "$ |")
        try session.type("sh run.sh\r")
        try session.untilPrompt()
        try session.type("error 'x'\r")
        try session.until("the next prompt") { $0.isAtPrompt && $0.text.contains("> error 'x'") }
        try session.type("print 'done'\r")
        try session.until("the next entry") { $0.text.contains("done") }
        let text = try String(contentsOf: session.folder.url.appending(path: "errors.txt"), encoding: .utf8)
        #expect(text.contains("[1]:1: x") && !text.contains("\u{1B}"), "\(text.debugDescription)")
    }

    @Test("a history that cannot be kept, or was cut, is reported; /dev/null and an empty name mean none")
    func history() throws {
        let bad = try PromptSession(columns: 120, environment: ["XDG_STATE_HOME": "/proc/nope"])
        try bad.untilPrompt()
        try bad.enter("1")
        let device = try PromptSession(columns: 120, environment: ["RLHOST_HISTORY": "/dev/zero"])
        try device.until("the notice") {
            $0.text.contains { $0.contains("/dev/zero is not a regular file") } && $0.isAtPrompt
        }
        let none = try PromptSession(columns: 120, environment: ["RLHOST_HISTORY": "/dev/null"])
        try none.untilPrompt()
        #expect(!none.text.joined().contains("history"))
        let long = try PromptSession(
            columns: 120, environment: ["RLHOST_HISTORY": "long", "RLHOST_HISTORY_SIZE": "20"],
            files: ["long": (1...30).map { "\($0)\n" }.joined()])
        try long.until("the notice") {
            $0.text.contains { $0.contains("the oldest 10 entries are dropped; RLHOST_HISTORY_SIZE") } && $0.isAtPrompt
        }
    }

    @Test(
        "Tab completes through calls and indexes: options, keys, modes, locals, and files where one is expected")
    func completion() throws {
        let session = try PromptSession(files: ["some_file.txt": ""])
        try session.untilPrompt()
        try session.enter("list = { { deep_field = 1 } } keyed = { ['a key'] = 1 }")
        for (typed, completed) in [
            ("list[1].dee", "list[1].deep_field"), ("rl.current():next_f", "rl.current():next_fire_date"),
            ("rl.every(1, print):toler", "rl.every(1, print):tolerance"), ("('x'):upp", "('x'):upper"),
            ("('x'):upper():rever", "('x'):upper():reverse"), ("(list)[1].dee", "(list)[1].deep_field"),
            ("local own_name = 1 own_n", "local own_name = 1 own_name"),
            ("function f(argument_one) return argu", "function f(argument_one) return argument_one"),
            ("rl.timer { tol", "rl.timer { tolerance = "),
            ("rl.timer { delay = 1, na", "rl.timer { delay = 1, name = "),
            ("keyed['", "keyed['a key"), ("keyed[\"a ", "keyed[\"a key"),
            ("STRING = string.FORM", "STRING = string.format"),
            ("rl.run { mode = 'def", "rl.run { mode = 'default"), (".mode def", ".mode default"),
            (".load some", ".load some_file.txt"), ("io.open('some", "io.open('some_file.txt"),
            ("x = 'some", "x = 'some"),
            ("rl.observe('before_w", "rl.observe('before_waiting"),
            (".inspect list[1].d", ".inspect list[1].deep_field"),
            ("for index = 1, 2 do ind", "for index = 1, 2 do index"),
        ] {
            session.forget()
            // The letter shows that Tab has been handled.
            try session.type(typed + "\tX")
            try session.until("'\(completed)X'") { $0.text.last == "> \(completed)X|" }
            try session.type("\u{03}")
            try session.until("an empty line") { $0.isAtPrompt }
        }
        // Several candidates: each further Tab shows the next one.
        session.forget()
        try session.type("string.re\t\t\t")
        try session.until("the first") { $0.text.contains("> string.rep|") }
        try session.type("\t")
        try session.until("the second") { $0.text.contains("> string.reverse|") }
    }

    @Test("a history that cannot be kept is reported once, at the first entry")
    func noHistory() throws {
        let session = try PromptSession(environment: ["RLHOST_HISTORY": "/proc/nope/history"])
        try session.untilPrompt()
        try session.enter("1 + 1", showing: "the history is not kept: mkdir: ")
        try session.enter("2 + 2", showing: "4")
        #expect(!session.text.contains { $0.contains("history is not kept") }, "\(session.text)")
    }

    @Test("the mode of .mode must exist")
    func modes() throws {
        let session = try PromptSession()
        try session.untilPrompt()
        try session.enter(
            ".mode nonsense",
            showing:
                "the loop has no mode \"nonsense\"; there are: \"connection_reply\", \"default\", \"event_tracking\", "
                + "\"modal\", \"repl\"")
        try session.enter("#rl.current():modes()", showing: "2")
        try session.enter(".mode modal", showing: "the prompt runs the loop in mode \"modal\"")
        try session.enter(".mode repl", showing: "the prompt runs the loop in mode \"repl\"")
    }

    @Test("messages have the numbers of entries, and a recording has no doubled carriage returns")
    func numbers() throws {
        let session = try PromptSession()
        try session.untilPrompt()
        try session.enter("1", showing: "1")
        try session.enter("error 'second'", showing: "[2]:1: second")
        try session.enter("rl.every(1, print)", showing: "made at [3]:1")
        #expect(session.doubledReturns == 0)
    }
}
