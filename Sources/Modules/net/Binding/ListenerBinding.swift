package import Lua
internal import LuaRunLoops
package import RunLoops
package import Streams

/// Listeners for scripts.
enum ListenerBinding {
    static let kind: Kind = Kind(
        "listener", values: NetValue.labels, methods: methods, collect: { Listener.collect($0) })

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
            // A connection's task calls functions of the listener: until `end_choice` the task counts as the
            // listener's.
            .init("begin_choice") {
                listener($0).run { _, call in
                    call.luaHost.current?.runs(call.receiver, slot: call.receiver.slot)
                    return 0
                }
            },
            // (message, code): reports trouble of the listener itself, not of a connection.
            .init("tell") { listener($0).run { (listener, call) throws(Misuse) in try tell(listener, call) } },
            .init("__tostring") { listener($0).run { listener, call in describe(listener, call) } },
        ])

    private static func listener(_ thread: OpaquePointer?) -> Receiver<Listener> { receiver(thread, Listener.self) }

    static func listener(_ call: Call, _ index: Int32) -> Listener? {
        call.stack.object(index, kind, as: Listener.self)
    }

    private enum Option: Int, Field {
        case host, port, path, fd, tls, backlog, maxConnections, reusePort, mode, keepsAlive, name, order
        case highWater, maxQueue
        case onConnection, onData, onEnd, onError, onTrouble
        static let names: [StaticString] = [
            "host", "port", "path", "fd", "tls", "backlog", "max_connections", "reuse_port", "mode", "keeps_alive",
            "name", "order", "high_water", "max_queue", "on_connection", "on_data", "on_end", "on_error", "on_trouble",
        ]
    }

    private enum FileMode: Parameter {
        static let expected = "a file's mode: an integer from 0 to 0777 (511)"
        static func read(_ stack: Stack, _ index: Int32) -> UInt32? {
            stack.integer(index).flatMap { (0...0o777).contains($0) ? UInt32($0) : nil }
        }
    }

    /// net.listener{…} and net.serve(…), with the arguments (where, options, functions). The functions are a table as
    /// in `Handlers`, or missing.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let fields = try call.fields(3, Option.self)
        let place = try NetBinding.place(call, 2)
        var options = Listener.Options()
        options.backlog = try fields[.backlog, StreamBinding.Positive.self] ?? 4096
        options.maxConnections = try fields[.maxConnections, StreamBinding.Positive.self] ?? .max
        options.reusePort = try fields[.reusePort, Boolean.self] ?? false
        options.mode = try fields[.mode, FileMode.self] ?? 0o600
        options.settings = try NetBinding.settings(
            fields[.highWater, StreamBinding.Positive.self], fields[.maxQueue, StreamBinding.Positive.self])
        let name = try fields[.name, Name.self] ?? ""
        let order = try fields[.order, Integer.self] ?? 0
        let keepsAlive = try fields[.keepsAlive, Boolean.self] ?? true
        let part = call.luaHost.part(NetPart.self)
        return call.attempt { () throws(StreamFailure) in
            let listener = try Listener(
                part.network, at: place, options, name: name, order: order, owner: part.owner)
            let hasFunctions = call.stack.type(4) == .table
            call.stack.pushCopy(of: 4)
            call.stack.setUserValue(1, of: 1)
            listener.isManual = !hasFunctions
            listener.serves = hasFunctions
            if !keepsAlive { listener.staysIdle = true }
            listener.fill(call.receiver, site: call.site)
            return call.answerArgument(1)
        }
    }

    private static func tell(_ listener: Listener, _ call: Call) throws(Misuse) -> Int32 {
        let text = try call.argument(2, Text.self)
        let code = try call.argument(3, Text.self)
        let part = call.luaHost.part(NetPart.self)
        // The report is made in a request of its own, so that the failed connection does not wait for it.
        part.network.loop.perform { [unowned part] in part.isTroubled(listener, text, code) }
        return 0
    }

    private static func close(_ listener: Listener) {
        listener.close()
        listener.part?.endWait(
            in: listener, \.accepter, "the listener was closed (\(listener.address ?? listener.place.text))")
    }

    // MARK: Waits

    /// listener:accept([timeout]) → stream
    private static func accept(_ listener: Listener, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self) ?? -1
        guard listener.isManual else { throw Misuse("its functions receive the connections") }
        guard listener.accepter == 0 else { throw Misuse("another task is waiting for it already") }
        guard listener.isOpen else {
            return call.fail(
                StreamFailure("EBADF", "the listener is closed (\(listener.address ?? listener.place.text))"))
        }
        return call.wait(in: "listener:accept", for: listener, timeout: timeout, takeBack: endAccept) { fiber, host in
            listener.accepter = fiber.context
            listener.accepterStaysIdle = fiber.isBackground
            host.part(NetPart.self).enter(listener)
            listener.serves = true
        }
    }

    private static func endAccept(_ listener: Listener) {
        listener.accepter = 0
        listener.accepterStaysIdle = false
        listener.serves = false
        listener.part?.leave(listener)
    }

    /// listener:stop([seconds]): closes the listener and waits for the end of its connections; then aborts those that
    /// remain.
    private static func stop(_ listener: Listener, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self) ?? -1
        guard listener.stopper == 0 else { throw Misuse("another task is waiting for it already") }
        close(listener)
        listener.isStopping = true
        if listener.connections == 0, listener.handlers == 0 { return call.answer(true) }
        if timeout == 0 {
            abortAll(listener, call.luaHost)
            return call.refuse("timed out")
        }
        return call.wait(
            in: "listener:stop", for: listener, timeout: timeout, takeBack: { $0.stopper = 0 }, timedOut: abortAll
        ) { fiber, _ in
            listener.stopper = fiber.context
        }
    }

    /// Resets the connections and cancels the tasks that serve them.
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
        let state = listener.isOpen ? "\(listener.connections) connections" : "closed"
        return call.describe(listener, [listener.address ?? listener.place.text, state])
    }
}

extension Listener: Schedulable {
    package func add(to loop: RunLoop, mode: RunLoop.Mode, _ call: Call) throws(Misuse) {
        guard isOpen else { throw Misuse("the listener is closed") }
        guard network.loop === loop else { throw Misuse("the listener belongs to another thread") }
        if let box = Box(bitPattern: context), box.slot == 0, !isManual { box.slot = call.stack.anchor(2) }
        loop.add(self, to: mode)
    }

}
