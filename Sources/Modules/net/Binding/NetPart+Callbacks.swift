internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// Indices of a script's functions in the table that is the user value of a stream or listener.
enum Handlers {
    static let data = 1
    static let end = 2
    static let error = 3
    static let open = 4
    static let connection = 5
}

extension NetPart {
    /// Calls one of the stream's functions, if it is set, with the stream and the values that `push` pushes. The
    /// stream delivers nothing until the function has returned.
    func call(_ stream: Streams.Stream, _ function: Int, _ push: (Stack) -> Int32?) {
        guard let box = Box(bitPattern: stream.context), box.slot != 0,
            let (fiber, _) = host.prepareCallback(slot: box.slot, element: function)
        else { return }
        fiber.stack.pushCopy(of: 2)
        guard let count = push(fiber.stack) else { return host.recycle(fiber) }
        run(fiber, stream, arguments: 1 + count)
    }

    private func run(_ fiber: Fiber, _ stream: Streams.Stream, arguments: Int32) {
        fiber.owner = deliveries
        let outer = delivering
        delivering = fiber
        stream.hold()
        host.resume(fiber, arguments: arguments)
        let waits = delivering == fiber
        delivering = outer
        if !waits { stream.goOn() }
    }

    /// Called at the end of input: closes the stream if nothing else uses it.
    func ended(_ stream: Streams.Stream) {
        guard let box = Box(bitPattern: stream.context) else { return }
        if stream.isHeld { return }
        // Only the functions of a listener use its connections.
        if stream.closesAtEnd { stream.close() }
        if box.slot != 0 {
            host.release(box.slot)
            box.slot = 0
        }
    }

    /// Called when a function that has received a stream's input ends, whether it has waited or not.
    final class Delivery: FiberOwner {
        private unowned(unsafe) let part: NetPart
        init(_ part: NetPart) { self.part = part }

        override func ended(_ fiber: Fiber, results: Int32) {
            let isAtOnce = part.delivering == fiber
            if isAtOnce { part.delivering = nil }
            let stream = part.stream(anchoredAt: fiber.subject)
            if results < 0 {
                part.host.uncaught(fiber)
                stream?.abort()
            } else if !isAtOnce, let stream {
                stream.goOn()
                if stream.endWasDelivered { part.ended(stream) }
            }
        }
    }

    fileprivate func stream(anchoredAt slot: UInt32) -> Streams.Stream? {
        guard slot != 0 else { return nil }
        let stack = host.stack
        host.push(stack, slot: slot)
        defer { stack.pop() }
        return stack.object(-1, StreamBinding.kind, as: Streams.Stream.self)
    }

    // MARK: Listeners

    /// Handles a new connection: calls `on_connection` in a task, delivers input, or passes it to the task that waits
    /// in `accept`.
    func accepted(_ stream: Streams.Stream, _ listener: Listener) {
        if let fiber = Fiber(context: listener.accepter) {
            listener.accepter = 0
            listener.accepterStaysIdle = false
            listener.serves = false
            leave(listener)
            Waiter.cancel(fiber)
            // The userdata is made on the main stack, because a waiting coroutine must not run calls.
            guard fiber.stack.reserve(4),
                push(stream, host.stack, site: Box(bitPattern: listener.context)?.site ?? 0) != nil
            else { return stream.abort() }
            host.stack.move(1, to: fiber.stack)
            return host.resume(fiber, arguments: 1)
        }
        guard let box = Box(bitPattern: listener.context), box.slot != 0 else { return stream.abort() }
        guard let (fiber, _) = host.prepareCallback(slot: box.slot, element: Handlers.connection) else {
            return deliver(stream, box)
        }
        let stack = fiber.stack
        guard let own = push(stream, stack, site: box.site) else {
            host.recycle(fiber)
            return stream.abort()
        }
        stack.pushCopy(of: 2)
        fiber.runs(own, slot: box.slot)
        listener.handlers += 1
        fiber.owner = Handling(stream, listener)
        host.resume(fiber, arguments: 2)
    }

    /// Pushes the userdata of a new stream.
    func push(_ stream: Streams.Stream, _ stack: Stack, site: UInt32) -> Box? {
        guard stack.reserve(8), let box = stack.pushNew(StreamBinding.kind) else { return nil }
        stream.fill(box, site: site)
        return box
    }

    /// Delivers the connection's input to the listener's functions, which all its connections share.
    private func deliver(_ stream: Streams.Stream, _ listener: Box) {
        let stack = host.stack
        let top = stack.top
        defer { stack.top = top }
        guard let box = push(stream, stack, site: listener.site) else { return stream.abort() }
        host.push(stack, slot: listener.slot)
        stack.pushUserValue(1, of: -1)
        stack.setUserValue(1, of: top + 1)
        box.slot = stack.anchor(top + 1)
        guard box.slot != 0 else { return stream.abort() }
        stream.closesAtEnd = true
        stream.delivers = true
    }

    /// Delivers the input of a connection to the listener's functions from now on; a task of the listener has used the
    /// connection so far. The connection's userdata is argument 1 of a call.
    func deliver(_ stream: Streams.Stream, _ listener: Listener, _ call: Call) {
        guard stream.isOpen, let box = Box(bitPattern: stream.context), let own = Box(bitPattern: listener.context),
            own.slot != 0
        else { return }
        host.push(call.stack, slot: own.slot)
        call.stack.pushUserValue(1, of: -1)
        call.stack.setUserValue(1, of: 1)
        if box.slot == 0 { box.slot = call.stack.anchor(1) }
        guard box.slot != 0 else { return stream.abort() }
        stream.closesAtEnd = true
        stream.wantsDelivery = true
        stream.delivers = true
    }

