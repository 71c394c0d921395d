extension RunLoop.Recorder {
    /// A callback in progress.
    struct Call: BitwiseCopyable {
        /// As it will be written if nothing else is recorded in it.
        var record = Record(.whole, 0)
        /// When it was due, or 0.
        var due: Int64 = 0
        /// The flow of the first thing that it has sent to its own loop, which has no record yet; 0: none.
        var ownFlow: UInt32 = 0
        /// If it should turn out to wait, it is the first piece of this task.
        var fiber: UInt32 = 0
        var state = State.none
        /// So much of it does not count as holding the loop: the loop ran in it, or somebody was told already.
        var excused: UInt64 = 0
        /// It began in the middle of another one, with no run in between.
        var isNested = false

        enum State: UInt8 {
            case none
            /// There is no record of it yet.
            case pending
            /// Its beginning is recorded.
            case told
        }
    }

    // What its owner says of the callback in progress, while it is on.

    /// What is called, and the fiber in which it runs.
    package mutating func name(_ object: UInt32, fiber: Int) {
        call.record.object = object
        call.fiber = UInt32(truncatingIfNeeded: fiber)
    }

    /// The same of what has a name.
    package mutating func name(fiber: Int) { call.fiber = UInt32(truncatingIfNeeded: fiber) }

    /// A task begins or goes on: in a callback that has no name yet, as that; else as one in its middle. Returns whether it is such
    /// a piece, which is to be ended.
    package mutating func goesOn(_ object: UInt32, task: Int) -> Bool {
        let task = UInt32(truncatingIfNeeded: task)
        let isUnnamed = call.state != .none && (call.record.object == 0 || call.record.object == requestLabel)
        guard isUnnamed else {
            beginNow(object, task: task)
            return true
        }
        call.record.object = object
        call.record.task = task
        return false
    }

    /// It waits from now on, in the function of this name, as this task unless it is one's piece already. O(1).
    package mutating func waits(_ task: Int, in name: StaticString) {
        guard call.state != .none else { return }
        tellWait(call.record.task == 0 ? UInt32(truncatingIfNeeded: task) : call.record.task, name)
    }

    /// What was begun in the middle of it, as a piece of this task, ends because the task waits.
    package mutating func endWaiting(_ task: Int, in name: StaticString) {
        guard call.state != .none else { return }
        tellWait(UInt32(truncatingIfNeeded: task), name)
        end()
    }

    @inline(__always)
    private mutating func tellWait(_ task: UInt32, _ name: StaticString) {
        call.record.flags |= Flags.waits
        let number = waitNames.first(name)
        guard number != 0 else { return tellNewWait(task, name) }
        call.record.task = number << Record.taskBits | task & Record.tasks
    }

    /// Apart, so that the way that is taken nearly always has nothing to save.
    @inline(never)
    private mutating func tellNewWait(_ task: UInt32, _ name: StaticString) {
        call.record.task = waitNames.number(of: name) << Record.taskBits | task & Record.tasks
    }

    package mutating func fails() { if call.state != .none { call.record.flags |= Flags.failed } }

    /// What was begun by this name ends, if that is what is in progress.
    package mutating func end(_ object: UInt32) { if call.record.object == object { end() } }
}
