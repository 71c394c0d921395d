internal import CStreams
internal import Linux
public import RunLoops

/// A two-way stream of bytes: TCP, Unix sockets, pipes, terminals, files, memory; with or without TLS. Corresponds to a
/// pair of CFReadStream and CFWriteStream.
///
/// A stream is an item of its loop and is added to modes: `loop.add(stream, to: .default)`. Bytes that arrive while the
/// loop runs in another mode stay in the kernel. A stream registers its descriptor once for each mode. It remembers
/// whether the descriptor is readable or writable, until a call returns EAGAIN or transfers less than the whole. So a
/// wait costs no system call.
///
/// A read that is cancelled, or meets its limit, takes nothing. A stream has one reader at a time; writes keep their
/// order. Not thread-safe: a stream belongs to its loop's thread.
public final class Stream: RunLoop.EdgePort {
    public let network: Network
    /// Limits, which all streams of one maker share.
    public var settings: Settings

    /// Limits of streams.
    public final class Settings: Sendable {
        /// A write waits while this number of bytes is left to send.
        public let highWater: Int
        /// A stream with more bytes to send than this is aborted.
        public let maxQueue: Int
        /// Nanoseconds: a closed stream tries to send for `linger`, and then waits for the peer for `drain`.
        let linger: Int64
        let drain: Int64
        /// Whether a peer that takes bytes from a closed stream gets more time.
        let isPatient: Bool

        public init(
            highWater: Int = 262_144, maxQueue: Int = 16 << 20, linger: Duration = .seconds(5),
            drain: Duration = .seconds(2), isPatient: Bool = true
        ) {
            self.highWater = max(1, highWater)
            self.maxQueue = max(1, maxQueue)
            self.linger = linger.wholeNanoseconds
            self.drain = drain.wholeNanoseconds
            self.isPatient = isPatient
        }

        public static let standard = Settings()
    }

    enum Transport: UInt8 { case none, socket, pipe, polled, backed }
    enum State: UInt8 { case idle, connecting, open, flushing, draining, closed }

    var transport = Transport.none
    var state = State.idle
    /// True until a system call has shown otherwise.
    var readable = true
    var writable = true
    /// The state of the socket below TLS: TLS may have bytes when the socket has none.
    var socketIsReadable = true
    /// The kernel has reported the end of the peer's output: the end can be read.
    var hungUp = false
    var inputEnded = false
    /// `outputEnded`: `finish` was called. `endIsSent`: the peer has been informed.
    var outputEnded = false
    var endIsSent = false
    public internal(set) var isDirty = false
    public internal(set) var isReading = false
    /// Delivers input as it arrives.
    public var delivers = false { didSet { deliversChanged(oldValue) } }
    /// Deliveries are stopped: see `hold`.
    public internal(set) var isHeld = false
    public internal(set) var endWasDelivered = false
    /// For the owner: whether to close the stream when its input ends.
    public var closesAtEnd = false
    /// The loop serves the stream, but does not keep running for it unless it is closed and has bytes to send.
    public var staysIdle = false { didSet { noteIdleness() } }
    /// The same as `staysIdle`, but set because the stream's waiters do not keep the loop running: see
    /// `isForIdleWaits`.
    var hasIdleWaits = false
    var readerStaysIdle = false
    /// The latest waiter for the output does not keep the loop running.
    var outputStaysIdle = false
    /// For the owner: the waiter for the connection does not keep the loop running.
    public var openerStaysIdle = false { didSet { if openerStaysIdle { hasIdleWaits = true } } }
    /// For the owner: deliver input as soon as the stream is in a mode.
    public var wantsDelivery = false
    /// A listener has accepted this stream.
    public internal(set) var wasAccepted = false
    /// The descriptor was passed on: other code may use it, or a duplicate.
    var isShared = false
    /// Another process uses a duplicate of the descriptor, so closing the stream does not end the connection.
    private(set) var isBorrowed = false
    /// The kernel or a thread writes to the descriptor, past `output`: see `Splice`.
    var isFedByKernel = false
    var isFedByThread = false
    /// The TLS handshake is not done, and `opened` has not been called.
    var isGreeting = false
    /// The number of bytes that had been sent when the time limit began; while draining, the number of discarded bytes.
    var drained = 0
    public let isTCP: Bool
    /// For the owner: consecutive reads and writes that did not wait.
    public var spree: UInt8 = 0

