internal import CLinux

/// The standard output and the standard error. If any function fails to write data to one of them, the exit status
/// shows the loss.
package enum StandardStreams {
    /// Prepares both streams, and opens closed standard descriptors. Call it once, before there is a Lua state.
    package static func open() { linux_open_standard_streams() }

    /// Writes all bytes through the buffers of C's standard output (1) or standard error (2), and flushes.
    package static func print(_ bytes: UnsafeRawBufferPointer, to number: Int32) {
        linux_print(number, bytes.baseAddress, bytes.count)
    }

    /// Sets a function that can end waits for room.
    ///
    /// - Parameter hasCome: Returns whether a signal must end the calling thread's wait.
    package static func stopWaiting(when hasCome: @convention(c) () -> Int32) { linux_set_interruption(hasCome) }

    /// Notes that data for descriptor 1 or 2 was lost.
    package static func noteLoss(_ number: Int32, errno: Int32) { linux_note_loss(number, errno) }

    /// Notes a loss that was already reported: of a standard stream, or of another descriptor of the same file.
    package static func noteToldLoss(_ number: Int32, errno: Int32) { linux_note_told_loss(number, errno) }

    /// Flushes both streams, and reports lost data. `exit` calls it; code that ends the process in another way must
    /// call it.
    ///
    /// - Returns: The status with which the process must end: not 0 if data was lost.
    package static func settle(_ status: Int32) -> Int32 { linux_settle_standard_streams(status) }
}
