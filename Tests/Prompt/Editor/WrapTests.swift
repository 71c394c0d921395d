import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct WrapTests {
    @Test("A line that fills its row puts the cursor into the next row", arguments: [(80, 24), (20, 5)])
    func rightMargin(_ columns: Int, _ rows: Int) {
        let terminal = Terminal(columns, rows)
        let text = String(repeating: "x", count: columns - 2)
        terminal.typeSlowly(text)
        #expect(terminal.picture == ["> \(text)", "|"])
        terminal.type("\u{02}")
        #expect(terminal.picture == ["> \(text.dropLast())|x"])
        terminal.type("\u{05}yz\u{08}\u{08}")
        #expect(terminal.picture == ["> \(text)", "|"])
        terminal.type("\r")
        terminal.begin()
        #expect(terminal.picture == ["> \(text)", "> |"])
    }

    @Test("A long line wraps, and keys reach every part of it")
    func wrapping() {
        let terminal = Terminal(10, 5)
        terminal.type("0123456789abcdefghij\u{01}")
        #expect(terminal.picture == ["> |01234567", "89abcdefgh", "ij"])
        terminal.type("X")
        #expect(terminal.picture == ["> X|0123456", "789abcdefg", "hij"])
        terminal.type("\u{05}\u{15}")
        #expect(terminal.picture == ["> |"])
    }

    @Test("A wide character that does not fit at the end of a row goes to the next")
    func wideAtMargin() {
        let terminal = Terminal(7, 5)
        terminal.typeSlowly("日本語")
        #expect(terminal.picture == ["> 日本", "語|"])
        terminal.type("\u{02}\u{02}")
        #expect(terminal.picture == ["> 日|本", "語"])
        terminal.type("\u{02}a")
        #expect(terminal.picture == ["> a|日本", "語"])
    }

    @Test("A text taller than the screen shows the part around the cursor")
    func tallText() {
        let terminal = Terminal(20, 5)
        terminal.print("before\n")
        terminal.paste((1...9).map { "line \($0)" }.joined(separator: "\n"))
        #expect(terminal.picture == [">> line 5", ">> line 6", ">> line 7", ">> line 8", ">> line 9|"])
        for _ in 0..<6 { terminal.type("\u{1B}[A") }
        #expect(terminal.picture == [">> line 3|", ">> line 4", ">> line 5", ">> line 6", ">> line 7"])
        terminal.type("\u{1B}[1;5H")
        #expect(terminal.picture == ["> |line 1", ">> line 2", ">> line 3", ">> line 4", ">> line 5"])
        #expect(terminal.defect() == nil)
        terminal.type("\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}\u{0B}")
        #expect(terminal.picture == ["> |line 7", ">> line 8", ">> line 9"])
    }

    @Test("A prompt that is wider than the screen wraps like text")
    func widePrompt() {
        let terminal = Terminal(5, 5, begins: false)
        terminal.editor.prompt = "12345678> "
        terminal.begin()
        terminal.type("abc")
        #expect(terminal.picture == ["12345", "678>", "abc|"])
    }

    @Test("Tabs end at columns that divide by eight, and at the edge")
    func tabs() {
        let terminal = Terminal(20, 5)
        terminal.paste("a\tb\tc\td")
        #expect(terminal.picture == ["> a     b       c", "d|"])
        #expect(terminal.defect() == nil)
    }

    @Test("Control characters show as ^X and never reach the terminal")
    func controls() {
        let terminal = Terminal(20, 5)
        terminal.paste("a\u{1B}[2Jb\u{07}\u{7F}\u{9B}c\u{202E}")
        #expect(terminal.picture == ["> a^[[2Jb^G^?\u{FFFD}c\u{FFFD}|"])
        #expect(terminal.defect() == nil)
    }
}
