internal import CLinux
internal import Glibc

/// Tells of changes in directories: inotify. Not recursive.
package final class Watch: Sendable {
    /// Becomes readable when something has changed.
    package let descriptor: Descriptor

    package struct Change: Equatable, Sendable {
        /// What `add` has returned for the directory; -1 when changes were lost, because nobody took them.
        package let directory: Int32
        /// Of what in it; nil for itself.
        package let name: [UInt8]?
        /// IN_CREATE and its kin.
        package let events: UInt32
        /// The same for the two halves of a move.
        package var cookie: UInt32 = 0

        /// The directory is no longer watched: it is gone, or its file system is.
        package var isEnd: Bool { events & UInt32(IN_IGNORED) != 0 }
    }

    /// What changes a directory's contents.
    package static let contents = UInt32(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE)

    /// - Throws: EMFILE: there is a limit of its own for these, for each user.
    package init() throws(SystemError) {
        descriptor = try Descriptor(inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC)), "inotify_init")
    }

    /// Watches a directory, or a file. Adding it again changes what is watched for.
    ///
    /// - Returns: its number in `Change`.
    /// - Throws: ENOENT, EACCES; ENOSPC when the user watches too much already.
    @discardableResult
    package func add(_ path: UnsafePointer<CChar>, _ events: UInt32 = contents) throws(SystemError) -> Int32 {
        try Self.add(path, to: descriptor.number, events)
    }

    /// The same, by the number of a descriptor.
    package static func add(
        _ path: UnsafePointer<CChar>, to descriptor: Int32, _ events: UInt32 = contents
    ) throws(SystemError) -> Int32 {
        let number = inotify_add_watch(descriptor, path, events)
        guard number >= 0 else { throw SystemError("inotify_add_watch", String(cString: path)) }
        return number
    }

    /// What several who share one can each wait for: readable while there are changes, and while it is open.
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
    /// - Parameter bell: what is always readable.
    package static func setGate(_ gate: Int32, isOpen: Bool, bell: Descriptor) {
        var event = epoll_event(events: EPOLLIN.rawValue, data: .init(fd: bell.number))
        _ = linux_epoll_ctl(gate, isOpen ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, bell.number, &event)
    }

    /// Nothing in a child that C code has forked: the instance is its parent's, too.
    package func remove(_ number: Int32) {
        if linux_has_forked() == 0 { Self.remove(number, from: descriptor.number) }
    }

    package static func remove(_ number: Int32, from descriptor: Int32) { inotify_rm_watch(descriptor, number) }

    /// What has changed since the last time, in order; empty when nothing has.
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
