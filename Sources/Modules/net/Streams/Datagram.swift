internal import CStreams
internal import Glibc
internal import Linux
public import RunLoops

/// A socket for messages: UDP, or Unix datagrams. Corresponds to CFSocket with kCFSocketDataCallBack.
///
/// The socket is an item of its loop, and added to modes. The socket queues nothing: `send` fails if the kernel has no
/// room, and messages that arrive while the loop runs in other modes wait in the kernel's buffer, or are dropped there.
public final class Datagram: RunLoop.EdgePort {
    public let network: Network
    public override var word: String { "datagram" }
    /// Called with each message and its sender's address. nil: messages wait for `receive`.
    public var onMessage: ((Datagram, UnsafeRawBufferPointer, String?) -> Void)? { didSet { updateActivity() } }
    public private(set) var isOpen = true
    /// The loop serves the socket, but does not keep running for it.
    public var staysIdle = false { didSet { isBackground = staysIdle } }
    /// The task that waits for a message does not keep the loop running.
    public var receiverStaysIdle = false { didSet { isBackground = staysIdle || receiverStaysIdle } }
    /// For the owner: the waiter that waits for a message; 0: none.
    public var receiver = 0 { didSet { updateActivity() } }
    public var isHeld = false { didSet { if !isHeld, isOpen { signal() } } }
    private var readable = true
    private let socket: Int32
    private let family: Int32
    /// An IPv6 socket that takes IPv4, too.
    private var isDual = false
    private let path: [UInt8]?
    private var target: String?
    /// A buffer for messages longer than the longest UDP message.
    private var large: UnsafeMutableRawBufferPointer?

    /// - Parameters:
    /// - place: the local address; nil: the system chooses one of the peer's family.
    /// - peer: the socket receives from this address only, and sends there by default.
    /// - Throws: EADDRINUSE, EACCES and the like.
    public init(
        _ network: Network, at place: Place?, connectedTo peer: Place? = nil, reusePort: Bool = false,
        name: String = "", order: Int = 0, owner: StreamOwner? = nil
    ) throws(StreamFailure) {
        self.network = network
        if case .inherited(let number)? = place {
            var own = net_address()
            let isThere = net_local_address(number, &own) == 0
            family = isThere ? Int32(net_family_of(&own)) : 0
            path = nil
            socket = net_inherit(number) == Int32(NET_DATAGRAM.rawValue) ? net_share(number) : -EINVAL
            super.init(name: name, order: order, owner: owner ?? network.owner)
            isDual = socket >= 0 && family == NET_V6.rawValue && net_takes_mapped(socket) != 0
            guard socket < 0 else { return }
            isOpen = false
            throw StreamFailure("EINVAL", "not a datagram socket (\(place?.text ?? ""))")
        }
        let (owns, others) = (try Self.addresses(place), try Self.addresses(peer))
        // If the name has addresses of both families, take one of a family that the peer has, too.
        var own = owns.first { own in others.isEmpty || others.contains { $0.family == own.family } } ?? owns.first
        if case .path(let name) = place { path = name } else { path = nil }
        func open(_ address: net_address?) -> (family: Int32, socket: Int32) {
            let family = address?.family ?? Int32(NET_V4.rawValue)
            return (family, network.system.socket(family, Int32(SOCK_DGRAM.rawValue)))
        }
        var made = open(own ?? others.first)
        // A machine may lack one of the families.
        if made.socket == -EAFNOSUPPORT, owns.count > 1, let other = owns.first(where: { $0.family != made.family }) {
            own = other
            made = open(other)
        }
        (family, socket) = made
        super.init(name: name, order: order, owner: owner ?? network.owner)
        guard socket >= 0 else {
            // The sandbox has no option that allows datagrams to a single address.
            if socket == -EACCES, Sandbox.refusal(.connect, "unix:") != nil {
                throw StreamFailure("EACCES", "not allowed by the sandbox: --allow-connect (datagrams)")
            }
            throw StreamFailure(errno: -socket, place?.text ?? peer?.text ?? "")
        }
        var failure: StreamFailure?
        if family == NET_V6.rawValue, case .host("*", _) = place { net_set_v6_only(socket, 0) }
        if reusePort, case let result = net_set_reuse_port(socket), result < 0 {
            failure = StreamFailure(errno: -result, place?.text ?? "")
        }
        if failure == nil, var own, case let result = network.system.bind(socket, &own), result < 0 {
            failure = StreamFailure(errno: -result, SmallAddress.text(&own))
        }
        isDual = family == NET_V6.rawValue && net_takes_mapped(socket) != 0
        if failure == nil, let peer { failure = connect(peer, others) }
        guard let failure else { return }
        _ = network.system.close(socket)
        isOpen = false
        throw failure
    }

    private func connect(_ peer: Place, _ addresses: [net_address]) -> StreamFailure? {
        guard var there = choose(addresses) else { return otherFamily(peer) }
        target = SmallAddress.text(&there)
        let result = network.system.connect(socket, &there)
        return result == 0 ? nil : StreamFailure(errno: -result, target ?? "")
    }

    deinit {
        if isOpen { _ = network.system.close(socket) }
        large?.deallocate()
    }

    private static func addresses(_ place: Place?) throws(StreamFailure) -> [net_address] {
        guard let place else { return [] }
        if let refusal = place.refusal { throw refusal }
        guard let all = place.addresses, !all.isEmpty else {
            throw StreamFailure("ENOTFOUND", "not an address: resolve the name first (\(place.text))")
        }
        return all
    }

    /// The first address that this socket can send to, in the form of the socket's family.
    private func choose(_ addresses: [net_address]) -> net_address? {
        guard var address = addresses.first(where: { $0.family == family || isDual && $0.family == NET_V4.rawValue })
        else { return nil }
        if address.family != family { net_map(&address) }
        return address
    }