    var input = ByteQueue()
    var output = ByteQueue()
    /// The unit that the reader waits for.
    var unit = Unit.any
    var limit = 0
    /// The number of buffered bytes that were searched and do not contain the end of the unit.
    var searched = 0
    /// The waiter that reads.
    public internal(set) var reader = 0
    var hasWaits: Bool { waits.map { !$0.isEmpty } ?? false }
    public internal(set) var bytesRead = 0
    public internal(set) var bytesWritten = 0
    /// Reads and writes for a stream without a descriptor.
    var backing: Backing?
    var tls: TLSSession?
    /// Fields that few connections need while they are idle: each field costs memory in every connection.
    private var rare: Rare?
    private final class Rare {
        var inputFailure, outputFailure: StreamFailure?
        var connector: Connector?
        var opener = 0
        /// The waiters for the output. The object is made for the first of them.
        var waits: OutputWaits?
        var handlers: Handlers?
        var timeout: Int64 = -1
        /// The result for a reader that waits while the stream is closed.
        var cancelledRead: StreamFailure?
        /// `subject` as it was while the stream was open.
        var lastSubject: String?
        /// The timer that ends a handshake which takes too long.
        var patience: RunLoop.Timer?
        var refusal: StreamFailure?
        var standard: Int32 = 0
    }
    /// The listener that counts this stream.
    public internal(set) var listener: Listener?
    var remote = SmallAddress()
    var deadline: Int64 = 0

    /// Receives the stream's events: its own owner, or the network's.
    var teller: Unmanaged<StreamOwner> {
        // `init` sets the owner, and accepts only a StreamOwner.
        .passUnretained(unsafe unsafeDowncast(owner.unsafelyUnwrapped, to: StreamOwner.self))
    }

    init(
        _ network: Network, name: String = "", order: Int = 0, owner: StreamOwner? = nil,
        settings: Settings = .standard,
        isTCP: Bool = false
    ) {
        self.network = network
        self.settings = settings
        self.isTCP = isTCP
        super.init(name: name, order: order, owner: owner ?? network.owner)
    }

    deinit {
        if fdToClose >= 0 { _ = network.system.close(fdToClose) }
        backing?.close(reset: true)
        input.free()
        output.free()
    }

    /// The descriptor that the stream owns. `fd` is the descriptor that the loop watches: none for a file.
    var fdToClose: Int32 = -1

    /// Takes over the descriptor of a socket, pipe, terminal or file, and closes it with the stream.
    ///
    /// - Throws: EBADF and the like.
    public convenience init(
        _ network: Network, owning descriptor: Int32, name: String = "", order: Int = 0, owner: StreamOwner? = nil,
        settings: Settings = .standard
    ) throws(StreamFailure) {
        var isNonblocking: Int32 = 0
        let kind = net_kind_of(descriptor, &isNonblocking)
        guard kind >= 0 else { throw StreamFailure(errno: -kind, "descriptor \(descriptor)") }
        guard kind != NET_DATAGRAM_SOCKET.rawValue, kind != NET_NONE.rawValue,
            kind != NET_STREAM_SOCKET.rawValue || net_is_listening(descriptor) == 0
        else {
            throw StreamFailure("EINVAL", "not a stream of bytes (descriptor \(descriptor))")
        }
        var peer = net_address()
        let isInternet =
            kind == NET_STREAM_SOCKET.rawValue && net_local_address(descriptor, &peer) == 0
            && net_family_of(&peer) != NET_LOCAL.rawValue
        self.init(network, name: name, order: order, owner: owner, settings: settings, isTCP: isInternet)
        if kind == NET_STREAM_SOCKET.rawValue, net_peer_address(descriptor, &peer) == 0 { remote = SmallAddress(peer) }
        switch kind {
        case Int32(NET_STREAM_SOCKET.rawValue): attach(descriptor, .socket)
        case Int32(NET_FILE.rawValue), Int32(NET_DEVICE.rawValue):
            fdToClose = descriptor
            attach(FileBacking(descriptor, self))
        default: attach(descriptor, isNonblocking != 0 ? .pipe : .polled)
        }
    }

    /// Does the same with any descriptor; duplicates it if the stream does not own it.
    public convenience init(
        _ network: Network, opening descriptor: Int32, owns: Bool, name: String = "", owner: StreamOwner? = nil
    ) throws(StreamFailure) {
        let own = owns ? descriptor : net_duplicate(descriptor)
        guard own >= 0 else { throw StreamFailure(errno: -own, "descriptor \(descriptor)") }
        do throws(StreamFailure) {
            try self.init(network, owning: own, name: name, owner: owner)
            isBorrowed = !owns
            // Messages name the original descriptor: the script does not know the number of the duplicate.
            if !owns, peer == nil, address == nil {
                madeRare.lastSubject = name.isEmpty ? "descriptor \(descriptor)" : name
            }
            if !owns, 1...2 ~= descriptor { standsFor(descriptor) }
        } catch {
            if !owns { _ = net_close(own) }
            throw error.code == "EINVAL"
                ? StreamFailure("EINVAL", "not a stream of bytes (descriptor \(descriptor))") : error
        }
    }

