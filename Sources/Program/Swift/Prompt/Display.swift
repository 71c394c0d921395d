import Glibc
import LineEditor
import Linux

/// The line editor and the terminal that it draws on, where it is not alone.
///
/// Standard output and standard error are the end of a pseudo-terminal while the prompt lives. A thread reads the other end
/// at once, so that nobody who prints has to wait for the loop, and passes all of it through the editor, which lifts
/// the prompt and draws it again. So it does not matter who prints: Lua, a C module, a child process, another thread.
final class Display: @unchecked Sendable {
    // Sendable: what changes is guarded by one of the two locks.
    private let editor: LineEditor  // by `editing`
    private var pending: [UInt8] = []  // by `queue`
    private var marksSeen = 0  // by `queue`
    private var marksSent = 0  // the loop's thread only
    private var isEditing = false  // the loop's thread only
    private let editing = Condition()
    private let queue = Condition()
    private let terminal: Int32
    private let relay: Int32

    /// nil if the terminal cannot be had.
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

    /// Uses the editor, and draws what has changed. Everything printed before is drawn before.
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

    /// Waits until everything that was printed is on the screen; a second at most.
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

    /// Gives the terminal back. The editor must not be used afterwards.
    func close() {
        // One of the editor's questions to Lua has met `os.exit`.
        guard !isEditing else { return Terminal.release() }
        catchUp()
        edit { $0.finish() }
        Terminal.release()
    }

    private func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { _ = Descriptor.write($0, to: isatty(1) != 0 ? 1 : 2) }
    }

    // MARK: Both threads

    // `editing` is held.
    private func draw() {
        while true {
            var bytes = editor.takeOutput()
            queue.lock()
            let printed = pending
            pending = []
            queue.unlock()
            if !printed.isEmpty { bytes += editor.interleave(printed) }
            guard !bytes.isEmpty else { return }
            // The terminal would put another return there, and recordings of it would show that.
            if bytes.contains(13), Terminal.addsReturns { bytes = Self.withoutReturns(bytes) }
            bytes.withUnsafeBytes { _ = Descriptor.write($0, to: terminal) }
        }
    }

    /// The bytes without the carriage returns that stand before line feeds.
    private static func withoutReturns(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        for byte in bytes {
            if byte == 10 { while result.last == 13 { result.removeLast() } }
            result.append(byte)
        }
        return result
    }

    /// Whoever holds the editor draws when done with it, so nothing is left over.
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

    /// Tells how far the relay has come. No program prints this.
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
