import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct OutputTests {
    @Test("Output every few keystrokes never mangles the typed text", arguments: [(80, 24), (20, 5)])
    func everyFewKeystrokes(_ columns: Int, _ rows: Int) {
        let terminal = Terminal(columns, rows)
        var typed = ""
        var printed: [String] = []
        for number in 0..<60 {
            typed += "\(number % 10)"
            terminal.type("\(number % 10)")
            if number % 3 == 0 {
                terminal.print("tick \(number)\n")
                printed.append("tick \(number)")
            }
            #expect(terminal.defect() == nil)
        }
        #expect(terminal.entry == typed + "|")
        #expect(Array(terminal.screen.transcript.prefix(printed.count)) == printed)
    }

    @Test("Hiding removes the entry with all its rows, and showing restores it")
    func hideAndShow() {
        let terminal = Terminal(20, 5)
        terminal.paste("abc\ndef")
        terminal.type("\u{02}")
        terminal.editor.hide()
        terminal.flush()
        #expect(terminal.picture == ["|"])
        terminal.screen.write(Array("tick\r\n".utf8))
        terminal.type("X")
        #expect(terminal.picture == ["tick", "|"])
        terminal.editor.show()
        terminal.flush()
        #expect(terminal.picture == ["tick", "> abc", ">> deX|f"])
    }

    @Test("An unfinished line of output is continued where it stopped")
    func unfinishedLine() {
        let terminal = Terminal(20, 6)
        terminal.type("typed")
        terminal.print("load")
        #expect(terminal.picture == ["load", "> typed|"])
        terminal.print("ing")
        terminal.type("!\u{02}")
        terminal.print("...")
        #expect(terminal.picture == ["loading...", "> typed|!"])
        terminal.print(" done\nnext")
        #expect(terminal.picture == ["loading... done", "next", "> typed|!"])
        terminal.type("\r")
        terminal.print("result\n")
        terminal.begin()
        #expect(terminal.picture == ["loading... done", "next", "> typed!", "result", "> |"])
    }

    @Test("Output without a newline before the prompt appeared is continued, too")
    func unfinishedBeforePrompt() {
        let terminal = Terminal(20, 5, begins: false)
        terminal.print("abc")
        terminal.begin()
        #expect(terminal.picture == ["abc", "> |"])
        terminal.print("def\n")
        #expect(terminal.picture == ["abcdef", "> |"])
    }

    @Test(
        "A line of output that ends at the right margin loses nothing",
        arguments: ["0123456789", "012345678é", "01234567日", "0123456e\u{301}日"])
    func rightMargin(_ line: String) {
        let terminal = Terminal(10, 5)
        terminal.type("typed")
        terminal.print(line)
        terminal.print("X")
        #expect(terminal.picture == [line, "X", "> typed|"])
        #expect(terminal.screen.rows[0].wraps)
        let other = Terminal(10, 5)
        other.print(line)
        other.print("\nX")
        #expect(other.picture == [line, "X", "> |"])
        other.print("\n")
        #expect(other.picture == [line, "X", "> |"])
    }

    @Test("Progress that overwrites itself with CR stays in its row")
    func progress() {
        let terminal = Terminal(20, 5)
        for percent in [0, 50, 100] { terminal.print("\r\(percent)%") }
        #expect(terminal.picture == ["100%", "> |"])
        terminal.print("\r")
        terminal.print("ok\u{1B}[K\n")
        #expect(terminal.picture == ["ok", "> |"])
    }

    @Test("Colours of unfinished output are restored, and do not affect the prompt")
    func colors() {
        let terminal = Terminal(20, 5)
        terminal.print("\u{1B}[31mred")
        terminal.print("der\u{1B}[0m plain")
        let styles = terminal.screen.rows[0].places.prefix(12).map(\.style)
        #expect(styles == Array(repeating: "31", count: 6) + Array(repeating: "", count: 6))
        #expect(terminal.screen.rows[1].places[0].style == "")
        terminal.print("\n\u{1B}[32mgreen\n")
        #expect(terminal.screen.rows[2].places[0].style == "")
        terminal.print("still\n")
        #expect(terminal.screen.rows[2].places[0].style == "32")
    }

    @Test("Characters and sequences that are cut in two are put together before they are written")
    func cutOutput() {
        let terminal = Terminal(20, 5)
        for byte in Array("日\u{1B}[31mé😀\n".utf8) { terminal.screen.write(terminal.editor.interleave([byte])) }
        #expect(terminal.picture == ["日é😀", "> |"])
        #expect(terminal.screen.problems.isEmpty)
        terminal.screen.write(terminal.editor.interleave([0x61, 0xE2, 0x82]))
        terminal.editor.finish()
        #expect(terminal.editor.takeOutput().suffix(2) == [0xE2, 0x82])
    }

    @Test("Output that is not UTF-8 passes through as it is")
    func invalidOutput() {
        let terminal = Terminal(20, 5, begins: false)
        let bytes: [UInt8] = [0xFF, 0x61, 0xC3, 0x28, 0xE2, 0x82, 0xE2, 0x82, 0xAC, 0xF0, 0x1B, 0x5B, 0x6D, 0x62]
        #expect(terminal.editor.interleave(bytes) == bytes)
    }

    @Test("Output after which the cursor may be anywhere is not overwritten")
    func cursorMovement() {
        let terminal = Terminal(20, 5)
        terminal.print("a\nb\nc\u{1B}[Ad")
        #expect(terminal.screen.transcript.joined().contains("bd"))
        #expect(terminal.screen.lines.last == ">")
    }

    @Test("With a full screen of typed text, unfinished output is still continued above it")
    func fullScreen() {
        let terminal = Terminal(20, 5)
        terminal.paste("1\n2\n3\n4\n5\n6\n7")
        terminal.print("par")
        #expect(terminal.picture == ["par", ">> 4", ">> 5", ">> 6", ">> 7|"])
        terminal.print("tial")
        #expect(terminal.picture == ["partial", ">> 4", ">> 5", ">> 6", ">> 7|"])
        terminal.print("\n")
        #expect(terminal.picture == [">> 3", ">> 4", ">> 5", ">> 6", ">> 7|"])
        #expect(terminal.screen.scrolledOff.last?.text == "partial")
    }

    @Test("Output in pieces of any size looks as if nobody had typed")
    func pieces() {
        var random = Random(seed: 7)
        for _ in 0..<300 {
            let columns = Int.random(in: 4...20, using: &random)
            let terminal = Terminal(columns, Int.random(in: 3...8, using: &random))
            var expected = ""
            for _ in 0..<40 {
                let length = Int.random(in: 0...12, using: &random)
                let piece = (0..<length).map { _ in
                    ["a", "b", "é", "日", "\n", "e\u{301}"].randomElement(using: &random) ?? ""
                }
                .joined()
                expected += piece
                terminal.print(piece)
                if Bool.random(using: &random) {
                    terminal.type(["x", "\u{7F}", "日", "\u{01}"].randomElement(using: &random) ?? "")
                }
                if let defect = terminal.defect() {
                    Issue.record("\(defect) with \(expected.debugDescription) in \(columns) columns")
                    return
                }
            }
            terminal.print("\n")
            var lines = (expected + "\n").split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            lines.removeLast()
            let transcript = terminal.screen.transcript
            #expect(Array(transcript.prefix(lines.count)) == lines, "\(columns) columns")
        }
    }
}
