import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct ResizeTests {
    @Test(
        "A new width draws the entry correctly, on terminals that rewrap rows and on those that cut",
        arguments: [true, false])
    func width(_ reflows: Bool) {
        let terminal = Terminal(20, 10)
        terminal.editor.reflows = reflows
        terminal.print("old\n")
        terminal.type("0123456789012345678901234\u{02}\u{02}")
        for columns in [15, 9, 12, 40, 20, 5] {
            terminal.resize(columns, 10)
            #expect(terminal.defect() == nil)
            #expect(terminal.screen.transcript.first == "old")
            #expect(terminal.screen.transcript.count { $0.contains(">") } == 1)
        }
    }

    @Test("A new height shows as many rows as fit")
    func height() {
        let terminal = Terminal(20, 8)
        terminal.paste("1\n2\n3\n4\n5\n6")
        terminal.type("\u{1B}[A\u{1B}[A")
        terminal.resize(20, 3)
        #expect(terminal.defect() == nil)
        #expect(terminal.screen.lines.count == 3)
        terminal.resize(20, 10)
        #expect(terminal.picture.suffix(6) == ["> 1", ">> 2", ">> 3", ">> 4|", ">> 5", ">> 6"])
    }

    @Test("Impossible sizes do no harm")
    func nonsense() {
        let terminal = Terminal(20, 5)
        terminal.type("日本語 text")
        for (columns, rows) in [(0, 0), (1, 1), (-3, 7), (2, 1), (3, 1)] {
            terminal.editor.resize(columns: columns, rows: rows)
            terminal.type("x")
        }
        terminal.screen = Screen(columns: 20, rows: 5)
        terminal.editor.resize(columns: 20, rows: 5)
        _ = terminal.editor.takeOutput()
        terminal.type("\u{0C}")
        #expect(terminal.picture == ["> 日本語 textxxxxx|"])
    }

    @Test("An unfinished line of output survives a resize")
    func unfinishedOutput() {
        for (columns, rows) in [(30, 6), (10, 6), (4, 6), (20, 3), (20, 9)] {
            let terminal = Terminal(20, 6)
            terminal.print("first\nabcdef")
            terminal.type("xy")
            terminal.resize(columns, rows)
            terminal.print("ghi\n")
            #expect(terminal.defect() == nil)
            let text = terminal.screen.transcript.dropLast().joined()
            #expect(text == "firstabcdefghi", "\(columns) × \(rows)")
        }
    }
}
