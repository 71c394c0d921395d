internal import Lua
internal import RunLoops

/// `rl.future` and the methods of futures.
enum FutureBinding {
    static let methods: Library = Library(
        of: Kinds.future,
        [
            .init("complete") { end($0, .completed) },
            .init("fail") { end($0, .failed) },
            .init("await") { Call.run($0, wait) },
            .init("is_done") { call in Call(call).answer(future(Call(call)).pointee.state != .open) },
            .init("__tostring") { text(Call($0)) },
        ])

    /// The user values of a future's userdata.
    enum Value: Int, UserValue {
        case answer
        static let labels: [StaticString] = ["answer"]
    }

    private static let functions = Library(
        "rl.",
        [
            .init("future", constructs: Kinds.future) { Call.run($0, make) },
            .init("bare_future", constructs: Kinds.future) { Call($0).values(1) },
        ])

    /// () -> the function `rl.future`. The first call defines the kind, because most scripts do not use it.
    static func open(_ call: Call) -> Int32 { open("future", call) }

    /// () -> a function that makes futures without a creation site, since finding the site takes time.
    static func openBare(_ call: Call) -> Int32 { open("bare_future", call) }

    private static func open(_ name: String, _ call: Call) -> Int32 {
        guard call.define(Kinds.future), call.push(functions), call.stack.replaceTop(withField: name) else {
            return call.raiseValue()
        }
        return call.values(1)
    }

    @inline(__always)
    private static func future(_ call: Call) -> Future.Pointer { call.receiver.payload(as: Future.self) }

    private static func make(_ call: Call) throws(Misuse) -> Int32 {
        guard call.count == 1 else { throw Misuse("no arguments are expected") }
        call.receiver.site = call.site
        return call.values(1)
    }

    /// (future, values…) or (future, error) -> whether the future had no answer yet.
    private static func end(_ thread: OpaquePointer?, _ state: Future.State) -> Int32 {
        let call = Call(thread)
        let future = future(call)
        guard future.pointee.state == .open else { return call.answer(false) }
        let count = state == .completed ? call.count - 1 : 1
        if state == .failed { call.stack.top = 2 }
        return call.withHost { host in
            if state == .failed { host.trails.failed(future, call.stack) }
            let isEnded = Future.end(future, state, call.stack, count: count, host)
            return isEnded ? call.answer(true) : call.raiseOutOfMemory()
        }
    }

    /// (future, timeout) -> the values, or nil, "timed out".
    private static func wait(_ call: Call) throws(Misuse) -> Int32 {
        let limit = try call.optional(2, WaitBinding.Limit.self)
        let future = future(call)
        if future.pointee.state != .open {
            guard let count = Future.push(future, onto: call.stack) else { throw .noMemory }
            guard future.pointee.state == .failed else { return call.values(count) }
            call.withHost { $0.trails.pass(errorOf: future, to: $0.current, call.stack) }
            return call.raiseValue()
        }
        return call.withHost { host in
            switch call.beginWait(in: "future:await", host, cancel: Waiter.cancel) {
            case .refused(let answer): return answer
            case .begun(let fiber):
                fiber.objectSite = Future.site(future)
                Waiter.use(fiber, host) { waiter in
                    waiter.wait(in: Future.queue(future), .future)
                    if let limit { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
                }
                return call.yield()
            }
        }
    }

    private static func text(_ call: Call) -> Int32 {
        let future = future(call).pointee
        let state =
            switch future.state {
            case .open: future.waiters.first == nil ? "nobody waits" : "\(future.waiters.count) waiting"
            case .completed: "done"
            case .failed: "failed"
            }
        return call.answer(String("future", [state], site: call.luaHost.site(call.receiver.site)))
    }
}
