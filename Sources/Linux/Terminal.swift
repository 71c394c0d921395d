internal import CLinux

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

    /// Gives standard error back for the time that a program runs: pagers look there for the terminal whose keys they read.
    package static func lend(_ lends: Bool) { terminal_lend(lends ? 1 : 0) }

    /// Gives standard output and standard error back.
    package static func release() { terminal_release() }

    /// A descriptor that becomes readable when the terminal's size has changed, or when the process goes on after having been
    /// stopped.
    package static func watch() -> Int32 { terminal_watch() }

    /// Takes note of the change, and sets the terminal's mode again after a stop. Returns whether there was one.
    package static func takeChange() -> Bool { terminal_take_change() != 0 }

    /// Gives the terminal back: for a signal handler that is about to end the process.
    package static let sayFarewell: @convention(c) () -> Void = terminal_say_farewell

    /// Has a function called when the process exits, however that comes about.
    package static func atExit(_ function: @convention(c) () -> Void) { terminal_at_exit(function) }

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
