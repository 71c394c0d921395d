internal import Lua
internal import RunLoops

/// `rl.port` and the methods of ports. The Lua half checks the arguments of `send`.
enum PortBinding {
    static let methods: Library = Library(
        of: Kinds.port,
        [
            ItemBinding.invalidate, ItemBinding.name, ItemBinding.order,
            .init("is_valid") { port($0).answer { $0.takesMessages } },
            .init("capacity") { port($0).answer { $0.capacity } },
            .init("count") { port($0).answer { $0.count } },
            .init("__tostring") {
                port($0).run { port, call in
                    call.answer(ItemBinding.text(call, port.count > 0 ? ["\(port.count) waiting"] : []))
                }
            },
        ])

    private static func port(_ thread: OpaquePointer?) -> Receiver<RunLoop.Port> {
        ItemBinding.shared(thread, RunLoop.Port.self)
    }

    private enum Option: Int, Field {
        case callback, capacity, order, name, modes, keepsAlive
        static let names: [StaticString] = ["callback", "capacity", "order", "name", "modes", "keeps_alive"]
    }

    /// rl.port{…}, rl.port()
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.optionalFields(2, Option.self)
        let callback = try options?[.callback, Function.self]
        let capacity = try options?[.capacity, Capacity.self] ?? 1024
        let order = try options?[.order, Integer.self] ?? 0
        let stay = try ItemBinding.Stay(options?[.modes, ModeNames.self], options?[.keepsAlive, Boolean.self])
        let name = try options?[.name, Name.self] ?? ""
        options?.keep(.callback, as: ItemBinding.Value.callback)
        let items = call.luaHost.items
        let receive: (RunLoop.Port, any Sendable) -> Void = { port, message in
            guard let parcel = message as? Parcel else { return }
            items.call(port) { host, stack in
                if host.push(parcel, onto: stack) != nil { return 1 }
                host.report(Failure("port: a message cannot be taken: \(host.popMessage())"))
                return 0
            }
        }
        let port = RunLoop.Port(
            capacity: capacity, order: order, name: name, owner: items, callback: callback == nil ? nil : receive)
        return try ItemBinding.fill(call, box, port, stay)
    }

    private enum Capacity: Parameter {
        static let expected = "an integer, 1 or more"
        static func read(_ stack: Stack, _ index: Int32) -> Int? {
            stack.integer(index).flatMap { $0 > 0 ? $0 : nil }
        }
    }

    /// (port, before, message): the message is in the parcel.
    static func send(_ call: Call) throws(Misuse) -> Int32 {
        guard let message = call.takeParcel(), let shared = call.stack.object(1, Kinds.port, as: SharedItem.self),
            let port = shared.item as? RunLoop.Port
        else { throw .noMemory }
        let host = call.luaHost
        switch port.send(message) {
        case .sent: return call.answer(true)
        case .invalid: return call.refuse("invalid")
        case .full, .waits: break
        }
        var timeout: Int64?
        if let date = try call.optional(2, Date.self) {
            timeout = max(0, date - host.loop.now.nanoseconds)
            if timeout == 0 { return call.refuse("timed out") }
        }
        if let refusal = call.refusalToWait(in: "port:send: the port is full") { return refusal }
        guard let (number, modes) = host.beginExternalWait(in: "port:send", timeout: timeout) else {
            throw .noMemory
        }
        let handle = host.loop.handle
        let end: @Sendable (Bool) -> Void = { LuaHost.end(number, of: handle, in: modes, with: .sent($0)) }
        switch port.send(message, whenTaken: end) {
        case .waits(let place): host.waits.byNumber[number]?.giveUp = { port.withdraw(place) }
        // Between the first attempt and this one, the port has got room or become invalid.
        case .sent: end(true)
        case .invalid, .full: end(false)
        }
        return call.yield()
    }
}
