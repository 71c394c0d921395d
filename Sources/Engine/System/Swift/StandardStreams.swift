internal import CLinux

/// The standard output and the standard error. What cannot be written to them is noted, however the script has written it, and shows in
/// the exit status.
package enum StandardStreams {
    /// Prepares the two, and closed standard descriptors. Once, before there is a Lua state.
    package static func open() { linux_open_standard_streams() }

    /// Writes all of it to C's standard output (1) or standard error (2), through their buffers, and flushes.
    package static func print(_ bytes: UnsafeRawBufferPointer, to number: Int32) {
        linux_print(number, bytes.baseAddress, bytes.count)
    }

    /// - Parameter hasCome: returns whether a signal is to end the calling thread's wait for room.
    package static func stopWaiting(when hasCome: @convention(c) () -> Int32) { linux_set_interruption(hasCome) }

    /// Notes that something meant for descriptor 1 or 2 was lost.
    package static func noteLoss(_ number: Int32, errno: Int32) { linux_note_loss(number, errno) }

    /// Flushes both, and reports what was lost. `exit` calls it; code that ends the process without that has to.
    ///
    /// - Returns: the status with which the process is to end: not 0 if something was lost.
    package static func settle(_ status: Int32) -> Int32 { linux_settle_standard_streams(status) }
}
