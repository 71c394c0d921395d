// What its owner says of the callback in progress, while the recorder is on.

extension RunLoop.Recorder {
    /// What is called, and the fiber in which it runs.
    @inlinable @inline(__always)
    package mutating func name(_ object: UInt32, fiber: Int) {
        // Where no callback is in progress, that is overwritten by the next.
        open.pointee.object = object
        name(fiber: fiber)
    }

    /// The same of what has a name.
    @inlinable @inline(__always)
    package mutating func name(fiber: Int) {
        open.pointee.task = UInt32(truncatingIfNeeded: fiber) | Record.unlessItWaits
    }

    /// Which of `subjects` may have this key.
    package static let subjectCapacity = 256
    @inlinable @inline(__always)
    package static func place(ofSubject key: UInt32) -> Int { Int((key &* 0x9E37_79B1) >> 24) }

    /// As new: another owner's keys mean something else.
    package mutating func forgetSubjects() {
        let memory = subjectMemory ?? .allocate(capacity: Self.subjectCapacity)
        memory.initialize(repeating: Subject(), count: Self.subjectCapacity)
        (subjectMemory, subjects) = (memory, memory)
    }

    /// A task begins or goes on: in a callback that has no name yet, as that; else as one in its middle. Returns whether it is such
    /// a piece, which is to be ended.
    package mutating func goesOn(_ object: UInt32, task: Int) -> Bool {
        let task = UInt32(truncatingIfNeeded: task) & Record.tasks
        let isUnnamed = state != .none && (open.pointee.object == 0 || open.pointee.object == requestLabel)
        guard isUnnamed else {
            beginNow(object, task: task)
            return true
        }
        open.pointee.object = object
        open.pointee.task = task
        return false
    }

    /// The same where that is nearly always so. Returns false, and does nothing, where it may not be.
    @inlinable @inline(__always)
    package mutating func goesOnHere(_ object: UInt32, task: Int) -> Bool {
        guard state != .none, open.pointee.object == 0 else { return false }
        open.pointee.object = object
        open.pointee.task = UInt32(truncatingIfNeeded: task) & Record.tasks
        return true
    }

    /// It waits from now on, in the function of this name, as this task unless it is one's piece already. O(1).
    package mutating func waits(_ task: Int, in name: StaticString) {
        guard state != .none else { return }
        let known = open.pointee.task
        tellWait(known &- 1 < Record.tasks ? known : UInt32(truncatingIfNeeded: task), name)
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