    private func otherFamily(_ place: Place) -> StreamFailure {
        StreamFailure("EAFNOSUPPORT", "an address of a family other than the socket's (\(place.text))")
    }

    public var descriptor: Int32 { isOpen ? socket : -1 }

    /// "127.0.0.1:43211"
    public var address: String? {
        var own = net_address()
        return isOpen && net_local_address(socket, &own) == 0 ? SmallAddress.text(&own) : nil
    }

    private var closed: StreamFailure { StreamFailure("EBADF", "the socket is closed") }

    /// Sends one message. The call never waits or queues.
    ///
    /// - Parameter place: nil: the peer.
    /// - Throws: EAGAIN if the kernel has no room, EMSGSIZE, ECONNREFUSED because of an earlier message, and the like.
    public func send(_ bytes: UnsafeRawBufferPointer, to place: Place?) throws(StreamFailure) {
        guard isOpen else { throw closed }
        var empty: UInt8 = 0
        let start = bytes.baseAddress ?? withUnsafePointer(to: &empty) { UnsafeRawPointer($0) }
        let result: Int
        if let place {
            if let refusal = place.refusal { throw refusal }
            guard let addresses = place.addresses else {
                throw StreamFailure("ENOTFOUND", "not an address: resolve the name first (\(place.text))")
            }
            guard var target = choose(addresses) else { throw otherFamily(place) }
            result = network.system.send(socket, start, bytes.count, to: &target)
        } else {
            result = network.system.send(socket, start, bytes.count, to: nil)
        }
        if result < 0 { throw StreamFailure(errno: Int32(clamping: -result), place?.text ?? target ?? "the peer") }
        network.loop.noteBytes(self, result, out: true)
    }

    /// Returns the next message; nil if none has arrived. The bytes are valid until this socket or a stream of this
    /// loop reads again.
    ///
    /// - Throws: the kernel's report on an earlier message: ECONNREFUSED.
    public func receive() throws(StreamFailure) -> (UnsafeRawBufferPointer, from: String?)? {
        guard isOpen else { throw closed }
        guard readable else { return nil }
        var from = net_address()
        let room = roomForNext()
        let n = network.system.receive(socket, room.baseAddress ?? network.scratch, room.count, from: &from)
        if n == -Int(EAGAIN) {
            readable = false
            return nil
        }
        if n < 0 { throw StreamFailure(errno: Int32(clamping: -n), target ?? address ?? "") }
        network.loop.noteBytes(self, n, out: false)
        let bytes = UnsafeRawBufferPointer(rebasing: room[..<min(n, room.count)])
        return (bytes, net_family_of(&from) == NET_OTHER.rawValue ? nil : SmallAddress.text(&from))
    }

    /// Messages of Unix sockets may be longer than the longest UDP message.
    private func roomForNext() -> UnsafeMutableRawBufferPointer {
        let usual = UnsafeMutableRawBufferPointer(start: network.scratch, count: Network.scratchSize)
        guard family == NET_LOCAL.rawValue else { return usual }
        let size = Int(net_next_size(socket))
        guard size > usual.count else { return usual }
        if let large, large.count >= size { return large }
        large?.deallocate()
        let new = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        large = new
        return new
    }

    /// Joins or leaves a multicast group, on the interface with this name, or on one that the system chooses.
    public func join(_ group: String, interface: String? = nil, leaves: Bool = false) throws(StreamFailure) {
        guard isOpen else { throw closed }
        var address = net_address()
        guard net_parse(group, 0, &address) != 0 else { throw StreamFailure("EINVAL", "not an address (\(group))") }
        let result =
            if let interface {
                interface.withCString { net_join(socket, &address, $0, leaves ? 0 : 1) }
            } else {
                net_join(socket, &address, nil, leaves ? 0 : 1)
            }
        if result < 0 { throw StreamFailure(errno: -result, group) }
    }

    /// Allows or forbids messages to all hosts of a network.
    public func setBroadcast(_ on: Bool) throws(StreamFailure) {
        guard isOpen else { throw closed }
        let result = net_set_broadcast(socket, on ? 1 : 0)
        if result < 0 { throw StreamFailure(errno: -result, address ?? "") }
    }

    private func updateActivity() {
        isAwaited = isOpen && (onMessage != nil || receiver != 0)
        if isAwaited { signal() }
    }

    public override func didEnter(mode: RunLoop.Mode) {
        watch(socket)
        updateActivity()
    }

    public override func note(_ events: RunLoop.FDPort.Events) -> Bool {
        if events.isDisjoint(with: [.read, .error, .hangUp]) { return false }
        readable = true
        return isAwaited && !isHeld
    }

    public override func takeTurn() {
        guard isOpen, !isHeld else { return }
        if receiver != 0 {
            teller._withUnsafeGuaranteedRef { $0.canReceive(self) }
            return
        }
        for _ in 0..<16 {
            guard let onMessage, isOpen, !isHeld else { return }
            do throws(StreamFailure) {
                guard let (bytes, from) = try receive() else { return }
                onMessage(self, bytes, from)
            } catch {
                // The error belongs to an earlier message, whose sender no longer waits for a result.
                continue
            }
        }
        signal()
    }

    private var teller: Unmanaged<StreamOwner> {
        // `init` accepts only a StreamOwner here.
        .passUnretained(unsafe unsafeDowncast(owner ?? network.owner, to: StreamOwner.self))
    }

    public func close() {
        guard isOpen else { return }
        isOpen = false
        updateActivity()
        watch(-1)
        _ = network.system.close(socket)
        if let path { _ = path.withCPath { net_unlink($0) } }
        invalidate()
    }

    public override func wasInvalidated() { close() }
}
