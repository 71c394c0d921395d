internal import CLinux
internal import Glibc

/// A file descriptor that is closed with its last reference.
package final class Descriptor: Sendable {
    package let number: Int32
    private let isReleased = Lock(false)

    /// - Parameter number: belongs to this object from now on.
    package init(_ number: Int32) { self.number = number }

    deinit { if isReleased.withLock({ !$0 }) { linux_close(number) } }

    /// Gives it up: from now on, who asked closes it.
    package func release() -> Int32 {
        isReleased.withLock { $0 = true }
        return number
    }

    /// Of what a system call has returned.
    ///
    /// - Throws: what the calling thread's last error was, if that is no descriptor.
    package init(_ number: Int32, _ call: String, _ subject: String = "") throws(SystemError) {
        guard number >= 0 else { throw SystemError(call, subject) }
        self.number = number
    }

    /// What another thread, or a signal handler, makes readable: a counter.
    ///
    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package static func event() throws(SystemError) -> Descriptor {
        try Descriptor(eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK)), "eventfd")
    }

    /// Makes an `event` readable. Safe in a signal handler.
    package func ring() {
        var one: UInt64 = 1
        while Glibc.write(number, &one, 8) < 0, linux_errno() == EINTR {}
    }

    /// Makes an `event` unreadable again.
    package func silence() {
        var count: UInt64 = 0
        _ = read(number, &count, 8)
    }

    /// Readable when the wall clock has jumped, because somebody has set it or the machine has slept, until `rearm`.
    package static func wallClockWatch() throws(SystemError) -> Descriptor {
        let watch = try Descriptor(linux_watch_wall_clock(), "timerfd_create")
        guard linux_rearm_wall_clock(watch.number) == 0 else { throw SystemError("timerfd_settime") }
        return watch
    }

    /// Has a `wallClockWatch` tell of the next jump.
    package func rearm() { _ = linux_rearm_wall_clock(number) }

    /// A pipe, to read from and to write to, or a pair of connected sockets. They close on exec, and have numbers above 3:
    /// those up to 3 are what programs get.
    package static func pair(twoWay: Bool = false) throws(SystemError) -> (Descriptor, Descriptor) {
        var ends: [Int32] = [-1, -1]
        guard linux_make_pipe(&ends, twoWay ? 1 : 0) == 0 else { throw SystemError(twoWay ? "socketpair" : "pipe") }
        return (Descriptor(ends[0]), Descriptor(ends[1]))
    }

    // MARK: Of any number, whoever it belongs to

    /// This process is a child that C code has forked: what it has, it has in common with its parent.
    package static var areParents: Bool { linux_has_forked() != 0 }

    package static func close(_ number: Int32) { linux_close(number) }

    package static func isOpen(_ number: Int32) -> Bool { linux_is_open(number) != 0 }

    /// Which of the first `count` numbers are open descriptors. One system call for each 256.
    package static func open(below count: Int32) -> [Bool] {
        var open = [UInt8](repeating: 0, count: Int(max(0, count)))
        linux_open_descriptors(&open, max(0, count))
        return open.map { $0 != 0 }
    }

    /// Whether it is a terminal's.
    package static func isTerminal(_ number: Int32) -> Bool { isatty(number) != 0 }

    /// Has it be read and written without waiting.
    package static func setNonBlocking(_ number: Int32) throws(SystemError) {
        guard linux_set_nonblocking(number) == 0 else { throw SystemError("fcntl", "descriptor \(number)") }
    }

    /// What poll(2) says of it right now.
    package static func poll(_ number: Int32, _ events: Int32) -> Int32 {
        Int32(linux_poll_now(number, Int16(truncatingIfNeeded: events)))
    }

    /// How many bytes can be read without waiting; 0 if that cannot be told.
    package static func readable(_ number: Int32) -> Int { Int(linux_bytes_to_read(number)) }

    /// Writes all of it, however often the system call takes a part, or waits for room.
    ///
    /// - Returns: 0, or the error number of what it gave up at.
    @discardableResult
    package static func write(_ bytes: UnsafeRawBufferPointer, to number: Int32) -> Int32 {
        linux_write_all(number, bytes.baseAddress, bytes.count)
    }
}
