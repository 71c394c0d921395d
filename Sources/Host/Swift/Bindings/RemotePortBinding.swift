internal import Linux
internal import Lua
internal import RunLoops

/// `rl.remote_port` and the methods of remote ports.
enum RemotePortBinding {
    static let methods: Library = Library(
        of: Kinds.remotePort,
        [
            .init("request") { remote($0).run { (remote, call) throws(Misuse) in try request(remote, call) } },
            .init("send") { remote($0).run { (remote, call) throws(Misuse) in try send(remote, call) } },
            .init("flush") { remote($0).run { (remote, call) throws(Misuse) in try flush(remote, call) } },
            .init("unacknowledged") { remote($0).answer { $0.unacknowledged } },
            .init("invalidate") { remote($0).act { $0.invalidate() } },
            .init("is_valid") { remote($0).answer { $0.isValid } },
            .init("name") { remote($0).answer { $0.name } },
            .init("process") { remote($0).answer { Int($0.process) } },
            .init("__tostring") { remote($0).run { remote, call in call.answer(text(remote, call)) } },
        ])

    private static func remote(_ thread: OpaquePointer?) -> Receiver<RunLoop.RemotePort> {
        receiver(thread, RunLoop.RemotePort.self)
    }

    /// The creation site of a remote port.
    private final class Site {
        let number: UInt32
        init(_ number: UInt32) { self.number = number }
    }

    private enum Option: Int, Field {
        case durable, via
        static let names: [StaticString] = ["durable", "via"]
    }

    /// rl.remote_port(name): Returns the thread's remote port for this name, or a new one if there is no valid one.
    static func find(_ call: Call) throws(Misuse) -> Int32 {
        if let passed = call.pass(from: 1, to: "remote_port", of: "runloop.nats.ports", ifAt: 2, is: "via") {
            return passed
        }
        _ = try call.argument(1, Bytes.self)
        // Ports of this machine have no options.
        if let options = try call.optionalFields(2, Option.self), options.has(.durable) {
            throw Misuse("field 'durable' needs field 'via', a bus of runloop.nats")
        }
        guard let name = UTF8Text.read(call.stack, 1) else { return call.failForName() }
        let host = call.luaHost
        let remotes = host.part(RemotePorts.self)
        if let remote = remotes.byName[name]?.remote, remote.isValid { return call.answer(remote, Kinds.remotePort) }
        return call.attempt { () throws(SystemError) in
            let remote = try RunLoop.RemotePort(name: name, on: host.loop)
            remote.userInfo = Site(call.site)
            remote.warned = { [weak host] remote, text in
                host.map { $0.onWarning($0, "remote port \"\(remote.name)\": \(text)") }
            }
            remotes.byName = remotes.byName.filter { $0.value.remote != nil }
            remotes.byName[name] = RemotePorts.WeakRemote(remote: remote)
            return call.answer(remote, Kinds.remotePort)
        }
    }

    // MARK: Sending

    private enum MessageID: Parameter {
        static let expected = "an integer from -2147483648 to 2147483647"
        static func read(_ stack: Stack, _ index: Int32) -> Int32? {
            stack.integer(index).flatMap { Int32(exactly: $0) }
        }
    }

    private enum Timeout: Parameter {
        static let expected = Seconds.expected
        static func read(_ stack: Stack, _ index: Int32) -> Duration? {
            Seconds.read(stack, index).map { .nanoseconds($0) }
        }
    }

    private enum ReplyMode: Parameter {
        static let expected = "the name of one mode, not of all common ones"
        static func read(_ stack: Stack, _ index: Int32) -> RunLoop.Mode? {
            ModeName.read(stack, index).flatMap { $0 == .common ? nil : $0 }
        }
    }

    private enum RequestOption: Int, Field {
        case sendTimeout, replyTimeout, replyMode
        static let names: [StaticString] = ["send_timeout", "reply_timeout", "reply_mode"]
    }

