import TestSupport
import Testing

@testable import LineEditor

/// The editor's knowledge of Lua: indentation, brackets, arguments.
@Suite(.timed) struct StructureTests {
    private func terminal(history: [String] = []) -> Terminal {
        let terminal = Terminal(60, 12, history: history)
        let structure = LuaStructure()
        terminal.editor.isComplete = { _ in .incomplete }
        terminal.editor.indent = { structure.indentation(of: $0) }
        terminal.editor.brackets = { structure.brackets($0, cursor: $1) }
        terminal.editor.lastArgument = { structure.lastArgument(of: $0) }
        return terminal
    }

    @Test("Enter indents after the start of a block, and end, else, until and a brace unindent")
    func indentation() {
        let terminal = terminal()
        terminal.typeSlowly("function f()\rif x then\rg()\relse\rh()\rend")
        #expect(
            terminal.picture == [
                "> function f()", ">>   if x then", ">>     g()", ">>   else", ">>     h()", ">>   end|",
            ])
        terminal.typeSlowly("\u{1B}\rrepeat\rx = {\r1,\r}\runtil")
        #expect(
            Array(terminal.picture.dropFirst(6)) == [
                ">>   repeat", ">>     x = {", ">>       1,", ">>     }", ">>   until|",
            ])
    }

    @Test("A word that only begins like the end of a block is indented again")
    func notTheEnd() {
        let terminal = terminal()
        terminal.typeSlowly("do\rend")
        #expect(terminal.picture == ["> do", ">> end|"])
        terminal.typeSlowly("less = 1")
        #expect(terminal.picture == ["> do", ">>   endless = 1|"])
    }

    @Test("Several blocks in one line indent by one step, and long strings are not indented")
    func steps() {
        let structure = LuaStructure()
        for (text, blanks) in [
            ("rl.after(1, function() if x then\n", "  "), ("f({ a = {\n", "  "), ("x = [[\n", nil), ("--[[ do\n", nil),
            ("x = 'do'\n", ""), ("-- do\n", ""), ("do end\n", ""), ("  do\n", "    "), ("do\n  x()\nend\n", ""),
            ("local t = {\n  f = function()\n    end", "  "), ("if a then\nelseif", ""), ("end end\n", ""), ("", ""),
        ] as [(String, String?)] {
            #expect(structure.indentation(of: text) == blanks, "\(text)")
        }
    }

    @Test("Text that arrives all at once, like a paste without brackets, keeps its own blanks")
    func bursts() {
        let terminal = terminal()
        terminal.type("for i = 1, 2 do\r    print(i)\rx()")
        #expect(terminal.picture == ["> for i = 1, 2 do", ">>     print(i)", ">> x()|"])
        terminal.type("\u{03}")
        terminal.type("do\r")
        #expect(terminal.picture.suffix(2) == ["> do", ">>   |"])
        terminal.type("\u{03}")
        terminal.paste("do\n x")
        #expect(terminal.picture.suffix(2) == ["> do", ">>  x|"])
    }

    @Test("A line of nothing but blanks that the editor made becomes empty")
    func blankLines() {
        let terminal = terminal()
        terminal.typeSlowly("do\r\rx()")
        #expect(terminal.editor.text == "do\n\n  x()")
    }

    @Test("The bracket that matches the one at the cursor is highlighted with it")
    func brackets() {
        let structure = LuaStructure()
        for (text, cursor, pair) in [
            ("f(a[1])", 7, (1, 6)), ("f(a[1])", 6, (3, 5)), ("f(a[1])", 1, (1, 6)), ("f(')')", 6, (1, 5)),
            ("f(a]", 4, nil), ("f(", 2, nil), ("--()", 4, nil), ("()x", 3, nil), ("{[[}]]}", 7, (0, 6)),
        ] as [(String, Int, (Int, Int)?)] {
            let found = structure.brackets(text, cursor: cursor)
            #expect(found?.0 == pair?.0 && found?.1 == pair?.1, "\(text), \(cursor)")
        }
        let terminal = terminal()
        terminal.editor.usesColor = true
        terminal.type("f(a)")
        let styles = terminal.screen.rows[0].places.map(\.style)
        #expect(styles[3] == styles[5] && styles[3] != styles[4] && styles[2] == styles[4])
        terminal.type("\r")
        #expect(terminal.picture == ["> f(a)", ">> |"])
    }

    @Test("Alt-. inserts the last argument of the newest entry, then of earlier ones")
    func lastArgument() {
        let terminal = terminal(history: ["f(config.port)", "print('a b', 12)", "x = 'two words'", "end"])
        terminal.type("g(\u{1B}.")
        #expect(terminal.entry == "g('two words'|")
        terminal.type("\u{1B}.\u{1B}.")
        #expect(terminal.entry == "g(config.port|")
        terminal.type("\u{1B}.)\u{1B}.")
        #expect(terminal.entry == "g(config.port)'two words'|")
    }
}
