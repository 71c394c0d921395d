internal import CLinux
internal import Glibc

/// The terminal that is this process's standard input, with the functions that a prompt needs.
package enum Terminal {
    /// Remembers the terminal's settings. Returns false if standard input is not a terminal.
    package static func open() -> Bool { terminal_open() != 0 }

    /// Sets raw mode, in which each key arrives at once, also Control-C; or restores the remembered settings.
    package static func setRaw(_ isRaw: Bool) { terminal_set_mode(isRaw ? TERMINAL_RAW : TERMINAL_OWN) }

    /// Returns a descriptor for reading keys without waiting; 0, the standard input itself, if none can be opened.
    package static func keys() -> Int32 { terminal_keys() }

    /// The size in characters; nil if unknown.
    package static var size: (columns: Int?, rows: Int?) {
        var columns: Int32 = 0
        var rows: Int32 = 0
        terminal_size(&columns, &rows)
        return (columns > 0 ? Int(columns) : nil, rows > 0 ? Int(rows) : nil)
    }

    /// Replaces standard output and standard error by a pseudo-terminal if they are the terminal. Returns the
    /// pseudo-terminal's other end, from which the output of this process and its children can be read; nil on failure.
    package static func capture() -> Int32? {
        let relay = terminal_capture()
        return relay < 0 ? nil : relay
    }

    /// The descriptor of the real terminal, for writing.
    package static var output: Int32 { terminal_output() }

    /// Whether a prompt has captured the terminal and reads its keys.
    package static var isPrompts: Bool { terminal_output() >= 0 }

    /// Whether the terminal puts a carriage return before each line feed. One system call.
    package static var addsReturns: Bool { terminal_adds_returns() != 0 }

    /// Whether the terminal echoes keys. A program that stands in for a terminal, as Emacs does, may echo them itself.
    package static var echoes: Bool { terminal_echoes() != 0 }

    /// If `lends` is true, restores standard error while a program runs; otherwise captures it again. Pagers read keys
    /// from the terminal that standard error refers to.
    package static func lend(_ lends: Bool) { terminal_lend(lends ? 1 : 0) }

    /// Restores standard output and standard error.
    package static func release() { terminal_release() }

    /// Returns a descriptor that becomes readable when the size of the terminal changes, or when the process continues
    /// after a stop.
    package static func watch() -> Int32 { terminal_watch() }

    /// Clears the change that `watch` reported, and sets the terminal's mode again after a stop. Returns whether there
    /// was a change.
    package static func takeChange() -> Bool { terminal_take_change() != 0 }

    /// Flushes the buffers of C's streams.
    package static func flush() { terminal_flush() }

    /// The number of bytes in the buffer of C's standard input.
    package static var bufferedInput: Int { terminal_buffered_input() }

    /// Reads a line from C's standard input, and returns it without its end; nil at the end of input.
    package static func readLine() -> [UInt8]? {
        var length = 0
        guard let line = terminal_read_line(&length) else { return nil }
        defer { free(line) }
        return Array(UnsafeRawBufferPointer(start: line, count: length))
    }
}

/// A terminal that a script uses, by its descriptor.
package enum RawTerminal {
    /// Sets raw mode: each key arrives at once and without echo. Further calls change `signals` only.
    ///
    /// - Parameters:
    ///   - fd: The descriptor of the terminal.
    ///   - signals: Whether Control-C and similar keys still send signals.
    /// - Throws: ENOTTY; EMFILE if eight terminals are raw already; EBUSY while a program has the terminal, because the
    ///   kernel would stop this process.
    package static func begin(_ fd: Int32, signals: Bool) throws(SystemError) {
        guard !isLent else { throw isBusy }
        guard linux_raw_terminal(fd, signals ? 1 : 0) == 0 else { throw SystemError("tcsetattr", "descriptor \(fd)") }
    }

    /// Sets the text that is written before the settings are restored, whenever the process ends or stops, and the text
    /// that is written when it continues. At most 255 bytes each.
    package static func setFarewell(_ farewell: String, greeting: String, of fd: Int32) {
        greeting.withCString { greeting in farewell.withCString { linux_set_farewell(fd, greeting, $0) } }
    }

    /// Restores the settings. Does nothing if the terminal is not raw.
    package static func end(_ fd: Int32) { linux_cook_terminal(fd) }
    package static func endAll() { linux_cook_terminals() }

    package static func size(_ fd: Int32) throws(SystemError) -> (rows: Int, columns: Int) {
        var rows: Int32 = 0
        var columns: Int32 = 0
        guard linux_terminal_size(fd, &rows, &columns) == 0 else { throw SystemError("ioctl", "descriptor \(fd)") }
        return (Int(rows), Int(columns))
    }

    /// Called before the terminal is lent. If the result is false, the terminal is not lent.
    nonisolated(unsafe) package static var willLend: () -> Bool = { true }
    /// Called after a program has returned the terminal, on the thread that has started the program.
    nonisolated(unsafe) package static var hasReturned: () -> Void = {}
    // A prompt sets `willLend` and `hasReturned` before a second Lua thread exists.

    /// Returns a descriptor of this process's terminal, which `Program.start` can lend to a program; nil if there is no
    /// terminal, or another group has it. The caller must not close it.
    ///
    /// - Throws: EBUSY if a program has the terminal already.
    package static func toLend() throws(SystemError) -> Int32? {
        guard isLent || willLend() else { return nil }
        let fd = linux_terminal_to_lend()
        if fd >= 0 { return fd }
        if linux_errno() == EBUSY { throw isBusy }
        return nil
    }

    private static var isBusy: SystemError {
        SystemError("tcsetpgrp", errno: EBUSY, reason: "another program has the terminal")
    }

    /// Whether a program has the terminal now.
    package static var isLent: Bool { linux_terminal_is_lent() != 0 }

    /// Lends the terminal to a stopped program that continues, if this process's group has the terminal again.
    package static func lendAgain(to group: Int32) {
        if let fd = try? toLend(), fd >= 0 { linux_lend_terminal(group) }
    }

    /// Makes terminals raw again. Call it if no program could be started after `toLend`.
    package static func keep() { linux_take_terminals_up() }

    /// Takes the terminal back if this program's group has it.
    package static func takeBack(from group: Int32) {
        linux_take_terminal_back(group)
        if !isLent { hasReturned() }
    }

    /// Restores all terminals, and stops this process and its group until another process continues them.
    package static func suspend() {
        // Stop the other processes of the group first, while this process ignores the signal. Otherwise the signal for
        // the group and the signal for this process would stop it twice.
        var ignoring = sigaction()
        var before = sigaction()
        ignoring.__sigaction_handler.sa_handler = SIG_IGN
        sigaction(SIGTSTP, &ignoring, &before)
        kill(0, SIGTSTP)
        sigaction(SIGTSTP, &before, nil)
        raise(SIGTSTP)
    }

    /// Opens this process's terminal again. The new descriptor is non-blocking; other descriptors of the terminal are
    /// not affected.
    ///
    /// - Throws: ENXIO if the process has no terminal.
    package static func own() throws(SystemError) -> Descriptor {
        try Descriptor(Glibc.open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), "open", "/dev/tty")
    }
}
