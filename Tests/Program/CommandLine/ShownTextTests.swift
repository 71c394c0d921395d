import Foundation
import TestSupport
import Testing

/// Names and messages with control sequences for terminals, wherever the program shows them.
@Suite("Text that comes from outside", .timed)
struct ShownTextTests {
    /// ESC, U+009B as UTF-8, U+202E, U+2066, a byte that is not UTF-8.
    private static let nasty = #"n\x1b]0;x\x07\u{9b}31m\u{202e}\u{2066}\x9bé"#
    private static let shown = #"n\x1b]0;x\x07\xc2\x9b31m\xe2\x80\xae\xe2\x81\xa6\x9bé"#

    private static let places: [(name: String, script: String)] = [
        ("error", "error(nasty, 0)"),
        ("error with lines", "error('first\\n\\tsecond ' .. nasty, 0)"),
        (
            "error in a callback",
            "rl.timer { name = nasty, delay = 0, modes = 'default', callback = function() error 'no' end }"
        ),
        ("error in a thread", "rl.thread { function() error 'no' end, name = nasty }"),
        ("why", "rl.timer { name = nasty, delay = 9, modes = nasty, callback = print } print(rl.why()) os.exit(0)"),
        ("tostring", "print(rl.timer { name = nasty, delay = 9, callback = print })"),
        ("log", "require 'runloop.log'.error(nasty)"),
        ("quoted field of a log", "require 'runloop.log'.error('x', { [nasty] = 'a b' .. nasty })"),
        ("name of a log", "require 'runloop.log'.open({ name = nasty }):error 'x'"),
        (
            "slow callback",
            "rl.timer { name = nasty, delay = 0, modes = 'default', callback = function() local e = os.clock() + 0.2 "
                + "while os.clock() < e do end end }"
        ),
    ]

    @Test("cannot command a terminal or reverse text", arguments: places.indices) func nasty(_ index: Int) throws {
        let (name, script) = Self.places[index]
        let run = try Binary.run(["-W", "-e", "local rl, nasty = require 'runloop', '\(Self.nasty)' \(script)"])
        let bytes = run.outputBytes + run.errorBytes
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(text.contains(Self.shown), "\(name): \(text)")
        #expect(String(validating: bytes, as: UTF8.self) != nil, "\(name)")
        let bad = text.unicodeScalars.filter {
            $0.value < 0x20 && $0 != "\n" && $0 != "\t" || 0x7F...0x9F ~= $0.value || 0x202A...0x202E ~= $0.value
                || 0x2066...0x2069 ~= $0.value
        }
        #expect(bad.isEmpty, "\(name): \(text.debugDescription)")
        if name == "error with lines" { #expect(text.contains("first\n\tsecond"), "\(text)") }
    }

    @Test("a log in JSON escapes control characters, and keeps the text") func json() throws {
        let run = try Binary.run([
            "-e",
            """
            local text = 'a\\u{9b}\\u{85}\\u{202e}\\u{2069}\\127\\27é'
            require 'runloop.log'.open { format = 'json', time = false }:error(text)
            io.write(require 'runloop.json'.encode { text })
            """,
        ])
        let record = try JSONSerialization.jsonObject(with: Data(run.errorBytes)) as? [String: Any]
        #expect(record?["message"] as? String == "a\u{9b}\u{85}\u{202e}\u{2069}\u{7f}\u{1b}é", "\(run)")
        #expect(run.errors.contains(#""a\u009b\u0085\u202e\u2069\u007f\u001bé""#), "\(run)")
    }

    @Test("output of the script itself is not changed") func own() throws {
        let run = try Binary.run(["-e", #"print '\27[31mred\27[0m\u{202e}' io.stderr:write '\27[31m'"#])
        #expect(run.output == "\u{1B}[31mred\u{1B}[0m\u{202E}\n" && run.errors == "\u{1B}[31m")
    }
}
