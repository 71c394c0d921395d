internal import CLua
internal import CLuaSupport

/// A coroutine of the host's, in which a callback or a task runs, so that it may wait.
///
/// Fibers are pooled: a callback that does not wait gives its fiber back, which costs no more than a protected call.
/// Slot 1 of its stack holds the table of anchors.
public final class Fiber {
    public internal(set) var thread: LuaState
    let slot: UInt32
    /// What each callback touches, in raw memory: as properties these fields would be checked for exclusive access, which
    /// cost more than the callback.
    private let hot = UnsafeMutablePointer<Hot>.allocate(capacity: 1)

    private struct Hot {
        var state = State.idle
        var next: Unmanaged<Fiber>?
        var depth = 0
        var subject: UInt32 = 0
        var subjectSite: UInt32 = 0
        var kind: UnsafePointer<cl_kind>?
        var isErrorHandler = false
        var isToBeCancelled = false
        /// It has had an attachment or a way to stop waiting, to be cleared before it is used again.
        var isUsed = false
    }

    public enum State { case idle, running, waiting, ended }

    public internal(set) var state: State {
        get { hot.pointee.state }
        set { hot.pointee.state = newValue }
    }
    var next: Unmanaged<Fiber>? {
        get { hot.pointee.next }
        set { hot.pointee.next = newValue }
    }
    /// How many fibers ran, one inside the other, when it was resumed, itself included.
    var depth: Int {
        get { hot.pointee.depth }
        set { hot.pointee.depth = newValue }
    }
    /// How to stop waiting: called when the task is cancelled.
    public var cancelWait: ((Fiber) -> Void)? { didSet { hot.pointee.isUsed = true } }
    /// What it waits in, for messages.
    public var waitsIn: StaticString = ""
    /// What it runs, for messages: the slot of an object, or 0; its kind; where it was made.
    public var subject: UInt32 {
        get { hot.pointee.subject }
        set { hot.pointee.subject = newValue }
    }
    public var subjectSite: UInt32 { hot.pointee.subjectSite }
    public var subjectKind: String? { hot.pointee.kind.map { String(cString: $0.pointee.name) } }
    /// It runs the handler for uncaught errors; its own are not handed to that.
    public var isErrorHandler: Bool {
        get { hot.pointee.isErrorHandler }
        set { hot.pointee.isErrorHandler = newValue }
    }
    /// It was cancelled while it ran: its next wait raises.
    public var isToBeCancelled: Bool {
        get { hot.pointee.isToBeCancelled }
        set { hot.pointee.isToBeCancelled = newValue }
    }
    /// For the host's use; stays when the fiber is used again.
    public var sleeper: AnyObject?
    /// For the host's use; cleared when the fiber goes back to the pool.
    public var attachment: FiberAttachment? { didSet { hot.pointee.isUsed = true } }

    init(thread: LuaState, slot: UInt32) {
        self.thread = thread
        self.slot = slot
        hot.initialize(to: Hot())
    }

    deinit { hot.deallocate() }

    /// It runs a callback of the object that the box heads.
    public func runs(_ box: UnsafeMutableRawPointer?, slot: UInt32) {
        hot.pointee.subject = slot
        guard let box = box?.assumingMemoryBound(to: cl_box.self) else { return }
        hot.pointee.kind = box.pointee.kind
        hot.pointee.subjectSite = box.pointee.site
    }

    func clear() {
        if hot.pointee.isUsed {
            attachment = nil
            cancelWait = nil
        }
        hot.pointee = Hot()
    }

    func interpreterClosed() {
        state = .ended
        cancelWait = nil
        attachment = nil
    }
}

/// Wants to know when a fiber has ended.
open class FiberAttachment {
    public init() {}
    /// It begins or goes on, or it has waited or ended.
    open func runs(_ isRunning: Bool) {}
    /// Ended, with `results` values on its stack, or, if that is -1, an error value. Returns whether the fiber may be used
    /// again at once; otherwise it is kept until it is given to `discard`.
    open func ended(_ fiber: Fiber, results: Int32) -> Bool { true }
}

