internal import Linux
package import Lua
internal import RunLoops

/// `rl.sleep`, `rl.wait_readable`, `rl.wait_writable`, and functions for the Lua parts of `rl.timeout`, `rl.first_of`,
/// `rl.all_of` and `rl.backoff`.
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

    /// (seconds, site): sleeps for a backoff object with this creation site.
    static func backOff(_ call: Call) throws(Misuse) -> Int32 {
        let duration = try call.argument(1, Seconds.self)
        switch call.beginWait(in: "backoff:wait", cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let host = call.luaHost
            fiber.objectSite = UInt32(clamping: call.integer(2) ?? 0)
            Waiter.of(fiber, host).sleep(until: host.loop.now.nanoseconds + duration, host)
            return call.yield()
        }
    }

    enum Limit: Parameter {
        static let expected = "a number of seconds, 0 or more, or nil for no limit"
        static func read(_ stack: Stack, _ index: Int32) -> Int64? { Seconds.read(stack, index) }
    }

    // The prelude calls these: (fd, timeout) -> events; nil if the time is over; or the system's error.

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

    // The prelude calls these with (tasks and futures, timeout). The result is the position of the task or future that
    // ends first or, for rl.all_of, that fails first. The result is 0 if all have ended without an error, and nil if
    // the time is over. It is false if the time is over, but one of the tasks has received its result already, and goes
    // on in this pass.

    static func timeout(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .anyOf, "rl.timeout", call) }
    static func firstOf(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .anyOf, "rl.first_of", call) }
    static func allOf(_ call: Call) throws(Misuse) -> Int32 { try wait(for: .allOf, "rl.all_of", call) }

    private static func wait(
        for purpose: Waiter.Purpose, _ name: StaticString, _ call: Call
    ) throws(Misuse) -> Int32 {
        let stack = call.stack
        guard stack.type(1) == .table else { throw call.wrong(1, "an array of tasks and futures") }
        let host = call.luaHost
        var awaited: [Awaited] = []
        for i in 0..<stack.length(of: 1) {
            stack.pushElement(i + 1, of: 1)
            defer { stack.pop() }
            if let box = stack.box(-1, Kinds.future) {
                awaited.append(.future(box.payload(as: Future.self)))
                continue
            }
            guard let box = stack.box(-1, Kinds.task), box.isFilled else {
                throw Misuse("a task or a future is expected, got \(stack.describe(-1))")
            }
            guard let task = LuaTask.of(box) else { throw Misuse("only a task's own thread can wait for it") }
            guard task.isEnded || task.fiber != host.current else { throw Misuse("a task cannot await itself") }
            awaited.append(.task(task))
        }
        if let position = Waiter.decisive(awaited, purpose) { return call.answer(position) }
        switch call.beginWait(in: name, cancel: Waiter.cancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let waiter = Waiter.of(fiber, host)
            waiter.wait(for: awaited, purpose)
            if let limit = Seconds.read(stack, 2) { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
            return call.yield()
        }
    }
}

extension Call {
    /// The outcome of an attempt to wait.
    package enum WaitStart {
        /// Arrange that something lets the fiber go on, then return `yield()`.
        case begun(Fiber)
        /// Return this value.
        case refused(Int32)
    }

    /// Makes the running task wait, unless it must not wait here or was cancelled while it ran.
    ///
    /// - Parameters:
    ///   - name: the function that waits, for messages.
    ///   - cancel: called if the task is cancelled meanwhile. A closure that captures nothing allocates nothing.
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

    /// Whether the running task may wait now.
    package var mayWait: Bool { withHost { $0.reason(notToWaitIn: stack) == nil } }

    /// If the running task must not wait here, or was cancelled while it ran, returns the error; nil if it may wait.
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
    /// Whether a failed task was cancelled. The task's error value is on top of the stack.
    package func wasCancelled(_ fiber: Fiber) -> Bool { isCancelled(fiber.stack) }

    /// Raises "cancelled" in a fiber: where it waits or, if it runs, at its next wait. Returns false if the fiber has
    /// ended.
    ///
    /// - Parameter stack: the coroutine that calls this, if one does.
    @discardableResult
    package func cancel(_ fiber: Fiber, from stack: Stack? = nil) -> Bool {
        switch fiber.state {
        case .running:
            fiber.isToBeCancelled = true
            return true
        case .waiting:
            guard let cancelWait = fiber.cancelWait, fiber.stack.reserve(4) else { return false }
            if Waiter.isWoken(fiber) {
                // The task has received the result of its wait, which would be lost if the error were raised now.
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

    /// Cancels everything that waits, newest first: tasks, callbacks and chunks. Running ones are left alone.
    public func cancelAllTasks() {
        for fiber in fibersThatWait().reversed() where fiber.state == .waiting { cancel(fiber) }
    }
}
