import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct LuaHighlighterTests {
    @Test(
        "Keywords, constants, strings, numbers and comments have different colours",
        arguments: [
            ("local x = nil", "kkkkk.....ccc"), ("localx _end end1", "................"),
            ("f 'a\\'b' .. \"c\"", "..ssssss....sss"), ("[[a\n]] x", "ssssss.."),
            ("[==[a]]b]==] end", "ssssssssssss.kkk"),
            ("a[b[1]]", "....n.."), ("-- note\nend", "-------.kkk"), ("--[[ a\nb ]] end", "-----------.kkk"),
            ("--[==[ never closed", "-------------------"),
            ("1 0x1F 0x.8p-3 1e+10 .5 3..4", "n.nnnn.nnnnnnn.nnnnn.nn.n..n"),
            ("'open", "sssss"), ("'open\nend", "sssss.kkk"), ("'a\\z  \n b'", "ssssssssss"), ("é = 'ü'", ".....ssss"),
            ("a-b", "..."), ("'\\", "ss"), ("'a\\\nb' if", "ssssss.kk"),
        ])
    func kinds(_ text: String, _ expected: String) {
        let lua = LuaHighlighter()
        var kinds = Array(repeating: Character("."), count: text.utf8.count)
        let letters: [(LineEditor.Style, Character)] = [
            (lua.keyword, "k"), (lua.constant, "c"), (lua.string, "s"), (lua.number, "n"), (lua.comment, "-"),
        ]
        var end = 0
        for span in lua.highlight(text) {
            #expect(span.range.lowerBound >= end && !span.range.isEmpty)
            end = span.range.upperBound
            for index in span.range { kinds[index] = letters.first { $0.0 == span.style }?.1 ?? "?" }
        }
        #expect(String(kinds) == expected)
    }

    @Test("Colours appear on the screen only if they are enabled")
    func colors() {
        let terminal = Terminal(20, 5)
        terminal.editor.highlight = LuaHighlighter().highlight
        terminal.type("if é")
        #expect(terminal.screen.rows[0].places.allSatisfy { $0.style.isEmpty })
        terminal.editor.usesColor = true
        terminal.type(" 12")
        #expect(
            terminal.screen.rows[0].places.prefix(9).map(\.style) == [
                "", "", "0;35", "0;35", "", "", "", "0;36", "0;36",
            ])
        terminal.type("\u{01}\u{04}")
        #expect(terminal.screen.rows[0].places[2].style == "")
        #expect(terminal.defect() == nil)
    }

    @Test("Ranges beyond the text are ignored")
    func oddRanges() {
        let terminal = Terminal(20, 5)
        terminal.editor.usesColor = true
        terminal.editor.highlight = { _ in [.init(range: -3..<99, style: .init(foreground: 200))] }
        terminal.type("日x")
        #expect(terminal.screen.rows[0].places[4].style == "0;38;5;200")
    }
}
