internal import Lua
internal import RunLoops

/// A state's record of its tasks: how many have ended, and which of them have failed and may still be awaited.
package final class LuaTasks: HostPart {
    private struct WeakTask { weak var task: LuaTask? }

    private var failed: [WeakTask] = []
    /// The number of failed tasks at which the observed ones are removed.
    private var most = 64
    private var isLooking = false
    private var waits = 0

    /// Returns the number of the wait for tasks that begins now, counted from 1.
    func countWait() -> Int {
        waits += 1
        return waits
    }

    /// Returns the number of the task that ends now, counted from 1.
    func countEnd() -> Int {
        host.ends += 1
        return host.ends
    }

    /// Records a failed task. If the script has dropped the task, no code will ask for its error; a garbage collection
    /// then finds and reports it.
    func haveFailed(_ task: LuaTask) {
        // A script may await any number of failed tasks before the loop looks for forgotten ones.
        if failed.count >= most {
            removeObserved()
            most = max(64, 2 * failed.count)
        }
        failed.append(WeakTask(task: task))
        findForgotten()
    }

    /// Collects garbage soon, but not too often. Other forgotten tasks are found by the collections while the loop
    /// sleeps, by those of Lua itself, or at the end of the loop.
    func findForgotten() {
        guard !isLooking else { return }
        guard host.part(LuaMemory.self).mayCollect else { return host.part(LuaMemory.self).collectSoon() }
        isLooking = true
        host.loop.perform { [weak host = host] in
            guard let host, !host.isClosed else { return }
            host.tasks.look()
        }
    }

    private func look() {
        isLooking = false
        if !host.part(LuaMemory.self).collectInMeasure() { host.part(LuaMemory.self).collectSoon() }
        removeObserved()
    }

    private func removeObserved() { failed.removeAll { $0.task?.isObserved ?? true } }

    /// Reports tasks that have failed when the loop is done: nobody will await them any more.
    func reportFailures() {
        let left = failed.compactMap(\.task).filter { !$0.isObserved }
        failed = []
        for task in left {
            guard let error = task.error else { continue }
            task.observe()
            host.report(error, task.trail, isLast: task.isLast, task.guardian)
        }
    }

    /// Forgets the tasks that have failed so far: they failed because they were ended.
    package func forgetFailures() {
        for failure in failed { failure.task?.observe() }
        failed = []
    }

    package override func reset() {
        forgetFailures()
        isLooking = false
    }
}
