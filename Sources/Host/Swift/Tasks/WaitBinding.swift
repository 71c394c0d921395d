internal import Linux
package import Lua
internal import RunLoops

/// `rl.sleep`, `rl.wait_readable`, `rl.wait_writable`, and what `rl.timeout`, `rl.first_of` and `rl.all_of` are built on.
enum WaitBinding {
    /// rl.sleep(seconds)
    static func sleep(_ call: Call) throws(Misuse) -> Int32 {
        let duration = try call.argument(1, Seconds.self)
        return call.withHost { host in
            switch call.beginWait(in: "rl.sleep", host, cancel: Waiter.cancel) {
            case .refused(let answer): return answer
            case .begun(let fiber):
                let date = host.loop.now.nanoseconds + duration
                Waiter.use(fiber, host) { $0.sleep(until: date, host) }
                return call.yield()
            }
        }
    }

    enum Limit: Parameter {
        static let expected = "a number of seconds, 0 or more, or nil for no limit"
        static func read(_ stack: Stack, _ index: Int32) -> Int64? { Seconds.read(stack, index) }
    }

    // As the prelude calls them: (fd, timeout) -> events, or nil when the time is over, or what the world refuses.

    static func waitReadable(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .read, "rl.wait_readable", call) }
    static func waitWritable(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .write, "rl.wait_writable", call) }

    private static func wait(
        for events: RunLoop.FDPort.Events, _ name: StaticString, _ call: Call
    ) throws(Misuse) -> Int32 {
        let fd = try call.argument(1, DescriptorNumber.self)
        let limit = try call.optional(2, Limit.self)
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
            if let limit { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
            return call.yield()
        }
    }

    // As the prelude calls them: (tasks, timeout) -> the position of the task that decides: the first to end or, in rl.all_of, to
    // fail; 0: all have ended well; nil: the time is over.

    static func timeout(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .anyOf, "rl.timeout", call) }
    static func firstOf(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .anyOf, "rl.first_of", call) }
    static func allOf(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .allOf, "rl.all_of", call) }

    private static func wait(
        for purpose: Waiter.Purpose, _ name: StaticString, _ call: Call
    ) throws(Misuse) -> Int32 {
        let stack = call.stack
        guard stack.type(1) == .table else { throw call.wrong(1, "an array of tasks") }
        let host = call.luaHost
        var tasks: [LuaTask] = []
        for i in 0..<stack.length(of: 1) {
            stack.pushElement(i + 1, of: 1)
            defer { stack.pop() }
            guard let box = stack.box(-1, Kinds.task), box.isFilled else {
                throw Misuse("a task is expected, got \(stack.describe(-1))")
            }
            guard let task = LuaTask.of(box) else { throw Misuse("only a task's own thread can wait for it") }
            guard task.isEnded || task.fiber != host.current else { throw Misuse("a task cannot await itself") }
            tasks.append(task)
        }
        if let position = Waiter.decisive(tasks, purpose) { return call.answer(position) }
        switch call.beginWait(in: name, cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let waiter = Waiter.of(fiber, host)
            waiter.wait(for: tasks, purpose)
            if let limit = Seconds.read(stack, 2) { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
            return call.yield()
        }
    }
}

extension Call {
    /// What comes of the wish to wait.
    package enum WaitStart {
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
    package func beginWait(in name: StaticString, cancel: @escaping (Fiber) -> Void) -> WaitStart {
        withHost { beginWait(in: name, $0, cancel: cancel) }
    }

    @inline(__always)
    func beginWait(in name: StaticString, _ host: LuaHost, cancel: @escaping (Fiber) -> Void) -> WaitStart {
        if let refusal = refusalToWait(in: name, host) { return .refused(refusal) }
        guard let fiber = host.beginWait(in: name, cancel: cancel) else { return .refused(raiseOutOfMemory()) }
        fiber.waitsSince = host.loop.latestDate.nanoseconds
        return .begun(fiber)
    }

    /// Whether a wait that began now would.
    package var mayWait: Bool { withHost { $0.reason(notToWaitIn: stack) == nil } }

    /// What to return if the running task must not wait, or has been cancelled while it ran; nil if it may.
    package func refusalToWait(in name: StaticString) -> Int32? { withHost { refusalToWait(in: name, $0) } }

    private func refusalToWait(in name: StaticString, _ host: LuaHost) -> Int32? {
        if let reason = host.reason(notToWaitIn: stack) { return raise("\(name): \(reason)") }
        guard let fiber = host.current, fiber.isToBeCancelled else { return nil }
        fiber.isToBeCancelled = false
        host.push(stack, slot: host.cancelled)
        return raiseValue()
    }
}

extension LuaHost {
    /// Whether a task that has failed was cancelled: its error value is on top of the stack.
    package func wasCancelled(_ fiber: Fiber) -> Bool { isCancelled(fiber.stack) }

    /// Raises "cancelled" in a fiber: where it waits, or, if it does not, as soon as it wants to. Returns false if it has ended.
    ///
    /// - Parameter stack: the coroutine that asks for this, if one does.
    @discardableResult
    package func cancel(_ fiber: Fiber, from stack: Stack? = nil) -> Bool {
        switch fiber.state {
        case .running:
            fiber.isToBeCancelled = true
            return true
        case .waiting:
            guard let cancelWait = fiber.cancelWait, fiber.stack.reserve(4) else { return false }
            if Waiter.isWoken(fiber) {
                // It has got what it waited for, which would be lost.
                fiber.isToBeCancelled = true
                return true
            }
            cancelWait(fiber)
            fiber.stack.pushRaiseMark()
            push(fiber.stack, slot: cancelled)
            resume(fiber, arguments: 2, from: stack)
            return true
        case .idle, .ended: return false
        }
    }

    /// Cancels whatever waits, newest first: tasks, callbacks and chunks. Those that run are left alone.
    public func cancelAllTasks() {
        for fiber in fibersThatWait().reversed() where fiber.state == .waiting { cancel(fiber) }
    }
}
