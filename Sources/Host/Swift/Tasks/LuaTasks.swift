internal import Lua
internal import RunLoops

/// A state's record of its tasks: how many have ended, and which of them have failed and may still be awaited.
package final class LuaTasks: HostPart {
    private struct WeakTask { weak var task: LuaTask? }

    private var failed: [WeakTask] = []
    /// When the list has this number of failed tasks, the observed tasks are removed from it.
    private var most = 64
    private var isLooking = false
    private var waits = 0

    /// Returns the sequence number, from 1, of a wait for tasks that begins now.
    func countWait() -> Int {
        waits += 1
        return waits
    }

    /// Returns the sequence number, from 1, of a task's end that happens now.
    func countEnd() -> Int {
        host.ends += 1
        return host.ends
    }

    /// Records a failed task. If the script has dropped the task, no code will ask for its error; a garbage collection
    /// then finds and reports it.
    func haveFailed(_ task: LuaTask) {
        // A script may await any number of failed tasks before the loop next looks for forgotten tasks: remove the
        // awaited ones here, too.
        if failed.count >= most {
            removeObserved()
            most = max(64, 2 * failed.count)
        }
        failed.append(WeakTask(task: task))
        findForgotten()
    }

    /// Collects garbage soon, but not too often, to find forgotten tasks. Collections before sleeps, Lua's own
    /// collections, and the end of the loop find the others.
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
