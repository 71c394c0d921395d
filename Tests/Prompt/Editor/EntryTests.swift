import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct EntryTests {
    @Test("Enter accepts the entry and leaves it on the screen")
    func accept() {
        let terminal = Terminal(20, 5)
        terminal.type("1 + 1\u{01}\r")
        #expect(terminal.takeEvents() == [.line("1 + 1")])
        terminal.print("2\n")
        terminal.begin()
        #expect(terminal.picture == ["> 1 + 1", "2", "> |"])
    }

    @Test("An incomplete entry continues in the next row and is accepted as a whole")
    func continuation() {
        let terminal = Terminal(20, 5)
        terminal.editor.isComplete = { $0.hasSuffix("end") ? .complete : .incomplete }
        terminal.type("while x do\r")
        #expect(terminal.picture == ["> while x do", ">> |"])
        terminal.type("y()\rend")
        #expect(terminal.takeEvents().isEmpty)
        terminal.type("\u{1B}[A\u{1B}[A!")
        #expect(terminal.entry == "whi!|le x do\ny()\nend")
        terminal.type("\u{1F}\r")
        #expect(terminal.takeEvents() == [.line("while x do\ny()\nend")])
    }

    @Test("An entry of many lines comes back from the history as a whole")
    func manyLinesFromHistory() {
        let terminal = Terminal(20, 5, history: ["if x then\n  y()\nend"])
        terminal.type("\u{10}")
        #expect(terminal.picture == ["> if x then", ">>   y()", ">> end|"])
        terminal.type("\u{10}\u{10}")
        #expect(terminal.picture == ["> if |x then", ">>   y()", ">> end"])
    }

    @Test("Control-C drops all lines, shows ^C and gives a new prompt")
    func interrupt() {
        let terminal = Terminal(20, 6)
        terminal.paste("abc\ndef")
        terminal.type("\u{02}\u{03}")
        #expect(terminal.takeEvents() == [.discarded])
        #expect(terminal.picture == ["> abc", ">> def^C", "> |"])
        terminal.type("\u{03}")
        #expect(terminal.takeEvents() == [.interrupt])
        #expect(terminal.picture == ["> abc", ">> def^C", "> |"])
    }

    @Test("^C after a full row goes to the next one")
    func interruptAtMargin() {
        let terminal = Terminal(10, 5)
        terminal.type("12345678\u{03}")
        #expect(terminal.picture == ["> 12345678", "^C", "> |"])
    }

    @Test("Control-D deletes forward, and ends an empty entry")
    func endOfFile() {
        let terminal = Terminal()
        terminal.type("ab\u{01}\u{04}\u{04}\u{04}")
        #expect(terminal.takeEvents() == [.endOfFile])
        #expect(!terminal.editor.isActive)
    }

    @Test("Control-Z leaves the entry, and show brings it back")
    func suspend() {
        let terminal = Terminal(20, 5)
        terminal.type("abc\u{02}\u{1A}")
        #expect(terminal.takeEvents() == [.suspend])
        terminal.screen.write(Array("stopped\r\n".utf8))
        terminal.editor.show()
        terminal.flush()
        #expect(terminal.picture == ["> abc", "stopped", "> ab|c"])
    }

    @Test("Text that is typed ahead waits for the next prompt, and returns line by line")
    func typeAhead() {
        let terminal = Terminal(20, 8)
        terminal.type("a\rb\rc")
        #expect(terminal.takeEvents() == [.line("a")])
        terminal.type("d")
        terminal.begin()
        #expect(terminal.takeEvents() == [.line("b")])
        terminal.begin()
        #expect(terminal.picture == ["> a", "> b", "> cd|"])
        #expect(terminal.takeEvents().isEmpty)
    }

    @Test("Control-C while the host is busy drops what was typed ahead")
    func interruptWhileBusy() {
        let terminal = Terminal(20, 8)
        terminal.type("a\rrm -rf\u{03}ok")
        #expect(terminal.takeEvents() == [.line("a"), .interrupt])
        terminal.begin()
        #expect(terminal.entry == "ok|")
    }

    @Test("An entry can begin with a text in it, and a prompt can have several rows and colours")
    func beginWithText() {
        let terminal = Terminal(20, 5, begins: false)
        terminal.editor.prompt = "status\n\u{01}\u{1B}[1;32m\u{02}lua>\u{1B}[0m "
        terminal.editor.usesColor = true
        _ = terminal.editor.begin(with: "x\r\ny")
        terminal.flush()
        #expect(terminal.picture == ["status", "lua> x", ">> y|"])
        #expect(terminal.screen.rows[1].places[0].style == "0;1;32")
        #expect(terminal.screen.rows[1].places[5].style == "")
    }

    @Test("Finishing leaves the entry and restores the terminal")
    func finish() {
        let terminal = Terminal(20, 5)
        terminal.type("abc\u{01}")
        terminal.editor.finish()
        #expect(terminal.editor.takeOutput().suffix(8) == Array("\u{1B}[?2004l".utf8))
        #expect(!terminal.editor.isActive)
    }
}
