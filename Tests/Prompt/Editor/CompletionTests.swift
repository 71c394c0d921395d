import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct CompletionTests {
    private func terminal(_ columns: Int, _ rows: Int, _ words: [String]) -> Terminal {
        let terminal = Terminal(columns, rows)
        terminal.editor.complete = { text, cursor in
            let before = Array(text.utf8)[..<cursor]
            let start = before.lastIndex { $0 == 0x20 || $0 == 0x0A }.map { $0 + 1 } ?? 0
            let word = String(decoding: before[start...], as: UTF8.self)
            return .init(start: start, candidates: words.filter { $0.hasPrefix(word) })
        }
        return terminal
    }

    @Test("A single candidate is inserted, in the middle of a line, too")
    func single() {
        let terminal = terminal(40, 5, ["coroutine", "collectgarbage"])
        terminal.type("é cor + 1\u{1B}b\u{02}\u{02}\u{02}\t")
        #expect(terminal.entry == "é coroutine| + 1")
        terminal.type("\u{1F}")
        #expect(terminal.entry == "é cor| + 1")
    }

    @Test("Candidates are completed up to their common part, then listed until the next key")
    func several() {
        let terminal = terminal(24, 8, ["string.byte", "string.char", "string.find", "string.format"])
        terminal.type("x = s\t")
        #expect(terminal.picture == ["> x = string.|"])
        terminal.type("\t")
        #expect(
            terminal.picture == ["> x = string.|", "string.byte", "string.char", "string.find", "string.format"])
        terminal.type("f")
        #expect(terminal.picture == ["> x = string.f|"])
        terminal.type("\t\t")
        #expect(terminal.picture == ["> x = string.f|", "string.find", "string.format"])
        terminal.type("\r")
        terminal.begin()
        #expect(terminal.picture == ["> x = string.f", "> |"])
    }

    @Test("A list is set in columns")
    func columns() {
        let terminal = terminal(20, 6, (1...9).map { "w\($0)" })
        terminal.type("w\t\t")
        #expect(terminal.picture == ["> w|", "w1  w3  w5  w7  w9", "w2  w4  w6  w8"])
    }

    @Test("A list that is too long is shown page by page")
    func pages() {
        let terminal = terminal(20, 5, (10...39).map { "word\($0)" })
        terminal.type("word\t\t")
        #expect(terminal.picture == ["> word|", "word10  word13", "word11  word14", "word12  word15", "… and 24 more"])
        // Tab inserts one candidate after the other into the text, and the displayed page follows.
        terminal.type("\t")
        #expect(terminal.entry == "word10|")
        for _ in 0..<6 { terminal.type("\t") }
        #expect(terminal.entry == "word16|")
        #expect(terminal.picture[1] == "word16  word19")
        terminal.type("\u{1B}[Z")
        #expect(terminal.picture[..<2] == ["> word15|", "word10  word13"])
        for _ in 0..<7 { terminal.type("\u{1B}[Z") }
        #expect(terminal.picture == ["> word39|", "word34  word37", "word35  word38", "word36  word39"])
        terminal.type("\t")
        #expect(terminal.entry == "word|")
        terminal.type("\u{07}")
        #expect(terminal.picture == ["> word|"])
        #expect(terminal.defect() == nil)
    }

    @Test("Candidates that are too wide are cut, also with wide characters and controls")
    func oddCandidates() {
        let terminal = terminal(12, 6, ["x日本語日本語日本語", "x\u{1B}[2J", "xx"])
        terminal.type("x\t\t")
        #expect(terminal.picture == ["> x|", "x日本語日…", "x^[[2J", "xx"])
        #expect(terminal.screen.problems.isEmpty)
    }

    @Test("The list takes rows from a tall text and returns them")
    func tallText() {
        let terminal = terminal(20, 5, ["aa", "ab"])
        terminal.paste("1\n2\n3\n4\n5\n6\na")
        terminal.type("\t\t")
        #expect(terminal.picture == [">> 4", ">> 5", ">> 6", ">> a|", "aa  ab"])
        terminal.type("\u{07}")
        #expect(terminal.picture == [">> 3", ">> 4", ">> 5", ">> 6", ">> a|"])
    }

    @Test("Tab indents at the start of a line and after blanks")
    func indentation() {
        let terminal = terminal(20, 5, ["x"])
        terminal.type("\t\ty\u{1B}\r\tz")
        #expect(terminal.entry == "    y\n  z|")
    }

    @Test("No candidates, no callback and invalid answers only ring the bell")
    func nothing() {
        let terminal = terminal(20, 5, [])
        terminal.type("x\t")
        terminal.editor.complete = nil
        terminal.type("\t")
        #expect(terminal.takeEvents() == [.bell, .bell])
        terminal.editor.complete = { _, _ in .init(start: 99, candidates: ["a"]) }
        terminal.type("\t")
        #expect(terminal.entry == "xa|")
        terminal.editor.complete = { _, _ in .init(start: -5, candidates: ["日"]) }
        terminal.type("\t")
        #expect(terminal.entry == "日|")
        terminal.editor.complete = { _, _ in .init(start: 1, candidates: ["本"]) }
        terminal.type("\t")
        #expect(terminal.entry == "本|")
    }
}
