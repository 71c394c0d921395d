internal import Linux
internal import Lua
internal import RunLoops

/// `rl.fd_port` and the methods of descriptor ports. The Lua half finds the descriptor of an object.
enum FDPortBinding {
    static let methods: Library = Library(
        of: Kinds.fdPort,
        [
            ItemBinding.invalidate, ItemBinding.isValid, ItemBinding.name, ItemBinding.order,
            .init("fd") { port($0).answer { Int($0.fd) } },
            .init("events") { port($0).answer { Events.text($0.events) } },
            .init("set_events") { port($0).run { (port, call) throws(Misuse) in try setEvents(port, call) } },
            .init("__tostring") {
                port($0).run { port, call in
                    call.answer(ItemBinding.text(call, ["fd \(port.fd)", "\"\(Events.text(port.events))\""]))
                }
            },
        ])

    /// `object` is the object that owns the descriptor; the port keeps it alive.
    enum Value: Int, UserValue {
        case callback, object
        static let labels: [StaticString] = ["callback", "object"]
    }

    private static func port(_ thread: OpaquePointer?) -> Receiver<RunLoop.FDPort> {
        receiver(thread, RunLoop.FDPort.self)
    }

    private enum Option: Int, Field {
        case callback, fd, events, owns, once, order, name, modes, keepsAlive
        static let names: [StaticString] = [
            "callback", "fd", "events", "owns", "once", "order", "name", "modes", "keeps_alive",
        ]
    }

    /// rl.fd_port{…}, rl.on_readable and rl.on_writable; the new object is argument 1.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        _ = try options.required(.callback, Function.self)
        let fd = try options.required(.fd, DescriptorNumber.self)
        let events = try options[.events, Events.self] ?? .read
        let owns = try options[.owns, Boolean.self] ?? false
        let once = try options[.once, Boolean.self] ?? false
        let order = try options[.order, Integer.self] ?? 0
        let stay = try ItemBinding.Stay(options[.modes, ModeNames.self], options[.keepsAlive, Boolean.self])
        let name = try options[.name, Name.self] ?? ""
        options.keep(.callback, as: Value.callback)
        let port: RunLoop.FDPort
        do throws(SystemError) {
            port = try RunLoop.FDPort(
                fd, events, owns: owns, once: once, order: order, name: name, owner: call.luaHost.items)
        } catch {
            return call.fail(error)
        }
        return try ItemBinding.fill(call, box, port, stay)
    }

    private static func setEvents(_ port: RunLoop.FDPort, _ call: Call) throws(Misuse) -> Int32 {
        let events = try call.argument(2, Events.self)
        return call.attempt { () throws(SystemError) in try port.setEvents(events) }
    }
}

/// The awaited events of a descriptor, as scripts write them.
enum Events: Parameter {
    static let expected = "\"r\", \"w\", \"rw\" or \"\""

    static func read(_ stack: Stack, _ index: Int32) -> RunLoop.FDPort.Events? {
        guard let bytes = stack.bytes(index) else { return nil }
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

    static func text(_ events: RunLoop.FDPort.Events) -> String {
        (events.contains(.read) ? "r" : "") + (events.contains(.write) ? "w" : "")
            + (events.contains(.hangUp) ? "h" : "") + (events.contains(.error) ? "e" : "")
    }
}
