package import Lua
internal import LuaRunLoops
package import RunLoops
package import Streams

/// Listeners as scripts see them.
enum ListenerBinding {
    static let kind: Kind = Kind("listener", values: Value.labels, methods: methods, collect: collect)

    /// The functions of `net.listener`.
    enum Value: Int, UserValue {
        case handlers
        static let labels: [StaticString] = ["handlers"]
    }

    private static let methods: Library = Library(
        of: kind,
        [
            .init("address") { listener($0).answer { $0.address } },
            .init("port") { listener($0).answer { $0.port } },
            .init("connections") { listener($0).answer { $0.connections } },
            .init("close") { listener($0).act { close($0) } },
            .init("invalidate") { listener($0).act { close($0) } },
            .init("is_open") { listener($0).answer { $0.isOpen } },
            .init("is_valid") { listener($0).answer { $0.isOpen } },
            .init("name") { listener($0).answer { $0.name } },
            .init("order") { listener($0).answer { $0.order } },
            .init("fd") { listener($0).answer { $0.descriptor >= 0 ? Int($0.descriptor) : nil } },
            .init("accept") { listener($0).run { (listener, call) throws(Misuse) in try accept(listener, call) } },
            .init("stop") { listener($0).run { (listener, call) throws(Misuse) in try stop(listener, call) } },
            .init("__tostring") { listener($0).run { listener, call in describe(listener, call) } },
        ])

    private static func listener(_ thread: OpaquePointer?) -> Receiver<Listener> { receiver(thread, Listener.self) }

    static func listener(_ call: Call, _ index: Int32) -> Listener? {
        call.stack.object(index, kind, as: Listener.self)
    }

    private static let collect: LuaFunction = { thread in
        guard let thread, let box = Stack(thread).box(1), box.isFilled else { return 0 }
        let listener = box.object(as: Listener.self)
        listener.context = 0
        if listener.isOpen { listener.network.abandon(listener) }
        LiveObjects.note(-1)
        box.drop()
        return 0
    }

    private enum Option: Int, Field {
        case host, port, path, fd, tls, backlog, maxConnections, reusePort, mode, name, order, highWater, maxQueue
        case onConnection, onData, onEnd, onError, onTrouble
        static let names: [StaticString] = [
            "host", "port", "path", "fd", "tls", "backlog", "max_connections", "reuse_port", "mode", "name", "order",
            "high_water", "max_queue", "on_connection", "on_data", "on_end", "on_error", "on_trouble",
        ]
    }

    private enum FileMode: Parameter {
        static let expected = "a file's mode: an integer from 0 to 0777 (511)"
        static func read(_ stack: Stack, _ index: Int32) -> UInt32? {
            stack.integer(index).flatMap { (0...0o777).contains($0) ? UInt32($0) : nil }
        }
    }

