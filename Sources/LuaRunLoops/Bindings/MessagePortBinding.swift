internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.message_port` and the methods of message ports.
enum MessagePortBinding {
    static let methods = Library([
        .init("invalidate") { invalidate(Call($0)) },
        .init("is_valid") { ItemBinding.isValid(Call($0), Kinds.messagePort, "message_port:is_valid") },
        .init("name") { ItemBinding.name(Call($0), Kinds.messagePort, "message_port:name") },
        .init("order") { ItemBinding.order(Call($0), Kinds.messagePort, "message_port:order") },
        .init("set_name") { setName(Call($0)) },
    ])

    private static let names: [StaticString] = ["callback", "name", "order", "on_invalidate"]

    /// rl.message_port{…}
    static func make(_ call: Call) -> Int32 {
        let options: Options
        switch Options.read(call, 2, of: "rl.message_port", names) {
        case .success(let read): options = read
        case .failure(let misuse): return call.raise(misuse.message)
        }
        func bad(_ field: Int, _ expected: String) -> Int32 { call.raise(options.wrong(field, expected).message) }
        guard call.type(options.index(0)) == LUA_TFUNCTION else { return bad(0, "a function") }
        guard options.isMissing(1) || call.type(options.index(1)) == LUA_TSTRING else { return bad(1, "a string") }
        guard options.isMissing(2) || call.integer(options.index(2)) != nil else { return bad(2, "an integer") }
        guard ItemBinding.isFunctionOrMissing(call, options, 3) else { return bad(3, "a function") }
        ItemBinding.keep(call, options, 0, as: 1)
        ItemBinding.keep(call, options, 3, as: 2)
        let items = call.luaHost.items
        let port = RunLoop.MessagePort(order: call.integer(options.index(2)) ?? 0, owner: items) { port, message in
            items.host._withUnsafeGuaranteedRef { $0.deliver(message, to: port) }
        }
        if !options.isMissing(1) {
            if let failure = take(call, options.index(1), port) { return failure }
        }
        port.warned = { port, text in
            let host = items.host.takeUnretainedValue()
            host.onWarning(host, "message port \"\(port.name)\": \(text)")
        }
        if !options.isMissing(3) { port.invalidated = { port in items.call(port, userValue: 2) { _, _ in 0 } } }
        return ItemBinding.fill(call, Kinds.messagePort, port)
    }

    /// Gives the port the name at an index; the answer, if it cannot have it.
    private static func take(_ call: Call, _ index: Int32, _ port: RunLoop.MessagePort) -> Int32? {
        guard let name = Self.name(call, index) else { return call.fail("a name must be UTF-8", code: "EINVAL") }
        do throws(SystemError) {
            try port.setName(name)
            return nil
        } catch {
            return call.fail(error)
        }
    }

    /// A string that is the same in Swift; nil if it is not.
    static func name(_ call: Call, _ index: Int32) -> String? {
        guard let bytes = call.bytes(index), let name = call.string(index), bytes.elementsEqual(name.utf8) else {
            return nil
        }
        return name
    }

    private static func port(_ call: Call) -> RunLoop.MessagePort? {
        call.object(1, Kinds.messagePort, as: RunLoop.MessagePort.self)
    }

    private static func setName(_ call: Call) -> Int32 {
        guard let port = port(call) else { return call.wrongSelf("message_port:set_name", Kinds.messagePort) }
        guard call.type(2) == LUA_TSTRING else { return call.wrongArgument("message_port:set_name", 2, "a string") }
        return take(call, 2, port) ?? call.answer(true)
    }

    private static func invalidate(_ call: Call) -> Int32 {
        guard let port = port(call) else {
            return call.wrongSelf("message_port:invalidate", Kinds.messagePort)
        }
        guard port.isValid else { return call.nothing() }
        // In no mode it is not anchored, and its callback could not be found.
        let items = call.luaHost.items
        _ = items.anchor(port, call, 1)
        port.invalidate()
        items.letGo(of: port)
        return call.nothing()
    }

    static func describe(_ call: Call) -> Int32 {
        guard let item = ItemBinding.item(call, 1, Kinds.messagePort) else {
            return call.wrongSelf("message_port:__tostring", Kinds.messagePort)
        }
        return ItemBinding.text(call, item, Kinds.messagePort, [])
    }
}

/// Answers a message when the callback that handles it has ended.
private final class MessageAnswer: FiberAttachment {
    private unowned let host: LuaHost
    private let message: RunLoop.MessagePort.Message

    init(_ host: LuaHost, _ message: RunLoop.MessagePort.Message) {
        self.host = host
        self.message = message
        super.init()
    }

    override func ended(_ fiber: Fiber, results: Int32) -> Bool {
        let call = Call(fiber.thread)
        guard results >= 0 else {
            message.fail("its callback raised an error: \(call.string(-1) ?? call.describe(-1))")
            host.uncaught(fiber)
            return true
        }
        let first = lua_gettop(fiber.thread) - results + 1
        if results == 0 || call.isMissing(first) {
            message.answer()
        } else if let bytes = call.bytes(first) {
            if bytes.count > RunLoop.MessagePort.longestMessage {
                refuse(fiber, "a string of at most \(RunLoop.MessagePort.longestMessage) bytes, not of \(bytes.count)")
            } else {
                message.answer(message.wantsReply ? Array(bytes) : [])
            }
        } else {
            refuse(fiber, "a string or nil, not \(call.describe(first))")
        }
        return true
    }

    private func refuse(_ fiber: Fiber, _ expected: String) {
        let text = "the callback of a message port must return \(expected)"
        message.fail(text)
        host.uncaught(text: host.describeSubject(fiber).map { "\(text)\nin \($0)" } ?? text)
    }
}

extension LuaHost {
    /// Calls the function with port, id and data. It may wait.
    fileprivate func deliver(_ message: RunLoop.MessagePort.Message, to port: RunLoop.MessagePort) {
        guard !isClosed, let box = port.box, let (fiber, _) = prepareCallback(slot: box.pointee.slot) else {
            return message.fail("it has no callback any more")
        }
        lua_pushvalue(fiber.thread, 2)
        lua_pushinteger(fiber.thread, lua_Integer(message.id))
        guard push(bytes: message.data, onto: fiber.thread) else {
            recycle(fiber)
            message.fail("not enough memory for the message")
            return uncaught(text: "message port: not enough memory for a message of \(message.data.count) bytes")
        }
        fiber.attachment = MessageAnswer(self, message)
        resume(fiber, arguments: 3)
    }

    /// A string of bytes. Returns false, with nothing pushed, when memory is out.
    func push(bytes: [UInt8], onto thread: OpaquePointer) -> Bool {
        // By way of `main`: a coroutine that waits is no place for calls.
        let status = bytes.withUnsafeBytes { bytes in
            bytes.isEmpty
                ? cl_push_text(main, "", 0)
                : cl_push_text(main, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        guard status == LUA_OK, lua_checkstack(thread, 4) != 0 else {
            cl_pop(main, 1)
            return false
        }
        lua_xmove(main, thread, 1)
        return true
    }
}
