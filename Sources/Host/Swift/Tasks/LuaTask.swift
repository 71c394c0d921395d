internal import Lua
internal import RunLoops

/// A task that a script has started.
///
/// While the task runs or waits, its fiber's stack holds its userdata, at index 2. When the task has ended well, its
/// results become the userdata's user value, and stay there as long as a script can ask for them. An error value is
/// anchored for the same time. The fiber is returned to the pool at once.
final class LuaTask: FiberOwner {
    private unowned let host: LuaHost
    /// After the task has ended, the fiber belongs to another task, or to none.
    let fiber: Fiber
    var name = ""
    override var recorded: (word: String, place: String)? {
        name.isEmpty ? nil : ("task \"\(name)\"", host.site(fiber.subjectSite) ?? "")
    }
    var awaiters = Awaiters()
    /// The number of results. A single result is the user value itself; several are in a table that is the user value.
    /// -1 if the task has failed.
    private(set) var results: Int32 = 0
    private(set) var isEnded = false
    /// The sequence number, from 1, of this task's end among all ends of tasks and futures in this state.
    private(set) var endNumber = 0
    private var isCancelled = false
    private let origin: FiberOwner?
    override var guardian: FiberOwner? { origin }
    /// Whether the task's function is one of `rl.on_shutdown`.
    let isLast: Bool
    /// Whether the task's error is reported at once, because only the module that has made the task has a reference to
    /// it.
    private var isUnheld = false
    /// Whether some code has received the error, or will.
    private(set) var isObserved = false
    /// The error, and the waits that have passed it on to this task.
    private(set) var error: RaisedError?
    private(set) var trail: ErrorTrail?
    /// The object by which other threads refer to this task; made when a thread first gets one.
    private(set) lazy var shared = SharedTask(site: isEnded ? nil : host.site(fiber.subjectSite))

    init(_ host: LuaHost, _ fiber: Fiber, isLast: Bool = false) {
        self.host = host
        self.fiber = fiber
        self.isLast = isLast
        origin = host.current?.owner?.guardian
        super.init()
    }

    // The userdata is gone and the task has ended, so no script can ask for the error any more. A finalizer may be
    // running, so the failure is reported later.
    deinit {
        guard let error, !isObserved, !isCancelled, !host.isClosed else { return }
        host.retire(error, trail, isLast: isLast, origin)
    }

    /// Returns the task of a userdata; nil if the userdata stands for a task of another thread.
    @inline(__always)
    static func of(_ box: Box) -> LuaTask? {
        let object = box.object(as: AnyObject.self)
        // Compares the type instead of casting, since every call does this.
        return type(of: object) == LuaTask.self ? unsafe unsafeDowncast(object, to: LuaTask.self) : nil
    }

    /// Returns the task that a fiber runs; nil if it runs something else.
    static func running(_ fiber: Fiber) -> LuaTask? {
        guard let owner = fiber.owner, type(of: owner) == LuaTask.self else { return nil }
        return unsafe unsafeDowncast(owner, to: LuaTask.self)
    }

    /// Notes that some code handles the task's error, if there is one.
    func observe() { isObserved = true }

    /// Returns the failure of a task that has failed and was not cancelled.
    var failure: Failure? { isCancelled ? nil : error.map { host.failure(of: $0, trail, isLast: isLast) } }

    var hasFailed: Bool { isEnded && results < 0 }

    var status: String {
        guard isEnded else { return fiber.state == .waiting ? "waiting" : "running" }
        return results >= 0 ? "done" : isCancelled ? "cancelled" : "failed"
    }

    override func ended(_ fiber: Fiber, results: Int32) {
        // From now on only the task's userdata retains the task.
        fiber.owner = nil
        if results < 0 { hasFailed(fiber) } else { keep(results, fiber.stack) }
        isEnded = true
        endNumber = host.tasks.countEnd()
        let waiting = awaiters.all
        awaiters = Awaiters()
        for awaiter in waiting { awaiter.hasEnded(failed: hasFailed) }
    }

    private func keep(_ results: Int32, _ stack: Stack) {
        self.results = results
        guard results > 0 else { return }
        if results > 1, !stack.collect(results) {
            self.results = -1
            error = host.trails.raised(on: stack, in: fiber, of: self, .raised)
        } else {
            stack.setUserValue(TaskBinding.Value.results.number, of: 2)
        }
    }