    /// (where, options, functions): net.listener{…} and net.serve(…). The functions: those of `Handlers`, in a table, or none.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let place = try NetBinding.place(call, 2)
        let fields = try call.fields(3, Option.self)
        var options = Listener.Options()
        options.backlog = try fields[.backlog, StreamBinding.Positive.self] ?? 4096
        options.maxConnections = try fields[.maxConnections, StreamBinding.Positive.self] ?? .max
        options.reusePort = try fields[.reusePort, Boolean.self] ?? false
        options.mode = try fields[.mode, FileMode.self] ?? 0o600
        options.settings = try NetBinding.settings(
            fields[.highWater, StreamBinding.Positive.self], fields[.maxQueue, StreamBinding.Positive.self])
        let name = try fields[.name, Name.self] ?? ""
        let order = try fields[.order, Integer.self] ?? 0
        let part = call.luaHost.part(NetPart.self)
        do throws(StreamFailure) {
            let listener = try Listener(
                part.network, at: place, options, name: name, order: order, owner: part.owner)
            let hasFunctions = call.stack.type(4) == .table
            call.stack.pushCopy(of: 4)
            call.stack.setUserValue(1, of: 1)
            listener.isManual = !hasFunctions
            listener.serves = hasFunctions
            let box = call.receiver
            box.hold(listener)
            box.site = call.site
            listener.context = Int(bitPattern: box.address)
            LiveObjects.note(1)
            return call.answerArgument(1)
        } catch {
            return call.fail(error)
        }
    }

    private static func close(_ listener: Listener) {
        listener.close()
        part(listener)?.endWait(
            in: listener, \.accepter, "the listener was closed (\(listener.address ?? listener.place.text))")
    }

    private static func part(_ listener: Listener) -> NetPart? { (listener.network.owner as? LuaStreamOwner)?.part }

    // MARK: Waits

    private static func waited(_ fiber: Fiber) -> Listener? {
        UnsafeRawPointer(bitPattern: fiber.waitsFor).map { Unmanaged<Listener>.fromOpaque($0).takeUnretainedValue() }
    }

    /// listener:accept([timeout]) → stream
    private static func accept(_ listener: Listener, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self) ?? -1
        guard listener.isManual else { throw Misuse("it has functions that its connections go to") }
        guard listener.accepter == 0 else { throw Misuse("another task waits in it already") }
        guard listener.isOpen else {
            return call.fail(
                StreamFailure("EBADF", "the listener is closed (\(listener.address ?? listener.place.text))"))
        }
        switch call.beginWait(
            in: "listener:accept",
            cancel: { fiber in
                Waiter.cancel(fiber)
                if let listener = waited(fiber) { endAccept(listener) }
            })
        {
        case .refused(let answer): return answer
        case .begun(let fiber):
            call.withHost { host in
                fiber.waitsFor = Int(bitPattern: Unmanaged.passUnretained(listener).toOpaque())
                listener.accepter = fiber.context
                host.part(NetPart.self).enter(listener)
                listener.serves = true
                guard timeout >= 0 else { return }
                Waiter.of(fiber, host).limit(
                    timeout, host,
                    timedOut: { fiber, host in
                        if let listener = waited(fiber) { endAccept(listener) }
                        host.part(NetPart.self).resume(fiber, .timedOut)
                    })
            }
            return call.yield()
        }
    }

    private static func endAccept(_ listener: Listener) {
        listener.accepter = 0
        listener.serves = false
        part(listener)?.leave(listener)
    }

    /// listener:stop([seconds]): closes it, and waits for what it has accepted; what is left then is aborted.
    private static func stop(_ listener: Listener, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self) ?? -1
        guard listener.stopper == 0 else { throw Misuse("another task waits in it already") }
        close(listener)
        listener.isStopping = true
        if listener.connections == 0, listener.handlers == 0 { return call.answer(true) }
        if timeout == 0 {
            abortAll(listener, call.luaHost)
            return call.refuse("timed out")
        }
        switch call.beginWait(
            in: "listener:stop",
            cancel: { fiber in
                Waiter.cancel(fiber)
                waited(fiber)?.stopper = 0
            })
        {
        case .refused(let answer): return answer
        case .begun(let fiber):
            call.withHost { host in
                fiber.waitsFor = Int(bitPattern: Unmanaged.passUnretained(listener).toOpaque())
                listener.stopper = fiber.context
                guard timeout > 0 else { return }
                Waiter.of(fiber, host).limit(
                    timeout, host,
                    timedOut: { fiber, host in
                        if let listener = waited(fiber) {
                            listener.stopper = 0
                            abortAll(listener, host)
                        }
                        host.part(NetPart.self).resume(fiber, .timedOut)
                    })
            }
            return call.yield()
        }
    }

    /// Connections are reset, and tasks that serve them are cancelled.
    private static func abortAll(_ listener: Listener, _ host: LuaHost) {
        for item in host.loop.allItems {
            if let stream = item as? Streams.Stream, stream.listener === listener { stream.abort() }
        }
        host.loop.perform {
            for fiber in host.fibersThatWait() {
                if let handling = fiber.owner as? NetPart.Handling, handling.isOf(listener) { host.cancel(fiber) }
            }
        }
    }

    static func detail(_ listener: Listener) -> String {
        "\(listener.address ?? listener.place.text), \(listener.connections) connections"
    }

    private static func describe(_ listener: Listener, _ call: Call) -> Int32 {
        var parts = [listener.address ?? listener.place.text]
        parts.append(listener.isOpen ? "\(listener.connections) connections" : "closed")
        if let site = call.interpreter.site(call.receiver.site) { parts.append("made at \(site)") }
        let name = listener.name.isEmpty ? "" : " \"\(listener.name)\""
        return call.answer("listener\(name) (\(parts.joined(separator: ", ")))")
    }
}

extension Listener: Schedulable {
    package func add(to loop: RunLoop, mode: RunLoop.Mode, _ call: Call) throws(Misuse) {
        guard isOpen else { throw Misuse("the listener is closed") }
        guard network.loop === loop else { throw Misuse("the listener belongs to another thread") }
        if let box = Box(bitPattern: context), box.slot == 0, !isManual { box.slot = call.stack.anchor(2) }
        loop.add(self, to: mode)
    }
    package func remove(from loop: RunLoop, mode: RunLoop.Mode) { loop.remove(self, from: mode) }
    package func isIn(_ loop: RunLoop, mode: RunLoop.Mode) -> Bool { loop.contains(self, in: mode) }
}
