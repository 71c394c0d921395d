import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct KeyTests {
    struct Case: CustomTestStringConvertible {
        var keys: String
        var entry: String
        var start = "one two|three"
        var testDescription: String { "\(start) \(keys.debugDescription)" }
    }

    /// A terminal whose entry is a text such as `one two|three`, in which the bar is the cursor.
    private func terminal(_ start: String) -> Terminal {
        let parts = start.split(separator: "|", omittingEmptySubsequences: false)
        let terminal = Terminal()
        terminal.paste(parts.joined())
        for _ in 0..<(parts.last?.count ?? 0) { terminal.type("\u{02}") }
        return terminal
    }

    static let cases = [
        Case(keys: "\u{01}", entry: "|one twothree"),
        Case(keys: "\u{05}", entry: "one twothree|"),
        Case(keys: "\u{02}", entry: "one tw|othree"),
        Case(keys: "\u{06}", entry: "one twot|hree"),
        Case(keys: "\u{04}", entry: "one two|hree"),
        Case(keys: "\u{08}", entry: "one tw|three"),
        Case(keys: "\u{7F}", entry: "one tw|three"),
        Case(keys: "\u{0B}", entry: "one two|"),
        Case(keys: "\u{15}", entry: "|three"),
        Case(keys: "\u{17}", entry: "one |three"),
        Case(keys: "\u{17}\u{17}\u{19}", entry: "one two|three"),
        Case(keys: "\u{0B}\u{15}\u{19}", entry: "one twothree|"),
        Case(keys: "\u{0B}\u{01}\u{0B}\u{19}\u{1B}y", entry: "three|"),
        Case(keys: "\u{0B}\u{01}\u{0B}\u{19}\u{1B}y\u{1B}y", entry: "one two|"),
        Case(keys: "\u{14}", entry: "one twto|hree"),
        Case(keys: "\u{05}\u{14}", entry: "one twotheer|", start: "one twothe|re"),
        Case(keys: "x\u{1F}", entry: "one two|three"),
        Case(keys: "\u{15}\u{1F}", entry: "one two|three"),
        Case(keys: "\u{1B}b", entry: "one |twothree"),
        Case(keys: "\u{1B}b\u{1B}b", entry: "|one twothree"),
        Case(keys: "\u{1B}f", entry: "one twothree|"),
        Case(keys: "\u{1B}d", entry: "one two|"),
        Case(keys: "\u{1B}\u{7F}", entry: "one |three"),
        Case(keys: "\u{1B}\u{08}", entry: "one |three"),
        Case(keys: "\u{1B}u", entry: "one twoTHREE|"),
        Case(keys: "\u{1B}c", entry: "one twoThree|"),
        Case(keys: "\u{1B}l", entry: "ONE twothree|", start: "ONE two|THREE"),
        Case(keys: "\u{1B}u", entry: "STRASSE| x", start: "|straße x"),
        Case(keys: "\u{11}\u{01}", entry: "one two\u{01}|three"),
        Case(keys: "\u{16}\u{1B}", entry: "one two\u{1B}|three"),
        Case(keys: "\u{16}\t", entry: "one two\t|three"),
        Case(keys: "\u{16}é", entry: "one twoé|three"),
        Case(keys: "\u{1B}\r", entry: "one two\n|three"),
        Case(keys: "\u{1B}\n", entry: "one two\n|three"),
        Case(keys: "\u{1B}[13;3u", entry: "one two\n|three"),
        Case(keys: "\u{1B}[97;5u", entry: "|one twothree"),
        Case(keys: "\u{1B}[27;5;97~", entry: "|one twothree"),
        Case(keys: "\u{1B}[15~\u{1B}[[A\u{1B}OPx", entry: "one twox|three"),
        Case(keys: "\u{1B}[1;2\u{01}x", entry: "x|one twothree"),
        Case(keys: "\u{1B}[<0;1;1Mx", entry: "one twox|three"),
    ]

    @Test("A key has the same effect as in Emacs", arguments: cases)
    func key(_ item: Case) {
        let terminal = terminal(item.start)
        terminal.type(item.keys)
        #expect(terminal.entry == item.entry)
        #expect(terminal.defect() == nil)
    }

    static let motions: [(keys: [String], entry: String)] = [
        (["\u{1B}[D", "\u{1B}OD"], "one tw|othree"),
        (["\u{1B}[C", "\u{1B}OC"], "one twot|hree"),
        (["\u{1B}[H", "\u{1B}OH", "\u{1B}[1~", "\u{1B}[7~"], "|one twothree"),
        (["\u{1B}[F", "\u{1B}OF", "\u{1B}[4~", "\u{1B}[8~"], "one twothree|"),
        (["\u{1B}[3~"], "one two|hree"),
        (["\u{1B}[3;5~", "\u{1B}[3^"], "one two|"),
        (["\u{1B}[1;5D", "\u{1B}[5D", "\u{1B}Od", "\u{1B}[1;3D", "\u{1B}\u{1B}[D"], "one |twothree"),
        (["\u{1B}[1;5C", "\u{1B}[5C", "\u{1B}Oc", "\u{1B}[1;3C", "\u{1B}\u{1B}OC"], "one twothree|"),
        (["\u{1B}[1;2D", "\u{1B}[d"], "one tw|othree"),
    ]

    @Test("Each sequence of a cursor key is decoded, at once and byte by byte", arguments: motions)
    func motion(_ keys: [String], _ entry: String) {
        for key in keys {
            let fast = terminal("one two|three")
            fast.type(key)
            #expect(fast.entry == entry, "\(key.debugDescription)")
            let slow = terminal("one two|three")
            slow.typeSlowly(key + "\u{06}\u{02}")
            #expect(slow.screen.lines == fast.screen.lines)
            #expect(slow.defect() == nil)
        }
    }

    @Test("Typing shows each letter in its place, with the cursor after it")
    func typing() {
        let terminal = Terminal(20, 5)
        terminal.typeSlowly("print(42)")
        #expect(terminal.picture == ["> print(42)|"])
        terminal.typeSlowly("\u{02}\u{02}\u{02}1")
        #expect(terminal.picture == ["> print(1|42)"])
    }

    @Test("Control-L clears the screen and keeps the entry")
    func clearScreen() {
        let terminal = Terminal(20, 5)
        terminal.print("old output\n")
        terminal.type("abc\u{02}\u{0C}")
        #expect(terminal.picture == ["> ab|c"])
    }

    @Test("Undo removes typed text word by word, and a paste at once")
    func undoByWord() {
        let terminal = Terminal()
        terminal.typeSlowly("ab cd\u{1F}")
        #expect(terminal.entry == "ab |")
        terminal.type("ef gh\u{1F}")
        #expect(terminal.entry == "ab |")
    }

    @Test("Undo goes back to the empty entry, and then only rings the bell")
    func undoAll() {
        let terminal = Terminal()
        terminal.type("local x = 1\u{17}\u{17}yy\u{14}\u{1B}u")
        for _ in 0..<30 { terminal.type("\u{1F}") }
        #expect(terminal.entry == "|")
        #expect(terminal.takeEvents().last == .bell)
    }

    @Test("Up and Down move between the lines of an entry and keep the column over a short one")
    func verticalMotion() {
        let terminal = Terminal(20, 5)
        terminal.paste("abcdef\nx\nabcdef")
        terminal.type("\u{02}\u{02}\u{1B}[A")
        #expect(terminal.picture == ["> abcdef", ">> x|", ">> abcdef"])
        terminal.type("\u{1B}[A")
        #expect(terminal.picture == ["> abcd|ef", ">> x", ">> abcdef"])
        terminal.type("\u{0E}\u{0E}")
        #expect(terminal.picture == ["> abcdef", ">> x", ">> abcd|ef"])
    }

    @Test(
        "Keys that change nothing ring the bell and write nothing",
        arguments: ["\u{02}", "\u{08}", "\u{19}", "\u{1F}", "\u{1B}[A"])
    func nothingToDo(_ key: String) {
        let terminal = Terminal()
        _ = terminal.editor.feed(Array(key.utf8))
        #expect(terminal.editor.takeOutput().isEmpty)
        terminal.type(key)
        #expect(terminal.takeEvents() == [.bell])
    }
}
