internal import CLinux
internal import Linux

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
    /// What is watched, by descriptor. In raw memory: each event looks here.
    private let registrations = RawBuffer<Registration>(capacity: 16)
    private var generation: UInt32 = 0
    /// The further ports of descriptors that several watch, which is rare.
    private var others: [CInt: [RunLoop.DescriptorPort]] = [:]
    /// Descriptors of files that epoll refuses, such as regular files: always ready.
    private var alwaysReady: [CInt] = []
    /// How many descriptors are watched: while it is 0, there is nothing to ask the kernel for.
    private(set) var watching = 0

    private struct Registration: BitwiseCopyable {
        /// The first of its ports; nil when the descriptor is not watched. A port that leaves the mode leaves this, too.
        var port: Unmanaged<RunLoop.DescriptorPort>?
        /// Tells events of this registration from those of an earlier one of the same number.
        var generation: UInt32 = 0
        var isAlwaysReady = false
        var hasOthers = false
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

    deinit {
        if ownsEpoll, epoll >= 0 { linux_close(epoll) }
        registrations.free()
    }

    var hasAlwaysReady: Bool {
        !alwaysReady.isEmpty && alwaysReady.contains { ports(of: $0).contains { !$0.interest.isEmpty } }
    }

    /// The descriptors that some port waits for: not those whose ports all rest.
    var ofInterest: [CInt] {
        guard watching > 0 else { return [] }
        return (0..<CInt(registrations.count)).filter { fd in ports(of: fd).contains { !$0.interest.isEmpty } }
    }

    private func registration(_ fd: CInt) -> Registration? {
        guard fd < registrations.count else { return nil }
        let found = registrations.base[Int(fd)]
        return found.port == nil ? nil : found
    }

    /// nil when it concerns the loop's wake-up descriptor, or an earlier registration.
    private func registration(of event: epoll_event) -> Registration? {
        let token = event.data.u64
        let fd = CInt(truncatingIfNeeded: token)
        guard token != Self.wakeToken, fd < registrations.count else { return nil }
        let found = registrations.base[Int(fd)]
        return found.generation == UInt32(token >> 32) ? found : nil
    }

    func isWatched(_ fd: CInt) -> Bool { registration(fd) != nil }

    private func ports(of fd: CInt) -> [RunLoop.DescriptorPort] {
        guard let found = registration(fd), let first = found.port?.takeUnretainedValue() else { return [] }
        return [first] + (found.hasOthers ? others[fd] ?? [] : [])
    }

    private func setPorts(_ ports: [RunLoop.DescriptorPort], of fd: CInt) {
        let place = registrations.base + Int(fd)
        place.pointee.port = ports.first.map { .passUnretained($0) }
        place.pointee.hasOthers = ports.count > 1
        others[fd] = ports.count > 1 ? Array(ports.dropFirst()) : nil
    }

    /// Watches for what the port is interested in now. Call it again whenever that changes.
    ///
    /// Returns 0 or an error number.
    @discardableResult
    func watch(_ port: RunLoop.DescriptorPort) -> CInt {
        let fd = port.fd
        while registrations.count <= fd { registrations.append(Registration()) }
        if isWatched(fd) {
            let ports = ports(of: fd)
            if !ports.contains(where: { $0 === port }) {
                // They become ready at the same moment: that is what `order` is for.
                let place = ports.firstIndex { $0.order > port.order } ?? ports.count
                setPorts(Array(ports[..<place]) + [port] + Array(ports[place...]), of: fd)
            }
            let failure = update(fd)
            guard failure == ENOENT else { return failure }
            // The kernel has dropped it: somebody closed the descriptor behind our back, and its number now belongs to
            // another file. The ports that watched the old one must not hear of the new one.
            forget(fd)
            for orphan in ports where orphan !== port { orphan.loseDescriptor(SystemError("epoll_ctl", errno: EBADF)) }
        }
        generation &+= 1
        registrations.base[Int(fd)] = Registration(port: .passUnretained(port), generation: generation)
        watching += 1
        var event = epoll_event(events: mask(of: fd), data: epoll_data_t(u64: token(of: fd)))
        guard linux_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0 else { return 0 }
        switch linux_errno() {
        case EPERM:
            registrations.base[Int(fd)].isAlwaysReady = true
            alwaysReady.append(fd)
        case EEXIST:
            // Left over from a descriptor that was closed while a duplicate keeps its file open.
            linux_epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event)
        case let failure:
            forget(fd)
            return failure
        }
        return 0
    }

    /// - Parameter isClosing: nobody else has the descriptor, which is closed now: the kernel forgets it by itself.
    func unwatch(_ port: RunLoop.DescriptorPort, isClosing: Bool = false) {
        let fd = port.fd
        if let found = registration(fd), !found.hasOthers, !found.isAlwaysReady,
            found.port?.toOpaque() == Unmanaged.passUnretained(port).toOpaque()
        {
            registrations.base[Int(fd)].port = nil
            watching -= 1
            var event = epoll_event()
            if !isClosing { linux_epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &event) }
            return
        }
        let left = ports(of: fd)
        guard left.contains(where: { $0 === port }) else { return }
        if left.count == 1 {
            forget(fd)
            // Fails harmlessly when epoll never took it or the descriptor is closed already.
            var event = epoll_event()
            linux_epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &event)
        } else {
            setPorts(left.filter { $0 !== port }, of: fd)
            update(fd)
        }
    }

    /// Calls `body` for each port that one of the events concerns, in the kernel's order. Those whose descriptors are
    /// always ready come last. `body` changes no registration.
    func forEachReady(
        _ events: UnsafePointer<epoll_event>, _ count: Int,
        _ body: (RunLoop.DescriptorPort, RunLoop.FDPort.Events) -> Void
    ) {
        // Of ten thousand ports none is in the cache: they are fetched side by side.
        for i in 0..<count {
            guard let port = registration(of: events[i])?.port else { continue }
            linux_prefetch(port.toOpaque(), 0)
            linux_prefetch(port.toOpaque(), 64)
        }
        for i in 0..<count {
            guard let registration = registration(of: events[i]), let first = registration.port else { continue }
            let found = RunLoop.FDPort.Events(epoll: events[i].events)
            first._withUnsafeGuaranteedRef { body($0, found) }
            if registration.hasOthers {
                for port in others[first._withUnsafeGuaranteedRef { $0.fd }] ?? [] { body(port, found) }
            }
        }
        if alwaysReady.isEmpty { return }
        for fd in alwaysReady {
            for port in ports(of: fd) { body(port, [.read, .write]) }
        }
    }

    @discardableResult
    private func update(_ fd: CInt) -> CInt {
        guard !registrations.base[Int(fd)].isAlwaysReady else { return 0 }
        var event = epoll_event(events: mask(of: fd), data: epoll_data_t(u64: token(of: fd)))
        return linux_epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : linux_errno()
    }

    private func token(of fd: CInt) -> UInt64 {
        UInt64(registrations.base[Int(fd)].generation) << 32 | UInt64(UInt32(bitPattern: fd))
    }

    private func mask(of fd: CInt) -> UInt32 {
        var interest: RunLoop.FDPort.Events = []
        for port in ports(of: fd) { interest.formUnion(port.interest) }
        return interest.epollMask | EPOLLET.rawValue
    }

    private func forget(_ fd: CInt) {
        if registrations.base[Int(fd)].isAlwaysReady { alwaysReady.removeAll { $0 == fd } }
        setPorts([], of: fd)
        registrations.base[Int(fd)].isAlwaysReady = false
        watching -= 1
    }
}
