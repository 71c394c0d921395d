internal import CStreams
internal import Glibc
internal import Linux
public import RunLoops

/// Accepts connections. Corresponds to CFSocket with kCFSocketAcceptCallBack.
///
/// A listener is an item of its loop: connections that arrive while the loop runs in another mode wait in the kernel.
/// An accepted connection enters the listener's modes. A listener belongs to its loop's thread.
public final class Listener: RunLoop.EdgePort {
    public let network: Network
    public let options: Options
    public let place: Place
    /// These two closures are called if the listener has no owner of its own.
    public var onConnection: ((Stream) -> Void)?
    public var onTrouble: ((StreamFailure?) -> Void)?
    /// The owner accepts connections one by one, and sets `serves` for each.
    public var isManual = false
    /// Connections that this listener has accepted and that are still open.
    public private(set) var connections = 0
    public private(set) var isOpen = true
    /// The owner of all accepted connections; nil: the listener's own.
    public let connectionOwner: StreamOwner?
    public override var word: String { "listener" }

    /// The loop serves the listener, but does not keep running for it; the same holds for the connections that it
    /// accepts from then on.
    public var staysIdle = false { didSet { isBackground = staysIdle } }
    /// The task that waits for a connection does not keep the loop running.
    public var accepterStaysIdle = false { didSet { isBackground = staysIdle || accepterStaysIdle } }
    /// For the owner: the waiters for a connection and for the end, whether the listener is being stopped, and the
    /// number of tasks that serve connections.
    public var accepter = 0
    public var stopper = 0
    public var isStopping = false
    public var handlers = 0

    /// The listener's sockets: one of each family if it listens at both addresses of localhost.
    private var sockets: [Socket] = []
    private var file: (path: String, device: UInt64, number: UInt64)?
    private var isPaused = false
    private var troubleSince: Int64?
    private var pause: RunLoop.Timer?
    private var lastAddress: String?
    private var lastPort = 0
    private var connectionLabel: UInt32 = 0

    /// One socket of the listener.
    private final class Socket: RunLoop.EdgePort {
        unowned(unsafe) let listener: Listener
        var readable = true
        let taken: Int32
        init(_ listener: Listener, _ fd: Int32) {
            self.listener = listener
            taken = fd
            super.init(serves: true)
        }
        override func note(_ events: RunLoop.FDPort.Events) -> Bool {
            readable = true
            return listener.wantsMore
        }
        override func takeTurn() { listener.takeTurn() }
    }

    /// Listens at once, but accepts nothing before it is in a mode.
    ///
    /// - Parameter place: has numeric addresses; names have to be resolved before.
    /// - Throws: EADDRINUSE, EACCES, EADDRNOTAVAIL and the like.
    public init(
        _ network: Network, at place: Place, _ options: Options = .init(), name: String = "", order: Int = 0,
        owner: StreamOwner? = nil, connectionOwner: StreamOwner? = nil
    ) throws(StreamFailure) {
        self.network = network
        self.place = place
        self.options = options
        self.connectionOwner = connectionOwner
        super.init(name: name, order: order, owner: owner ?? network.owner)
        if case .inherited(let number) = place {
            try adopt(number)
            return
        }
        if let refusal = place.refusal { throw refusal }
        guard let addresses = place.addresses else {
            throw StreamFailure("ENOTFOUND", "not an address: resolve the name first (\(place.text))")
        }
        do throws(StreamFailure) { try open(addresses) } catch {
            close()
            throw error
        }
        if network.reserve < 0 { network.reserve = net_event() }
    }

    deinit {
        for socket in sockets { _ = network.system.close(socket.taken) }
        removeFile()
    }

    // MARK: Opening

    private func open(_ addresses: [net_address]) throws(StreamFailure) {
        var isAnyPort = false
        if case .host(_, let port) = place { isAnyPort = port == 0 }
        var isEverywhere = false
        if case .host("*", _) = place { isEverywhere = true }
        var last: StreamFailure?
        for attempt in 1... {
            var port: Int32 = 0
            for address in addresses {
                var address = address
                if isAnyPort, port != 0 { net_set_port(&address, UInt16(truncatingIfNeeded: port)) }
                do throws(StreamFailure) {
                    let fd = try listen(address, bothFamilies: isEverywhere)
                    sockets.append(Socket(self, fd))
                    var own = net_address()
                    if net_local_address(fd, &own) == 0 { port = net_port(&own) }
                    if isEverywhere { return }
                } catch {
                    last = error
                    // A machine may lack one of the families.
                    if ["EAFNOSUPPORT", "EADDRNOTAVAIL"].contains(error.code), addresses.count > 1 { continue }
                    if isAnyPort, error.code == "EADDRINUSE", !sockets.isEmpty, attempt < 20 { break }
                    throw error
                }
            }
            if isAnyPort, let failure = last, failure.code == "EADDRINUSE", attempt < 20 {
                // Another program has this port in the other family: try another number.
                last = nil
                for socket in sockets { _ = network.system.close(socket.taken) }
                sockets = []
                continue
            }
            break
        }
        if sockets.isEmpty { throw last ?? StreamFailure("EADDRNOTAVAIL", "no address (\(place.text))") }
    }

