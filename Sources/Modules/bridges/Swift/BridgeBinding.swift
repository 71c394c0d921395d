internal import CLuaCodecs
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The ports of bridges, for their Lua halves.
enum BridgeBinding {
    static let kind: Kind = Kind("bridge", values: Value.labels, methods: methods, collect: Kind.drop)

    static let functions = Library(
        "runloop.bridges.",
        [.init("port", constructs: kind) { thread in Call.run(thread) { call throws(Misuse) in try make(call) } }]
            + LastingBinding.ofBridges + BareTasks.functions)

    private static let methods: Library = Library(
        of: kind,
        [
            ItemBinding.invalidate, ItemBinding.isValid, ItemBinding.name, ItemBinding.order,
            // look(): looks again now.
            .init("look") { port($0).act { $0.look() } },
            // report(is_active, seconds, text): the state of a library without a source.
            .init("report") {
                port($0).run { port, call in
                    port.report(
                        isActive: call.stack.boolean(2), seconds: call.stack.number(3), waits: call.string(4) ?? "")
                    return call.nothing()
                }
            },
            .init("set_keeps_alive") {
                port($0).run { port, call in
                    port.staysAlive = call.stack.type(2) == .boolean ? call.stack.boolean(2) : nil
                    return call.nothing()
                }
            },
            .init("__tostring") { port($0).run { _, call in call.answer(ItemBinding.text(call, [])) } },
        ])

    private static func port(_ thread: OpaquePointer?) -> Receiver<BridgePort> { receiver(thread, BridgePort.self) }

    /// The user values: first the callback, as in all items, then the source.
    private enum Value: Int, UserValue {
        case callback, source
        static let labels: [StaticString] = ["callback", "source"]
    }

    private enum Option: Int, Field {
        case callback, fd, name, source
        static let names: [StaticString] = ["callback", "fd", "name", "source"]
    }

    /// port{…}: makes a port. `source` is the userdata of a `bridge_source`. It lives as long as the port's userdata.
    private static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        let fd = try options.required(.fd, Integer.self)
        let name = try options.required(.name, Name.self)
        let source = bridge_source_at(call.thread, options.index(.source))
        if source == nil, options.has(.source) { throw options.wrong(.source, "a source") }
        _ = try options.required(.callback, Function.self)
        options.keep(.callback, as: Value.callback)
        options.keep(.source, as: Value.source)
        return call.attempt { () throws(SystemError) in
            let port = try BridgePort(Int32(clamping: fd), name: name, source: source, host: call.luaHost)
            port.slot = call.stack.anchor(1)
            return ItemBinding.fill(call, box, port)
        }
    }
}
