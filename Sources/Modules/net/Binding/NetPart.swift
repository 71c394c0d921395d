internal import class Linux.Descriptor
internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// The state of `runloop.net` in one Lua state.
final class NetPart: HostPart {
    let owner = LuaStreamOwner()
    let network: Network
    /// The fiber that is delivering input now and has not waited.
    var delivering: Fiber?
    private(set) lazy var deliveries = Delivery(self)
    private(set) lazy var memory: LuaMemory = host.part()
    /// TLS settings of clients in which no file is named. They are kept, because later connections are likely to use
    /// them again.
    var contexts: [TLSContext.Settings: TLSContext] = [:]
    /// The slot of the function that `runloop.net.patterns` has returned.
    var patternReader: UInt32 = 0
    /// Items that are in a mode only because a task waits for them there.
    var borrowed: [ObjectIdentifier: RunLoop.Mode] = [:]

    required init(_ host: LuaHost) {
        network = Network(loop: host.loop, owner: owner)
        super.init(host)
        owner.part = self
    }

    deinit { owner.part = nil }

    /// Sends what was written, and leaves unread input in the kernel.
    override func willClose() {
        // A child that a C module has forked must not send its parent's output.
        if Descriptor.areParents { return }
        // A process that a signal ends does not wait.
        network.flush(waits: host.endingStatus ?? 0 < 128)
        for item in host.loop.allItems { Network.closeAtOnce(item) }
    }

    override func didClose() {
        if Descriptor.areParents { return }
        network.closeAbandoned()
    }

    override func willExit() {
        if Descriptor.areParents { return }
        network.flush(waits: true)
    }

    /// Ends the wait of the task in a closed object, in a separate turn.
    func endWait<Item: AnyObject>(in item: Item, _ waiter: ReferenceWritableKeyPath<Item, Int>, _ text: String) {
        guard item[keyPath: waiter] != 0 else { return }
        host.loop.perform { [self] in
            guard let fiber = Fiber(context: item[keyPath: waiter]) else { return }
            item[keyPath: waiter] = 0
            Waiter.cancel(fiber)
            resume(fiber, StreamFailure("ECANCELED", text))
        }
    }

    /// Sends what is left. Gives up the closed streams that still wait for their peers.
    override func settle() {
        if Descriptor.areParents { return }
        network.flush()
        network.closeAllDraining()
    }

    override func reset() {
        for item in host.loop.allItems { (item as? Streams.Stream)?.closeAtOnce() }
        network.closeAllDraining()
    }

    override func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {
        switch item {
        case let stream as Streams.Stream:
            entry.kind = "stream"
            entry.detail = StreamBinding.detail(stream)
        case let listener as Listener:
            entry.kind = "listener"
            entry.detail = ListenerBinding.detail(listener)
        case let socket as Datagram:
            entry.kind = "datagram"
            entry.detail = socket.address
        default: return
        }
        entry.site = place(of: item)
    }

    /// A connection that the script has not received yet shows its listener's place.
    override func place(of item: RunLoop.Item) -> String? {
        guard item is Streams.Stream || item is Listener || item is Datagram else { return nil }
        let box =
            Box(bitPattern: item.context)
            ?? (item as? Streams.Stream)?.listener.flatMap { Box(bitPattern: $0.context) }
        return box.flatMap { host.site($0.site) }
    }
}

/// Passes the events of streams and listeners to scripts.
final class LuaStreamOwner: StreamOwner {
    // The part owns this object and clears the reference when it dies: events after that are dropped.
    unowned(unsafe) var part: NetPart?

    /// nil when Lua must not be called any more.
    private var home: (part: NetPart, host: LuaHost)? {
        guard let part, !part.host.isClosed else { return nil }
        return (part, part.host)
    }

    // MARK: Tasks that wait

    override func readEnded(_ stream: Streams.Stream, _ outcome: Streams.Stream.Outcome) {
        guard let (part, host) = home, let fiber = Fiber(context: stream.reader) else { return }
        part.leave(stream)
        Waiter.cancel(fiber)
        let stack = fiber.stack
        guard stack.reserve(6) else { return }
        switch outcome {
        case .bytes(let bytes):
            if let pieces = Pieces(rawValue: Int32(fiber.waitsFor >> 1 & 3)), pieces != .whole {
                // The kept format may belong to another read by now, so pass none.
                stack.pushMark(of: bytes, as: pieces, number: pieces == .which ? part.network.which : 0)
            } else {
                stack.pushBytesMark(bytes)
            }
            host.resume(fiber, arguments: 1)
        case .end, .timedOut:
            stack.pushNil()
            host.resume(fiber, arguments: 1)
        case .failed(let failure):
            stream.refusal = failure
            if fiber.waitsFor & 1 != 0 {
                return host.resume(fiber, raising: StreamBinding.placed(failure.description, fiber))
            }
            part.resume(fiber, failure)
        }
    }

    override func writeEnded(_ stream: Streams.Stream, _ waiter: Int, _ failure: StreamFailure?) {
        guard let (part, host) = home, let fiber = Fiber(context: waiter) else { return }
        Waiter.cancel(fiber)
        if let failure {
            stream.refusal = failure
            return part.resume(fiber, failure)
        }
        guard fiber.stack.reserve(4) else { return }
        fiber.stack.push(true)
        host.resume(fiber, arguments: 1)
    }

    override func opened(_ stream: Streams.Stream, _ failure: StreamFailure?) {
        guard let (part, host) = home else { return }
        guard let fiber = Fiber(context: stream.opener) else {
            if let failure {
                stream.delivers = false
                part.call(stream, Handlers.error) { stack in Self.push(failure, stack) }
            } else {
                part.call(stream, Handlers.open) { _ in 0 }
            }
            return
        }
        stream.opener = 0
        Waiter.cancel(fiber)
        if let failure { return part.resume(fiber, failure) }
        // The result is the stream's userdata, which the waiting function has made.
        guard fiber.stack.reserve(4) else { return }
        fiber.stack.pushCopy(of: 1)
        host.resume(fiber, arguments: 1)
    }

    static func push(_ failure: StreamFailure, _ stack: Stack) -> Int32? {
        guard stack.push(failure.description) else { return nil }
        if failure === StreamFailure.timedOut { return 1 }
        return stack.push(failure.code) ? 2 : nil
    }

    // MARK: Callbacks

    override func arrived(_ stream: Streams.Stream, _ outcome: Streams.Stream.Outcome) {
        guard let (part, _) = home else { return }
        switch outcome {
        case .bytes(let bytes): part.call(stream, Handlers.data) { stack in stack.push(bytes) ? 1 : nil }
        case .failed(let failure):
            part.call(stream, Handlers.error) { stack in Self.push(failure, stack) }
            part.ended(stream)
        case .end, .timedOut:
            part.call(stream, Handlers.end) { _ in 0 }
            part.ended(stream)
        }
    }

    override func accepted(_ stream: Streams.Stream, by listener: Listener) {
        guard let (part, _) = home else { return stream.abort() }
        part.accepted(stream, listener)
    }

    override func troubled(_ listener: Listener, _ failure: StreamFailure?) {
        guard let (part, _) = home, let failure else { return }
        part.troubled(listener, failure)
    }

    override func connectionEnded(_ listener: Listener) { home?.part.connectionEnded(listener) }

    override func canReceive(_ socket: Datagram) { home?.part.canReceive(socket) }

    // MARK: Anchors

    /// The item has left its last mode.
    override func letGo(of item: RunLoop.Item) { home?.part.release(item) }
}
