import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct SearchTests {
    private func terminal() -> Terminal {
        Terminal(60, 6, history: ["print(1)", "local x = 2", "print(2)", "for i = 1, 2 do\n  print(i)\nend", "y = 3"])
    }

    @Test("Control-R finds the newest match, further ones find older matches")
    func reverse() {
        let terminal = terminal()
        terminal.typeSlowly("\u{12}print")
        #expect(
            terminal.picture == ["reverse search 'print': for i = 1, 2 do", ">>   |print(i)", ">> end"])
        terminal.type("\u{12}")
        #expect(terminal.picture == ["reverse search 'print': |print(2)"])
        terminal.type("\u{12}")
        #expect(terminal.picture == ["reverse search 'print': |print(1)"])
        terminal.type("\u{12}")
        #expect(terminal.picture == ["failed reverse search 'print': |print(1)"])
        terminal.type("\u{13}")
        #expect(terminal.picture == ["forward search 'print': |print(2)"])
        terminal.type("\r")
        #expect(terminal.takeEvents().last == .line("print(2)"))
    }

    @Test("Backspace removes a letter and returns to the match before it")
    func backspace() {
        let terminal = terminal()
        terminal.type("\u{12}print(1")
        #expect(terminal.entry == "|print(1)")
        terminal.type("\u{7F}\u{7F}")
        #expect(terminal.entry == "for i = 1, 2 do\n  |print(i)\nend")
        terminal.type("\u{7F}\u{7F}\u{7F}\u{7F}\u{7F}")
        #expect(terminal.entry == "|")
    }

    @Test("Control-G restores the typed text and the cursor")
    func abort() {
        let terminal = terminal()
        terminal.type("half typed\u{02}\u{12}x =")
        #expect(terminal.entry == "local |x = 2")
        terminal.type("\u{07}")
        #expect(terminal.picture == ["> half type|d"])
    }

    @Test("Any other key ends the search with the found entry and has its usual effect")
    func otherKey() {
        let terminal = terminal()
        terminal.type("half\u{12}local\u{05}!")
        #expect(terminal.picture == ["> local x = 2!|"])
        terminal.type("\u{10}")
        #expect(terminal.entry == "print(1)|")
        terminal.type("\u{1B}>")
        #expect(terminal.entry == "half|")
    }

    @Test("Control-R twice repeats the last search")
    func lastQuery() {
        let terminal = terminal()
        terminal.type("\u{12}local\u{05}\u{03}\u{12}\u{12}")
        #expect(terminal.picture.last == "reverse search 'local': |local x = 2")
    }

    @Test("Control-C drops the search and the found entry")
    func interrupt() {
        let terminal = terminal()
        terminal.type("\u{12}local\u{03}")
        #expect(terminal.takeEvents() == [.discarded])
        #expect(terminal.entry == "|")
    }
}
