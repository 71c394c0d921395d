internal import CLuaSupport
internal import Lua
internal import RunLoops

/// `rl.task` and the methods of tasks.
enum TaskBinding {
    static let methods = Library([
        .init("await") { wait(for: Call($0)) },
        .init("cancel") { cancel(Call($0), "task:cancel") },
        .init("status") { status(Call($0)) },
        .init("invalidate") { cancel(Call($0), "task:invalidate") },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { name(Call($0)) },
    ])

    /// rl.task(fn, …); the new task is argument 1. It starts at once, and runs until it first waits.
    static func make(_ call: Call) -> Int32 {
        guard call.type(2) == LUA_TFUNCTION else {
            return call.raise("rl.task: argument #1 must be a function, got \(call.describe(2))")
        }
        let host = call.luaHost
        guard let box = call.box(1, Kinds.task), let fiber = host.takeFiber() else { return call.raiseOutOfMemory() }
        let thread = call.thread
        let arguments = call.count - 2
        guard lua_checkstack(thread, arguments + 4) != 0, lua_checkstack(fiber.thread, arguments + 4) != 0 else {
            host.recycle(fiber)
            return call.raiseOutOfMemory()
        }
        box.pointee.site = cl_site_of_caller(thread)
        let task = LuaTask(host, fiber)
        box.pointee.object = Unmanaged.passRetained(task).toOpaque()
        fiber.attachment = task
        fiber.runs(UnsafeMutableRawPointer(box), slot: 0)
        for index in 2..<(2 + arguments + 1) { lua_pushvalue(thread, index) }
        lua_xmove(thread, fiber.thread, arguments + 1)
        host.resume(fiber, arguments: arguments, from: thread)
        return call.answerArgument(1)
    }

    private static func task(_ call: Call) -> LuaTask? { call.object(1, Kinds.task, as: LuaTask.self) }

    private static func wait(for call: Call) -> Int32 {
        guard let task = task(call) else { return call.wrongSelf("task:await", Kinds.task) }
        guard task.isEnded else {
            guard task.fiber != call.luaHost.current else {
                return call.raise("task:await: a task cannot await itself")
            }
            switch call.beginWait(in: "task:await", cancel: Waiter.cancel) {
            case .refused(let answer): return answer
            case .begun(let fiber):
                Waiter.of(fiber, call.luaHost).wait(for: [task], .results)
                return call.yield()
            }
        }
        task.isObserved = true
        guard lua_checkstack(call.thread, 4 + max(0, task.results)) != 0, task.push(onto: call.thread) else {
            return call.raiseOutOfMemory()
        }
        return task.results < 0 ? call.raiseValue() : call.values(task.results)
    }

    private static func cancel(_ call: Call, _ function: StaticString) -> Int32 {
        guard let task = task(call) else { return call.wrongSelf(function, Kinds.task) }
        return call.answer(task.cancel(from: call.thread))
    }

    private static func status(_ call: Call) -> Int32 {
        guard let task = task(call) else { return call.wrongSelf("task:status", Kinds.task) }
        return call.answer(task.status)
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let task = task(call) else { return call.wrongSelf("task:is_valid", Kinds.task) }
        return call.answer(!task.isEnded)
    }

    private static func name(_ call: Call) -> Int32 {
        guard task(call) != nil else { return call.wrongSelf("task:name", Kinds.task) }
        return call.answer("")
    }

    static func describe(_ call: Call) -> Int32 {
        guard let task = task(call), let box = call.box(1, Kinds.task) else {
            return call.wrongSelf("task:__tostring", Kinds.task)
        }
        let place = task.isEnded || task.fiber.state != .waiting ? "" : " in \(task.fiber.waitsIn)"
        let site = call.luaHost.site(box.pointee.site).map { ", made at \($0)" } ?? ""
        return call.answer("task (\(task.status)\(place)\(site))")
    }
}