    private func hasFailed(_ fiber: Fiber) {
        results = -1
        isObserved = awaiters.wantResults
        // Copy the stack now: closing the to-be-closed variables changes it.
        let trails = host.trails
        trail = trails.carried(by: fiber)
        error = trail?.error ?? trails.raised(on: fiber.stack, in: fiber, of: self, host.cause(of: fiber.stack))
        host.unwind(fiber)
        if let raised = error {
            let last = raised.afterClosing(fiber.stack)
            if last !== raised { (error, trail) = (last, trail?.replaced(by: last)) }
        }
        isCancelled = wasAskedToEnd && host.isCancelled(fiber.stack)
        // A task may have begun to await this one while its variables were being closed.
        isObserved = isObserved || awaiters.wantResults
        // If the script has dropped the task, no code can ask for the error. A garbage collection finds that out.
        if !isCancelled, !isObserved, !isUnheld { host.tasks.haveFailed(self) }
        reportIfUnheld()
    }

    /// Declares that only the module that has made the task refers to it, and that this module does not await it. So
    /// the loop reports the task's error soon, even before a collection of garbage.
    func becomeUnheld() {
        isUnheld = true
        reportIfUnheld()
    }

    private func reportIfUnheld() {
        guard isUnheld, let error, !isObserved, !isCancelled else { return }
        isObserved = true
        host.retire(error, trail, isLast: isLast, origin)
    }

    private var wasAskedToEnd = false

    /// Pushes the results, or the error value. The task's userdata is at an index of the stack.
    ///
    /// - Returns: the number of values; nil if there is no memory.
    func push(onto stack: Stack, _ index: Int32) -> Int32? {
        guard results != 0 else { return 0 }
        guard stack.reserve(max(0, results) + 4) else { return nil }
        guard results > 0 else {
            if let error { host.push(stack, slot: error.slot) } else { stack.pushNil() }
            return 1
        }
        let type = stack.pushUserValue(TaskBinding.Value.results.number, of: index)
        // A script may have changed the user value by the debug library.
        guard results > 1, type == .table else { return 1 }
        let table = stack.top
        for i in 1...Int(results) { stack.pushElement(i, of: table) }
        stack.remove(at: table)
        return results
    }

    /// Ends the task with the error "cancelled" where it waits; if it runs, at its next wait. Returns whether the task
    /// had not ended.
    func cancel(from stack: Stack) -> Bool {
        guard !isEnded else { return false }
        wasAskedToEnd = true
        return host.cancel(fiber, from: stack)
    }
}

extension LuaHost {
    /// Whether the error value on top of a stack is that of a cancellation.
    func isCancelled(_ stack: Stack) -> Bool {
        guard cancelled != 0, stack.reserve(2) else { return false }
        push(stack, slot: cancelled)
        defer { stack.pop() }
        return stack.isSame(-1, -2)
    }

    /// Reports the failure of a task whose userdata is gone, in the next pass.
    func retire(_ error: RaisedError, _ trail: ErrorTrail?, isLast: Bool, _ guardian: FiberOwner?) {
        loop.perform { [weak self] in
            guard let self, !isClosed else { return }
            report(error, trail, isLast: isLast, guardian)
        }
    }

    func report(_ error: RaisedError, _ trail: ErrorTrail?, isLast: Bool, _ guardian: FiberOwner?) {
        let failure = failure(of: error, trail, isLast: isLast)
        guard stack.reserve(4) else { return }
        push(stack, slot: error.slot)
        if guardian?.takes(stack.string(-1) ?? "") != true { report(failure, of: stack) }
        stack.pop()
    }

    /// - Parameter isLast: whether the error is that of a function of `rl.on_shutdown`.
    func failure(of error: RaisedError, _ trail: ErrorTrail?, isLast: Bool) -> Failure {
        var failure = trail?.failure(self) ?? error.failure()
        if isLast { failure.subject?.kind = "shutdown function" }
        return failure
    }

    /// Reports failed tasks when the loop is done, since no code will await them any more.
    public func reportFailures() {
        reportThreadFailures()
        existingPart(LuaTasks.self)?.reportFailures()
    }
}
