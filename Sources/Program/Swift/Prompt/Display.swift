import Glibc
import LineEditor
import Linux

/// The line editor, and the terminal, which the editor shares with all code that prints.
///
/// While the prompt exists, standard output and standard error are one end of a pseudo-terminal. A thread reads the
/// other end at once, so that printing code never waits for the loop. The display passes all output through the editor,
/// which removes the prompt and draws it again below the output. So output from any source works: Lua, a C module, a
/// child process, another thread.
final class Display: @unchecked Sendable {
    // Sendable: each variable that changes is guarded by one of the two locks, or is used on the loop's thread only.
    private let editor: LineEditor  // Guarded by `editing`.
    private var pending: [UInt8] = []  // Guarded by `queue`.
    private var marksSeen = 0  // Guarded by `queue`.
    private var marksSent = 0  // Used on the loop's thread only.
    private var isEditing = false  // Used on the loop's thread only.
    private let editing = Condition()
    private let queue = Condition()
    private let terminal: Int32
    private let relay: Int32

    /// Returns nil if there is no terminal to use.
    init?(_ editor: LineEditor) {
        self.editor = editor
        guard let relay = Terminal.capture() else { return nil }
        self.relay = relay
        terminal = Terminal.output
        guard (try? Linux.Thread("rlhost output") { [self] in relayOutput() }) != nil else {
            Terminal.release()
            return nil
        }
    }

    // MARK: The loop's thread

    /// Calls `body` with the editor, and draws the changes. First draws everything that was printed earlier.
    func edit<Result>(_ body: (LineEditor) -> Result) -> Result {
        editing.lock()
        isEditing = true
        draw()
        let result = body(editor)
        draw()
        isEditing = false
        editing.unlock()
        drawIfFree()
        return result
    }

    /// Waits, for at most a second, until everything that was printed is on the screen.
    func catchUp() {
        Terminal.flush()
        marksSent += 1
        write(Self.mark)
        queue.lock()
        var isInTime = true
        while marksSeen < marksSent, isInTime { isInTime = queue.wait(milliseconds: 1000) }
        marksSent = marksSeen
        queue.unlock()
        drawIfFree()
    }

    /// Restores the terminal. The editor must not be used afterwards.
    func close() {
        // `os.exit` was called by Lua code that the editor has run.
        guard !isEditing else { return Terminal.release() }
        catchUp()
        edit { $0.finish() }
        Terminal.release()
    }

    private func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { _ = Descriptor.write($0, to: isatty(1) != 0 ? 1 : 2) }
    }

    // MARK: Both threads

    // The caller must hold the lock `editing`.
    private func draw() {
        while true {
            var bytes = editor.takeOutput()
            queue.lock()
            let printed = pending
            pending = []
            queue.unlock()
            if !printed.isEmpty { bytes += editor.interleave(printed) }
            guard !bytes.isEmpty else { return }
            // The terminal adds a carriage return before each line feed: do not write another one, which recordings of
            // the terminal would show.
            if bytes.contains(13), Terminal.addsReturns { bytes = Self.withoutReturns(bytes) }
            bytes.withUnsafeBytes { _ = Descriptor.write($0, to: terminal) }
        }
    }

    /// Returns the bytes without the carriage returns that come directly before line feeds.
    private static func withoutReturns(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        for byte in bytes {
            if byte == 10 { while result.last == 13 { result.removeLast() } }
            result.append(byte)
        }
        return result
    }

    /// Draws, unless other code is using the editor: that code draws when it is done.
    private func drawIfFree() {
        while true {
            queue.lock()
            let isDone = pending.isEmpty
            queue.unlock()
            guard !isDone, editing.tryLock() else { return }
            draw()
            editing.unlock()
        }
    }

    // MARK: The relay's thread

    /// A sequence that is printed to find out how far the relay has read the output. No program prints this sequence by
    /// itself.
    private static let mark = Array("\u{1B}_rlhost\u{1B}\\".utf8)

    private func relayOutput() {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var matched = 0
        while true {
            let count = buffer.withUnsafeMutableBytes { read(relay, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            var printed: [UInt8] = []
            var marks = 0
            for byte in buffer[..<count] {
                if byte != Self.mark[matched], matched > 0 {
                    printed += Self.mark[..<matched]
                    matched = 0
                }
                guard byte == Self.mark[matched] else {
                    printed.append(byte)
                    continue
                }
                matched += 1
                guard matched == Self.mark.count else { continue }
                matched = 0
                marks += 1
            }
            queue.lock()
            pending += printed
            marksSeen += marks
            if marks > 0 { queue.signal() }
            queue.unlock()
            drawIfFree()
        }
    }
}
