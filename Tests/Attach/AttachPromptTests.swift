import Foundation
import Glibc
import TestSupport
import Testing

@Suite("The prompt in another process", .timed)
struct AttachPromptTests {
    @Test(
        "has entries of several lines, completion, history and results, like rlhost's own",
        arguments: [(80, 24), (40, 12)])
    func basics(columns: Int, rows: Int) throws {
        let target = try AttachedProcess()
        let session = try target.prompt(columns: columns, rows: rows)
        try session.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        #expect(session.picture.first?.hasPrefix("rlhost ") == true)
        try session.type("\u{0C}local t = {\r")
        try session.until(["\(target.pid)> local t = {", ">>   |"])
        try session.type("4, 5 }\r")
        try session.until(["\(target.pid)> local t = {", ">>   4, 5 }", "\(target.pid)> |"])
        try session.type("#t + 1\r")
        try session.until("3") { $0.picture.suffix(2) == ["3", "\(target.pid)> |"] }
        // A global of the process.
        try session.type("count\t")
        // A process that does not answer in time offers no completions, so the key is pressed again.
        try session.until("the whole name", pressing: "\t") { $0.picture.last == "\(target.pid)> counter|" }
        try session.type(" > 0\r")
        try session.until("true") { $0.picture.suffix(2) == ["true", "\(target.pid)> |"] }
        try session.type("\u{10}\u{10}")
        try session.until("the entry before") { $0.picture.last == "\(target.pid)> #t + 1|" }
        try session.type("\u{03}")
        try session.until("an empty prompt") {
            $0.picture.suffix(2) == ["\(target.pid)> #t + 1^C", "\(target.pid)> |"]
        }
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
        #expect(session.screen.problems.isEmpty)
        #expect(try target.value("1") == "1")
        // The next session has the history.
        let again = try target.prompt(columns: columns, rows: rows)
        try again.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        try again.type("\u{1B}[A")
        try again.until("the last entry") { $0.picture.last == "\(target.pid)> counter > 0|" }
        try again.type("\u{03}.exit\r")
        #expect(try again.finish() == 0)
    }

    @Test("an entry may wait, later ones take turns, and Control-C ends waiting and running ones")
    func waiting() throws {
        let target = try AttachedProcess()
        let session = try target.prompt()
        try session.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        let prompt = "\(target.pid)> "
        try session.type("\u{0C}rl.sleep(0.2) return 'later'\r'ahead'\r")
        try session.until([
            prompt + "rl.sleep(0.2) return 'later'", "\"later\"", prompt + "'ahead'", "\"ahead\"", prompt + "|",
        ])
        try session.type("\u{0C}rl.sleep(1000)\r")
        try session.until("the entry") { $0.picture == ["\(target.pid)> rl.sleep(1000)", "|"] }
        session.settle()
        target.settle()
        try session.type("\u{03}")
        try session.until(["\(target.pid)> rl.sleep(1000)", "interrupted!", "\(target.pid)> |"])
        let busy = Binary.interruptible("while true do end")
        try session.type("\u{0C}\(busy)\r")
        try session.until("the entry") { $0.picture == ["\(target.pid)> \(busy)", "|"] }
        ProcessActivity.awaitWork(target.pid)
        try session.type("\u{03}")
        try session.until("the prompt") {
            $0.picture.dropFirst().first == "interrupted!" && $0.picture.last == "\(target.pid)> |"
        }
        try session.type("\u{0C}\u{03}")
        try session.until("a hint") { $0.picture.contains { $0.contains("the process goes on") } }
        try session.type("\u{03}")
        #expect(try session.finish() == 130)
        #expect(try target.value("1") == "1")
    }

    @Test("dot commands apply to the process")
    func commands() throws {
        let target = try AttachedProcess()
        let session = try target.prompt(rows: 40)
        try session.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        for (command, part) in [
            (".timers", "every 0.01 s"), (".why", "every 0.01 s"), (".help rl.sleep", "rl.sleep(seconds)"),
            (".help", ".inspect expression"), (".mode", "unknown command '.mode'"), (".tasks", "no tasks wait"),
            (".where", "nothing runs"), (".wy", "unknown command"),
            (".inspect", "an expression is expected"), (".inspect {{{{{1}}}}}", "{ { { { { 1 } } } } }"),
            (".load nothing.lua", "cannot open nothing.lua"), ("help(rl.after)", "rl.after(seconds"),
        ] {
            try session.type("\u{0C}\(command)\r")
            try session.until("the answer to \(command)") {
                $0.picture.last == "\(target.pid)> |" && $0.picture.contains { $0.contains(part) }
            }
        }
        try session.type("\u{04}")
        #expect(try session.finish() == 0)
    }

    @Test(
        "the end of the process is reported, even in the middle of a line, with status 69",
        arguments: [SIGTERM, SIGKILL])
    func end(signal: Int32) throws {
        let target = try AttachedProcess()
        let session = try target.prompt()
        try session.until("the prompt") { $0.picture.last == "\(target.pid)> |" }
        try session.type("rl.sleep(")
        try session.until("the text") { $0.picture.last == "\(target.pid)> rl.sleep(|" }
        target.process.signal(signal)
        #expect(try session.finish() == 69)
        #expect(session.picture.contains("process \(target.pid) has ended"), "\(session.picture)")
    }

    @Test("a process with a prompt can be attached to, and keeps its own line")
    func promptInPrompt() throws {
        let folder = try AttachedProcess.makeFolder()
        let environment = ["XDG_RUNTIME_DIR": folder.url.path, "RLHOST_HISTORY": ""]
        let target = try PromptSession(["--attach=inner"], environment: environment)
        try target.until("the prompt") { $0.isAtPrompt }
        try target.type("half a li")
        try target.until("the text") { $0.picture.last == "> half a li|" }
        let run = try Binary.run(["attach", "inner", "-e", "x = 1 print 'out' return 2"], environment: environment)
        #expect(run.output == "out\n2\n" && run.status == 0, "\(run)")
        try target.until("the news above the line") {
            $0.picture.count { $0.contains("tached") } >= 2 && $0.picture.last == "> half a li|"
        }
        try target.type("\u{03}")
        try target.until("an empty line") { $0.picture.suffix(2) == ["> half a li^C", "> |"] }
        try target.type("x, _\r")
        try target.until("the value") { $0.picture.suffix(2) == ["1       nil", "> |"] }
        try target.type("\u{04}")
        #expect(try target.finish() == 0)
    }

    @Test("standard input is run entry by entry, without prompts, and an error gives status 1")
    func plain() throws {
        let target = try AttachedProcess()
        let run = try target.attach(
            input: "local a = 1\nfor i = 1, 2 do\n  print(i + a)\nend\na\n.help rl.time\nrl.sleep(0.01)\n'end'")
        #expect(run.output.hasPrefix("2\n3\n1\nrl.time()\n") && run.output.hasSuffix("\n\"end\"\n"), "\(run)")
        #expect(run.status == 0)
        let failed = try target.attach(input: "error 'no'\n'goes on'\nlocal x =\n")
        #expect(failed.status == 1 && failed.output == "\"goes on\"\n", "\(failed)")
        #expect(failed.errors.contains(": no\n") && failed.errors.contains("<eof>"))
    }
}
