internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.fd_port` and the methods of descriptor ports. Finding the descriptor of an object is written in Lua.
enum FDPortBinding {
    static let methods = Library([
        .init("invalidate") { ItemBinding.invalidate(Call($0), Kinds.fdPort, "fd_port:invalidate") },
        .init("is_valid") { ItemBinding.isValid(Call($0), Kinds.fdPort, "fd_port:is_valid") },
        .init("name") { ItemBinding.name(Call($0), Kinds.fdPort, "fd_port:name") },
        .init("order") { ItemBinding.order(Call($0), Kinds.fdPort, "fd_port:order") },
        .init("fd") { fd(Call($0)) },
        .init("events") { events(Call($0)) },
        .init("set_events") { setEvents(Call($0)) },
    ])

    private static let names: [StaticString] = ["callback", "fd", "events", "owns", "once", "order", "name"]

    /// (options, function's name): rl.fd_port{…}, rl.on_readable and rl.on_writable; the new object is argument 1.
    static func make(_ call: Call) -> Int32 {
        let options: Options
        switch Options.read(call, 2, of: "rl.fd_port", names) {
        case .success(let read): options = read
        case .failure(let misuse): return call.raise(misuse.message)
        }
        func bad(_ field: Int, _ expected: String) -> Int32 { call.raise(options.wrong(field, expected).message) }
        guard call.type(options.index(0)) == LUA_TFUNCTION else { return bad(0, "a function") }
        guard let number = call.integer(options.index(1)), let fd = Int32(exactly: number), fd >= 0 else {
            return bad(1, "a descriptor, or an object that has one")
        }
        var wanted: RunLoop.FDPort.Events = .read
        if !options.isMissing(2) {
            guard let events = read(call, options.index(2)) else { return bad(2, expected) }
            wanted = events
        }
        for field in 3...4 where !options.isMissing(field) && call.type(options.index(field)) != LUA_TBOOLEAN {
            return bad(field, "a boolean")
        }
        guard options.isMissing(5) || call.integer(options.index(5)) != nil else { return bad(5, "an integer") }
        guard options.isMissing(6) || call.isName(options.index(6)) else { return bad(6, "a string") }
        ItemBinding.keep(call, options, 0, as: 1)
        do throws(SystemError) {
            let port = try RunLoop.FDPort(
                fd, wanted, owns: call.boolean(options.index(3)), once: call.boolean(options.index(4)),
                order: call.integer(options.index(5)) ?? 0, name: call.name(options.index(6)),
                owner: call.luaHost.items)
            return ItemBinding.fill(call, Kinds.fdPort, port)
        } catch {
            return call.fail(error)
        }
    }

    static let expected = "\"r\", \"w\", \"rw\" or \"\""

    static func read(_ call: Call, _ index: Int32) -> RunLoop.FDPort.Events? {
        guard let bytes = call.bytes(index) else { return nil }
        var events: RunLoop.FDPort.Events = []
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "r"): events.insert(.read)
            case UInt8(ascii: "w"): events.insert(.write)
            default: return nil
            }
        }
        return events
    }

    private static func port(_ call: Call) -> RunLoop.FDPort? {
        call.object(1, Kinds.fdPort, as: RunLoop.FDPort.self)
    }

    private static func fd(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("fd_port:fd", Kinds.fdPort) }
        return call.answer(Int(port.fd))
    }

    private static func events(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("fd_port:events", Kinds.fdPort) }
        return call.answer(text(port.events))
    }

    static func text(_ events: RunLoop.FDPort.Events) -> String {
        (events.contains(.read) ? "r" : "") + (events.contains(.write) ? "w" : "")
            + (events.contains(.hangUp) ? "h" : "") + (events.contains(.error) ? "e" : "")
    }

    private static func setEvents(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("fd_port:set_events", Kinds.fdPort) }
        guard let events = read(call, 2) else { return call.wrongArgument("fd_port:set_events", 2, expected) }
        do throws(SystemError) {
            try port.setEvents(events)
            return call.answer(true)
        } catch {
            return call.fail(error)
        }
    }

    static func describe(_ call: Call) -> Int32 {
        guard let item = ItemBinding.item(call, 1, Kinds.fdPort), let port = port(call) else {
            return call.wrongSelf("fd_port:__tostring", Kinds.fdPort)
        }
        return ItemBinding.text(call, item, Kinds.fdPort, ["fd \(port.fd)", "\"\(text(port.events))\""])
    }
}
