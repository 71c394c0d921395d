internal import Lua
internal import RunLoops

/// What a state knows of its tasks: how many have ended, and which of them have failed and may still be awaited.
package final class LuaTasks: HostPart {
    private struct WeakTask { weak var task: LuaTask? }

    private var ended = 0
    private var failed: [WeakTask] = []
    private var isLooking = false
    private var waits = 0

    /// Which of the state's waits for tasks it is that begins now, counted from 1.
    func countWait() -> Int {
        waits += 1
        return waits
    }

    /// Which of the state's tasks it is that ends now, counted from 1.
    func countEnd() -> Int {
        ended += 1
        return ended
    }

    /// If the script has dropped the task, nobody will ever ask: collecting garbage finds out.
    func haveFailed(_ task: LuaTask) {
        failed.append(WeakTask(task: task))
        findForgotten()
    }

    /// Collects garbage soon, but not all the time: what is not found now is found by Lua's own collections, or at the end.
    func findForgotten() {
        guard !isLooking, host.part(LuaMemory.self).mayCollect else { return }
        isLooking = true
        host.loop.perform { [weak host = host] in
            guard let host, !host.isClosed else { return }
            host.tasks.look()
        }
    }

    private func look() {
        isLooking = false
        _ = host.part(LuaMemory.self).collectInMeasure()
        failed.removeAll { $0.task?.isObserved ?? true }
    }

    /// The loop is done: nobody will await those that have failed.
    func reportFailures() {
        let left = failed.compactMap(\.task).filter { !$0.isObserved }
        failed = []
        for task in left {
            guard let failure = task.failure else { continue }
            task.observe()
            host.report(failure, task.error, task.guardian)
        }
    }

    /// Those that have failed so far have failed for being ended.
    package func forgetFailures() {
        for failure in failed { failure.task?.observe() }
        failed = []
    }

    package override func reset() {
        forgetFailures()
        isLooking = false
    }
}
