internal import CLuaSupport
internal import Lua
internal import RunLoops

/// `rl.task`, `rl.sleep` and the methods of tasks.
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
        host.resume(fiber, arguments: arguments)
        return call.answerArgument(1)
    }

    private static func task(_ call: Call) -> LuaTask? { call.object(1, Kinds.task, as: LuaTask.self) }

    private static func wait(for call: Call) -> Int32 {
        guard let task = task(call) else { return call.wrongSelf("task:await", Kinds.task) }
        guard task.isEnded else {
            if let reason = call.luaHost.reasonNotToWait(call.thread) { return call.raise("task:await: \(reason)") }
            guard task.fiber !== call.luaHost.current else {
                return call.raise("task:await: a task cannot await itself")
            }
            guard let fiber = call.luaHost.beginWait(in: "task:await", cancel: { [weak task] in task?.forget($0) })
            else { return call.raiseOutOfMemory() }
            task.awaiters.append(fiber)
            return call.yield()
        }
        task.isObserved = true
        guard lua_checkstack(call.thread, 4 + max(0, task.results)) != 0, task.push(onto: call.thread) else {
            return call.raiseOutOfMemory()
        }
        return task.results < 0 ? call.raiseValue() : call.values(task.results)
    }

    private static func cancel(_ call: Call, _ function: StaticString) -> Int32 {
        guard let task = task(call) else { return call.wrongSelf(function, Kinds.task) }
        return call.answer(task.cancel())
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

    /// rl.sleep(seconds)
    static func sleep(_ call: Call) -> Int32 {
        guard let duration = call.duration(1) else {
            return call.wrongArgument("rl.sleep", 1, "a number of seconds, 0 or more")
        }
        let host = call.luaHost
        if let reason = host.reasonNotToWait(call.thread) { return call.raise("rl.sleep: \(reason)") }
        guard let fiber = host.current else { return call.nothing() }
        let node = host.sleepers.node(for: fiber, date: host.loop.now.nanoseconds + duration)
        _ = host.beginWait(in: "rl.sleep") { _ in node.invalidate() }
        host.addToWaitingModes(node)
        return call.yield()
    }
}

/// A task that a script has started.
final class LuaTask: FiberAttachment {
    private unowned(unsafe) let host: LuaHost  // it outlives us
    let fiber: Fiber
    var awaiters: [Fiber] = []
    /// How many results are on top of the fiber's stack; -1: an error value is.
    private(set) var results: Int32 = 0
    private(set) var isEnded = false
    private var isCancelled = false
    /// Somebody has seen the error.
    var isObserved = false
    fileprivate(set) var explanation = ""

    init(_ host: LuaHost, _ fiber: Fiber) {
        self.host = host
        self.fiber = fiber
        super.init()
    }

    // Its userdata is gone, and it has ended: nobody can ask for the results any more. A finalizer may be what brings us
    // here, so nothing touches Lua before the next pass.
    deinit {
        guard isEnded, !host.isClosed else { return }
        host.retire(fiber, error: results < 0 && !isObserved && !isCancelled ? explanation : nil)
    }

    var status: String {
        guard isEnded else { return fiber.state == .waiting ? "waiting" : "running" }
        return results >= 0 ? "done" : isCancelled ? "cancelled" : "failed"
    }

    override func ended(_ fiber: Fiber, results: Int32) -> Bool {
        // From now on only its userdata holds it.
        fiber.attachment = nil
        end(results: results)
        return false
    }

    func forget(_ awaiter: Fiber) { awaiters.removeAll { $0 === awaiter } }

    /// The results stay on the fiber's stack as long as somebody may ask for them.
    private func end(results: Int32) {
        isEnded = true
        self.results = results
        let waiting = awaiters
        awaiters = []
        if !waiting.isEmpty { isObserved = true }
        if results < 0, !isObserved, !isCancelled {
            explanation = host.report(of: fiber)
            // If the script has dropped the task, nobody will ever ask: collecting garbage finds out.
            host.failures.append(WeakTask(task: self))
            host.findForgottenFailures()
        }
        for awaiter in waiting where lua_checkstack(awaiter.thread, max(2, results) + 2) != 0 {
            if results < 0 { lua_pushlightuserdata(awaiter.thread, cl_raise_mark()) }
            guard push(onto: awaiter.thread) else { continue }
            host.resume(awaiter, arguments: results < 0 ? 2 : results)
        }
    }

