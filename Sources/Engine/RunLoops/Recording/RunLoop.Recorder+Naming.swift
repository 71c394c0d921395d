// Labels and tasks that the owner of the current callback reports, while the recorder is on.

extension RunLoop.Recorder {
    /// Sets the label of the current callback, and the fiber in which it runs.
    @inlinable @inline(__always)
    package mutating func name(_ object: UInt32, fiber: Int) {
        // Without a callback in progress this write has no effect: the next record overwrites it.
        open.pointee.object = object
        name(fiber: fiber)
    }

    /// Sets the fiber of a callback that has a label already.
    @inlinable @inline(__always)
    package mutating func name(fiber: Int) {
        open.pointee.task = UInt32(truncatingIfNeeded: fiber) | Record.unlessItWaits
    }

    /// The number of entries in `subjects`. `place` returns the only index at which a key may be.
    package static let subjectCapacity = 256
    @inlinable @inline(__always)
    package static func place(ofSubject key: UInt32) -> Int { Int((key &* 0x9E37_79B1) >> 24) }

    /// Clears all subjects, since a new owner's keys have other meanings.
    package mutating func forgetSubjects() {
        let memory = subjectMemory ?? .allocate(capacity: Self.subjectCapacity)
        memory.initialize(repeating: Subject(), count: Self.subjectCapacity)
        (subjectMemory, subjects) = (memory, memory)
    }

    /// Notes that a task begins or continues. If the current callback has no label, it gets the task's label. Otherwise
    /// a section for the task begins within the callback. Returns whether a section began; the caller must then end it.
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

    /// Like `goesOn`, for the usual case: the current callback has no label. If it has a label, does nothing and
    /// returns false.
    @inlinable @inline(__always)
    package mutating func goesOnHere(_ object: UInt32, task: Int) -> Bool {
        guard state != .none, open.pointee.object == 0 else { return false }
        open.pointee.object = object
        open.pointee.task = UInt32(truncatingIfNeeded: task) & Record.tasks
        return true
    }

    /// Notes that the callback waits from now on, in the function with this name. The record gets the number `task`,
    /// unless the record has a task already. O(1).
    package mutating func waits(_ task: Int, in name: StaticString) {
        guard state != .none else { return }
        let known = open.pointee.task
        tellWait(known &- 1 < Record.tasks ? known : UInt32(truncatingIfNeeded: task), name)
    }

    /// Like `waits(_:in:)`, for a wait for an object, such as a future, whose creation site is known. The first wait
    /// for an object of this site calls `origin`, which returns a text such as "future made at app.lua:3".
    package mutating func waits(_ task: Int, in name: StaticString, site: UInt32, _ origin: () -> String?) {
        guard state != .none else { return }
        let known = open.pointee.task
        let task = known &- 1 < Record.tasks ? known : UInt32(truncatingIfNeeded: task)
        open.pointee.flags |= Flags.waits
        open.pointee.task = waitNames.number(of: name, site: site, origin) << Record.taskBits | task & Record.tasks
    }

    /// Ends the current section of a callback, because its task waits in the function of this name.
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

    /// This is a separate function, so that the usual path need not save registers.
    @inline(never)
    private mutating func tellNewWait(_ task: UInt32, _ name: StaticString) {
        open.pointee.task = waitNames.number(of: name) << Record.taskBits | task & Record.tasks
    }

    /// Records the flow that caused the current callback.
    mutating func isCaused(by flow: UInt32) {
        guard state != .none else { return }
        open.pointee.flow = flow
        // In a timer's record, `flow` holds its length.
        if open.pointee.kind == Kind.due.rawValue, state == .pending { announce() }
    }

    package mutating func fails() { if state != .none { open.pointee.flags |= Flags.failed } }

    /// Ends the callback in progress if it has this label.
    package mutating func end(_ object: UInt32) { if state != .none, open.pointee.object == object { end() } }
}
