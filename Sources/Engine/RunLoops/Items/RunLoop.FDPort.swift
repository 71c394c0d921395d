internal import CLinux
public import Linux

extension RunLoop {
    /// Calls back when a file descriptor is ready: a port-based source, CFRunLoopSource version 1 (CFFileDescriptor).
    ///
    /// Level-triggered: as long as the descriptor is ready, each turn calls back again. The engine never reads from it or
    /// writes to it. Several ports may watch one descriptor.
    ///
    /// The end of a file does not spin: after an event with `.hangUp` or `.error`, when nothing is left to read, the port
    /// rests until `setEvents`. After a half-close by the peer only its interest in reading rests.
    public final class FDPort: DescriptorPort {
        public struct Events: OptionSet, Hashable, Sendable {
            public let rawValue: UInt8
            public init(rawValue: UInt8) { self.rawValue = rawValue }
            public static let read = Events(rawValue: 1)
            public static let write = Events(rawValue: 2)
            /// Delivered without being asked for, as is `.error`.
            public static let hangUp = Events(rawValue: 4)
            public static let error = Events(rawValue: 8)

            init(epoll mask: UInt32) {
                self = []
                if mask & EPOLLIN.rawValue != 0 { insert(.read) }
                if mask & EPOLLOUT.rawValue != 0 { insert(.write) }
                if mask & (EPOLLHUP.rawValue | EPOLLRDHUP.rawValue) != 0 { insert(.hangUp) }
                if mask & EPOLLERR.rawValue != 0 { insert(.error) }
            }

            // EPOLLIN and its kin have the values of POLLIN and its kin.
            init(poll mask: Int16) { self.init(epoll: UInt32(UInt16(bitPattern: mask))) }

            var epollMask: UInt32 {
                (contains(.read) ? EPOLLIN.rawValue | EPOLLRDHUP.rawValue : 0)
                    | (contains(.write) ? EPOLLOUT.rawValue : 0)
            }

            var pollMask: Int16 { Int16(truncatingIfNeeded: epollMask) }
        }

        public let ownsDescriptor: Bool
        /// Rests after each event, until `setEvents`.
        public let once: Bool
        /// What was asked for.
        public private(set) var events: Events
        /// What of it rests.
        private var resting: Events = []
        /// What was found ready when the port was queued.
        private var found: Events = []
        /// Whether there is a `loss`: each event asks.
        private var isLost = false
        /// Why the descriptor is not watched any more.
        private(set) var loss: SystemError? { didSet { isLost = loss != nil } }

        private final class ClosureOwner: ItemOwner {
            let callback: (FDPort, Events) -> Void
            init(_ callback: @escaping (FDPort, Events) -> Void) { self.callback = callback }
            override func deliver(_ events: Events, of port: FDPort) { callback(port, events) }
        }

        /// - Parameters:
        ///   - events: `.read`, `.write`, both, or nothing for now.
        ///   - owns: the descriptor is closed when the port is invalidated or dies.
        ///   - order: lower ones first, among ports of one descriptor; others are served in the order in which they become ready.
        /// - Throws: EBADF if there is no such descriptor.
        public convenience init(
            _ fd: Int32, _ events: Events = .read, owns: Bool = false, once: Bool = false, order: Int = 0,
            name: String = "", callback: @escaping (FDPort, Events) -> Void
        ) throws(SystemError) {
            try self.init(
                fd, events, owns: owns, once: once, order: order, name: name, owner: ClosureOwner(callback))
        }

        /// The same for a host with an owner for its ports, which is called back.
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

        /// Changes what to watch for, and ends any rest. CFFileDescriptorEnableCallBacks.
        ///
        /// - Throws: the errno, if the descriptor is gone.
        public func setEvents(_ new: Events) throws(SystemError) {
            guard isValid else { return }
            guard !isLost else { throw SystemError("epoll_ctl", errno: EBADF) }
            events = new.intersection([.read, .write])
            resting = []
            for mode in modes {
                let failure = mode.makeDescriptorSet()?.watch(self) ?? EMFILE
                guard failure == 0 else { throw SystemError("epoll_ctl", errno: failure) }
                // An always-ready or already reported descriptor makes no new edge.
                if !mode.ready.contains(self), isStillReady() { mode.ready.append(self) }
            }
        }

        /// What it watches for at the moment.
        override var interest: Events { isLost ? [] : events.subtracting(resting) }

        /// Takes note of what the kernel found; whether it concerns this port.
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
            // One system call instead of two: the next one's turn would begin with the same question.
            guard asksKernel, let next = queue.firstFDPort else { return isStillReady() }
            let now: linux_two_answers? = next._withUnsafeGuaranteedRef { next in
                guard next.asksKernel else { return nil }
                let now = linux_poll_two_now(fd, interest.pollMask, next.fd, next.interest.pollMask)
                if next.isReady(now.second) { next.foundAt = dispatches } else { queue.removeFirst() }
                return now
            }
            return now.map { isReady($0.first) } ?? isStillReady()
        }

        /// Takes note of what poll(2) said.
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

        /// The descriptor is not what it was, or cannot be watched: says so once, as an error, and never watches again.
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
            // With POLLHUP or POLLERR both directions are over; POLLRDHUP alone leaves writing.
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
            // Another port may have had the kernel's report of a descriptor that is ready already. Those it has not yet
            // reported come first.
            guard isShared else { return }
            mode.loop.look(mode)
            if !mode.ready.contains(self), isStillReady() { mode.ready.append(self) }
        }
        override func didLeave(_ mode: ModeState) { mode.descriptors?.unwatch(self) }
    }
}
