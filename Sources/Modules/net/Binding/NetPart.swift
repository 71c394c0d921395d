internal import class Linux.Descriptor
internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// What `runloop.net` keeps for one state.
final class NetPart: HostPart {
    let owner = LuaStreamOwner()
    let network: Network
    /// The fiber that runs a delivery of input at this moment, and has not waited in it.
    var delivering: Fiber?
    private(set) lazy var deliveries = Delivery(self)
    /// Clients' settings that need no file, which are likely to be asked for again.
    var contexts: [TLSContext.Settings: TLSContext] = [:]
    /// What is in a mode only because a task waits for it there.
    var borrowed: [ObjectIdentifier: RunLoop.Mode] = [:]

    required init(_ host: LuaHost) {
        network = Network(loop: host.loop, owner: owner)
        super.init(host)
        owner.part = self
    }

    deinit { owner.part = nil }

    /// What was written goes out; what was not read is left to the kernel.
    override func willClose() {
        // A child that a C module has forked: what its parent has still to send is the parent's to send.
        if Descriptor.areParents { return }
        // A process that a signal ends waits for nobody.
        network.flush(waits: host.endingStatus ?? 0 < 128)
        for item in host.loop.allItems {
            if let stream = item as? Streams.Stream { stream.closeAtOnce() }
            (item as? Listener)?.close()
            (item as? Datagram)?.close()
        }
    }

    override func willExit() {
        if Descriptor.areParents { return }
        network.flush(waits: true)
    }

    /// What a task waits in was closed: it is told so, in a turn of its own.
    func endWait<Item: AnyObject>(in item: Item, _ waiter: ReferenceWritableKeyPath<Item, Int>, _ text: String) {
        guard item[keyPath: waiter] != 0 else { return }
        host.loop.perform { [self] in
            guard let fiber = Fiber(context: item[keyPath: waiter]) else { return }
            item[keyPath: waiter] = 0
            Waiter.cancel(fiber)
            resume(fiber, StreamFailure("ECANCELED", text))
        }
    }

    /// Streams that are closed may still wait for their peers to be so, too.
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

    /// A connection that was accepted is its listener's, until the script has it.
    override func place(of item: RunLoop.Item) -> String? {
        guard item is Streams.Stream || item is Listener || item is Datagram else { return nil }
        let box =
            Box(bitPattern: item.context)
            ?? (item as? Streams.Stream)?.listener.flatMap { Box(bitPattern: $0.context) }
        return box.flatMap { host.site($0.site) }
    }
}

/// Lets scripts know what becomes of their streams and listeners.
final class LuaStreamOwner: StreamOwner {
    // It owns us, and takes itself back when it dies: what a stream has yet to tell then, nobody hears.
    unowned(unsafe) var part: NetPart?

    /// nil when nothing may call into Lua any more.
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
            stack.pushBytesMark(bytes)
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
                part.call(stream, 3) { stack in Self.push(failure, stack) }
            } else {
                part.call(stream, 4) { _ in 0 }
            }
            return
        }
        stream.opener = 0
        Waiter.cancel(fiber)
        if let failure { return part.resume(fiber, failure) }
        // Its own userdata, which the function that waits has made.
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
        case .bytes(let bytes): part.call(stream, 1) { stack in stack.push(bytes) ? 1 : nil }
        case .failed(let failure):
            part.call(stream, 3) { stack in Self.push(failure, stack) }
            part.ended(stream)
        case .end, .timedOut:
            part.call(stream, 2) { _ in 0 }
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

    /// It has left its last mode.
    override func letGo(of item: RunLoop.Item) { home?.part.release(item) }
}