    /// Duplicates a socket that listens already. The original stays open for the process that passed the socket to this
    /// one, or for the next process that serves it.
    private func adopt(_ number: Int32) throws(StreamFailure) {
        switch net_inherit(number) {
        case Int32(NET_LISTENER.rawValue): break
        case let error where error < 0: throw StreamFailure(errno: -error, place.text)
        default: throw StreamFailure("EINVAL", "not a listening socket (\(place.text))")
        }
        let fd = net_share(number)
        guard fd >= 0 else { throw StreamFailure(errno: -fd, place.text) }
        prepare(fd)
        sockets = [Socket(self, fd)]
        if network.reserve < 0 { network.reserve = net_event() }
    }

    private func listen(_ address: net_address, bothFamilies: Bool) throws(StreamFailure) -> Int32 {
        var address = address
        let system = network.system
        let subject = SmallAddress.text(&address)
        let family = net_family_of(&address)
        let fd = system.socket(family, Int32(SOCK_STREAM.rawValue))
        guard fd >= 0 else { throw StreamFailure(errno: -fd, subject, refusedAs: .listen) }
        var result: Int32 = 0
        if case .path = place {
            result = net_listen_at_path(fd, &address, options.mode, Int32(clamping: options.backlog))
            if result == 0 { noteFile() }
        } else {
            if family != NET_LOCAL.rawValue {
                net_set_reuse_address(fd)
                prepare(fd)
            }
            if family == NET_V6.rawValue { net_set_v6_only(fd, bothFamilies ? 0 : 1) }
            if options.reusePort { result = net_set_reuse_port(fd) }
            if result == 0 { result = system.bind(fd, &address) }
            if result == 0 { result = system.listen(fd, Int32(clamping: options.backlog)) }
        }
        guard result == 0 else {
            _ = system.close(fd)
            throw StreamFailure(errno: -result, subject, refusedAs: .listen)
        }
        return fd
    }

    /// Sets options that accepted connections inherit, so that a connection needs no system call for them.
    private func prepare(_ fd: Int32) {
        _ = net_set_no_delay(fd, 1)
        _ = net_set_keep_alive(fd, 1, 15, 15, 9)
    }

    private func noteFile() {
        guard case .path(let name) = place else { return }
        let path = String(decoding: name, as: UTF8.self)
        var device: UInt64 = 0
        var number: UInt64 = 0
        if name.withCPath({ net_socket_file($0, &device, &number) }) != 0 { file = (path, device, number) }
    }

    private func removeFile() {
        guard let file, case .path(let name) = place, !Descriptor.areParents else { return }
        self.file = nil
        name.withCPath { path in
            var device: UInt64 = 0
            var number: UInt64 = 0
            // Another socket may have been bound to the path since.
            if net_socket_file(path, &device, &number) != 0, device == file.device, number == file.number {
                net_unlink(path)
            }
        }
    }

    /// The address at which the listener listens, or has listened: "127.0.0.1:43211", with the port that the system has
    /// chosen.
    public var address: String? {
        guard let first = sockets.first else { return lastAddress }
        var own = net_address()
        return net_local_address(first.taken, &own) == 0 ? SmallAddress.text(&own) : nil
    }

    public var port: Int {
        guard let first = sockets.first else { return lastPort }
        var own = net_address()
        return net_local_address(first.taken, &own) == 0 ? Int(net_port(&own)) : 0
    }

    public var descriptor: Int32 { sockets.first?.taken ?? -1 }

    // MARK: Accepting

    public override func didEnter(mode: RunLoop.Mode) {
        for socket in sockets {
            socket.watch(socket.taken)
            network.loop.add(socket, to: mode)
        }
        if let pause { network.loop.add(pause, to: mode) }
        updateActivity()
        if wantsMore { signal() }
    }

    public override func didLeave(mode: RunLoop.Mode) {
        for socket in sockets { network.loop.remove(socket, from: mode) }
        if let pause { network.loop.remove(pause, from: mode) }
    }

    /// Whether the listener accepts connections; false while no code handles them.
    public var serves = true {
        didSet {
            updateActivity()
            if serves { signal() }
        }
    }

    private func updateActivity() { isAwaited = isOpen && serves }

    fileprivate var wantsMore: Bool { isOpen && serves && !isPaused && connections < options.maxConnections }

