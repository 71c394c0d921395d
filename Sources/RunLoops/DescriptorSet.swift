internal import CLinux

/// The descriptors that the ports of one mode watch: an epoll instance, with the loop's wake-up descriptor in it.
///
/// One for each mode, because a loop that sleeps in a mode must not be woken by what is ready in another.
///
/// Registrations are edge-triggered, for the sake of the order: the kernel then lists descriptors in the order in which
/// they became ready, and lists none that no longer is. Ports are level-triggered all the same, since after each callback
/// the loop asks whether the descriptor is still ready. Level-triggered registrations would keep the place of their
/// *last* report in the kernel's list, so that a port handled earlier would overtake one that became ready before it.
final class DescriptorSet {
    let epoll: CInt
    private let ownsEpoll: Bool
    /// Indexed by descriptor.
    private var registrations: [Registration?] = []
    private var generation: UInt32 = 0
    /// Registrations of files that epoll refuses, such as regular files: always ready.
    private var alwaysReady: [Registration] = []
    /// How many descriptors are watched: while it is 0, there is nothing to ask the kernel for.
    private(set) var watching = 0

    private final class Registration {
        let fd: CInt
        /// Tells events of this registration from those of an earlier one of the same number.
        let generation: UInt32
        var ports: [RunLoop.FDPort] = []
        var isAlwaysReady = false
        init(fd: CInt, generation: UInt32) {
            self.fd = fd
            self.generation = generation
        }
        var token: UInt64 { UInt64(generation) << 32 | UInt64(UInt32(bitPattern: fd)) }
    }

    /// That of the wake-up descriptor; see `linux_epoll_waking`.
    static let wakeToken = UInt64.max

    /// nil, and an errno, when the operating system refuses it.
    init?(waking handle: RunLoop.Handle) {
        epoll = linux_epoll_waking(handle.wakeDescriptor)
        ownsEpoll = true
        guard epoll >= 0 else { return nil }
    }

    /// The handle's own, in which no port can be.
    init(of handle: RunLoop.Handle) {
        epoll = handle.epoll
        ownsEpoll = false
    }

    deinit { if ownsEpoll, epoll >= 0 { linux_close(epoll) } }

    var hasAlwaysReady: Bool { alwaysReady.contains { $0.ports.contains { !$0.interest.isEmpty } } }

    func isWatched(_ fd: CInt) -> Bool { Int(fd) < registrations.count && registrations[Int(fd)] != nil }

    /// Watches for what the port is interested in now. Call it again whenever that changes.
    ///
    /// Returns 0 or an error number.
    @discardableResult
    func watch(_ port: RunLoop.FDPort) -> CInt {
        let fd = Int(port.fd)
        if registrations.count <= fd {
            registrations.append(contentsOf: repeatElement(nil, count: fd + 1 - registrations.count))
        }
        if let registration = registrations[fd] {
            let isNew = !registration.ports.contains { $0 === port }
            if isNew { registration.ports.append(port) }
            let failure = update(registration)
            guard failure == ENOENT else { return failure }
            // The kernel has dropped it: somebody closed the descriptor behind our back, and its number now belongs to
            // another file. The ports that watched the old one must not hear of the new one.
            let orphans = registration.ports.filter { $0 !== port }
            forget(registration)
            for orphan in orphans { orphan.loseDescriptor() }
        }
        generation &+= 1
        let registration = Registration(fd: port.fd, generation: generation)
        registration.ports = [port]
        var event = epoll_event(events: mask(of: registration), data: epoll_data_t(u64: registration.token))
        if epoll_ctl(epoll, EPOLL_CTL_ADD, port.fd, &event) != 0 {
            if linux_errno() == EPERM {
                registration.isAlwaysReady = true
                alwaysReady.append(registration)
            } else if linux_errno() == EEXIST {
                // Left over from a descriptor that was closed while a duplicate keeps its file open.
                epoll_ctl(epoll, EPOLL_CTL_MOD, port.fd, &event)
            } else {
                return linux_errno()
            }
        }
        registrations[fd] = registration
        watching += 1
        return 0
    }

    func unwatch(_ port: RunLoop.FDPort) {
        let fd = Int(port.fd)
        guard fd < registrations.count, let registration = registrations[fd],
            registration.ports.contains(where: { $0 === port })
        else { return }
        registration.ports.removeAll { $0 === port }
        if registration.ports.isEmpty {
            forget(registration)
            // Fails harmlessly when epoll never took it or the descriptor is closed already.
            var event = epoll_event()
            epoll_ctl(epoll, EPOLL_CTL_DEL, port.fd, &event)
        } else {
            update(registration)
        }
    }

    /// Calls `body` for each port that one of the events concerns, in the kernel's order. Those whose descriptors are
    /// always ready come last.
    func forEachReady(
        _ events: UnsafePointer<epoll_event>, _ count: Int, _ body: (RunLoop.FDPort, RunLoop.FDPort.Events) -> Void
    ) {
        for i in 0..<count {
            let token = events[i].data.u64
            let fd = Int(UInt32(truncatingIfNeeded: token))
            guard token != Self.wakeToken, fd < registrations.count, let registration = registrations[fd],
                registration.generation == UInt32(token >> 32)
            else { continue }
            let found = RunLoop.FDPort.Events(epoll: events[i].events)
            // By index: `body` only queues the ports and changes no registration.
            for j in registration.ports.indices { body(registration.ports[j], found) }
        }
        for registration in alwaysReady {
            for port in registration.ports { body(port, [.read, .write]) }
        }
    }

    @discardableResult
    private func update(_ registration: Registration) -> CInt {
        guard !registration.isAlwaysReady else { return 0 }
        var event = epoll_event(events: mask(of: registration), data: epoll_data_t(u64: registration.token))
        return epoll_ctl(epoll, EPOLL_CTL_MOD, registration.fd, &event) == 0 ? 0 : linux_errno()
    }

    private func mask(of registration: Registration) -> UInt32 {
        var interest: RunLoop.FDPort.Events = []
        for port in registration.ports { interest.formUnion(port.interest) }
        return interest.epollMask | EPOLLET.rawValue
    }

    private func forget(_ registration: Registration) {
        registrations[Int(registration.fd)] = nil
        watching -= 1
        if registration.isAlwaysReady { alwaysReady.removeAll { $0 === registration } }
    }
}
