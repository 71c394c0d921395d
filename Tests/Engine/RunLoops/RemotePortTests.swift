import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct RemotePortTests {
    @Test("what another program says cannot move the cursor or turn text")
    func whatAnotherProgramSaysCannotMoveTheCursorOrTurnText() {
        let text = "a\u{1B}[2J\u{9B}2Jb\u{202E}c\u{200F}d\u{2066}e\u{7F}\u{85}\u{2028}é"
        #expect(RunLoop.RemotePort.text(of: Array(text.utf8)) == "a?[2J?2Jb?c?d?e???é")
        #expect(RunLoop.RemotePort.text(of: [0x61, 0xFF, 0x62]) == "a\u{FFFD}b")
    }
}
