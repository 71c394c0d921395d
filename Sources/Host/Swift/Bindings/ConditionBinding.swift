internal import Lua
internal import RunLoops

/// Functions for the Lua parts of `rl.condition`, `rl.channel` and `rl.group`: a queue of waiting tasks, and values
/// that are passed to the first task.
enum ConditionBinding {
    static let methods: Library = Library(
        of: Kinds.condition,
        [
            .init("wait") { condition($0).run { (it, call) throws(Misuse) in try wait(it, it.waitsIn, call) } },
            .init("signal") { condition($0).run { (it, call) throws(Misuse) in call.answer(try signal(it, call)) } },
            .init("broadcast") {
                condition($0).run { (it, call) throws(Misuse) in
                    var count = 0
                    while try signal(it, call) { count += 1 }
                    return call.answer(count)
                }
            },
            .init("__tostring") { condition($0).run { it, call in call.answer(text(it, call)) } },
        ])

    /// Functions for the part written in Lua, with the names that errors show to scripts.
    private static let functions = Library([
        // (name of the wait, or nil)
        .init("new", constructs: Kinds.condition) { call in
            let call = Call(call), condition = LuaCondition()
            if let name = call.string(2).flatMap({ WaitName.of($0) }) { condition.waitsIn = name }
            return call.answerConstructed(condition)
        },
        .init("channel:receive") { Call.run($0) { call throws(Misuse) in try waitAs("channel:receive", call) } },
        .init("channel:send") { Call.run($0) { call throws(Misuse) in try waitAs("channel:send", call) } },
        .init("group:wait") { Call.run($0) { call throws(Misuse) in try waitAs("group:wait", call) } },
        .init("wake") { Call.run($0, wake) },
        .init("take") { Call.run($0, take) },
    ])

    /// () -> a table of these functions. The first call defines the kind, because most scripts do not use it.
    static func open(_ call: Call) -> Int32 {
        guard call.define(Kinds.condition), call.push(functions) else { return call.raiseValue() }
        return call.values(1)
    }

    private static func condition(_ thread: OpaquePointer?) -> Receiver<LuaCondition> {
        receiver(thread, LuaCondition.self)
    }

    private enum Queue: Parameter {
        static let expected = "a condition"
        static func read(_ stack: Stack, _ index: Int32) -> LuaCondition? {
            stack.object(index, Kinds.condition, as: LuaCondition.self)
        }
    }

    /// (condition, timeout, …) -> the values with which the task is woken, or nil, "timed out". `take` can take the
    /// values after the timeout.
    private static func waitAs(_ name: StaticString, _ call: Call) throws(Misuse) -> Int32 {
        try wait(try call.argument(1, Queue.self), name, call)
    }

    private static func wait(_ condition: LuaCondition, _ name: StaticString, _ call: Call) throws(Misuse) -> Int32 {
        let limit = try call.optional(2, WaitBinding.Limit.self)
        switch call.beginWait(in: name, cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let host = call.luaHost
            let waiter = Waiter.of(fiber, host)
            waiter.wait(on: condition)
            if let limit { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
            return call.yield()
        }
    }

    private static func signal(_ condition: LuaCondition, _ call: Call) throws(Misuse) -> Bool {
        guard let waiter = condition.next else { return false }
        call.stack.push(true)
        guard waiter.wake(with: 1, from: call.stack) else { throw .noMemory }
        return true
    }

    /// (condition, values…) -> whether a task waited, which now goes on with the values.
    private static func wake(_ call: Call) throws(Misuse) -> Int32 {
        guard let waiter = try call.argument(1, Queue.self).next else { return call.answer(false) }
        guard waiter.wake(with: call.count - 1, from: call.stack) else { throw .noMemory }
        return call.answer(true)
    }

    /// (condition) -> the values that the first waiting task offers; nothing if no task waits. The wait of
    /// that task returns true.
    private static func take(_ call: Call) throws(Misuse) -> Int32 {
        guard let waiter = try call.argument(1, Queue.self).next else { return call.nothing() }
        let source = waiter.fiber.stack
        // On the waiter's stack, the values come after the condition and the timeout.
        let count = source.top - 2
        guard count > 0 else { return call.nothing() }
        guard call.stack.reserve(count + 4), source.reserve(count + 4) else { throw .noMemory }
        for index in 3..<(3 + count) { source.pushCopy(of: index) }
        source.move(count, to: call.stack)
        call.stack.push(true)
        guard waiter.wake(with: 1, from: call.stack) else { throw .noMemory }
        return call.values(count)
    }

    private static func text(_ condition: LuaCondition, _ call: Call) -> String {
        let state = condition.next == nil ? "nobody waits" : "somebody waits"
        return String("condition", [state], site: call.luaHost.site(call.receiver.site))
    }
}
