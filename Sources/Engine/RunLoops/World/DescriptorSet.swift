internal import CLinux
internal import Linux

/// The descriptors that the ports of one mode watch: an epoll instance, which also contains the loop's wake-up
/// descriptor.
///
/// Each mode has its own set, because a loop that sleeps in one mode must not wake for a descriptor of another.
///
/// Registrations are edge-triggered to keep the order: the kernel then lists descriptors in the order in which they
/// became ready, and omits those that are no longer ready. Ports are level-triggered nevertheless, since the loop asks
/// after each callback whether the descriptor is still ready. With level-triggered registrations, the kernel's list has
/// a descriptor at the place of its *last* report. So a port handled earlier would overtake a port that became ready
/// before it.
final class DescriptorSet {
    let epoll: CInt
    private let ownsEpoll: Bool
    /// The registrations by descriptor number. In raw memory, since each event reads it.
    private let registrations = RawBuffer<Registration>(capacity: 16)
    private var generation: UInt32 = 0
    /// The second and further ports of a descriptor. Few descriptors have more than one port.
    private var others: [CInt: [RunLoop.DescriptorPort]] = [:]
    /// Descriptors that epoll refuses, such as those of regular files. These descriptors are always ready.
    private var alwaysReady: [CInt] = []
    /// The number of watched descriptors. While it is 0, there is nothing to ask the kernel.
    private(set) var watching = 0

    private struct Registration: BitwiseCopyable {
        /// The first of the descriptor's ports; nil if the descriptor is not watched. Not retained: a port that leaves
        /// the mode leaves the registration, too.
        var port: Unmanaged<RunLoop.DescriptorPort>?
        /// Distinguishes events of this registration from events of an earlier one with the same descriptor number.
        var generation: UInt32 = 0
        var isAlwaysReady = false
        var hasOthers = false
    }

    /// The token that identifies events of the wake-up descriptor; see `linux_epoll_waking`.
    static let wakeToken = UInt64.max

    /// Fails, and sets errno, if the system refuses an epoll instance.
    init?(waking handle: RunLoop.Handle) {
        epoll = linux_epoll_waking(handle.wakeDescriptor)
        ownsEpoll = true
        guard epoll >= 0 else { return nil }
    }

    /// Makes a set from the epoll instance of the handle, for modes without ports.
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

    /// The descriptors for which at least one port waits.
    var ofInterest: [CInt] {
        guard watching > 0 else { return [] }
        return (0..<CInt(registrations.count)).filter { fd in ports(of: fd).contains { !$0.interest.isEmpty } }
    }

    private func registration(_ fd: CInt) -> Registration? {
        guard fd < registrations.count else { return nil }
        let found = registrations.base[Int(fd)]
        return found.port == nil ? nil : found
    }

    /// Returns nil if the event is one of the wake-up descriptor or of an earlier registration.
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

    /// Registers the present interest of a port. Call it again whenever the interest changes. Returns 0 or an errno.
    @discardableResult
    func watch(_ port: RunLoop.DescriptorPort) -> CInt {
        let fd = port.fd
        while registrations.count <= fd { registrations.append(Registration()) }
        if isWatched(fd) {
            let ports = ports(of: fd)
            if !ports.contains(where: { $0 === port }) {
                // Ports of one descriptor become ready at the same time, so `order` decides.
                let place = ports.firstIndex { $0.order > port.order } ?? ports.count
                setPorts(Array(ports[..<place]) + [port] + Array(ports[place...]), of: fd)
            }
            let failure = update(fd)
            guard failure == ENOENT else { return failure }
            // The kernel has dropped the registration, because other code closed the descriptor, whose number now
            // belongs to another file. The ports that watched the old file must not get events of the new one.
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
            // Other code may have closed the descriptor while a duplicate keeps its file open. The registration then
            // remains: update it.
            linux_epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event)
        case let failure:
            forget(fd)
            return failure
        }
        return 0
    }

    /// Ends the registration of a port.
    ///
    /// - Parameter isClosing: True if the descriptor is closed next and has no duplicate. The kernel then forgets it by
    ///   itself.
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
            // Fails without harm if epoll refused the descriptor or the descriptor is closed already.
            var event = epoll_event()
            linux_epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &event)
        } else {
            setPorts(left.filter { $0 !== port }, of: fd)
            update(fd)
        }
    }

    /// Calls `body` for each port that the events concern, in the kernel's order, then for the ports of descriptors
    /// that are always ready. `body` must change no registration.
    func forEachReady(
        _ events: UnsafePointer<epoll_event>, _ count: Int,
        _ body: (RunLoop.DescriptorPort, RunLoop.FDPort.Events) -> Void
    ) {
        // With ten thousand ports, few are in the processor's cache, so prefetch all that are ready.
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
        if let found = registration(fd), !found.hasOthers, let port = found.port?.takeUnretainedValue() {
            interest = port.interest
        } else {
            for port in ports(of: fd) { interest.formUnion(port.interest) }
        }
        return interest.epollMask | EPOLLET.rawValue
    }

    private func forget(_ fd: CInt) {
        if registrations.base[Int(fd)].isAlwaysReady { alwaysReady.removeAll { $0 == fd } }
        setPorts([], of: fd)
        registrations.base[Int(fd)].isAlwaysReady = false
        watching -= 1
    }
}
