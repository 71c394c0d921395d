import Glibc
import Linux
import RunLoops

/// The keys of the terminal, in the order in which they were pressed, as a source of the loop.
///
/// A thread reads them while the prompt has the terminal. Control-C is a key like any other, so it comes in its turn and
/// cannot be lost; were it a signal, it would overtake what was typed before it. But where the loop does not take it soon,
/// a callback keeps the loop busy, and the thread makes of the key the signal that interrupts it.
final class Keyboard: @unchecked Sendable {
    // Sendable: what changes is guarded by `state`; `source` is only signalled by the thread.
    private let state = Condition()
    private var pressed: [UInt8] = []
    private var hasEnded = false
    private let keys = Terminal.keys()
    /// Whether others have the terminal. Changed on the loop's thread only, which may ask without `state`.
    private(set) var isPaused = true
    /// Performed when there are keys, or the terminal is gone.
    let source: RunLoop.Source

    /// How long a callback may keep the loop before Control-C interrupts it: no longer than one waits for an answer.
    private static let patience = 100
    /// No more is read ahead of a loop that is busy, so that whoever pastes a file has it wait in the terminal.
    private static let limit = 1 << 16

    init(_ take: @escaping () -> Void) { source = RunLoop.Source(name: "prompt", perform: { _ in take() }) }

    /// Begins to read, paused. Returns false if the thread cannot be had.
    func start() -> Bool {
        // A program in the background that reads is stopped; if it blocked that, it would get an error instead.
        (try? Linux.Thread("rlhost keys", admitting: [SIGTTIN]) { [self] in readKeys() }) != nil
    }

    // MARK: The loop's thread

    /// Gives the terminal to others, with the settings that it had: no key is read any more.
    ///
    /// - Returns: whether Control-C was pressed, and nobody has taken it: it is for who gets the terminal.
    func pause() -> Bool {
        state.lock()
        defer { state.unlock() }
        isPaused = true
        Terminal.setRaw(false)
        // For the terminal, what was pressed before the change is text: a Control-C among it would be no signal.
        while Descriptor.poll(keys, POLLIN) == POLLIN, readSome() > 0 {}
        return dropInterrupt()
    }

    /// Takes the terminal, and goes on with what is left.
    func resume() {
        guard isPaused else { return }  // changed by this thread only
        Terminal.setRaw(true)
        state.lock()
        isPaused = false
        if !pressed.isEmpty || hasEnded { source.signal() }
        state.signal()
        state.unlock()
    }

    /// The keys that were pressed; nil: there will be no more.
    func take() -> [UInt8]? {
        state.lock()
        defer { state.unlock() }
        if pressed.isEmpty, hasEnded { return nil }
        defer { pressed = [] }
        state.signal()
        return pressed
    }

    // MARK: Both threads, which hold `state`

    private func readSome() -> Int {
        if keys == 0, Descriptor.readable(0) == 0 { return 0 }  // another may have been faster
        return withUnsafeTemporaryAllocation(byteCount: 1 << 12, alignment: 1) { buffer in
            let count = read(keys, buffer.baseAddress, buffer.count)
            if count > 0 { pressed += buffer[..<count] }
            return count
        }
    }

    private func dropInterrupt() -> Bool {
        let count = pressed.count
        pressed.removeAll { $0 == 3 }
        return pressed.count < count
    }

    // MARK: The reader's thread

    private func readKeys() {
        while true {
            var key = pollfd(fd: keys, events: Int16(POLLIN), revents: 0)
            guard poll(&key, 1, -1) > 0 else { continue }
            state.lock()
            while isPaused || pressed.count >= Self.limit { state.wait() }
            let count = readSome()
            let hasFailed = count < 0 && errno != EINTR && errno != EAGAIN
            let isGone = hasFailed || count == 0 && key.revents & Int16(POLLHUP | POLLERR | POLLNVAL) != 0
            if isGone { hasEnded = true }
            let isUrgent = pressed.contains(3)
            state.unlock()
            if count > 0 || isGone {
                source.signal()
                source.wakeLoops()
            }
            if isGone { return }
            if isUrgent { watchInterrupt() }
        }
    }

    /// Sends the signal if Control-C is not taken in time.
    private func watchInterrupt() {
        state.lock()
        var isInTime = true
        while isInTime, pressed.contains(3) { isInTime = state.wait(milliseconds: Self.patience) }
        let isDue = dropInterrupt()  // the signal stands for it; what was typed remains
        state.unlock()
        // As the terminal does it: programs that a callback has started get it, too.
        if isDue, kill(-tcgetpgrp(0), SIGINT) != 0 { kill(getpid(), SIGINT) }
    }
}