    /// Opens the stream with this descriptor.
    func attach(_ descriptor: Int32, _ transport: Transport) {
        self.transport = transport
        fdToClose = descriptor
        state = .open
        watch(descriptor)
    }

    func attach(_ backing: Backing) {
        self.backing = backing
        transport = .backed
        state = .open
        for mode in modeNames { backing.entered(mode) }
    }

    // MARK: What it is

    /// Whether the stream is not closed, aborted or failed. The end of input leaves it open.
    public var isOpen: Bool { state == .open || state == .connecting || state == .idle }
    public var isConnecting: Bool { state == .connecting || isGreeting || state == .idle && connector != nil }
    /// Whether the stream was never in a mode, and has not begun to connect.
    public var isIdle: Bool { state == .idle }
    /// The descriptor; -1 without one. The caller may pass it on, so that the stream counts as shared from now on.
    public var descriptor: Int32 {
        isShared = true
        return state == .closed ? -1 : fdToClose
    }
    /// Makes the descriptor block, for a program that is about to get it: programs take EAGAIN for a failure. Sockets
    /// are still read and written without waiting, and pipes are polled before each call.
    public func makeBlocking() {
        guard state == .open, transport == .socket || transport == .pipe else { return }
        net_make_blocking(fdToClose)
        if transport == .pipe { transport = .polled }
    }
    /// A program has the stream's descriptor from now on: the connection ends when both have closed it.
    public func share() {
        isShared = true
        isBorrowed = true
    }
    /// The number of bytes in the buffer: received, but not yet returned by a read.
    public var buffered: Int { input.count }
    /// Bytes that can be read: those in the buffer, and those in the kernel.
    public var available: Int {
        input.count + (state == .open && transport != .backed ? Descriptor.readable(fdToClose) : 0)
    }
    /// Bytes that are left to send.
    public var unsent: Int {
        output.count + (tls?.unsent ?? 0) + (backing?.isBusy ?? false ? 1 : 0)
            + (isFedByThread || isFedByKernel && !writable ? 1 : 0)
    }
    /// The input was read to its end.
    public var isAtEnd: Bool { inputEnded && input.isEmpty }
    /// The loop or a waiter has something to do.
    public private(set) var isActive = false

    /// The address of the other end; nil if it has none.
    public var peer: String? {
        if let text = remote.text { return text == "unix:" ? nil : text }
        if let connector { return connector.target }
        return backing?.peer
    }

    /// The local address.
    public var address: String? {
        guard transport == .socket, state != .closed else { return backing?.address }
        var own = net_address()
        guard net_local_address(fdToClose, &own) == 0 else { return nil }
        let text = SmallAddress.text(&own)
        return text == "unix:" ? nil : text  // a socket without a name
    }

    /// For messages: the peer, or the kind of the stream.
    public var subject: String {
        if let last = rare?.lastSubject { return last }
        if let peer = peer ?? address { return peer }
        return fdToClose >= 0 ? "descriptor \(fdToClose)" : "stream"
    }

    func rememberSubject() {
        guard remote.isNone else { return }
        madeRare.lastSubject = subject
    }

    private var madeRare: Rare {
        if let rare { return rare }
        let new = Rare()
        rare = new
        return new
    }

    public internal(set) var inputFailure: StreamFailure? {
        get { rare?.inputFailure }
        set { if rare != nil || newValue != nil { madeRare.inputFailure = newValue } }
    }

    public internal(set) var outputFailure: StreamFailure? {
        get { rare?.outputFailure }
        set { if rare != nil || newValue != nil { madeRare.outputFailure = newValue } }
    }

    var connector: Connector? {
        get { rare?.connector }
        set { if rare != nil || newValue != nil { madeRare.connector = newValue } }
    }

    /// For the owner: the waiter for the connection.
    public var opener: Int {
        get { rare?.opener ?? 0 }
        set { if rare != nil || newValue != 0 { madeRare.opener = newValue } }
    }

    var waits: OutputWaits? {
        get { rare?.waits }
        set { madeRare.waits = newValue }
    }

    var handlers: Handlers? {
        get { rare?.handlers }
        set { madeRare.handlers = newValue }
    }

    /// For the owner: the time limit of waits, in nanoseconds; negative: none.
    public var timeout: Int64 {
        get { rare?.timeout ?? -1 }
        set { madeRare.timeout = newValue }
    }

