import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct RemotePortTests {
    @Test("a text of another program cannot move the cursor or reverse text")
    func whatAnotherProgramSaysCannotMoveTheCursorOrTurnText() {
        let text = "a\u{1B}[2J\u{9B}2Jb\u{202E}c\u{200F}d\u{2066}e\u{7F}\u{85}\u{2028}é"
        let shown = #"a\x1b[2J\xc2\x9b2Jb\xe2\x80\xaec\xe2\x80\x8fd\xe2\x81\xa6e\x7f\xc2\x85\xe2\x80\xa8é"#
        #expect(RunLoop.RemotePort.text(of: Array(text.utf8)) == shown)
        #expect(RunLoop.RemotePort.text(of: [0x61, 0xFF, 0x62]) == "a\u{FFFD}b")
    }
}
