import Glibc
import Linux
import RunLoops

/// The keys of the terminal, in the order in which they were pressed, as a source of the loop.
///
/// A thread reads the keys while the prompt has the terminal. Control-C is an ordinary key: it arrives in order and
/// cannot be lost. A signal would overtake the keys before it. If a callback keeps the loop busy, so that the loop does
/// not take a Control-C soon, the thread sends the signal that interrupts the callback.
final class Keyboard: @unchecked Sendable {
    // Sendable: `state` guards everything that changes; the thread only signals `source`.
    private let state = Condition()
    private var pressed: [UInt8] = []
    private var hasEnded = false
    private let keys = Terminal.keys()
    /// Whether another program has the terminal. Changed on the loop's thread only, which may read it without `state`.
    private(set) var isPaused = true
    /// Signalled when there are keys, or when the terminal is gone.
    let source: RunLoop.Source

    /// Milliseconds for which a callback may keep the loop busy before Control-C interrupts it: a user notices a longer
    /// wait.
    private static let patience = 100
    /// Bytes buffered for a busy loop. The rest of a pasted file waits in the terminal.
    private static let limit = 1 << 16

    init(_ take: @escaping () -> Void) { source = RunLoop.Source(name: "prompt", perform: { _ in take() }) }

    /// Starts the thread, paused. Returns false if there can be no thread.
    func start() -> Bool {
        // The kernel stops a background program that reads from the terminal. If the thread blocked SIGTTIN, it would
        // get an error instead.
        (try? Linux.Thread("rlhost keys", admitting: [SIGTTIN]) { [self] in readKeys() }) != nil
    }

    /// Makes the loop check whether there are keys, and whether the terminal was returned. Safe on any thread.
    func look() {
        source.signal()
        source.wakeLoops()
    }

    // MARK: The loop's thread

    /// Gives the terminal to another program, with its original settings, and stops reading keys.
    ///
    /// - Returns: Whether Control-C was pressed and the loop has not taken it. Such a Control-C is for the program that
    ///   gets the terminal.
    func pause() -> Bool {
        state.lock()
        defer { state.unlock() }
        isPaused = true
        Terminal.setRaw(false)
        // Read the keys that were pressed before the change of settings: the terminal keeps them as text, so a
        // Control-C among them would not become a signal. Do not read keys while a program has the terminal.
        while !RawTerminal.isLent, Descriptor.poll(keys, POLLIN) == POLLIN, readSome() > 0 {}
        return dropInterrupt()
    }

    /// Takes the terminal back, and continues with the keys that are left. Does nothing while a program has the
    /// terminal.
    func resume() {
        guard isPaused, !RawTerminal.isLent else { return }  // Only this thread changes `isPaused`.
        Terminal.setRaw(true)
        state.lock()
        isPaused = false
        if !pressed.isEmpty || hasEnded { source.signal() }
        state.signal()
        state.unlock()
    }

    /// Returns the keys that were pressed; nil if no more will come.
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
        if keys == 0, Descriptor.readable(0) == 0 { return 0 }  // Another reader may have read the key first.
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
            if count > 0 || isGone { look() }
            if isGone { return }
            if isUrgent { watchInterrupt() }
        }
    }

    /// Sends the signal if the loop does not take Control-C in time.
    private func watchInterrupt() {
        state.lock()
        var isInTime = true
        while isInTime, pressed.contains(3) { isInTime = state.wait(milliseconds: Self.patience) }
        let isDue = dropInterrupt()  // The signal replaces the key; the keys typed before it remain.
        state.unlock()
        // Signal the whole foreground group, as the terminal does: programs that a callback has started get the signal
        // as well.
        if isDue, kill(-tcgetpgrp(0), SIGINT) != 0 { kill(getpid(), SIGINT) }
    }
}
