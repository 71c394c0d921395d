internal import Linux
internal import Lua
internal import RunLoops

/// `rl.message_port` and the methods of message ports.
enum MessagePortBinding {
    static let methods: Library = Library(
        of: Kinds.messagePort,
        [
            ItemBinding.isValid, ItemBinding.name, ItemBinding.order,
            .init("invalidate") { port($0).run { port, call in invalidate(port, call) } },
            .init("set_name") { port($0).run { (port, call) throws(Misuse) in try setName(port, call) } },
            .init("__tostring") { port($0).run { _, call in call.answer(ItemBinding.text(call, [])) } },
        ])

    enum Value: Int, UserValue {
        case callback, onInvalidate
        static let labels: [StaticString] = ["callback", "on_invalidate"]
    }

    private static func port(_ thread: OpaquePointer?) -> Receiver<RunLoop.MessagePort> {
        receiver(thread, RunLoop.MessagePort.self)
    }

    private enum Option: Int, Field {
        case callback, name, order, onInvalidate, modes, keepsAlive
        static let names: [StaticString] = ["callback", "name", "order", "on_invalidate", "modes", "keeps_alive"]
    }

    /// rl.message_port{…}
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        if let passed = call.pass(from: 2, to: "message_port", of: "runloop.nats.ports", ifAt: 2, is: "via") {
            return passed
        }
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        _ = try options.required(.callback, Function.self)
        _ = try options[.name, Bytes.self]
        let order = try options[.order, Integer.self] ?? 0
        let stay = try ItemBinding.Stay(options[.modes, ModeNames.self], options[.keepsAlive, Boolean.self])
        let onInvalidate = try options[.onInvalidate, Function.self]
        options.keep(.callback, as: Value.callback)
        options.keep(.onInvalidate, as: Value.onInvalidate)
        let items = call.luaHost.items
        let port = RunLoop.MessagePort(order: order, owner: items) { port, message in
            items.host._withUnsafeGuaranteedRef { $0.deliver(message, to: port) }
        }
        if options.has(.name), let refusal = take(call, options.index(.name), port) { return refusal }
        port.warned = { port, text in
            let host = items.host.takeUnretainedValue()
            host.onWarning(host, "message port \"\(port.name)\": \(text)")
        }
        port.warnedOfPeer = { port, text in
            items.host.takeUnretainedValue().part(RepeatedWarnings.self).warn("message port \"\(port.name)\"", text)
        }
        if onInvalidate != nil {
            port.invalidated = { port in items.call(port, userValue: Value.onInvalidate.number) { _, _ in 0 } }
        }
        return try ItemBinding.fill(call, box, port, stay)
    }

    /// Gives the port the name at an index. Returns nil, or the results of the refusal.
    private static func take(_ call: Call, _ index: Int32, _ port: RunLoop.MessagePort) -> Int32? {
        guard let name = UTF8Text.read(call.stack, index) else { return call.failForName() }
        do throws(SystemError) {
            try port.setName(name)
            return nil
        } catch {
            return call.fail(error)
        }
    }

    private static func setName(_ port: RunLoop.MessagePort, _ call: Call) throws(Misuse) -> Int32 {
        _ = try call.argument(2, Bytes.self)
        return take(call, 2, port) ?? call.answer(true)
    }

    private static func invalidate(_ port: RunLoop.MessagePort, _ call: Call) -> Int32 {
        guard port.isValid else { return call.nothing() }
        // A port in no mode is not anchored, so the host could not find its callback.
        let items = call.luaHost.items
        _ = items.anchor(port, call.stack, 1)
        port.invalidate()
        items.letGo(of: port)
        return call.nothing()
    }
}

extension Call {
    func failForName() -> Int32 { fail("a name must be UTF-8", code: "EINVAL") }
}

/// Answers a message after the callback that handles it has ended.
private final class MessageAnswer: FiberOwner {
    private unowned let host: LuaHost
    private let message: RunLoop.MessagePort.Message

    init(_ host: LuaHost, _ message: RunLoop.MessagePort.Message) {
        self.host = host
        self.message = message
        super.init()
    }

    override func ended(_ fiber: Fiber, results: Int32) {
        let stack = fiber.stack
        guard results >= 0 else {
            message.fail("its callback raised an error: \(stack.string(-1) ?? stack.describe(-1))")
            host.uncaught(fiber)
            return
        }
        let first = stack.top - results + 1
        if results == 0 || stack.isMissing(first) {
            // If the port has become invalid, do not answer: a sender that waits for a reply then gets the error that
            // the port has become invalid.
            if !message.portHasEnded { message.answer() }
        } else if let bytes = stack.bytes(first) {
            if bytes.count > RunLoop.MessagePort.longestMessage {
                refuse(fiber, "a string of at most \(RunLoop.MessagePort.longestMessage) bytes, not of \(bytes.count)")
            } else {
                message.answer(message.wantsReply ? Array(bytes) : [])
            }
        } else {
            refuse(fiber, "a string or nil, not \(stack.describe(first))")
        }
    }

    private func refuse(_ fiber: Fiber, _ expected: String) {
        let text = "the callback of a message port must return \(expected)"
        message.fail(text)
        host.report(Failure(text, subject: host.subject(of: fiber)))
    }
}

extension LuaHost {
    /// Calls the callback with port, id and data. The callback may wait.
    fileprivate func deliver(_ message: RunLoop.MessagePort.Message, to port: RunLoop.MessagePort) {
        guard !isClosed, let box = port.box, let (fiber, _) = prepareCallback(slot: box.slot) else {
            return message.fail("it has no callback any more")
        }
        fiber.stack.pushCopy(of: 2)
        fiber.stack.push(Int(message.id))
        guard push(bytes: message.data, onto: fiber.stack) else {
            recycle(fiber)
            message.fail("not enough memory for the message")
            // Only warn: a sender must not be able to end this program.
            return part(RepeatedWarnings.self).warn(
                "message port \"\(port.name)\"",
                "not enough memory for a message of \(message.data.count) bytes", kind: "memory")
        }
        fiber.owner = MessageAnswer(self, message)
        resume(fiber, arguments: 3)
    }
}
