package import Lua
internal import LuaRunLoops
package import RunLoops
package import Streams

/// `net.datagram` and the methods of datagram sockets.
enum DatagramBinding {
    static let kind: Kind = Kind(
        "datagram", values: NetValue.labels, methods: methods, collect: { Datagram.collect($0) })

    private static let methods: Library = Library(
        of: kind,
        [
            .init("send") { socket($0).run { (socket, call) throws(Misuse) in try send(socket, call) } },
            .init("receive") { socket($0).run { (socket, call) throws(Misuse) in try receive(socket, call) } },
            .init("join") { socket($0).run { (socket, call) throws(Misuse) in try join(socket, call, leaves: false) } },
            .init("leave") { socket($0).run { (socket, call) throws(Misuse) in try join(socket, call, leaves: true) } },
            .init("broadcast") {
                socket($0).run { (socket, call) throws(Misuse) in
                    let on = try call.optional(2, Boolean.self) ?? true
                    return call.attempt { () throws(StreamFailure) in try socket.setBroadcast(on) }
                }
            },
            .init("close") { socket($0).act { close($0) } },
            .init("invalidate") { socket($0).act { close($0) } },
            .init("is_open") { socket($0).answer { $0.isOpen } },
            .init("is_valid") { socket($0).answer { $0.isOpen } },
            .init("address") { socket($0).answer { $0.address } },
            .init("fd") { socket($0).answer { $0.descriptor >= 0 ? Int($0.descriptor) : nil } },
            .init("name") { socket($0).answer { $0.name } },
            .init("order") { socket($0).answer { $0.order } },
            .init("__tostring") {
                socket($0).run { socket, call in call.describe(socket, [socket.address ?? "closed"]) }
            },
        ])

    private static func socket(_ thread: OpaquePointer?) -> Receiver<Datagram> { receiver(thread, Datagram.self) }

    private enum Option: Int, Field {
        case host, port, path, fd, peer, reusePort, keepsAlive, name, order, onMessage
        static let names: [StaticString] = [
            "host", "port", "path", "fd", "peer", "reuse_port", "keeps_alive", "name", "order", "on_message",
        ]
    }

    /// net.datagram{…}, with the arguments (where or nil, peer or nil, options).
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let place = call.isMissing(2) ? nil : try NetBinding.place(call, 2)
        let peer = call.isMissing(3) ? nil : try NetBinding.place(call, 3)
        let fields = try call.fields(4, Option.self)
        let callback = try fields[.onMessage, Function.self]
        let reusesPort = try fields[.reusePort, Boolean.self] ?? false
        let name = try fields[.name, Name.self] ?? ""
        let order = try fields[.order, Integer.self] ?? 0
        let keepsAlive = try fields[.keepsAlive, Boolean.self] ?? true
        let part = call.luaHost.part(NetPart.self)
        return call.attempt { () throws(StreamFailure) in
            let socket = try Datagram(
                part.network, at: place, connectedTo: peer, reusePort: reusesPort, name: name, order: order,
                owner: part.owner)
            if !keepsAlive { socket.staysIdle = true }
            if let callback {
                call.stack.pushCopy(of: callback)
                call.stack.setUserValue(1, of: 1)
                socket.onMessage = { [unowned part] socket, bytes, from in part.message(socket, bytes, from) }
            }
            socket.fill(call.receiver, site: call.site)
            return call.answerArgument(1)
        }
    }

    /// socket:send(data, [where])
    private static func send(_ socket: Datagram, _ call: Call) throws(Misuse) -> Int32 {
        let bytes = try call.argument(2, Bytes.self)
        let place = call.isMissing(3) ? nil : try NetBinding.place(call, 3)
        return call.attempt { () throws(StreamFailure) in try socket.send(bytes, to: place) }
    }

    private static func join(_ socket: Datagram, _ call: Call, leaves: Bool) throws(Misuse) -> Int32 {
        let group = try call.argument(2, Text.self)
        let interface = try call.optional(3, Text.self)
        return call.attempt { () throws(StreamFailure) in
            try socket.join(group, interface: interface, leaves: leaves)
        }
    }

    private static func close(_ socket: Datagram) {
        let address = socket.address ?? ""
        socket.close()
        socket.part?.endWait(in: socket, \.receiver, "the socket was closed (\(address))")
    }

    // MARK: Waiting

    /// socket:receive([timeout]) → data, from
    private static func receive(_ socket: Datagram, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self) ?? -1
        if socket.onMessage != nil { throw Misuse("its messages go to on_message") }
        if socket.receiver != 0 { throw Misuse("another task is waiting for it already") }
        do throws(StreamFailure) {
            if let (bytes, from) = try socket.receive() {
                guard call.stack.push(bytes), call.stack.push(from ?? "") else { return call.raiseValue() }
                return call.values(2)
            }
        } catch {
            return call.fail(error)
        }
        if timeout == 0 { return call.refuse("timed out") }
        return call.wait(in: "datagram:receive", for: socket, timeout: timeout, takeBack: { $0.receiver = 0 }) {
            fiber, host in
            socket.receiverStaysIdle = fiber.isBackground
            socket.receiver = fiber.context
            host.part(NetPart.self).enter(socket)
        }
    }
}

extension Datagram: Schedulable {
    package func add(to loop: RunLoop, mode: RunLoop.Mode, _ call: Call) throws(Misuse) {
        guard isOpen else { throw Misuse("the socket is closed") }
        guard network.loop === loop else { throw Misuse("the socket belongs to another thread") }
        if let box = Box(bitPattern: context), box.slot == 0, onMessage != nil { box.slot = call.stack.anchor(2) }
        loop.add(self, to: mode)
    }

}
