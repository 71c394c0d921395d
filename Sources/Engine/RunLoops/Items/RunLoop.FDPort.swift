internal import CLinux
public import Linux

extension RunLoop {
    /// A port that calls back when a file descriptor is ready: a version 1 source, CFFileDescriptor.
    ///
    /// The port is level-triggered: as long as the descriptor is ready, it calls back once for each turn. The loop
    /// never reads from the descriptor or writes to it. Several ports may watch one descriptor.
    ///
    /// The end of a file does not make the loop spin: after an event with `.hangUp` or `.error`, when no data is left
    /// to read, the port rests until `setEvents`. If the peer has closed only its sending half, the port continues to
    /// watch for writing.
    ///
    /// Not thread-safe: use it on the thread of its loop.
    public final class FDPort: DescriptorPort {
        /// Conditions of a descriptor, as poll(2) reports them.
        public struct Events: OptionSet, Hashable, Sendable {
            public let rawValue: UInt8
            public init(rawValue: UInt8) { self.rawValue = rawValue }
            /// Data, or the end of the file, can be read.
            public static let read = Events(rawValue: 1)
            /// Data can be written.
            public static let write = Events(rawValue: 2)
            /// The peer has hung up. Always delivered, like `.error`, even if not requested.
            public static let hangUp = Events(rawValue: 4)
            /// The descriptor has an error, or was lost. Always delivered.
            public static let error = Events(rawValue: 8)

            init(epoll mask: UInt32) {
                self = []
                if mask & EPOLLIN.rawValue != 0 { insert(.read) }
                if mask & EPOLLOUT.rawValue != 0 { insert(.write) }
                if mask & (EPOLLHUP.rawValue | EPOLLRDHUP.rawValue) != 0 { insert(.hangUp) }
                if mask & EPOLLERR.rawValue != 0 { insert(.error) }
            }

            // EPOLLIN and the other flags have the values of POLLIN and its companions.
            init(poll mask: Int16) { self.init(epoll: UInt32(UInt16(bitPattern: mask))) }

            var epollMask: UInt32 {
                (contains(.read) ? EPOLLIN.rawValue | EPOLLRDHUP.rawValue : 0)
                    | (contains(.write) ? EPOLLOUT.rawValue : 0)
            }

            var pollMask: Int16 { Int16(truncatingIfNeeded: epollMask) }
        }

        /// Whether the port closes the descriptor when it is invalidated or deallocated.
        public let ownsDescriptor: Bool
        /// Whether the port rests after each event, until `setEvents`.
        public let once: Bool
        /// The events that were requested.
        public private(set) var events: Events
        /// The requested events that are not watched while the port rests.
        private var resting: Events = []
        /// The events found when the port was queued.
        private var found: Events = []
        /// `loss != nil`, as a flag that is cheap to check for each event.
        private var isLost = false
        /// The reason why the descriptor is no longer watched.
        private(set) var loss: SystemError? { didSet { isLost = loss != nil } }

        private final class ClosureOwner: ItemOwner {
            let callback: (FDPort, Events) -> Void
            init(_ callback: @escaping (FDPort, Events) -> Void) { self.callback = callback }
            override func deliver(_ events: Events, of port: FDPort) { callback(port, events) }
        }

        /// - Parameters:
        ///   - fd: The file descriptor.
        ///   - events: `.read`, `.write`, both, or neither for now.
        ///   - owns: If true, the descriptor is closed when the port is invalidated or deallocated.
        ///   - once: If true, the port rests after each event, until `setEvents`.
        ///   - order: Sorts ports of one descriptor: lower orders first. Ports of different descriptors are served in
        ///     the order in which they become ready.
        ///   - name: The name in descriptions and recordings.
        ///   - callback: Called on the loop's thread, with the events that were found.
        /// - Throws: EBADF if the descriptor is not open.
        public convenience init(
            _ fd: Int32, _ events: Events = .read, owns: Bool = false, once: Bool = false, order: Int = 0,
            name: String = "", callback: @escaping (FDPort, Events) -> Void
        ) throws(SystemError) {
            try self.init(
                fd, events, owns: owns, once: once, order: order, name: name, owner: ClosureOwner(callback))
        }

        /// Makes a port that calls `owner.deliver` instead of a closure, for hosts. The other parameters are as above.
        public init(
            _ fd: Int32, _ events: Events = .read, owns: Bool = false, once: Bool = false, order: Int = 0,
            name: String = "", owner: ItemOwner
        ) throws(SystemError) {
            guard linux_is_open(fd) != 0 else { throw SystemError("fcntl") }
            self.events = events.intersection([.read, .write])
            self.once = once
            ownsDescriptor = owns
            super.init(fd, name: name, order: order, owner: owner)
        }

