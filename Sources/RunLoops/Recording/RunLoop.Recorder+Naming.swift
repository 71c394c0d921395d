// What its owner says of the callback in progress, while the recorder is on.

extension RunLoop.Recorder {
    /// What is called, and the fiber in which it runs.
    package mutating func name(_ object: UInt32, fiber: Int) {
        guard state != .none else { return }
        open.pointee.object = object
        self.fiber = UInt32(truncatingIfNeeded: fiber)
    }

    /// The same of what has a name.
    @inline(__always)
    package mutating func name(fiber: Int) { self.fiber = UInt32(truncatingIfNeeded: fiber) }

    /// A task begins or goes on: in a callback that has no name yet, as that; else as one in its middle. Returns whether it is such
    /// a piece, which is to be ended.
    package mutating func goesOn(_ object: UInt32, task: Int) -> Bool {
        let task = UInt32(truncatingIfNeeded: task)
        let isUnnamed = state != .none && (open.pointee.object == 0 || open.pointee.object == requestLabel)
        guard isUnnamed else {
            beginNow(object, task: task)
            return true
        }
        open.pointee.object = object
        open.pointee.task = task
        return false
    }

    /// It waits from now on, in the function of this name, as this task unless it is one's piece already. O(1).
    package mutating func waits(_ task: Int, in name: StaticString) {
        guard state != .none else { return }
        tellWait(open.pointee.task == 0 ? UInt32(truncatingIfNeeded: task) : open.pointee.task, name)
    }

    /// What was begun in the middle of it, as a piece of this task, ends because the task waits.
    package mutating func endWaiting(_ task: Int, in name: StaticString) {
        guard state != .none else { return }
        tellWait(UInt32(truncatingIfNeeded: task), name)
        end()
    }

    @inline(__always)
    private mutating func tellWait(_ task: UInt32, _ name: StaticString) {
        open.pointee.flags |= Flags.waits
        let number = waitNames.first(name)
        guard number != 0 else { return tellNewWait(task, name) }
        open.pointee.task = number << Record.taskBits | task & Record.tasks
    }

    /// Apart, so that the way that is taken nearly always has nothing to save.
    @inline(never)
    private mutating func tellNewWait(_ task: UInt32, _ name: StaticString) {
        open.pointee.task = waitNames.number(of: name) << Record.taskBits | task & Record.tasks
    }

    /// What has brought it about.
    mutating func isCaused(by flow: UInt32) {
        guard state != .none else { return }
        open.pointee.flow = flow
        // The length of a timer's goes there.
        if open.pointee.kind == Kind.due.rawValue, state == .pending { announce() }
    }

    package mutating func fails() { if state != .none { open.pointee.flags |= Flags.failed } }

    /// What was begun by this name ends, if that is what is in progress.
    package mutating func end(_ object: UInt32) { if state != .none, open.pointee.object == object { end() } }
}