    /// A task of a listener: its stream is closed when the task returns, and aborted when it raises.
    final class Handling: FiberOwner {
        private let stream: Streams.Stream
        private let listener: Listener
        func isOf(_ other: Listener) -> Bool { listener === other }

        init(_ stream: Streams.Stream, _ listener: Listener) {
            self.stream = stream
            self.listener = listener
        }

        /// Tasks that read or write beside this one use the same connection.
        override var guardian: FiberOwner? { self }
        override func takes(_ error: String) -> Bool {
            guard isOfConnection(error) else { return false }
            stream.abort()
            return true
        }

        override func ended(_ fiber: Fiber, results: Int32) {
            guard let part = listener.part else { return }
            if results < 0 {
                if !isOfConnection(fiber.stack.string(-1) ?? ""), !part.host.wasCancelled(fiber) {
                    part.host.uncaught(fiber)
                }
                // A client that waits for a certificate gets an alert. The output of a stream that was closed before is
                // still sent.
                if stream.refuseTLS(nameIsUnknown: false) { stream.close() } else if stream.isOpen { stream.abort() }
            } else if !stream.closesAtEnd {
                stream.close()
            }
            listener.handlers -= 1
            part.connectionEnded(listener)
        }

        /// Whether an error comes from the connection and not from a mistake in the script: a reset, a silent peer, a
        /// line without end. Iterators raise an error of the connection, and so does `assert` around a read.
        private func isOfConnection(_ text: String) -> Bool {
            for failure in [stream.inputFailure, stream.refusal] {
                guard let reason = failure?.description, text.hasSuffix(reason) else { continue }
                // The failure's text is the whole message, or follows a position.
                let before = text.utf8.dropLast(reason.utf8.count)
                if before.isEmpty { return true }
                if before.suffix(2).elementsEqual(": ".utf8), let digit = before.dropLast(2).last {
                    return (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit)
                }
            }
            return false
        }
    }

    func troubled(_ listener: Listener, _ failure: StreamFailure) {
        if !callOnTrouble(listener, failure.description, failure.code) {
            warn(listener, failure.description, failure.code)
        }
    }

    /// Reports trouble that only the script can end: to `on_trouble`, or else to the function of `rl.on_error`.
    func isTroubled(_ listener: Listener, _ text: String, _ code: String) {
        guard !host.isClosed, !callOnTrouble(listener, text, code) else { return }
        let site = Box(bitPattern: listener.context).flatMap { host.site($0.site) }
        let failure = Failure(text, subject: .init(kind: "listener", name: listener.name, site: site))
        if !host.tellHandler(failure) { warn(listener, text, code) }
    }

    private func callOnTrouble(_ listener: Listener, _ text: String, _ code: String) -> Bool {
        guard let box = Box(bitPattern: listener.context), box.slot != 0,
            let (fiber, _) = host.prepareCallback(slot: box.slot, element: 6)
        else { return false }
        fiber.stack.pushCopy(of: 2)
        guard fiber.stack.push(text), fiber.stack.push(code) else {
            host.recycle(fiber)
            return false
        }
        host.resume(fiber, arguments: 3)
        return true
    }

    private func warn(_ listener: Listener, _ text: String, _ code: String) {
        let place = Box(bitPattern: listener.context).flatMap { host.site($0.site) }.map { ", made at \($0)" } ?? ""
        host.part(RepeatedWarnings.self).warn("listener\(place)", text, kind: code)
    }

    /// Ends `listener:stop` with the last connection.
    func connectionEnded(_ listener: Listener) {
        guard listener.isStopping, listener.connections == 0, listener.handlers == 0, listener.stopper != 0 else {
            return
        }
        // The wait ends in a later request, since the caller is in the middle of closing.
        host.loop.perform { [host] in
            guard let fiber = Fiber(context: listener.stopper), fiber.stack.reserve(4) else { return }
            listener.stopper = 0
            Waiter.cancel(fiber)
            fiber.stack.push(true)
            host.resume(fiber, arguments: 1)
        }
    }

    // MARK: Waits

    func resume(_ fiber: Fiber, _ failure: StreamFailure) {
        let stack = fiber.stack
        guard stack.reserve(8) else { return }
        stack.pushNil()
        let count = LuaStreamOwner.push(failure, host.stack) ?? 1
        host.stack.move(count, to: stack)
        host.resume(fiber, arguments: 1 + count)
    }

    /// The wait can end in the modes of the object, and in the mode that is running now.
    func enter(_ item: RunLoop.Item) {
        let loop = host.loop
        if item.modeNames.isEmpty, item.loop == nil { loop.add(item, to: .common) }
        guard let mode = loop.currentMode, !loop.contains(item, in: mode) else { return }
        loop.add(item, to: mode)
        borrowed[ObjectIdentifier(item)] = mode
    }

    func leave(_ item: RunLoop.Item) {
        guard !borrowed.isEmpty, let mode = borrowed.removeValue(forKey: ObjectIdentifier(item)) else { return }
        host.loop.remove(item, from: mode)
    }

    func release(_ item: RunLoop.Item) {
        guard !host.isClosed, let box = Box(bitPattern: item.context), box.slot != 0 else { return }
        host.release(box.slot)
        box.slot = 0
        memory.noteRelease()
    }
}