extension Interpreter {
    /// A fiber with nothing on its stack but the anchors; nil when memory is out.
    public final func takeFiber() -> Fiber? {
        if let first = pool {
            let fiber = first.takeUnretainedValue()
            pool = fiber.next
            fiber.state = .running
            return fiber
        }
        guard !isClosed, cl_new_thread(main) == LUA_OK, let thread = lua_tothread(main, -1) else {
            cl_pop(main, 1)
            return nil
        }
        let slot = anchor(main, -1)
        cl_pop(main, 1)
        guard slot != 0 else { return nil }
        lua_rawgeti(thread, cl_registry, lua_Integer(host.pointee.anchors))
        let fiber = Fiber(thread: thread, slot: slot)
        fiber.state = .running
        fibers[slot] = fiber
        return fiber
    }

    /// Gives back a fiber that has ended, or has not begun.
    public final func recycle(_ fiber: Fiber) {
        fiber.clear()
        guard !isClosed else { return }
        lua_settop(fiber.thread, 1)
        fiber.state = .idle
        fiber.next = pool
        pool = Unmanaged.passUnretained(fiber)
    }

    /// A fiber about to call an anchored object's callback: function and object are on its stack; push further arguments
    /// and `resume`. nil when there is no callback, or no memory.
    public final func prepareCallback(slot: UInt32, userValue: Int32 = 1) -> Fiber? {
        guard let fiber = takeFiber() else { return nil }
        let thread = fiber.thread
        guard lua_checkstack(thread, 16) != 0, lua_rawgeti(thread, 1, lua_Integer(slot)) == LUA_TUSERDATA else {
            recycle(fiber)
            return nil
        }
        fiber.runs(lua_touserdata(thread, -1), slot: slot)
        guard lua_getiuservalue(thread, -1, userValue) == LUA_TFUNCTION
        else {
            recycle(fiber)
            return nil
        }
        lua_rotate(thread, -2, 1)
        return fiber
    }

    /// Starts a fiber, or lets one that waits go on. `arguments` values are on top of its stack.
    ///
    /// - Parameter thread: the coroutine in which this happens, so that Lua counts how deep the C stack is.
    public final func resume(_ fiber: Fiber, arguments: Int32, from thread: LuaState? = nil) {
        guard !isClosed else { return }
        let outer = running
        let outerThread = host.pointee.running
        let outerResumption = host.pointee.resumption
        running = Unmanaged.passUnretained(fiber)
        host.pointee.running = fiber.thread
        host.pointee.resumption = nil
        depth += 1
        fiber.depth = depth
        if fiber.state == .waiting { fiber.cancelWait = nil }
        fiber.state = .running
        var results: Int32 = 0
        let attachment = fiber.attachment
        attachment?.runs(true)
        let status = lua_resume(fiber.thread, thread ?? outerThread ?? main, arguments, &results)
        running = outer
        depth -= 1
        host.pointee.running = outerThread
        host.pointee.resumption = outerResumption
        attachment?.runs(false)
        if status == LUA_OK {
            fiber.state = .ended
            results -= 1  // Lua counts all that is on the stack, the table of anchors below included
            if fiber.attachment?.ended(fiber, results: results) ?? true { recycle(fiber) }
        } else if status == LUA_YIELD, fiber.state == .waiting {
            // It waits: whoever it waits for has it.
        } else {
            fail(fiber, status)
        }
    }

    private func fail(_ fiber: Fiber, _ status: Int32) {
        let thread = fiber.thread
        fiber.state = .ended
        if status == LUA_YIELD {
            // A C module yielded as if in a coroutine of the script's own: nobody could ever resume it. What it wanted to
            // close is closed now, for the error value would not outlive that.
            unwind(fiber)
            setScratch("attempt to yield from outside a coroutine")
            _ = cl_push_text(thread, host.pointee.scratch, host.pointee.length)
        }
        if let attachment = fiber.attachment {
            guard attachment.ended(fiber, results: -1) else { return }
        } else {
            uncaught(fiber)
        }
        discard(fiber)
    }

