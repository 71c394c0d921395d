public import Lua
internal import RunLoops

// Tasks with `keeps_alive = false`: the loop serves them, and does not keep running for their waits.

extension LuaHost {
    /// Whether code waits for a result that a task or stream with `keeps_alive = false` may bring: a chunk or a test
    /// waits for anything, or a task waits in `future:await`.
    var awaitsAnswer: Bool {
        for fiber in mains where fiber.state == .waiting { return true }
        return hasFiber(near: &awaiterPlace) {
            $0.state == .waiting && !$0.isBackground && Waiter.awaitsFuture($0)
        }
    }

    /// Cancels the waiting tasks of the background, newest first. A task that waits again is left alone.
    ///
    /// - Returns: whether there were any.
    @discardableResult
    public func cancelBackgroundTasks(except isKept: (Fiber) -> Bool = { _ in false }) -> Bool {
        let found = fibersThatWait().filter { $0.isBackground && !isKept($0) }.map { (fiber: $0, number: $0.number) }
        for (fiber, number) in found.reversed() where fiber.state == .waiting && fiber.number == number {
            if let task = fiber.owner as? LuaTask { _ = task.cancel(from: stack) } else { cancel(fiber) }
        }
        return !found.isEmpty
    }
}
