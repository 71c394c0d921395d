import Foundation
import TestSupport
import Testing

/// Random keys, with dot commands in them, in bursts of any length, so that text is typed ahead of every kind of entry.
@Suite("The prompt, random keys", .timed)
struct PromptRandomTests {
    static let pieces = [
        "1 + 1\r", "x = 5\r", ".inspect x\r", ".inspect\r", ".inspect {}\r", ".inspect error()\r",
        ".inspect rl.sleep(0.02)\r",
        ".load file.lua\r", ".load missing.lua\r", ".load bad.lua\r", ".load waits.lua\r", ".help\r",
        ".help rl.sleep\r", ".timers\r",
        ".tasks\r", ".why\r", ".mode\r", ".mode default\r", ".mode repl\r", ".save out.lua\r", ".editor\r", ".\r",
        ".break\r",
        ".nonsense\r", ".time 1\r", ".traceback\r", ".edit\r", "rl.sleep(0.02)\r", "rl.after(0.01, print, 'tick')\r",
        "rl.after(0, error, 'late')\r", "error 'now'\r", "for i = 1, 3 do\r", "print(i)\r", "end\r", "f(\r",
        "rl.run{timeout=0.01}\r",
        "\r", "\u{1B}[A", "\u{1B}[B", "\t", "\t\t", "\u{1B}[Z", "\u{03}", "\u{1C}", "\u{12}x", "\u{07}", "\u{0C}",
        "\u{15}",
        "\u{18}\u{05}", "\u{1B}.", "\u{1B}[200~do\nend\u{1B}[201~", "\u{1B}[C", "\u{01}", "\u{05}", "abc", "rl.", "{",
        ")", "\"",
    ]

    @Test("the prompt survives and answers after any keys, however fast", .soak(seconds: 60))
    func bursts() throws {
        for seed in Soak.seeds {
            var random = Random(seed: seed)
            let (columns, rows) = PromptSession.sizes.randomElement(using: &random) ?? (80, 24)
            let session = try PromptSession(
                columns: columns, rows: rows, environment: ["EDITOR": "true"],
                files: [
                    "file.lua": "print 'loaded'\n", "bad.lua": "x = = 1\n",
                    "waits.lua": "require'runloop'.sleep(0.02)\n",
                ])
            try session.untilPrompt()
            var journal: [String] = []
            do {
                for _ in 0..<12 {
                    let burst = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                        Self.pieces.randomElement(using: &random) ?? ""
                    }.joined()
                    journal.append(burst)
                    try session.type(burst)
                    if Bool.random(using: &random) { usleep(UInt32.random(in: 0...30_000, using: &random)) }
                }
                try Self.ask(session)
            } catch {
                // Control-C twice leaves; nothing else does.
                guard session.hasEnded, try session.finish() == 130 else {
                    Issue.record("seed \(seed): \(error)\n\(journal.debugDescription)")
                    return
                }
            }
            #expect(session.screen.problems.isEmpty, "seed \(seed): \(journal.debugDescription)")
        }
    }

    /// Abandons any unfinished entry, and requests an answer. A Control-C that arrives while the script runs becomes a
    /// signal, at which the terminal drops pending input; so the request is repeated.
    private static func ask(_ session: PromptSession) throws {
        for attempt in 1...10 {
            try session.type("\u{07}x\u{03}")
            session.settle()
            try session.type("\u{07}print('al'..'ive')\r")
            do {
                try session.until("an answer", seconds: attempt == 10 ? 15 : 2) {
                    $0.text.contains { $0.hasSuffix("alive") }
                }
                return
            } catch {
                if session.hasEnded || attempt == 10 { throw error }
            }
        }
    }

    @Test("A command with further text typed after it shows one prompt", arguments: PromptSession.sizes)
    func ahead(columns: Int, rows: Int) throws {
        let session = try PromptSession(columns: columns, rows: rows, files: ["file.lua": "print 'loaded'\n"])
        try session.untilPrompt()
        try session.type(".inspect 1\r2\r")
        try session.until(ending: "> .inspect 1", "1", "> 2", "2", "> |")
        try session.type(".load file.lua\r3\r")
        try session.until(ending: "> .load file.lua", "loaded", "> 3", "3", "> |")
    }
}
