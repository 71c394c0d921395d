package import Lua
internal import RunLoops

/// `rl.task` and the methods of tasks.
package enum TaskBinding {
    static let methods: Library = Library(
        of: Kinds.task,
        [
            .init("await") { task($0).run { (task, call) throws(Misuse) in try wait(for: task, call) } },
            .init("cancel") { task($0).run { task, call in call.answer(task.cancel(from: call.stack)) } },
            .init("status") { task($0).answer { $0.status } },
            .init("traceback") { task($0).run { task, call in traceback(task, call) } },
            .init("invalidate") { task($0).run { task, call in call.answer(task.cancel(from: call.stack)) } },
            .init("is_valid") { task($0).answer { !$0.isEnded } },
            .init("name") { task($0).answer { $0.name } },
            .init("__tostring") { text(Call($0)) },
        ])

    /// The user values of a task's userdata.
    enum Value: Int, UserValue {
        case results
        static let labels: [StaticString] = ["results"]
    }

    private static func task(_ thread: OpaquePointer?) -> Receiver<LuaTask> {
        let call = Call(thread)
        guard let task = LuaTask.of(call.receiver) else {
            return Receiver(call, refusal: "this task belongs to another thread; only that thread can use it")
        }
        return Receiver(call, task)
    }

    /// rl.task(fn, …); the new task is argument 1. The task starts at once, and runs until it first waits.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        guard call.stack.type(2) == .table else { return try make(call, site: call.site) }
        return try makeFromTable(call)
    }

    /// (fn, …): starts a task for which the running task waits. The new task keeps the loop alive if the running task
    /// does.
    static func makeChild(_ call: Call) throws(Misuse) -> Int32 {
        try make(call, site: call.site, keepsAlive: call.luaHost.current?.isBackground != true)
    }

    private enum Option: Int, Field {
        case name, keepsAlive
        static let names: [StaticString] = ["name", "keeps_alive"]
    }

    /// rl.task{ fn, …, name =, keeps_alive = }
    private static func makeFromTable(_ call: Call) throws(Misuse) -> Int32 {
        let stack = call.stack
        if call.count > 2 { throw Misuse("after a table of options no further argument is expected") }
        let fields = try call.fields(2, Option.self, positional: true)
        let name = try fields[.name, Name.self] ?? ""
        let keepsAlive = try fields[.keepsAlive, Boolean.self] ?? true
        guard stack.reserve(fields.positional + 4) else { throw .noMemory }
        stack.top = 2
        for i in 0..<max(1, fields.positional) { stack.pushElement(Int(i) + 1, of: 2) }
        guard stack.type(3) == .function else {
            throw Misuse("the first element must be a function, got \(stack.describe(3))")
        }
        stack.remove(at: 2)
        return try make(call, site: call.site, name: name, keepsAlive: keepsAlive)
    }

    /// (site, fn, reason): makes the task of a shutdown function, with the site of its `rl.on_shutdown`. The
    /// Lua-written part calls it.
    static func makeLast(_ call: Call) throws(Misuse) -> Int32 {
        let site = try call.argument(2, Integer.self)
        call.stack.remove(at: 2)
        return try make(call, site: UInt32(clamping: site), isLast: true)
    }

    private static func make(
        _ call: Call, site: UInt32, isLast: Bool = false, name: String = "", keepsAlive: Bool = true
    ) throws(Misuse) -> Int32 {
        let box = call.receiver
        let stack = call.stack
        _ = try call.argument(2, Function.self)
        let host = call.luaHost
        guard let fiber = host.takeFiber() else { throw .noMemory }
        let arguments = call.count - 2
        guard stack.reserve(arguments + 4), fiber.stack.reserve(arguments + 4) else {
            host.recycle(fiber)
            throw .noMemory
        }
        box.site = site
        let task = LuaTask(host, fiber, isLast: isLast)
        if !name.isEmpty { task.name = name }
        fiber.isBackground = !keepsAlive
        box.hold(task)
        fiber.owner = task
        fiber.runs(box, slot: 0)
        host.handLocalsDown(to: fiber)
        // The userdata, the function, and its arguments.
        for index in 1..<(2 + arguments + 1) { stack.pushCopy(of: index) }
        stack.move(arguments + 2, to: fiber.stack)
        fiber.below = 2
        host.resume(fiber, arguments: arguments, from: stack)
        return call.answerArgument(1)
    }

    /// For modules written in Lua: unheld(task): declares that no script can get the task, so that its error is
    /// reported soon. Otherwise the error is reported after a garbage collection has found that no script refers to the
    /// task.
    package static let unheld = Library.Entry("unheld") {
        let call = Call($0)
        if let box = call.stack.box(1, Kinds.task) { LuaTask.of(box)?.becomeUnheld() }
        return call.nothing()
    }

    /// (timer or port, boolean): sets whether the object is in the background: only background tasks wait for it, so
    /// the loop serves it but does not keep running for it.
    static func setBackground(_ call: Call) -> Int32 {
        let isOn = call.boolean(2)
        if let box = call.stack.box(1, Kinds.timer) {
            TimerBinding.node(box).setKeepsAlive(!isOn)
            TimerBinding.node(box).setMayAnswer(isOn)
        } else if let box = call.stack.box(1), let item = ItemBinding.item(box, call.stack)?.item {
            item.keepsAlive = !isOn
            item.mayAnswer = isOn
        }
        return call.nothing()
    }

    private static func wait(for task: LuaTask, _ call: Call) throws(Misuse) -> Int32 {
        let limit = try call.optional(2, WaitBinding.Limit.self)
        guard task.isEnded else {
            guard task.fiber != call.luaHost.current else { throw Misuse("a task cannot await itself") }
            switch call.beginWait(in: "task:await", cancel: Waiter.cancel) {
            case .refused(let answer): return answer
            case .begun(let fiber):
                let host = call.luaHost
                let waiter = Waiter.of(fiber, host)
                waiter.wait(for: [.task(task)], .results)
                if let limit { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
                return call.yield()
            }
        }
        task.observe()
        if let error = task.error { call.withHost { $0.trails.pass(error, task.trail, to: $0.current, call.stack) } }
        guard let count = task.push(onto: call.stack, 1) else { throw .noMemory }
        return task.results < 0 ? call.raiseValue() : call.values(count)
    }

    /// task:traceback(): Returns the traceback of a waiting or running task, or the failure of a failed task; nil for
    /// other tasks.
    private static func traceback(_ task: LuaTask, _ call: Call) -> Int32 {
        guard !task.isEnded else { return task.failure.map { call.answer($0.traceback) } ?? call.answerNil() }
        let fiber = task.fiber
        let head = fiber.state == .waiting ? call.luaHost.waitText(fiber) : "running"
        return call.answer(Failure(head, frames: call.luaHost.frames(of: fiber)).traceback)
    }

    private static func text(_ call: Call) -> Int32 {
        guard let task = LuaTask.of(call.receiver) else {
            let site = call.receiver.object(as: SharedTask.self).site
            return call.answer(String("task", ["of another thread"], site: site))
        }
        let place = task.isEnded || task.fiber.state != .waiting ? "" : " in \(task.fiber.waitsIn)"
        let site = call.luaHost.site(call.receiver.site)
        return call.answer(String("task", name: task.name, [task.status + place], site: site))
    }
}
