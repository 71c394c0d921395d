import Glibc
import TestSupport
import Testing

@testable import LineEditor

/// Random bytes, keys, output and sizes. After each feed, the screen must equal the result of the simplest way to draw
/// the entry.
@Suite(.timed) struct RandomTests {
    static let pieces: [String] = [
        "a", "b", "foo", "x = 1", " ", "  ", "end", "\u{1F}", "\t", "\t\t", "é", "日", "日本語日本語", "😀",
        WideTests.family, "e\u{301}", "\u{301}", "\u{200D}", "\u{FE0F}", "🇩🇪", "\u{1F1E6}", "\u{200B}", "\u{E0001}",
        "\u{1112}",
        "\u{1161}", "\u{0915}\u{094D}\u{0937}", "\u{0E33}", "\u{600}", "\u{AD}", "\u{1F3FD}", "\r", "\n", "\u{1B}\r",
        "\u{1B}\r", "\u{1B}[A", "\u{1B}[B", "\u{1B}[C", "\u{1B}[D", "\u{1B}[H", "\u{1B}[F", "\u{1B}[3~", "\u{1B}[1;5D",
        "\u{1B}[1;5C",
        "\u{1B}[5~", "\u{1B}[6~", "\u{1B}", "\u{1B}[", "\u{1B}b", "\u{1B}f", "\u{1B}d", "\u{1B}\u{7F}", "\u{1B}u",
        "\u{1B}l", "\u{1B}c",
        "\u{1B}y", "\u{19}", "\u{19}\u{1B}y", "\u{12}", "\u{12}o", "\u{13}", "\u{07}", "\u{7F}", "\u{7F}\u{7F}",
        "\u{11}\u{03}", "\u{11}",
        "\u{1B}[200~a\r\nb\tc\u{03}\u{1B}[201~", "\u{1B}[200~", "\u{1B}[201~", "\u{1B}<", "\u{1B}>",
        "0123456789012345678901234567",
        "\u{11}\u{1B}", "\u{9B}1;2", "\u{202E}",
    ]

    /// Pieces that do not join with the text after the cursor. With other pieces, the cursor has to leave a character
    /// that has joined with the typed text, so the result depends on how the input was divided.
    static let separatePieces = pieces.filter { piece in
        piece.unicodeScalars.allSatisfy { TextBuffer.isSimple($0) && $0 != "\u{1F}" && $0 != "\u{03}" }
    }

    private static func bytes(_ random: inout Random) -> [UInt8] {
        var bytes: [UInt8] = []
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            switch Int.random(in: 0..<12, using: &random) {
            case 0: bytes.append(.random(in: 0...255, using: &random))
            case 1: bytes.append(.random(in: 0..<0x20, using: &random))
            case 2: bytes += [.random(in: 0x20..<0x7F, using: &random), .random(in: 0x20..<0x7F, using: &random)]
            case 3: bytes += Array((pieces.randomElement(using: &random) ?? "").utf8.dropLast())
            default: bytes += Array((pieces.randomElement(using: &random) ?? "").utf8)
            }
        }
        return bytes
    }

    private static func terminal(_ random: inout Random) -> Terminal {
        let sizes = [(80, 24), (20, 5), (20, 5), (7, 3), (2, 2), (11, 1)]
        let (columns, rows) = sizes.randomElement(using: &random) ?? (20, 5)
        let terminal = Terminal(columns, rows, history: ["foo", "two\nlines", "日本\n\tend", "x = 1"], begins: false)
        let editor = terminal.editor
        editor.prompt = ["> ", "", "日> ", "a prompt\nof lines> "].randomElement(using: &random) ?? ""
        // On a dumb terminal there is no screen to compare; the editor only must neither trap nor write an escape
        // sequence.
        editor.isDumb = Int.random(in: 0..<10, using: &random) == 0
        editor.usesColor = .random(using: &random)
        editor.highlight = LuaHighlighter().highlight
        editor.isComplete = { $0.hasSuffix("1") || $0.hasSuffix("end") ? .complete : .incomplete }
        editor.complete = { text, cursor in .init(start: cursor - 1, candidates: ["foo", "food", "日本", "日"]) }
        terminal.begin()
        return terminal
    }

    private static func check(_ terminal: Terminal) -> String? {
        let buffer = terminal.editor.buffer
        guard (0...buffer.count).contains(buffer.cursor) else { return "the cursor is outside of the text" }
        guard buffer.boundary(atOrAfter: buffer.cursor) == buffer.cursor else {
            return "the cursor is inside of a cluster"
        }
        guard !buffer.scalars.contains("\r") else { return "a carriage return is in the text" }
        return terminal.defect()
    }

    private static func disturb(_ terminal: Terminal, _ random: inout Random) {
        switch Int.random(in: 0..<60, using: &random) {
        case 0: terminal.print("out\n")
        case 1: terminal.print("part\u{1B}[3\("14".randomElement(using: &random) ?? "1")m日")
        case 2:
            terminal.editor.hide()
            terminal.flush()
            terminal.editor.show()
            terminal.flush()
        case 3:
            let (columns, rows) = (Int.random(in: 2...30, using: &random), Int.random(in: 1...8, using: &random))
            terminal.editor.reflows = .random(using: &random)
            terminal.resize(columns, rows)
            // Terminals differ too much in their treatment of text that no longer fits, so the test ignores it.
            terminal.screen.problems = []
            terminal.type("\u{07}\u{07}\u{0C}")
        default: break
        }
    }

    @Test("After any bytes the screen shows what a fresh drawing would show", .soak(seconds: 60))
    func anyBytes() {
        for seed in Soak.seeds { typeAnyBytes(seed) }
    }

    private func typeAnyBytes(_ seed: UInt64) {
        var random = Random(seed: seed)
        let terminal = Self.terminal(&random)
        var journal: [[UInt8]] = []
        for run in 0..<50 {
            let bytes = Self.bytes(&random)
            journal.append(bytes)
            terminal.type(bytes: bytes)
            if let defect = Self.check(terminal) {
                let keys = journal.map { String(decoding: $0, as: UTF8.self).debugDescription }
                let size = "\(terminal.editor.columns)x\(terminal.editor.rows)"
                Issue.record("seed \(seed), run \(run), \(size): \(defect)\n\(keys.suffix(4))")
                return
            }
            if !terminal.editor.isActive { terminal.begin() }
            if terminal.editor.phase == .hidden {
                terminal.editor.show()
                terminal.flush()
            }
            Self.disturb(terminal, &random)
        }
    }

    @Test("Keys byte by byte lead to the same entry as keys at once", .soak(seconds: 20))
    func portions() {
        for seed in Soak.seeds {
            var random = Random(seed: seed)
            let bytes = (0..<12).flatMap { _ in Array((Self.separatePieces.randomElement(using: &random) ?? "").utf8) }
            let fast = Terminal(20, 5, history: ["foo", "two\nlines"])
            let slow = Terminal(20, 5, history: ["foo", "two\nlines"])
            fast.type(bytes: bytes)
            for byte in bytes { slow.type(bytes: [byte]) }
            #expect(fast.editor.isActive == slow.editor.isActive)
            #expect(fast.events == slow.events, "seed \(seed): \(bytes)")
            guard fast.editor.isActive else { continue }
            #expect(fast.entry == slow.entry, "seed \(seed): \(bytes)")
        }
    }
}
