internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.sleep`, `rl.wait_readable`, `rl.wait_writable`, and what `rl.timeout`, `rl.first_of` and `rl.all_of` are built on.
enum WaitBinding {
    /// rl.sleep(seconds)
    static func sleep(_ call: Call) -> Int32 {
        guard let duration = call.duration(1) else {
            return call.wrongArgument("rl.sleep", 1, "a number of seconds, 0 or more")
        }
        let host = call.luaHost
        switch call.beginWait(in: "rl.sleep", cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            Waiter.of(fiber, host).sleep(until: host.loop.now.nanoseconds + duration, host)
            return call.yield()
        }
    }

    private static let descriptorWaits: [(name: StaticString, events: RunLoop.FDPort.Events)] = [
        ("rl.wait_readable", .read), ("rl.wait_writable", .write),
    ]

    /// (fd, timeout, 1 or 2 of the above) -> events, or nil when the time is over, or what the world refuses.
    static func waitForDescriptor(_ call: Call) -> Int32 {
        guard let number = call.integer(1), let fd = Int32(exactly: number), let which = call.integer(3),
            descriptorWaits.indices.contains(which - 1)
        else { return call.raise("a descriptor is expected, got \(call.describe(1))") }
        let (name, events) = descriptorWaits[which - 1]
        guard call.isMissing(2) || call.duration(2) != nil else {
            return call.wrongArgument(name, 2, "a number of seconds, 0 or more, or nil for no limit")
        }
        let host = call.luaHost
        switch call.beginWait(in: name, cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let waiter = Waiter.of(fiber, host)
            do throws(SystemError) {
                try waiter.wait(for: fd, events, host)
            } catch {
                host.endWait(fiber)
                return call.fail(error)
            }
            if let limit = call.duration(2) { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
            return call.yield()
        }
    }

    private static let taskWaits: [(name: StaticString, purpose: Waiter.Purpose)] = [
        ("rl.timeout", .anyOf), ("rl.first_of", .anyOf), ("rl.all_of", .allOf),
    ]

    /// (tasks, timeout, 1 to 3 of the above) -> the position of the task that decides: the first to end or, in rl.all_of, to
    /// fail; 0: all have ended well; nil: the time is over.
    static func waitForTasks(_ call: Call) -> Int32 {
        guard let which = call.integer(3), taskWaits.indices.contains(which - 1), call.type(1) == LUA_TTABLE else {
            return call.raise("tasks are expected, got \(call.describe(1))")
        }
        let (name, purpose) = taskWaits[which - 1]
        let host = call.luaHost
        var tasks: [LuaTask] = []
        for i in 0..<lua_rawlen(call.thread, 1) {
            lua_rawgeti(call.thread, 1, lua_Integer(i + 1))
            defer { cl_pop(call.thread, 1) }
            guard let task = call.object(-1, Kinds.task, as: LuaTask.self) else {
                return call.raise("\(name): a task is expected, got \(call.describe(-1))")
            }
            guard task.isEnded || task.fiber != host.current else {
                return call.raise("\(name): a task cannot await itself")
            }
            tasks.append(task)
        }
        if let position = Waiter.decisive(tasks, purpose) { return call.answer(position) }
        switch call.beginWait(in: name, cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let waiter = Waiter.of(fiber, host)
            waiter.wait(for: tasks, purpose)
            if let limit = call.duration(2) { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
            return call.yield()
        }
    }
}

extension Call {
    /// What comes of the wish to wait.
    enum WaitStart {
        /// Return `yield()`, when it is clear who lets the fiber go on.
        case begun(Fiber)
        /// Return this.
        case refused(Int32)
    }

    /// The running task waits from now on, unless it must not, or has been cancelled while it ran.
    ///
    /// - Parameters:
    ///   - name: the function that waits, for messages.
    ///   - cancel: called if the task is cancelled meanwhile. Let it capture nothing: then it costs nothing.
    func beginWait(in name: StaticString, cancel: @escaping (Fiber) -> Void) -> WaitStart {
        if let refusal = refusalToWait(in: name) { return .refused(refusal) }
        let host = luaHost
        guard let fiber = host.beginWait(in: name, cancel: cancel) else { return .refused(raiseOutOfMemory()) }
        return .begun(fiber)
    }

    /// What to return if the running task must not wait, or has been cancelled while it ran; nil if it may.
    func refusalToWait(in name: StaticString) -> Int32? {
        let host = luaHost
        if let reason = host.reasonNotToWait(thread) { return raise("\(name): \(reason)") }
        guard let fiber = host.current, fiber.isToBeCancelled else { return nil }
        fiber.isToBeCancelled = false
        host.push(thread, slot: host.cancelled)
        return raiseValue()
    }
}

extension LuaHost {
    /// The anchored string "cancelled".
    var cancelled: UInt32 { strings[22] }

    /// Raises "cancelled" in a fiber: where it waits, or, if it does not, as soon as it wants to. Returns false if it has ended.
    ///
    /// - Parameter thread: the coroutine that asks for this, if one does.
    @discardableResult
    func cancel(_ fiber: Fiber, from thread: OpaquePointer? = nil) -> Bool {
        switch fiber.state {
        case .running:
            fiber.isToBeCancelled = true
            return true
        case .waiting:
            guard let cancelWait = fiber.cancelWait, lua_checkstack(fiber.thread, 4) != 0 else { return false }
            cancelWait(fiber)
            lua_pushlightuserdata(fiber.thread, cl_raise_mark())
            push(fiber.thread, slot: cancelled)
            resume(fiber, arguments: 2, from: thread)
            return true
        case .idle, .ended: return false
        }
    }

    /// Cancels whatever waits: tasks, callbacks and chunks. Those that run are left alone.
    public func cancelAllTasks() {
        for fiber in fibersThatWait() where fiber.state == .waiting { cancel(fiber) }
    }
}