    public override func takeTurn() {
        var count = 0
        while wantsMore {
            guard count < 16 else { return signal() }
            // Most often one connection waits. Checking whether another connection waits costs a tenth of a failing
            // accept.
            if count == 1 { askForMore() }
            count += 1
            guard let stream = accept() else { return }
            enter(stream)
            teller._withUnsafeGuaranteedRef { $0.accepted(stream, by: self) }
            if isManual { break }
        }
    }

    private func askForMore() {
        for socket in sockets where socket.readable { socket.readable = net_is_ready(socket.taken, 0) != 0 }
    }

    private var teller: Unmanaged<StreamOwner> {
        // `init` accepts only a StreamOwner here.
        .passUnretained(unsafe unsafeDowncast(owner ?? network.owner, to: StreamOwner.self))
    }

    /// Returns the next connection, or nil if none waits.
    private func accept() -> Stream? {
        let system = network.system
        for socket in sockets where socket.readable {
            var tries = 0
            while true {
                // Connections that are already closed must not delay the turns of other items in this loop.
                guard tries < 16 else {
                    signal()
                    return nil
                }
                tries += 1
                var peer = net_address()
                let fd = system.accept(socket.taken, &peer)
                if fd >= 0 {
                    recovered()
                    return made(fd, peer)
                }
                switch -fd {
                case EAGAIN: socket.readable = false
                case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                    backOff(fd, socket)
                    return nil
                // The connection, or its network, was lost before it was accepted: try the next one.
                case ECONNABORTED, EINTR, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
                    ENETUNREACH, EPERM:
                    continue
                default:
                    socket.readable = false
                    let failure = StreamFailure(errno: -fd, address ?? place.text)
                    teller._withUnsafeGuaranteedRef { $0.troubled(self, failure) }
                }
                break
            }
        }
        return nil
    }

    private func made(_ fd: Int32, _ peer: net_address) -> Stream {
        let isTCP = peer.family != NET_LOCAL.rawValue
        let stream = Stream(
            network, owner: connectionOwner ?? teller.takeUnretainedValue(), settings: options.settings, isTCP: isTCP)
        stream.remote = SmallAddress(peer)
        stream.listener = self
        stream.wasAccepted = true
        if staysIdle { stream.staysIdle = true }
        connections += 1
        stream.attach(fd, .socket)
        stream.noteBeginning(like: &connectionLabel)
        return stream
    }

    /// Called when descriptors or memory have run out. The listener pauses: the loop neither spins nor stops accepting
    /// for good.
    private func backOff(_ errno: Int32, _ socket: Socket) {
        let now = network.loop.now.nanoseconds
        let since = troubleSince ?? now
        if troubleSince == nil {
            troubleSince = now
            let limit = -errno == EMFILE ? "; this process may have \(net_descriptor_limit())" : ""
            let text = SystemError.text(of: -errno)
            let failure = StreamFailure(
                SystemError.name(of: -errno),
                "\(text): connections wait to be accepted (\(address ?? place.text)\(limit))")
            teller._withUnsafeGuaranteedRef { $0.troubled(self, failure) }
        } else if now - since > 5_000_000_000, network.reserve >= 0 {
            // A client that has waited this long is better off with a closed connection. Only one connection is closed
            // at a time.
            net_close(network.reserve)
            var peer = net_address()
            let fd = network.system.accept(socket.taken, &peer)
            if fd >= 0 { _ = network.system.close(fd) }
            network.reserve = net_event()
        }
        guard isOpen, pause == nil else { return }
        isPaused = true
        pause = network.loop.callBack(at: network.loop.now + .milliseconds(100), in: modeNames) { [unowned self] _, _ in
            pause = nil
            isPaused = false
            signal()
        }
        pause?.keepsAlive = false  // the listener does
    }

    private func recovered() {
        guard troubleSince != nil else { return }
        troubleSince = nil
        teller._withUnsafeGuaranteedRef { $0.troubled(self, nil) }
    }

    func connectionEnded() {
        connections -= 1
        teller._withUnsafeGuaranteedRef { $0.connectionEnded(self) }
        if connections == options.maxConnections - 1 { signal() }
    }

    // MARK: The end

    /// Accepts no more connections. The port is free again, and the file of a Unix socket is removed. Open connections
    /// stay open.
    public func close() {
        guard isOpen else { return }
        isOpen = false
        lastAddress = address
        lastPort = port
        updateActivity()
        pause?.invalidate()
        pause = nil
        removeFile()
        for socket in sockets {
            socket.watch(-1)
            socket.invalidate()
            _ = network.system.close(socket.taken)
        }
        sockets = []
        invalidate()
    }

    public override func wasInvalidated() { close() }
}