    /// For the owner: the reason for which the last read or write was refused; nil if it was not.
    public var refusal: StreamFailure? {
        get { rare?.refusal }
        set { madeRare.refusal = newValue }
    }

    /// 1 or 2 if this stream writes to the standard output or error, whose losses change the exit status; else 0.
    var standard: Int32 {
        get { rare?.standard ?? 0 }
        set { madeRare.standard = newValue }
    }

    var patience: RunLoop.Timer? {
        get { rare?.patience }
        set { madeRare.patience = newValue }
    }

    var cancelledRead: StreamFailure? {
        get { rare?.cancelledRead }
        set { madeRare.cancelledRead = newValue }
    }

    var closedFailure: StreamFailure { StreamFailure("EBADF", "the stream is closed (\(subject))") }

    // MARK: Turns

    public override func didEnter(mode: RunLoop.Mode) {
        if state == .idle, connector != nil { begin() }
        connector?.entered(mode)
        backing?.entered(mode)
        if delivers { deliversChanged(false) }
    }

    public override func didLeave(mode: RunLoop.Mode) {
        connector?.left(mode)
        backing?.left(mode)
    }

    public override func cannotWatch() {
        let failure = StreamFailure(errno: 9, subject)  // EBADF
        inputFailure = inputFailure ?? failure
        outputFailure = outputFailure ?? failure
        readable = true
    }

    public override var title: String { connectionTitle ?? super.title }

    /// Called when the stream has left all modes for good: closes it.
    public override func wasInvalidated() { if state != .closed { abort() } }

    public override func note(_ events: RunLoop.FDPort.Events) -> Bool {
        if !events.isDisjoint(with: [.hangUp, .error]) {
            hungUp = true
            (readable, writable, socketIsReadable) = (true, true, true)
        }
        if events.contains(.read) { (readable, socketIsReadable) = (true, true) }
        if events.contains(.write) { writable = true }
        return hasWork
    }

    private var hasWork: Bool {
        switch state {
        case .open:
            readable && (isReading || isGreeting || delivers && !isHeld)
                || writable && (isFedByKernel || !output.isEmpty)
                || tls?.hasWork(self) ?? false
        case .flushing: writable || readable && tls != nil
        case .draining: readable
        case .idle, .connecting, .closed: false
        }
    }

    public override func takeTurn() {
        switch state {
        case .idle, .connecting, .closed: return
        case .flushing, .draining: return goOnClosing()
        case .open: break
        }
        spree = 0
        if writable, unsent > 0 { send() }
        if isGreeting { return greet() }
        if hasWaits, endWaits() { return }
        if isReading {
            guard let outcome = attempt(unit, limit: limit) else { return }
            endRead(outcome)
        } else if delivers, !isHeld {
            deliverOnce()
        }
    }

    /// Sends the bytes that the stream has queued in this turn.
    func endTurn() {
        isDirty = false
        guard state == .open || state == .flushing else { return }
        send()
        if let waits, waits.next(above: unsent) != nil || hasWaits && outputFailure != nil { signal() }
        if state == .flushing { signal() }
        updateActivity()
    }

    func updateActivity() {
        let active: Bool
        switch state {
        case .connecting: active = true
        case .open:
            active = isReading || delivers && !endWasDelivered || hasWaits || unsent > 0 || isGreeting
        case .flushing: active = unsent > 0 && outputFailure == nil
        case .idle, .draining, .closed: active = false
        }
        if hasIdleWaits || isBackground { noteIdleness() }
        guard active != isActive else { return }
        isActive = active
        isAwaited = active
        teller._withUnsafeGuaranteedRef { $0.changed(self) }
    }

    /// The waiters for the stream's connection, input and output; 0 for none.
    public var waiters: [Int] { [opener, isReading ? reader : 0] + (waits?.all ?? []) }

    private func noteIdleness() {
        let idles = state != .flushing && (staysIdle || isForIdleWaits)
        if idles != isBackground { isBackground = idles }
    }

    /// Whether the stream is active only because of waits that do not keep the loop running.
    private var isForIdleWaits: Bool {
        guard hasIdleWaits else { return false }
        if state == .connecting || isGreeting { return openerStaysIdle }
        if delivers, !endWasDelivered { return false }
        if isReading, !readerStaysIdle { return false }
        if let waits, !waits.isEmpty { return !waits.keepsAlive }
        if unsent == 0 { outputStaysIdle = false }
        if isReading || outputStaysIdle { return unsent == 0 || outputStaysIdle }
        hasIdleWaits = false
        return false
    }
}