    /// remote:request(id, data, options)
    private static func request(_ remote: RunLoop.RemotePort, _ call: Call) throws(Misuse) -> Int32 {
        let id = try call.argument(2, MessageID.self)
        let bytes = try call.argument(3, Bytes.self)
        let options = try call.optionalFields(4, RequestOption.self)
        let sendTimeout = try options?[.sendTimeout, Timeout.self]
        let replyTimeout = try options?[.replyTimeout, Timeout.self]
        let host = call.luaHost
        if let mode = try options?[.replyMode, ReplyMode.self] {
            guard host.loop.depth < LoopBinding.deepest else {
                throw Misuse("too many nested runs (\(LoopBinding.deepest))")
            }
            if host.endingStatus != nil { return call.raiseInterruption() }
            let result = remote.request(
                id, Array(bytes), sendTimeout: sendTimeout, replyTimeout: replyTimeout, runningIn: mode,
                while: { host.endingStatus == nil && !host.isClosed })
            if host.endingStatus != nil { return call.raiseInterruption() }
            return answer(call, result, isRequest: true)
        }
        if let reason = host.reason(notToWaitIn: call.stack) { throw Misuse(reason) }
        let conversation = remote.request(
            id, Array(bytes), sendTimeout: sendTimeout, replyTimeout: replyTimeout, modes: host.waitingModes)
        return try wait(call, conversation, in: "remote_port:request", isRequest: true)
    }

    private enum SendOption: Int, Field {
        case timeout
        static let names: [StaticString] = ["timeout"]
    }

    /// remote:send(id, data, { timeout = … })
    private static func send(_ remote: RunLoop.RemotePort, _ call: Call) throws(Misuse) -> Int32 {
        let id = try call.argument(2, MessageID.self)
        let bytes = try call.argument(3, Bytes.self)
        let timeout = try call.optionalFields(4, SendOption.self)?[.timeout, Timeout.self]
        let conversation = remote.send(id, Array(bytes), timeout: timeout, modes: call.luaHost.waitingModes)
        return try wait(call, conversation, in: "remote_port:send", isRequest: false)
    }

    /// remote:flush(timeout): waits until all messages sent before have been handled.
    private static func flush(_ remote: RunLoop.RemotePort, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Timeout.self)
        let conversation = remote.flush(timeout: timeout, modes: call.luaHost.waitingModes)
        return try wait(call, conversation, in: "remote_port:flush", isRequest: false)
    }

    private static func wait(
        _ call: Call, _ conversation: RunLoop.RemotePort.Conversation, in name: StaticString, isRequest: Bool
    ) throws(Misuse) -> Int32 {
        if let result = conversation.result { return answer(call, result, isRequest: isRequest) }
        let host = call.luaHost
        if let reason = host.reason(notToWaitIn: call.stack) {
            conversation.cancel()
            throw Misuse(reason)
        }
        guard let (number, _) = host.beginExternalWait(in: name, timedOut: { conversation.cancel() }) else {
            conversation.cancel()
            throw .noMemory
        }
        conversation.completion = { [weak host] result in
            guard let host, !host.isClosed, let wait = host.takeWait(number) else { return }
            switch result {
            case .success(let data): host.resume(wait.fiber, withAnswer: data, isRequest: isRequest)
            case .failure(let failure): host.resumeWithReason(wait.fiber, failure.description)
            }
        }
        return call.yield()
    }

    private static func answer(
        _ call: Call, _ result: Result<[UInt8], RunLoop.RemotePort.Failure>, isRequest: Bool
    ) -> Int32 {
        switch result {
        case .success(let data):
            guard isRequest else { return call.answer(true) }
            return data.withUnsafeBytes { call.stack.push($0) } ? 1 : call.raiseValue()
        case .failure(let failure):
            return call.refuse(failure.description)
        }
    }

    private static func text(_ remote: RunLoop.RemotePort, _ call: Call) -> String {
        var parts = [remote.isValid ? "of process \(remote.process)" : "invalid"]
        if remote.unacknowledged > 0 { parts.append("\(remote.unacknowledged) unacknowledged") }
        let site = call.luaHost.site((remote.userInfo as? Site)?.number ?? 0)
        return String("remote_port \"\(remote.name)\"", parts, site: site)
    }
}

/// The remote ports that a state uses, by name.
private final class RemotePorts: HostPart {
    struct WeakRemote { weak var remote: RunLoop.RemotePort? }

    var byName: [String: WeakRemote] = [:]
}

extension LuaHost {
    fileprivate func resume(_ fiber: Fiber, withAnswer data: [UInt8], isRequest: Bool) {
        guard isRequest else {
            fiber.stack.push(true)
            return resume(fiber, arguments: 1)
        }
        guard push(bytes: data, onto: fiber.stack) else {
            return resumeWithReason(fiber, "transport error: not enough memory for an answer of \(data.count) bytes")
        }
        resume(fiber, arguments: 1)
    }
}
