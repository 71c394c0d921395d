internal import CLuaSupport
internal import Lua
internal import RunLoops

/// `rl.port` and the methods of ports. What `send` takes is checked in Lua.
enum PortBinding {
    static let methods = Library([
        .init("invalidate") { ItemBinding.invalidate(Call($0), Kinds.port, "port:invalidate") },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { ItemBinding.name(Call($0), Kinds.port, "port:name") },
        .init("order") { ItemBinding.order(Call($0), Kinds.port, "port:order") },
        .init("capacity") { capacity(Call($0)) },
        .init("count") { count(Call($0)) },
    ])

    private static let names: [StaticString] = ["callback", "capacity", "order", "name"]

    /// rl.port{…}
    static func make(_ call: Call) -> Int32 {
        if call.isMissing(2) {
            lua_settop(call.thread, 1)
            guard cl_push_table(call.thread) == LUA_OK else { return call.raiseValue() }
        }
        let options: Options
        switch Options.read(call, 2, of: "rl.port", names) {
        case .success(let read): options = read
        case .failure(let misuse): return call.raise(misuse.message)
        }
        guard ItemBinding.isFunctionOrMissing(call, options, 0) else {
            return call.raise(options.wrong(0, "a function").message)
        }
        var capacity = 1024
        if !options.isMissing(1) {
            guard let number = call.integer(options.index(1)), number > 0 else {
                return call.raise(options.wrong(1, "an integer, 1 or more").message)
            }
            capacity = number
        }
        guard options.isMissing(2) || call.integer(options.index(2)) != nil else {
            return call.raise(options.wrong(2, "an integer").message)
        }
        guard options.isMissing(3) || call.isName(options.index(3)) else {
            return call.raise(options.wrong(3, "a string").message)
        }
        ItemBinding.keep(call, options, 0, as: 1)
        let items = call.luaHost.items
        let receive: (RunLoop.Port, any Sendable) -> Void = { port, message in
            guard let parcel = message as? Parcel else { return }
            items.call(port) { host, thread in
                if host.push(parcel, onto: thread) != nil { return 1 }
                host.uncaught(text: "port: a message cannot be taken: \(host.popMessage())")
                return 0
            }
        }
        let port = RunLoop.Port(
            capacity: capacity, order: call.integer(options.index(2)) ?? 0, name: call.name(options.index(3)),
            owner: items,
            callback: options.isMissing(0) ? nil : receive)
        return ItemBinding.fill(call, Kinds.port, port)
    }

    static func port(_ call: Call) -> RunLoop.Port? {
        call.object(1, Kinds.port, as: SharedItem.self)?.item as? RunLoop.Port
    }

    /// (port, before, message): the message is in the parcel.
    static func send(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("port:send", Kinds.port) }
        guard let message = call.takeParcel() else { return call.raiseOutOfMemory() }
        let host = call.luaHost
        switch port.send(message) {
        case .sent: return call.answer(true)
        case .invalid: return call.refuse("invalid")
        case .full, .waits: break
        }
        var timeout: Int64?
        if !call.isMissing(2) {
            timeout = max(0, (call.nanoseconds(2) ?? 0) - host.loop.now.nanoseconds)
            if timeout == 0 { return call.refuse("timed out") }
        }
        if let refusal = call.refusalToWait(in: "port:send: the port is full") { return refusal }
        guard let (number, modes) = host.beginExternalWait(in: "port:send", timeout: timeout) else {
            return call.raiseOutOfMemory()
        }
        let handle = host.loop.handle
        let end: @Sendable (Bool) -> Void = { LuaHost.end(number, of: handle, in: modes, with: .sent($0)) }
        switch port.send(message, whenTaken: end) {
        case .waits(let place): host.waits[number]?.giveUp = { port.withdraw(place) }
        // It has changed since it was asked before.
        case .sent: end(true)
        case .invalid, .full: end(false)
        }
        return call.yield()
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("port:is_valid", Kinds.port) }
        return call.answer(port.takesMessages)
    }

    private static func capacity(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("port:capacity", Kinds.port) }
        return call.answer(port.capacity)
    }

    private static func count(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("port:count", Kinds.port) }
        return call.answer(port.count)
    }

    static func describe(_ call: Call) -> Int32 {
        guard let item = ItemBinding.item(call, 1, Kinds.port), let port = port(call) else {
            return call.wrongSelf("port:__tostring", Kinds.port)
        }
        return ItemBinding.text(call, item, Kinds.port, port.count > 0 ? ["\(port.count) waiting"] : [])
    }
}
