internal import CLinux
internal import Glibc

/// An inotify instance. Reports changes in directories, but not in their subdirectories.
package final class Watch: Sendable {
    /// Becomes readable when something has changed.
    package let descriptor: Descriptor

    package struct Change: Equatable, Sendable {
        /// The result of `add` for the directory; -1 if changes were lost because they were not taken in time.
        package let directory: Int32
        /// The name of the entry that changed; nil for the directory itself.
        package let name: [UInt8]?
        /// Bits such as IN_CREATE.
        package let events: UInt32
        /// A number that identifies a move: both of its events have the same number.
        package var cookie: UInt32 = 0

        /// Whether the directory is no longer watched, because it or its file system is gone.
        package var isEnd: Bool { events & UInt32(IN_IGNORED) != 0 }
    }

    /// The events that change a directory's contents.
    package static let contents = UInt32(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE)

    /// - Throws: EMFILE. The system has a separate limit of watches for each user.
    package init() throws(SystemError) {
        descriptor = try Descriptor(inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC)), "inotify_init")
    }

    /// Watches a directory or a file. Another call for the same directory or file changes the events.
    ///
    /// - Returns: The number of the directory in `Change`.
    /// - Throws: ENOENT, EACCES; ENOSPC if the user has too many watched directories.
    @discardableResult
    package func add(_ path: UnsafePointer<CChar>, _ events: UInt32 = contents) throws(SystemError) -> Int32 {
        try Self.add(path, to: descriptor.number, events)
    }

    /// Like `add(_:_:)`, for the inotify instance with this descriptor number.
    package static func add(
        _ path: UnsafePointer<CChar>, to descriptor: Int32, _ events: UInt32 = contents
    ) throws(SystemError) -> Int32 {
        let number = inotify_add_watch(descriptor, path, events)
        guard number >= 0 else { throw SystemError("inotify_add_watch", String(cString: path)) }
        return number
    }

    /// Makes a gate: a descriptor for one of several users of this watch. The descriptor is readable while there are
    /// changes and the gate is open; see `setGate`.
    package func gate() throws(SystemError) -> Descriptor {
        let gate = try Descriptor(epoll_create1(Int32(EPOLL_CLOEXEC)), "epoll_create")
        var event = epoll_event(events: EPOLLIN.rawValue, data: .init(fd: descriptor.number))
        guard linux_epoll_ctl(gate.number, EPOLL_CTL_ADD, descriptor.number, &event) == 0 else {
            throw SystemError("epoll_ctl")
        }
        return gate
    }

    /// Opens or closes a gate.
    ///
    /// - Parameter bell: A descriptor that is always readable.
    package static func setGate(_ gate: Int32, isOpen: Bool, bell: Descriptor) {
        var event = epoll_event(events: EPOLLIN.rawValue, data: .init(fd: bell.number))
        _ = linux_epoll_ctl(gate, isOpen ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, bell.number, &event)
    }

    /// Ends watching a directory. Does nothing in a child that C code has forked, since the parent uses the same
    /// inotify instance.
    package func remove(_ number: Int32) {
        if linux_has_forked() == 0 { Self.remove(number, from: descriptor.number) }
    }

    package static func remove(_ number: Int32, from descriptor: Int32) { inotify_rm_watch(descriptor, number) }

    /// Takes the changes since the last call, in order.
    package func take() -> [Change] { Self.take(from: descriptor.number) }

    package static func take(from descriptor: Int32) -> [Change] {
        var changes: [Change] = []
        withUnsafeTemporaryAllocation(byteCount: 1 << 14, alignment: 8) { buffer in
            while true {
                let count = read(descriptor, buffer.baseAddress, buffer.count)
                if count < 0, linux_errno() == EINTR { continue }
                guard count > 0 else { return }
                var place = 0
                while place + MemoryLayout<inotify_event>.size <= count {
                    let event = buffer.loadUnaligned(fromByteOffset: place, as: inotify_event.self)
                    place += MemoryLayout<inotify_event>.size
                    let name = buffer[place..<min(count, place + Int(event.len))].prefix { $0 != 0 }
                    changes.append(
                        Change(
                            directory: event.wd, name: event.len == 0 ? nil : Array(name), events: event.mask,
                            cookie: event.cookie))
                    place += Int(event.len)
                }
            }
        }
        return changes
    }
}