    /// Closes the pending to-be-closed variables of a fiber that ended with an error, or will never go on. The error value, or
    /// that of a variable that failed to close, is all that is left on its stack.
    public final func unwind(_ fiber: Fiber) {
        let outer = running
        let outerThread = host.pointee.running
        running = Unmanaged.passUnretained(fiber)
        host.pointee.running = fiber.thread
        fiber.state = .ended
        lua_resetthread(fiber.thread)
        running = outer
        host.pointee.running = outerThread
    }

    /// Does so with all that run, innermost first, as lua does with its main chunk when the state is closed from within. None
    /// of them may go on.
    final func unwindRunning() {
        let running = fibers.values.filter { $0.state == .running }.sorted { $0.depth > $1.depth }
        for fiber in running { unwind(fiber) }
    }

    /// Gives back a fiber that ended with an error, when its error value is no longer needed. Pending to-be-closed variables are closed.
    public final func discard(_ fiber: Fiber) {
        guard !isClosed else { return }
        unwind(fiber)
        discardEnded(fiber)
    }

    /// Gives back a fiber that ended, and was unwound if that was with an error. Runs no Lua code.
    public final func discardEnded(_ fiber: Fiber) {
        guard !isClosed else { return }
        renew(fiber)
        lua_settop(fiber.thread, 0)
        lua_rawgeti(fiber.thread, cl_registry, lua_Integer(host.pointee.anchors))
        recycle(fiber)
    }

    /// Gives it another coroutine. One that died in a hook, as by Control-C, would never call hooks again: Lua resets
    /// nearly everything for the next use, but not that.
    private func renew(_ fiber: Fiber) {
        guard cl_new_thread(main) == LUA_OK, let thread = lua_tothread(main, -1) else { return cl_pop(main, 1) }
        lua_rawgeti(main, cl_registry, lua_Integer(host.pointee.anchors))
        lua_rotate(main, -2, 1)
        lua_rawseti(main, -2, lua_Integer(fiber.slot))
        cl_pop(main, 1)
        fiber.thread = thread
    }

    /// Those that wait, oldest first.
    public final func fibersThatWait() -> [Fiber] {
        fibers.values.filter { $0.state == .waiting }.sorted { $0.slot < $1.slot }
    }

    /// A message with the traceback of a fiber, which may wait.
    public final func traceback(of fiber: Fiber, _ message: String) -> String {
        setScratch(message)
        cl_trace(main, fiber.thread)
        return scratch
    }

    /// A wait that was begun cannot be: the fiber goes on running.
    public final func endWait(_ fiber: Fiber) {
        fiber.state = .running
        fiber.cancelWait = nil
    }

    /// Whether the code that called us may wait, and if not, why.
    public final func reasonNotToWait(_ thread: LuaState) -> String? {
        guard let current, current.thread == thread else {
            return
                "cannot wait inside a coroutine of the script's own: wait in the task that resumes it, or use rl.task"
        }
        guard current.state != .ended else {
            return "cannot wait while the task ends with an error: its variables are being closed"
        }
        guard lua_isyieldable(thread) == 0 else { return nil }
        guard let name = cl_blocker(thread) else { return "cannot wait here: a C function is in between" }
        return "cannot wait inside a function called by '\(String(cString: name))': Lua cannot suspend that"
    }

    /// The running task waits from now on: its function must return `Call.yield`.
    public final func beginWait(in name: StaticString, cancel: @escaping (Fiber) -> Void) -> Fiber? {
        guard let fiber = current else { return nil }
        fiber.state = .waiting
        fiber.waitsIn = name
        fiber.cancelWait = cancel
        return fiber
    }
}
