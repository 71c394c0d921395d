import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct HistoryTests {
    @Test("Up and Down go through the history and keep the half-typed line")
    func upAndDown() {
        let terminal = Terminal(20, 5, history: ["one", "two"])
        terminal.type("half\u{02}\u{10}")
        #expect(terminal.picture == ["> two|"])
        terminal.type("\u{10}")
        #expect(terminal.picture == ["> one|"])
        terminal.type("\u{10}\u{0E}\u{0E}")
        #expect(terminal.picture == ["> hal|f"])
        #expect(terminal.takeEvents() == [.bell])
    }

    @Test("Changed entries keep their changes until an entry is accepted")
    func changedEntries() {
        let terminal = Terminal(20, 5, history: ["one", "two"])
        terminal.type("\u{10}X\u{10}\u{0E}")
        #expect(terminal.entry == "twoX|")
        terminal.type("\u{0E}three\r")
        terminal.begin()
        terminal.type("\u{10}\u{10}")
        #expect(terminal.entry == "two|")
    }

    @Test("Page Up finds entries that begin like the text before the cursor")
    func prefixSearch() {
        let terminal = Terminal(20, 5, history: ["local a", "print(a)", "local b", "x"])
        terminal.type("lo\u{1B}[5~")
        #expect(terminal.entry == "lo|cal b")
        terminal.type("\u{1B}[5~")
        #expect(terminal.entry == "lo|cal a")
        terminal.type("\u{1B}[6~\u{1B}[6~")
        #expect(terminal.entry == "lo|")
    }

    @Test("Up finds entries that begin like the text before the cursor, and Control-P does not")
    func upByPrefix() {
        let terminal = Terminal(20, 5, history: ["local a", "print(a)", "local b", "x"])
        terminal.type("lo\u{1B}[A")
        #expect(terminal.entry == "local b|")
        terminal.type("\u{1B}[A")
        #expect(terminal.entry == "local a|")
        terminal.type("\u{1B}[A")
        #expect(terminal.takeEvents() == [.bell])
        terminal.type("\u{1B}[B\u{1B}[B")
        #expect(terminal.entry == "lo|")
        terminal.type("\u{10}")
        #expect(terminal.entry == "x|")
    }

    @Test("Going up shows each text once")
    func noRepeats() {
        let terminal = Terminal(20, 5, history: ["a", "b", "a", "b", "a"])
        terminal.type("\u{1B}[A\u{1B}[A")
        #expect(terminal.entry == "b|")
        terminal.type("\u{1B}[A")
        #expect(terminal.takeEvents() == [.bell])
        terminal.type("\u{1B}[B\u{1B}[B")
        #expect(terminal.entry == "|")
    }

    @Test("In colour, the newest entry that begins like the typed text is suggested, and Right accepts it")
    func suggestions() {
        let terminal = Terminal(
            20, 5, history: ["print(1)", "print(22222222222222222222)", "print(2)\nx"], begins: false)
        terminal.editor.usesColor = true
        terminal.editor.suggests = true
        terminal.begin()
        terminal.type("pri")
        #expect(terminal.picture == ["> pri|nt(2)"])
        terminal.type("nt(22")
        #expect(terminal.picture == ["> print(22|222222222"])
        terminal.type("\u{06}")
        #expect(terminal.entry == "print(22222222222222222222)|")
        terminal.type("\u{03}")
        terminal.type("p\u{1B}f")
        #expect(terminal.entry == "print|")
        terminal.type("\u{1B}[C")
        #expect(terminal.entry == "print(2)\nx|")
        // An offer that was not taken is neither entered nor left on the screen.
        terminal.type("\u{03}")
        terminal.type("pr\r")
        #expect(terminal.takeEvents().last == .line("pr"))
        #expect(terminal.picture.suffix(2) == ["> pr", "|"])
    }

    @Test("In colour, a hint follows a bracket or a comma, and is not part of the text")
    func hints() {
        let terminal = Terminal(20, 5, history: ["f(1, 2)"], begins: false)
        var asked: [String] = []
        terminal.editor.usesColor = true
        terminal.editor.suggests = true
        terminal.editor.hint = {
            asked.append($0)
            return $0.hasPrefix("g") ? "a, b, and a lot more)" : nil
        }
        terminal.begin()
        terminal.type("g(")
        #expect(terminal.picture == ["> g(|a, b, and a lot"])
        terminal.type("\u{1B}[C")
        #expect(terminal.entry == "g(|")
        terminal.type("1")
        #expect(terminal.picture == ["> g(1|"])
        terminal.type(", ")
        #expect(terminal.picture == ["> g(1, |a, b, and a"])
        terminal.type("\u{1B}[D")
        #expect(terminal.picture == ["> g(1,|"])
        terminal.type("\u{05}2)\r")
        #expect(terminal.takeEvents().last == .line("g(1, 2)"))
        // Candidates from the history come first.
        terminal.begin()
        terminal.type("f(")
        #expect(terminal.picture.last == "> f(|1, 2)")
        #expect(asked == ["g(", "g(1, ", "f("])
    }

    @Test("An entry that begins with a blank is run, but not added to the history")
    func leadingBlank() {
        let terminal = Terminal(20, 5)
        terminal.type(" secret\r")
        #expect(terminal.takeEvents() == [.line(" secret")])
        #expect(terminal.editor.history.count == 0)
    }

    @Test("Blank entries and repetitions are not added, and the oldest are removed beyond the limit")
    func adding() {
        var history = History(limit: 4)
        for entry in ["a", "a", " \t\n", "", "b", "a"] { history.add(entry) }
        #expect((0..<history.count).map { history[$0] } == ["a", "b", "a"])
        for number in 0..<100 { history.add("\(number)") }
        #expect(history.count <= 5)
        #expect(history[history.count - 1] == "99")
    }
}