        deinit { if isValid { retire() } }

        /// Changes the events to watch for, and ends any rest. CFFileDescriptorEnableCallBacks.
        ///
        /// - Throws: EBADF if the descriptor was lost; the errno of epoll if it cannot be watched.
        public func setEvents(_ new: Events) throws(SystemError) {
            guard isValid else { return }
            guard !isLost else { throw SystemError("epoll_ctl", errno: EBADF) }
            events = new.intersection([.read, .write])
            resting = []
            for mode in modes {
                let failure = mode.makeDescriptorSet()?.watch(self) ?? EMFILE
                guard failure == 0 else { throw SystemError("epoll_ctl", errno: failure) }
                // A descriptor that is already ready causes no new edge, so check it here.
                if !mode.ready.contains(self), isStillReady() { mode.ready.append(self) }
            }
        }

        /// The events that the port watches for now.
        override var interest: Events { isLost ? [] : events.subtracting(resting) }

        /// Stores events that the kernel has reported. Returns whether any of the events concern this port.
        override func find(_ events: Events) -> Bool {
            guard !interest.isEmpty else { return false }
            found = events.intersection(interest.union([.hangUp, .error]))
            return !found.isEmpty
        }

        override func isStillReady() -> Bool {
            if isLost { return !found.isEmpty }
            guard !interest.isEmpty else { return false }
            return isReady(linux_poll_now(fd, interest.pollMask))
        }

        override var asksKernel: Bool { !interest.isEmpty }

        override func isStillReady(inFrontOf queue: borrowing ReadyQueue, _ dispatches: UInt64) -> Bool {
            // The next port's turn would begin with the same system call, so check both ports in one call.
            guard asksKernel, let next = queue.firstFDPort else { return isStillReady() }
            let now: linux_two_answers? = next._withUnsafeGuaranteedRef { next in
                guard next.asksKernel else { return nil }
                let now = linux_poll_two_now(fd, interest.pollMask, next.fd, next.interest.pollMask)
                if next.isReady(now.second) { next.foundAt = dispatches } else { queue.removeFirst() }
                return now
            }
            return now.map { isReady($0.first) } ?? isStillReady()
        }

        /// Notes the result of poll(2). Returns whether the port is ready.
        private func isReady(_ now: Int16) -> Bool {
            guard now & Int16(POLLNVAL) == 0 else {
                loss = SystemError("poll", errno: EBADF)
                found = .error
                return true
            }
            return find(Events(poll: now))
        }

        override func deliver() {
            let events = found
            rest(after: events)
            owner?.deliver(events, of: self)
        }

        /// Reports the loss once, as an error event, and never watches the descriptor again.
        override func loseDescriptor(_ error: SystemError) {
            guard !isLost else { return }
            loss = error
            found = .error
            for mode in modes where !mode.ready.contains(self) { mode.ready.append(self) }
        }

        private func rest(after events: Events) {
            found = []
            guard !isLost else { return }
            if once { resting = [.read, .write] }
            guard !events.isDisjoint(with: [.hangUp, .error]), linux_bytes_to_read(fd) == 0 else { return }
            // POLLHUP and POLLERR end both directions; POLLRDHUP alone does not end writing.
            let now = Int32(linux_poll_now(fd, 0))
            resting.formUnion(now & (POLLHUP | POLLERR | POLLNVAL) != 0 ? [.read, .write] : [.read])
        }

        override func retire() {
            if ownsDescriptor { linux_close(fd) }
        }

        override func didEnter(_ mode: ModeState) {
            guard !isLost else { return }
            guard let descriptors = mode.makeDescriptorSet() else { return loseDescriptor(SystemError("epoll_create")) }
            let isShared = descriptors.isWatched(fd)
            let failure = descriptors.watch(self)
            guard failure == 0 else { return loseDescriptor(SystemError("epoll_ctl", errno: failure)) }
            // If the descriptor is ready already, the kernel may have reported that for another port, and does not
            // report it again. Ports that are ready and not yet reported come first.
            guard isShared else { return }
            mode.loop.look(mode)
            if !mode.ready.contains(self), isStillReady() { mode.ready.append(self) }
        }
        override func didLeave(_ mode: ModeState) { mode.descriptors?.unwatch(self) }
    }
}
