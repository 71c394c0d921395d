internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.remote_port` and the methods of remote ports.
enum RemotePortBinding {
    static let methods = Library([
        .init("request") { request(Call($0)) },
        .init("send") { send(Call($0)) },
        .init("flush") { flush(Call($0)) },
        .init("unacknowledged") { unacknowledged(Call($0)) },
        .init("invalidate") { invalidate(Call($0)) },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { name(Call($0)) },
        .init("process") { process(Call($0)) },
    ])

    /// Where a script has made it.
    private final class Site {
        let number: UInt32
        init(_ number: UInt32) { self.number = number }
    }

    /// rl.remote_port(name): one for each name and thread, as long as it is valid.
    static func find(_ call: Call) -> Int32 {
        guard call.type(1) == LUA_TSTRING else { return call.wrongArgument("rl.remote_port", 1, "a string") }
        guard let name = MessagePortBinding.name(call, 1) else {
            return call.fail("a name must be UTF-8", code: "EINVAL")
        }
        let host = call.luaHost
        if let remote = host.remotes[name]?.remote, remote.isValid { return call.answer(remote, Kinds.remotePort) }
        do throws(SystemError) {
            let remote = try RunLoop.RemotePort(name: name, on: host.loop)
            remote.attachment = Site(cl_site_of_caller(call.thread))
            remote.warned = { [weak host] remote, text in
                host.map { $0.onWarning($0, "remote port \"\(remote.name)\": \(text)") }
            }
            host.remotes = host.remotes.filter { $0.value.remote != nil }
            host.remotes[name] = LuaHost.WeakRemote(remote: remote)
            return call.answer(remote, Kinds.remotePort)
        } catch {
            return call.fail(error)
        }
    }

    private static func remote(_ call: Call) -> RunLoop.RemotePort? {
        call.object(1, Kinds.remotePort, as: RunLoop.RemotePort.self)
    }

    // MARK: Sending

    private static let anId = "an integer from -2147483648 to 2147483647"

    private static func id(_ call: Call) -> Int32? { call.integer(2).flatMap { Int32(exactly: $0) } }

    /// remote:request(id, data, options)
    private static func request(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:request", Kinds.remotePort) }
        guard let id = id(call) else { return call.wrongArgument("remote_port:request", 2, anId) }
        guard let bytes = call.bytes(3) else { return call.wrongArgument("remote_port:request", 3, "a string") }
        var timeouts: [Duration?] = [nil, nil]
        var mode: RunLoop.Mode?
        if !call.isMissing(4) {
            let options: Options
            let names: [StaticString] = ["send_timeout", "reply_timeout", "reply_mode"]
            switch Options.read(call, 4, of: "remote_port:request", names) {
            case .success(let read): options = read
            case .failure(let misuse): return call.raise(misuse.message)
            }
            for field in 0...1 where !options.isMissing(field) {
                guard let duration = call.duration(options.index(field)) else {
                    return call.raise(options.wrong(field, "a number of seconds, 0 or more").message)
                }
                timeouts[field] = .nanoseconds(duration)
            }
            if !options.isMissing(2) {
                mode = call.mode(options.index(2))
                guard mode != nil, mode != .common else {
                    return call.raise(options.wrong(2, "the name of one mode, not of all common ones").message)
                }
            }
        }
        let host = call.luaHost
        if let mode {
            guard host.loop.depth < LoopBinding.deepest else {
                return call.raise("remote_port:request: too many runs inside each other (\(LoopBinding.deepest))")
            }
            if host.endingStatus != nil { return call.raise("interrupted!") }
            let result = remote.request(
                id, Array(bytes), sendTimeout: timeouts[0], replyTimeout: timeouts[1], runningIn: mode,
                while: { host.endingStatus == nil && !host.isClosed })
            if host.endingStatus != nil { return call.raise("interrupted!") }
            return answer(call, result, isRequest: true)
        }
        if let reason = host.reasonNotToWait(call.thread) { return call.raise("remote_port:request: \(reason)") }
        let conversation = remote.request(
            id, Array(bytes), sendTimeout: timeouts[0], replyTimeout: timeouts[1], modes: host.waitingModes)
        return wait(call, conversation, in: "remote_port:request", isRequest: true)
    }

    /// remote:send(id, data, { timeout = … })
    private static func send(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:send", Kinds.remotePort) }
        guard let id = id(call) else { return call.wrongArgument("remote_port:send", 2, anId) }
        guard let bytes = call.bytes(3) else { return call.wrongArgument("remote_port:send", 3, "a string") }
        var timeout: Duration?
        if !call.isMissing(4) {
            let options: Options
            switch Options.read(call, 4, of: "remote_port:send", ["timeout"]) {
            case .success(let read): options = read
            case .failure(let misuse): return call.raise(misuse.message)
            }
            if !options.isMissing(0) {
                guard let duration = call.duration(options.index(0)) else {
                    return call.raise(options.wrong(0, "a number of seconds, 0 or more").message)
                }
                timeout = .nanoseconds(duration)
            }
        }
        let conversation = remote.send(id, Array(bytes), timeout: timeout, modes: call.luaHost.waitingModes)
        return wait(call, conversation, in: "remote_port:send", isRequest: false)
    }

    /// remote:flush(timeout): waits until all that was sent has been handled.
    private static func flush(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:flush", Kinds.remotePort) }
        var timeout: Duration?
        if !call.isMissing(2) {
            guard let duration = call.duration(2) else {
                return call.wrongArgument("remote_port:flush", 2, "a number of seconds, 0 or more")
            }
            timeout = .nanoseconds(duration)
        }
        let conversation = remote.flush(timeout: timeout, modes: call.luaHost.waitingModes)
        return wait(call, conversation, in: "remote_port:flush", isRequest: false)
    }

    private static func wait(
        _ call: Call, _ conversation: RunLoop.RemotePort.Conversation, in name: StaticString, isRequest: Bool
    ) -> Int32 {
        if let result = conversation.result { return answer(call, result, isRequest: isRequest) }
        let host = call.luaHost
        if let reason = host.reasonNotToWait(call.thread) {
            conversation.cancel()
            return call.raise("\(name): \(reason)")
        }
        guard let (number, _) = host.beginExternalWait(in: name, timedOut: { conversation.cancel() }) else {
            conversation.cancel()
            return call.raiseOutOfMemory()
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
            guard call.luaHost.push(bytes: data, onto: call.thread) else { return call.raiseOutOfMemory() }
            return call.values(1)
        case .failure(let failure):
            return call.refuse(failure.description)
        }
    }

    // MARK: What it is

    private static func unacknowledged(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:unacknowledged", Kinds.remotePort) }
        return call.answer(remote.unacknowledged)
    }

    private static func invalidate(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:invalidate", Kinds.remotePort) }
        remote.invalidate()
        return call.nothing()
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:is_valid", Kinds.remotePort) }
        return call.answer(remote.isValid)
    }

    private static func name(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:name", Kinds.remotePort) }
        return call.answer(remote.name)
    }

    private static func process(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:process", Kinds.remotePort) }
        return call.answer(Int(remote.process))
    }

    static func describe(_ call: Call) -> Int32 {
        guard let remote = remote(call) else { return call.wrongSelf("remote_port:__tostring", Kinds.remotePort) }
        var parts = [remote.isValid ? "of process \(remote.process)" : "invalid"]
        if remote.unacknowledged > 0 { parts.append("\(remote.unacknowledged) unacknowledged") }
        if let site = call.luaHost.site((remote.attachment as? Site)?.number ?? 0) { parts.append("made at \(site)") }
        return call.answer("remote_port \"\(remote.name)\" (\(parts.joined(separator: ", ")))")
    }
}

extension LuaHost {
    struct WeakRemote { weak var remote: RunLoop.RemotePort? }

    /// The modes in which a wait that begins now can end.
    var waitingModes: [RunLoop.Mode] {
        guard let mode = loop.currentMode, !loop.commonModeNames.contains(mode) else { return [.common] }
        return [.common, mode]
    }

    fileprivate func resume(_ fiber: Fiber, withAnswer data: [UInt8], isRequest: Bool) {
        guard isRequest else {
            lua_pushboolean(fiber.thread, 1)
            return resume(fiber, arguments: 1)
        }
        guard push(bytes: data, onto: fiber.thread) else {
            return resumeWithReason(fiber, "transport error: not enough memory for an answer of \(data.count) bytes")
        }
        resume(fiber, arguments: 1)
    }
}
