internal import CLinux
internal import Glibc

/// The terminal that is this process's standard input, as a prompt needs it.
package enum Terminal {
    /// Remembers its settings. Returns false if there is none.
    package static func open() -> Bool { terminal_open() != 0 }

    /// Each byte as it comes, Control-C included; or as it was found.
    package static func setRaw(_ isRaw: Bool) { terminal_set_mode(isRaw ? TERMINAL_RAW : TERMINAL_OWN) }

    /// For reading without waiting. 0, descriptor 0 itself, if that is not to be had.
    package static func keys() -> Int32 { terminal_keys() }

    /// nil for what is not known.
    package static var size: (columns: Int?, rows: Int?) {
        var columns: Int32 = 0
        var rows: Int32 = 0
        terminal_size(&columns, &rows)
        return (columns > 0 ? Int(columns) : nil, rows > 0 ? Int(rows) : nil)
    }

    /// Takes the place of standard output and standard error, where they are the terminal, with a pseudo-terminal, whose other
    /// end is returned: what is written there has come from this process or its children. nil on failure.
    package static func capture() -> Int32? {
        let relay = terminal_capture()
        return relay < 0 ? nil : relay
    }

    /// Itself, for writing.
    package static var output: Int32 { terminal_output() }

    /// Whether a prompt has captured it, and reads its keys.
    package static var isPrompts: Bool { terminal_output() >= 0 }

    /// Whether it puts a carriage return before each line feed. One system call.
    package static var addsReturns: Bool { terminal_adds_returns() != 0 }

    /// Whether it shows what is typed, which a program that stands in for a terminal, as Emacs does, may want to do itself.
    package static var echoes: Bool { terminal_echoes() != 0 }

    /// Gives standard error back for the time that a program runs: pagers look there for the terminal whose keys they read.
    package static func lend(_ lends: Bool) { terminal_lend(lends ? 1 : 0) }

    /// Gives standard output and standard error back.
    package static func release() { terminal_release() }

    /// A descriptor that becomes readable when the terminal's size has changed, or when the process goes on after having been
    /// stopped.
    package static func watch() -> Int32 { terminal_watch() }

    /// Takes note of the change, and sets the terminal's mode again after a stop. Returns whether there was one.
    package static func takeChange() -> Bool { terminal_take_change() != 0 }

    /// Flushes what C's streams have buffered.
    package static func flush() { terminal_flush() }

    /// How many bytes of standard input C's stream has buffered.
    package static var bufferedInput: Int { terminal_buffered_input() }

    /// A line of standard input, through C's stream, without its end; nil at the end of input.
    package static func readLine() -> [UInt8]? {
        var length = 0
        guard let line = terminal_read_line(&length) else { return nil }
        defer { free(line) }
        return Array(UnsafeRawBufferPointer(start: line, count: length))
    }
}

/// A terminal of a script's, by its descriptor.
package enum RawTerminal {
    /// Each byte comes as it is typed, without an echo. Calling it again changes `signals` only.
    ///
    /// - Parameter signals: Control-C and its kin are signals still.
    /// - Throws: ENOTTY; EMFILE when eight are raw already.
    package static func begin(_ fd: Int32, signals: Bool) throws(SystemError) {
        guard linux_raw_terminal(fd, signals ? 1 : 0) == 0 else { throw SystemError("tcsetattr", "descriptor \(fd)") }
    }

    /// What is written to it before its settings come back, however the process ends or is stopped, and what when it goes on: at most 255
    /// bytes each.
    package static func setFarewell(_ farewell: String, greeting: String, of fd: Int32) {
        greeting.withCString { greeting in farewell.withCString { linux_set_farewell(fd, greeting, $0) } }
    }

    /// As it was found. Does nothing if it is not raw.
    package static func end(_ fd: Int32) { linux_cook_terminal(fd) }
    package static func endAll() { linux_cook_terminals() }

    package static func size(_ fd: Int32) throws(SystemError) -> (rows: Int, columns: Int) {
        var rows: Int32 = 0
        var columns: Int32 = 0
        guard linux_terminal_size(fd, &rows, &columns) == 0 else { throw SystemError("ioctl", "descriptor \(fd)") }
        return (Int(rows), Int(columns))
    }

    /// A descriptor of the terminal that this process has, for `Program.start` to give its keys to a program; nil when there is none, or
    /// another group has it. It stays this enum's.
    ///
    /// - Throws: EBUSY when a program has it already.
    package static func toLend() throws(SystemError) -> Int32? {
        let fd = linux_terminal_to_lend()
        if fd >= 0 { return fd }
        if linux_errno() == EBUSY {
            throw SystemError("tcsetpgrp", errno: EBUSY, reason: "another program has the terminal")
        }
        return nil
    }

    /// The program that has stopped goes on with it, if we have it again.
    package static func lendAgain(to group: Int32) {
        if let fd = try? toLend(), fd >= 0 { linux_lend_terminal(group) }
    }

    /// Takes it back from a program's group, if that has it.
    package static func takeBack(from group: Int32) { linux_take_terminal_back(group) }

    /// Gives all back and stops this process and its group, until somebody has it go on.
    package static func suspend() {
        // The others first: one of our own that came now, and another behind it, would stop us twice.
        var ignoring = sigaction()
        var before = sigaction()
        ignoring.__sigaction_handler.sa_handler = SIG_IGN
        sigaction(SIGTSTP, &ignoring, &before)
        kill(0, SIGTSTP)
        sigaction(SIGTSTP, &before, nil)
        raise(SIGTSTP)
    }

    /// The terminal that this process belongs to, opened anew: that it does not block concerns nobody else.
    ///
    /// - Throws: ENXIO when there is none.
    package static func own() throws(SystemError) -> Descriptor {
        try Descriptor(Glibc.open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), "open", "/dev/tty")
    }
}
