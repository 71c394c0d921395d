internal import Lua
internal import RunLoops

/// A task that a script has started.
///
/// Its results, or its error value, stay on the fiber's stack as long as somebody may ask for them: until the task's userdata
/// is collected.
final class LuaTask: FiberAttachment {
    private unowned let host: LuaHost
    let fiber: Fiber
    var awaiters: [Waiter] = []
    /// How many results are on top of the fiber's stack; -1: an error value is.
    private(set) var results: Int32 = 0
    private(set) var isEnded = false
    /// Which of the state's tasks it was that ended, counted from 1.
    private(set) var endNumber = 0
    private var isCancelled = false
    /// Somebody has seen the error, or will.
    var isObserved = false
    /// What is to be said if nobody ever asks.
    private(set) var failure: Failure?

    init(_ host: LuaHost, _ fiber: Fiber) {
        self.host = host
        self.fiber = fiber
        super.init()
    }

    // Its userdata is gone, and it has ended: nobody can ask for the results any more. A finalizer may be what brings us
    // here, so an error is reported later.
    deinit {
        guard isEnded, !host.isClosed else { return }
        if !isObserved, let failure {
            host.retire(fiber, failure)
        } else if results < 0 {
            host.discardEnded(fiber)
        } else {
            host.recycle(fiber)
        }
    }

    var hasFailed: Bool { isEnded && results < 0 }

    var status: String {
        guard isEnded else { return fiber.state == .waiting ? "waiting" : "running" }
        return results >= 0 ? "done" : isCancelled ? "cancelled" : "failed"
    }

    func forget(_ awaiter: Waiter) { awaiters.removeAll { $0 === awaiter } }

    override func ended(_ fiber: Fiber, results: Int32) -> Bool {
        // From now on only its userdata holds it.
        fiber.attachment = nil
        if results < 0 { hasFailed(fiber) }
        isEnded = true
        self.results = results
        host.endedTasks += 1
        endNumber = host.endedTasks
        let waiting = awaiters
        awaiters = []
        for awaiter in waiting { awaiter.taskEnded(self) }
        return false
    }

    private func hasFailed(_ fiber: Fiber) {
        isObserved = awaiters.contains { $0.purpose == .results }
        // The stack it died in, before its to-be-closed variables change it.
        if !isObserved {
            failure = host.failure(of: fiber)
        }
        host.unwind(fiber)
        isCancelled = wasAskedToEnd && host.isCancelled(fiber.stack)
        if isCancelled { failure = nil }
        guard failure != nil else { return }
        // If the script has dropped the task, nobody will ever ask: collecting garbage finds out.
        host.failures.append(WeakTask(task: self))
        host.findForgottenFailures()
    }

    private var wasAskedToEnd = false

    /// Pushes the results, or the error value.
    func push(onto stack: Stack) -> Bool {
        let count = results < 0 ? 1 : results
        guard count > 0 else { return true }
        let source = fiber.stack
        guard source.reserve(count) else { return false }
        let first = source.top - count + 1
        for i in 0..<count { source.pushCopy(of: first + i) }
        if source != stack { source.move(count, to: stack) }
        return true
    }

    /// Ends the task where it waits, with the error "cancelled"; if it does not wait, where it next does. Returns whether it
    /// had not ended.
    func cancel(from stack: Stack) -> Bool {
        guard !isEnded else { return false }
        wasAskedToEnd = true
        return host.cancel(fiber, from: stack)
    }
}

struct WeakTask { weak var task: LuaTask? }

extension LuaHost {
    /// Whether the error value on top of a stack is the one that cancelling raises.
    func isCancelled(_ stack: Stack) -> Bool {
        guard texts.areMade, stack.reserve(2) else { return false }
        push(stack, slot: texts.cancelled)
        defer { stack.pop() }
        return stack.isSame(-1, -2)
    }

    /// The userdata of a failed task is gone: says what it died of, and gives its fiber back, in the next pass.
    func retire(_ fiber: Fiber, _ failure: Failure) {
        loop.perform { [weak self] in
            guard let self, !isClosed else { return }
            report(failure, of: fiber.stack)
            discardEnded(fiber)
        }
    }

    /// Collects garbage soon, but not all the time: what is not found now is found by Lua's own collections, or at the end.
    func findForgottenFailures() {
        guard !isLookingForFailures, loop.now.nanoseconds >= nextLookForFailures else { return }
        isLookingForFailures = true
        loop.perform { [weak self] in
            guard let self, !isClosed else { return }
            isLookingForFailures = false
            let start = loop.now.nanoseconds
            collectGarbage()
            let end = loop.now.nanoseconds
            nextLookForFailures = end + 20 * (end - start)
            failures.removeAll { $0.task?.isObserved ?? true }
        }
    }

    /// The loop is done: nobody will await the tasks that have failed.
    public func reportFailures() {
        let left = failures.compactMap(\.task).filter { !$0.isObserved }
        failures = []
        for task in left {
            guard let failure = task.failure else { continue }
            task.isObserved = true
            report(failure, of: task.fiber.stack)
        }
    }
}