    /// Pushes the results, or the error value.
    func push(onto thread: OpaquePointer) -> Bool {
        let count = results < 0 ? 1 : results
        guard count > 0 else { return true }
        let source = fiber.thread
        guard lua_checkstack(source, count) != 0 else { return false }
        let first = lua_gettop(source) - count + 1
        for i in 0..<count { lua_pushvalue(source, first + i) }
        if source != thread { lua_xmove(source, thread, count) }
        return true
    }

    /// Ends the task where it waits, with the error "cancelled". Returns whether it was waiting.
    func cancel() -> Bool {
        guard !isEnded, fiber.state == .waiting, let cancelWait = fiber.cancelWait else { return false }
        isCancelled = true
        cancelWait(fiber)
        guard lua_checkstack(fiber.thread, 4) != 0 else { return false }
        lua_pushlightuserdata(fiber.thread, cl_raise_mark())
        host.pushCancelled(onto: fiber)
        host.resume(fiber, arguments: 2)
        return true
    }
}

struct WeakTask { weak var task: LuaTask? }

/// The timers in which tasks sleep. Each fiber has two nodes of its own: while one fires, and so lets the task go on, the
/// task may already sleep in the other.
final class Sleepers: RunLoop.TimerOwner {
    // It owns us, and outlives us. `unowned` would count references at each callback.
    unowned(unsafe) var host: LuaHost! = nil

    final class Nodes {
        let pair = UnsafeMutablePointer<RunLoop.TimerNode>.allocate(capacity: 2)
        let owner: Sleepers
        let fiber: Unmanaged<Fiber>

        init(_ owner: Sleepers, _ fiber: Fiber) {
            self.owner = owner
            self.fiber = Unmanaged.passUnretained(fiber)
            for i in 0...1 { (pair + i).initialize(to: .init(fireDate: 0, owner: owner)) }
        }

        deinit { pair.deallocate() }
    }

    func node(for fiber: Fiber, date: Int64) -> UnsafeMutablePointer<RunLoop.TimerNode> {
        // Nobody else puts anything there.
        let nodes = fiber.sleeper.map { unsafe unsafeDowncast($0, to: Nodes.self) } ?? Nodes(self, fiber)
        fiber.sleeper = nodes
        let node = nodes.pair[0].isFiring ? nodes.pair + 1 : nodes.pair
        node.pointee = RunLoop.TimerNode(
            fireDate: date, owner: self, context: Int(bitPattern: Unmanaged.passUnretained(fiber).toOpaque()))
        return node
    }

    override func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        guard !host.isClosed, let pointer = UnsafeRawPointer(bitPattern: node.pointee.context) else { return }
        // A fiber lives as long as its interpreter.
        host.resume(unsafe Unmanaged<Fiber>.fromOpaque(pointer).takeUnretainedValue(), arguments: 0)
    }
}

extension LuaHost {
    /// A wait is over in every common mode, and in the mode that runs now.
    func addToWaitingModes(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) {
        loop.add(node, to: .common)
        if let mode = loop.currentMode, !loop.commonModeNames.contains(mode) { loop.add(node, to: mode) }
    }

    /// Message, traceback and what it was in.
    func report(of fiber: Fiber) -> String {
        let text = explanation(of: fiber.thread)
        return describeSubject(fiber).map { "\(text)\nin \($0)" } ?? text
    }

    /// A task's userdata is gone: gives its fiber back in the next pass, and says what it died of.
    func retire(_ fiber: Fiber, error: String?) {
        loop.perform { [unowned(unsafe) loop] in  // the closure is in its queue
            guard let self = loop.attachment as? LuaHost else { return }
            if let error { self.onUncaught(self, error) }
            self.discard(fiber)
        }
    }

    func findForgottenFailures() {
        loop.perform { [unowned(unsafe) loop] in
            guard let self = loop.attachment as? LuaHost, !self.isClosed else { return }
            lua_gc_collect(self.main)
            self.failures.removeAll { $0.task?.isObserved ?? true }
        }
    }

    /// The loop is done: nobody will await the tasks that have failed.
    public func reportFailures() {
        let left = failures.compactMap(\.task).filter { !$0.isObserved }
        failures = []
        for task in left {
            task.isObserved = true
            onUncaught(self, task.explanation)
        }
    }
}
