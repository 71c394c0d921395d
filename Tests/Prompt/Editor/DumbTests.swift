import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct DumbTests {
    private func terminal(_ columns: Int = 20) -> Terminal {
        let terminal = Terminal(columns, 5, begins: false)
        terminal.editor.isDumb = true
        terminal.begin()
        return terminal
    }

    @Test("A dumb terminal gets no escape sequence, and still shows the line")
    func editing() {
        let terminal = terminal()
        var bytes: [UInt8] = []
        for key in ["hello", "\u{02}\u{02}", "X", "\u{01}", "日", "\u{05}", "\u{7F}", "\u{17}", "ok", "\u{0C}"] {
            _ = terminal.editor.feed(Array(key.utf8))
            let output = terminal.editor.takeOutput()
            bytes += output
            terminal.screen.write(output)
        }
        #expect(!bytes.contains(0x1B))
        #expect(terminal.picture == ["> ok|"])
    }

    @Test("Typing at the end writes the letters and nothing else")
    func typing() {
        let terminal = terminal()
        terminal.type("ab")
        _ = terminal.editor.feed(Array("c".utf8))
        #expect(terminal.editor.takeOutput() == Array("c".utf8))
    }

    @Test("A long line scrolls sideways in its row")
    func scrolling() {
        let terminal = terminal(12)
        terminal.type("abcdefghijklmnop")
        #expect(terminal.screen.lines == ["ijklmnop"])
        terminal.type("\u{01}")
        #expect(terminal.picture == ["> |abcdefghi"])
    }

    @Test("Lines of an entry and output follow each other")
    func linesAndOutput() {
        let terminal = terminal()
        terminal.editor.isComplete = { $0.hasSuffix("end") ? .complete : .incomplete }
        terminal.type("do\r")
        terminal.print("tick\n")
        terminal.type("end\r")
        terminal.begin()
        #expect(terminal.takeEvents() == [.line("do\nend")])
        #expect(terminal.screen.lines == ["> do", "tick", ">> end", ">"])
    }
}
