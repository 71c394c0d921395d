internal import CLinux
internal import Glibc

/// A file descriptor that is closed when its object is deallocated.
package final class Descriptor: Sendable {
    package let number: Int32
    private let isReleased = Lock(false)

    /// - Parameter number: The descriptor, which belongs to this object from now on.
    package init(_ number: Int32) { self.number = number }

    deinit { if isReleased.withLock({ !$0 }) { linux_close(number) } }

    /// Gives the descriptor up: the caller must close it.
    package func release() -> Int32 {
        isReleased.withLock { $0 = true }
        return number
    }

    /// Takes the result of a system call.
    ///
    /// - Throws: The calling thread's errno if the result is negative.
    package init(_ number: Int32, _ call: String, _ subject: String = "") throws(SystemError) {
        guard number >= 0 else { throw SystemError(call, subject) }
        self.number = number
    }

    /// Makes an eventfd, which `ring` makes readable, also on another thread or in a signal handler.
    ///
    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package static func event() throws(SystemError) -> Descriptor {
        try Descriptor(eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK)), "eventfd")
    }

    /// Makes an `event` readable. Safe in a signal handler and on any thread.
    package func ring() {
        var one: UInt64 = 1
        while Glibc.write(number, &one, 8) < 0, linux_errno() == EINTR {}
    }

    /// Makes an `event` unreadable again.
    package func silence() {
        var count: UInt64 = 0
        _ = read(number, &count, 8)
    }

    /// Makes a descriptor that becomes readable when the wall clock jumps, because it was set or the machine was
    /// suspended. The descriptor stays readable until `rearm`.
    package static func wallClockWatch() throws(SystemError) -> Descriptor {
        let watch = try Descriptor(linux_watch_wall_clock(), "timerfd_create")
        guard linux_rearm_wall_clock(watch.number) == 0 else { throw SystemError("timerfd_settime") }
        return watch
    }

    /// Makes a `wallClockWatch` wait for the next jump.
    package func rearm() { _ = linux_rearm_wall_clock(number) }

    /// Makes a pipe, with the reading end first, or a pair of connected sockets. Both close on exec. Their numbers are
    /// above 3, since programs get descriptors 0 to 3.
    package static func pair(twoWay: Bool = false) throws(SystemError) -> (Descriptor, Descriptor) {
        var ends: [Int32] = [-1, -1]
        guard linux_make_pipe(&ends, twoWay ? 1 : 0) == 0 else { throw SystemError(twoWay ? "socketpair" : "pipe") }
        return (Descriptor(ends[0]), Descriptor(ends[1]))
    }

    // MARK: Functions for any descriptor number

    /// Whether C code has forked this process. The descriptors of such a child refer to kernel objects that the parent
    /// still uses.
    package static var areParents: Bool { linux_has_forked() != 0 }

    package static func close(_ number: Int32) { linux_close(number) }

    package static func isOpen(_ number: Int32) -> Bool { linux_is_open(number) != 0 }

    /// Returns for each of the first `count` numbers whether it is an open descriptor. The function takes one system
    /// call for each 256 numbers.
    package static func open(below count: Int32) -> [Bool] {
        var open = [UInt8](repeating: 0, count: Int(max(0, count)))
        linux_open_descriptors(&open, max(0, count))
        return open.map { $0 != 0 }
    }

    /// Whether a descriptor is a terminal.
    package static func isTerminal(_ number: Int32) -> Bool { isatty(number) != 0 }

    /// Makes reading and writing return EAGAIN instead of waiting.
    package static func setNonBlocking(_ number: Int32) throws(SystemError) {
        guard linux_set_nonblocking(number) == 0 else { throw SystemError("fcntl", "descriptor \(number)") }
    }

    /// Returns the present result of poll(2) for one descriptor, without waiting.
    package static func poll(_ number: Int32, _ events: Int32) -> Int32 {
        Int32(linux_poll_now(number, Int16(truncatingIfNeeded: events)))
    }

    /// The number of bytes that can be read without waiting; 0 if unknown.
    package static func readable(_ number: Int32) -> Int { Int(linux_bytes_to_read(number)) }

    /// Writes all bytes, however many system calls and waits that takes.
    ///
    /// - Returns: 0, or the errno of the write that failed.
    @discardableResult
    package static func write(_ bytes: UnsafeRawBufferPointer, to number: Int32) -> Int32 {
        linux_write_all(number, bytes.baseAddress, bytes.count)
    }
}
