import TestSupport
import Testing

@testable import LineEditor

@Suite(.timed) struct WideTests {
    static let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}"

    @Test(
        "Widths are those of Unicode 15",
        arguments: [
            ("a", 1), ("é", 1), ("e\u{301}", 1), ("日", 2), ("한", 2), ("\u{1112}\u{1161}\u{11AB}", 2), ("ｱ", 1),
            ("Ａ", 2),
            ("😀", 2), (family, 2), ("👍🏽", 2), ("🇩🇪", 2), ("❤", 1), ("❤\u{FE0F}", 2), ("→", 1), ("─", 1), ("\u{301}", 0),
            ("\u{200B}", 0), ("\u{20000}", 2), ("\u{10FFFF}", 1),
        ])
    func width(_ text: String, _ columns: Int) {
        #expect(CharacterWidth.of(text.unicodeScalars) == columns)
    }

    @Test("The table of wide ranges is in order and without overlaps")
    func table() {
        for (range, next) in zip(CharacterWidth.wide, CharacterWidth.wide.dropFirst()) {
            #expect(range.upperBound < next.lowerBound)
        }
    }

    @Test(
        "The cursor steps over a cluster as over one character",
        arguments: [family, "e\u{301}", "🇩🇪", "日", "❤\u{FE0F}"])
    func clusters(_ cluster: String) {
        let terminal = Terminal(20, 5)
        terminal.typeSlowly("a\(cluster)b")
        #expect(terminal.picture == ["> a\(cluster)b|"])
        terminal.type("\u{02}")
        #expect(terminal.entry == "a\(cluster)|b")
        terminal.type("\u{02}")
        #expect(terminal.entry == "a|\(cluster)b")
        terminal.type("\u{04}")
        #expect(terminal.picture == ["> a|b"])
        terminal.type("\u{1F}\u{06}\u{08}")
        #expect(terminal.entry == "a|b")
    }

    @Test("An accent that arrives later joins the letter before it")
    func lateAccent() {
        let terminal = Terminal(20, 5)
        terminal.type("ex\u{02}")
        terminal.type("\u{301}")
        #expect(terminal.picture == ["> e\u{301}|x"])
        terminal.type("\u{08}")
        #expect(terminal.entry == "|x")
    }

    @Test("An accent with nothing to stand on gets a circle and leaves the prompt alone")
    func loneAccent() {
        let terminal = Terminal(20, 5)
        terminal.type("\u{301}")
        #expect(terminal.picture == ["> \u{25CC}\u{301}|"])
        #expect(terminal.defect() == nil)
    }

    @Test("Flags that are typed before others regroup, and the cursor stays between two of them")
    func flags() {
        let terminal = Terminal(20, 5)
        terminal.type("🇩🇪🇫🇷\u{01}")
        terminal.type("\u{1F1E6}")
        #expect(terminal.entry == "🇦🇩|🇪🇫🇷")
        #expect(terminal.defect() == nil)
        terminal.type("\u{1F}")
        #expect(terminal.entry == "|🇩🇪🇫🇷")
    }

    @Test("Text behind a joined emoji stands in the right column even where the emoji is drawn in parts")
    func contestedWidth() {
        let terminal = Terminal(20, 5)
        terminal.screen.isNaive = true
        terminal.type("\(Self.family)abc\u{02}")
        #expect(terminal.screen.column == 6)
        #expect(terminal.screen.rows[0].places[4...6].map(\.text) == ["a", "b", "c"])
    }

    @Test("UTF-8 that is cut at any byte is joined again")
    func splitUTF8() {
        let terminal = Terminal(20, 5)
        terminal.typeSlowly("é日😀")
        #expect(terminal.entry == "é日😀|")
    }

    @Test("Bytes that are not UTF-8 show as replacement characters, and keys among them still work")
    func invalidUTF8() {
        let terminal = Terminal(20, 5)
        terminal.type(bytes: [0xFF, 0x61, 0xC3, 0x01, 0xE2, 0x82, 0x62])
        #expect(terminal.entry == "\u{FFFD}b|\u{FFFD}a\u{FFFD}")
        #expect(terminal.defect() == nil)
    }

    @Test("A decoder replaces each maximal part of an ill-formed sequence")
    func decoder() {
        let samples: [[UInt8]] = [
            [0xC0, 0xAF], [0xE0, 0x80, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF0, 0x9F, 0x98], [0x80],
            [0x61, 0xF1, 0x80, 0x80, 0xE1, 0x80, 0xC2, 0x62, 0x80, 0x63], [0xF0, 0x9F, 0x98, 0x80],
        ]
        for bytes in samples {
            var decoder = UTF8Decoder()
            var scalars = String.UnicodeScalarView()
            for byte in bytes + [0x20] {
                let (first, second) = decoder.push(byte)
                for scalar in [first, second] { if let scalar { scalars.append(scalar) } }
            }
            #expect(String(scalars) == String(decoding: bytes + [0x20], as: UTF8.self))
        }
    }
}
