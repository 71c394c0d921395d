import Testing

@testable import LineEditor

@Suite struct HistoryTests {
    @Test("Up and Down go through the history and keep the half-typed line")
    func upAndDown() {
        let terminal = Terminal(20, 5, history: ["one", "two"])
        terminal.type("half\u{02}\u{1B}[A")
        #expect(terminal.picture == ["> two|"])
        terminal.type("\u{10}")
        #expect(terminal.picture == ["> one|"])
        terminal.type("\u{10}\u{0E}\u{0E}")
        #expect(terminal.picture == ["> hal|f"])
        #expect(terminal.takeEvents() == [.bell])
    }

    @Test("Changed entries keep their changes until something is accepted")
    func changedEntries() {
        let terminal = Terminal(20, 5, history: ["one", "two"])
        terminal.type("\u{10}X\u{10}\u{0E}")
        #expect(terminal.entry == "twoX|")
        terminal.type("\u{0E}three\r")
        terminal.begin()
        terminal.type("\u{10}\u{10}")
        #expect(terminal.entry == "two|")
    }

    @Test("Page Up looks for entries that begin like what stands before the cursor")
    func prefixSearch() {
        let terminal = Terminal(20, 5, history: ["local a", "print(a)", "local b", "x"])
        terminal.type("lo\u{1B}[5~")
        #expect(terminal.entry == "lo|cal b")
        terminal.type("\u{1B}[5~")
        #expect(terminal.entry == "lo|cal a")
        terminal.type("\u{1B}[6~\u{1B}[6~")
        #expect(terminal.entry == "lo|")
    }

    @Test("Blank entries and repetitions are not remembered, and the oldest go beyond the limit")
    func adding() {
        var history = History(limit: 4)
        for entry in ["a", "a", " \t\n", "", "b", "a"] { history.add(entry) }
        #expect((0..<history.count).map { history[$0] } == ["a", "b", "a"])
        for number in 0..<100 { history.add("\(number)") }
        #expect(history.count <= 5)
        #expect(history[history.count - 1] == "99")
    }
}
