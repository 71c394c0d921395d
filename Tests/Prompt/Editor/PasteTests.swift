import Glibc
import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct PasteTests {
    @Test("A paste of several lines becomes one entry, whatever its line ends are")
    func lines() {
        let terminal = Terminal(20, 5)
        terminal.typeSlowly("\u{1B}[200~a\r\nb\rc\n\td\u{1B}[201~e")
        #expect(terminal.picture == ["> a", ">> b", ">> c", ">>      de|"])
        terminal.type("\r")
        #expect(terminal.takeEvents() == [.line("a\nb\nc\n\tde")])
    }

    @Test("Keys inside of a paste are text")
    func keysInside() {
        let terminal = Terminal(40, 5)
        terminal.paste("a\u{03}\u{04}\u{01}\u{12}\u{1B}[D\u{1B}[201x")
        #expect(terminal.entry == "a\u{03}\u{04}\u{01}\u{12}\u{1B}[D\u{1B}[201x|")
        #expect(terminal.takeEvents().isEmpty)
        #expect(terminal.defect() == nil)
    }

    @Test("A paste is undone in one step")
    func undo() {
        let terminal = Terminal()
        terminal.type("x")
        terminal.paste("a b\nc d")
        terminal.type("\u{1F}")
        #expect(terminal.entry == "x|")
    }

    // Debug builds do not inline, and a tenth of the text is enough to show that no step is quadratic.
    #if DEBUG
        static let size = 100_000
    #else
        static let size = 1_000_000
    #endif

    /// Texts, each of which is difficult in a different way.
    enum Kind: CaseIterable {
        case lines, oneLine, wideLine, joinedEmoji, emptyLines, accents

        var text: String {
            switch self {
            case .lines: String(repeating: "local x = 1 -- nothing\n", count: size / 23)
            case .oneLine: String(repeating: "x", count: size)
            case .wideLine: String(repeating: "日本語", count: size / 9)
            case .joinedEmoji: String(repeating: "👩‍👩‍👧🇩🇪e\u{301}", count: size / 30)
            case .emptyLines: String(repeating: "\n", count: size)
            case .accents: "a" + String(repeating: "\u{301}", count: size / 2)
            }
        }
    }

    @Test("1 MB is pasted in well under a second, and edited afterwards", arguments: Kind.allCases)
    func large(_ kind: Kind) {
        let text = kind.text
        let terminal = Terminal()
        let start = threadTime()
        terminal.type("(")
        terminal.paste(text)
        terminal.type("\u{02}\u{02}x")
        let elapsed = threadTime() - start
        #expect(terminal.editor.buffer.count == text.unicodeScalars.count + 2)
        #expect(elapsed < 0.9)
    }

    @Test("1 MB that is typed without brackets into the middle of a text is as fast")
    func largeTyped() {
        let terminal = Terminal()
        terminal.type("()\u{02}")
        let start = threadTime()
        let bytes = Array(String(repeating: "äb", count: Self.size / 3).utf8)
        var rest = bytes[...]
        while !rest.isEmpty {
            terminal.type(bytes: Array(rest.prefix(65_536)))
            rest = rest.dropFirst(65_536)
        }
        let elapsed = threadTime() - start
        #expect(terminal.editor.buffer.count == bytes.count / 3 * 2 + 2)
        #expect(elapsed < 0.9)
    }

    @Test("Many lines that are typed without brackets are accepted one after the other")
    func manyLines() {
        let terminal = Terminal()
        let count = Self.size / 50
        terminal.type(String(repeating: "x = 1\r", count: count))
        for _ in 1..<count { terminal.begin() }
        #expect(terminal.takeEvents() == Array(repeating: .line("x = 1"), count: count))
    }
}
