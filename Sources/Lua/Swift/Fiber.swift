internal import CLua
internal import CLuaSupport

/// A coroutine of the host, in which a callback or a task runs, so that the callback or task may wait.
///
/// Fibers are pooled. A callback that does not wait returns its fiber to the pool, so it costs no more than a protected
/// call. Slot 1 of a fiber's stack holds the table of anchors.
///
/// A `Fiber` is a handle. Copying it counts no references, since counting would cost more than a callback does. The
/// memory belongs to the interpreter and lives as long as the interpreter.
public struct Fiber: Hashable {
    @usableFromInline let memory: UnsafeMutablePointer<Memory>

    /// The fields are in an order without padding, since each waiting task has such a block.
    @usableFromInline struct Memory {
        var thread: LuaState
        let slot: UInt32
        /// The fiber's index among the interpreter's fibers.
        var place: Int32
        var cancelWait: ((Fiber) -> Void)?
        var waitsFor = 0
        var waitsSince: Int64 = 0
        var sleeper: AnyObject?
        var owner: FiberOwner?
        @usableFromInline var waitsIn: StaticString = ""
        var objectSite: UInt32 = 0
        @usableFromInline var now = Moment()
    }

    /// The state of one use of the fiber; reset for each use.
    @usableFromInline struct Moment {
        var next: Fiber?
        @usableFromInline var number = 0
        var kind: UnsafePointer<cl_kind>?
        var subject: UInt32 = 0
        var subjectSite: UInt32 = 0
        var below: Int32 = 1
        @usableFromInline var label: UInt32 = 0
        /// The number of nested C calls; Lua allows 200.
        var depth: Int16 = 0
        var state = State.idle
        var isToBeCancelled = false
        var carriesError = false
        @usableFromInline var isBackground = false
        /// Whether the fiber has had an owner or a way to stop waiting, which must be cleared before the next use.
        var isUsed = false
    }

    public enum State { case idle, running, waiting, ended }

    public internal(set) var thread: LuaState {
        get { memory.pointee.thread }
        nonmutating set { memory.pointee.thread = newValue }
    }
    public var stack: Stack { Stack(memory.pointee.thread) }
    public var slot: UInt32 { memory.pointee.slot }
    public internal(set) var state: State {
        get { memory.pointee.now.state }
        nonmutating set { memory.pointee.now.state = newValue }
    }
    var next: Fiber? {
        get { memory.pointee.now.next }
        nonmutating set { memory.pointee.now.next = newValue }
    }
    var place: Int {
        get { Int(memory.pointee.place) }
        nonmutating set { memory.pointee.place = Int32(truncatingIfNeeded: newValue) }
    }
    /// The sequence number of this use of a fiber. Later uses of any fiber have higher numbers.
    @inlinable public internal(set) var number: Int {
        get { memory.pointee.now.number }
        @usableFromInline nonmutating set { memory.pointee.now.number = newValue }
    }
    /// The number of nested running fibers at the last resumption, including this one.
    var depth: Int {
        get { Int(memory.pointee.now.depth) }
        nonmutating set { memory.pointee.now.depth = Int16(truncatingIfNeeded: newValue) }
    }
    /// The number of values on the fiber's stack below the function that it runs.
    public var below: Int32 {
        get { memory.pointee.now.below }
        nonmutating set { memory.pointee.now.below = newValue }
    }
    /// Ends the wait: called when the task is cancelled.
    public var cancelWait: ((Fiber) -> Void)? {
        get { memory.pointee.cancelWait }
        nonmutating set {
            memory.pointee.cancelWait = newValue
            memory.pointee.now.isUsed = true
        }
    }
    /// The name of the function in which it waits, for messages.
    @inlinable public var waitsIn: StaticString {
        get { memory.pointee.waitsIn }
        nonmutating set { memory.pointee.waitsIn = newValue }
    }
    /// A number for the object of the wait; the code that began the wait gives it its meaning.
    public var waitsFor: Int {
        get { memory.pointee.waitsFor }
        nonmutating set { memory.pointee.waitsFor = newValue }
    }
    /// The creation site of the object that the fiber waits for, for messages; 0 if unknown, or if the object has none.
    public var objectSite: UInt32 {
        get { memory.pointee.objectSite }
        nonmutating set { memory.pointee.objectSite = newValue }
    }
    /// When the wait began, by the host's clock; 0 if the host did not note it.
    public var waitsSince: Int64 {
        get { memory.pointee.waitsSince }
        nonmutating set { memory.pointee.waitsSince = newValue }
    }
    /// The anchor slot of the object whose callback it runs, for messages, or 0. `subjectKind` and `subjectSite` are
    /// the object's kind and creation site.
    public var subject: UInt32 {
        get { memory.pointee.now.subject }
        nonmutating set { memory.pointee.now.subject = newValue }
    }
    public var subjectSite: UInt32 { memory.pointee.now.subjectSite }
    public var subjectKind: String? { memory.pointee.now.kind.map { String(cString: $0.pointee.name) } }
    /// The kind and the creation site of its subject: enough to make the subject's text later.
    public struct Origin: @unchecked Sendable {
        // Sendable: records of kinds are written once, and live for ever.
        let kind: UnsafePointer<cl_kind>?
        public let site: UInt32
        public var kindName: String? { kind.map { String(cString: $0.pointee.name) } }
    }
    public var origin: Origin { Origin(kind: memory.pointee.now.kind, site: memory.pointee.now.subjectSite) }

    /// A hash of the kind and the creation site of the fiber's subject. Few other subjects have the same number.
    public var subjectKey: UInt32 {
        UInt32(memory.pointee.now.kind?.pointee.index ?? 0) << 24 | memory.pointee.now.subjectSite & 0xFF_FFFF
    }
    /// A label for the host's use; 0 when the fiber is taken from the pool.
    @inlinable public var label: UInt32 {
        get { memory.pointee.now.label }
        nonmutating set { memory.pointee.now.label = newValue }
    }
    /// Whether the fiber was cancelled while it ran: its next wait then raises the error.
    public var isToBeCancelled: Bool {
        get { memory.pointee.now.isToBeCancelled }
        nonmutating set { memory.pointee.now.isToBeCancelled = newValue }
    }
    /// For the host's use: the fiber's waits do not keep the loop running. False when the fiber is taken from the pool.
    @inlinable public var isBackground: Bool {
        get { memory.pointee.now.isBackground }
        nonmutating set { memory.pointee.now.isBackground = newValue }
    }
    /// Whether a wait has raised the error of another task or thread in this fiber. For the host's use.
    public var carriesError: Bool {
        get { memory.pointee.now.carriesError }
        nonmutating set { memory.pointee.now.carriesError = newValue }
    }
    /// An object for the host's use, which the fiber retains as long as the interpreter lives, also between uses.
    /// Reading this property counts no reference.
    public var sleeper: Unmanaged<AnyObject>? { memory.pointee.sleeper.map { .passUnretained($0) } }
    public func setSleeper(_ object: AnyObject) { memory.pointee.sleeper = object }
    /// The object that owns the fiber's work; cleared when the fiber returns to the pool.
    public var owner: FiberOwner? {
        // Most callbacks have no owner. This check then saves counting a reference.
        get { memory.pointee.now.isUsed ? memory.pointee.owner : nil }
        nonmutating set {
            memory.pointee.owner = newValue
            memory.pointee.now.isUsed = true
        }
    }

    /// The owner, without counting references: it stays while the fiber runs.
    var ownerWhileRunning: Unmanaged<FiberOwner>? {
        memory.pointee.now.isUsed ? memory.pointee.owner.map { .passUnretained($0) } : nil
    }

    /// The handle as a number, for the context of an engine object. Never 0.
    public var context: Int { Int(bitPattern: memory) }

    /// The fiber of a context; nil for 0.
    public init?(context: Int) {
        guard let memory = UnsafeMutablePointer<Memory>(bitPattern: context) else { return nil }
        self.memory = memory
    }

    init(thread: LuaState, slot: UInt32, place: Int) {
        memory = .allocate(capacity: 1)
        memory.initialize(to: Memory(thread: thread, slot: slot, place: Int32(truncatingIfNeeded: place)))
    }

    func free() {
        memory.deinitialize(count: 1)
        memory.deallocate()
    }

    /// Notes that the fiber runs a callback of the object with this box.
    public func runs(_ box: Box, slot: UInt32) {
        memory.pointee.now.subject = slot
        memory.pointee.now.kind = UnsafePointer(box.head.pointee.kind)
        memory.pointee.now.subjectSite = box.site
    }

    /// Whether the fiber runs something of this kind.
    public func runs(_ kind: Kind) -> Bool { memory.pointee.now.kind == UnsafePointer(kind.record) }

    /// Records that the fiber runs code of this kind for which there is no object.
    public func runs(_ kind: Kind, site: UInt32) {
        memory.pointee.now.kind = UnsafePointer(kind.record)
        memory.pointee.now.subjectSite = site
    }

    @inline(__always)
    func clear() {
        if memory.pointee.now.isUsed {
            memory.pointee.owner = nil
            memory.pointee.cancelWait = nil
        }
        memory.pointee.now = Moment()
    }

    func interpreterClosed() {
        state = .ended
        cancelWait = nil
        owner = nil
    }
}

extension Interpreter {
    /// Prepares the call of an anchored object's callback. Object and function are on the fiber's stack, at 2 and 3;
    /// push the arguments and call `resume`. Returns the fiber and the object's head, or nil if there is no callback or
    /// no memory.
    public final func prepareCallback(slot: UInt32, userValue: Int32 = 1) -> (Fiber, box: Box)? {
        guard let fiber = takeFiber() else { return nil }
        let thread = fiber.thread
        guard lua_checkstack(thread, 16) != 0, lua_rawgeti(thread, 1, lua_Integer(slot)) == LUA_TUSERDATA,
            let address = lua_touserdata(thread, 2)
        else {
            recycle(fiber)
            return nil
        }
        let box = Box(address)
        if state.pointee.locals != 0, box.head.pointee.kind.pointee.inherits != 0 {
            cl_adopt_locals(state, thread, 2, fiber.slot)
        }
        fiber.runs(box, slot: slot)
        guard lua_getiuservalue(thread, 2, userValue) == LUA_TFUNCTION
        else {
            recycle(fiber)
            return nil
        }
        fiber.below = 2
        return (fiber, box)
    }

    /// Prepares the call of a function that is an element of the table in the object's first user value.
    public final func prepareCallback(slot: UInt32, element: Int) -> (Fiber, box: Box)? {
        guard let fiber = takeFiber() else { return nil }
        let thread = fiber.thread
        guard lua_checkstack(thread, 16) != 0, lua_rawgeti(thread, 1, lua_Integer(slot)) == LUA_TUSERDATA,
            let address = lua_touserdata(thread, 2), lua_getiuservalue(thread, 2, 1) == LUA_TTABLE,
            lua_rawgeti(thread, 3, lua_Integer(element)) == LUA_TFUNCTION
        else {
            recycle(fiber)
            return nil
        }
        lua_copy(thread, 4, 3)
        cl_pop(thread, 1)
        fiber.runs(Box(address), slot: slot)
        fiber.below = 2
        return (fiber, Box(address))
    }

    /// Copies the running task's values of `rl.locals` to a new task.
    public final func handLocalsDown(to fiber: Fiber) {
        if state.pointee.locals != 0 { cl_hand_locals_down(state, fiber.slot) }
    }

    /// Starts a fiber, or lets a waiting one go on. `arguments` values are on top of its stack.
    ///
    /// - Parameter stack: the coroutine from which this is called, so that Lua counts the depth of the C stack.
    public final func resume(_ fiber: Fiber, arguments: Int32, from stack: Stack? = nil) {
        guard !isClosed else { return }
        let outer = running
        let outerThread = state.pointee.running
        let outerSlot = state.pointee.running_slot
        let outerResumption = state.pointee.resumption
        // Lua adds the new depth of C calls to the depth of the coroutine that runs the loop. A coroutine that the
        // script has made may run the loop.
        let from = stack?.thread ?? (outerResumption == nil ? outerThread ?? main : cl_innermost(state))
        if state.pointee.has_hooks != 0 { cl_hook_task(fiber.thread, fiber.state == .waiting ? 1 : 0) }
        running = fiber
        cl_note_turn(state)
        state.pointee.running = fiber.thread
        state.pointee.running_slot = fiber.slot
        state.pointee.resumption = nil
        depth += 1
        fiber.depth = depth
        let owner = fiber.ownerWhileRunning
        let hasWaited = fiber.state == .waiting
        if hasWaited { fiber.cancelWait = nil }
        let isTold = tells && (hasWaited || owner != nil) && goesOn(fiber)
        fiber.state = .running
        var results: Int32 = 0
        owner?._withUnsafeGuaranteedRef { if $0.watchesRunning { $0.runs(true) } }
        let status = lua_resume(fiber.thread, from, arguments, &results)
        running = outer
        depth -= 1
        state.pointee.running = outerThread
        state.pointee.running_slot = outerSlot
        state.pointee.resumption = outerResumption
        owner?._withUnsafeGuaranteedRef { if $0.watchesRunning { $0.runs(false) } }
        if status == LUA_OK {
            fiber.state = .ended
            results -= fiber.below  // Lua counts all values on the stack
            fiber.owner?.ended(fiber, results: results)
            recycle(fiber)
        } else if status == LUA_YIELD, fiber.state == .waiting {
            // The fiber waits, and the object that it waits for will resume it.
            if tells { waits(fiber) }
        } else {
            if tells { fails(fiber) }
            fail(fiber, status)
        }
        if isTold { rests(fiber) }
    }

    private func fail(_ fiber: Fiber, _ status: Int32) {
        let thread = fiber.thread
        fiber.state = .ended
        if status == LUA_YIELD {
            // A C module has yielded, as it may in a coroutine of the script. But nothing would ever resume this fiber,
            // so it fails. Close its variables first, since that replaces the error value on the stack.
            unwind(fiber)
            setScratch("attempt to yield from outside a coroutine")
            _ = cl_push_scratch(thread)
        }
        if let owner = fiber.owner {
            owner.ended(fiber, results: -1)
        } else {
            uncaught(fiber)
        }
        discard(fiber, wasInHook: status == LUA_YIELD || state.pointee.has_hooks | state.pointee.raised_in_hook != 0)
    }

    /// Closes the pending to-be-closed variables of a fiber that has failed or will never be resumed. Leaves only the
    /// error value on the fiber's stack; if closing a variable failed, that is the error of the closing.
    public final func unwind(_ fiber: Fiber) {
        let outer = running
        let outerThread = state.pointee.running
        let outerSlot = state.pointee.running_slot
        running = fiber
        cl_note_turn(state)
        state.pointee.running = fiber.thread
        state.pointee.running_slot = fiber.slot
        fiber.state = .ended
        lua_resetthread(fiber.thread)
        running = outer
        state.pointee.running = outerThread
        state.pointee.running_slot = outerSlot
    }

    /// Unwinds all running fibers, innermost first, if running code has closed the state; lua does the same with its
    /// main chunk. None of these fibers may continue afterwards.
    final func unwindRunning() {
        let running = fibers.filter { $0.state == .running }.sorted { $0.depth > $1.depth }
        for fiber in running { unwind(fiber) }
    }

    /// Returns a fiber that ended with an error to the pool, after the last use of its error value. Closes pending
    /// to-be-closed variables.
    ///
    /// - Parameter wasInHook: whether the fiber may have ended in a hook, or in the middle of a protected call.
    public final func discard(_ fiber: Fiber, wasInHook: Bool = true) {
        guard !isClosed else { return }
        unwind(fiber)
        if wasInHook { renew(fiber) }
        lua_settop(fiber.thread, 0)
        lua_rawgeti(fiber.thread, cl_registry, lua_Integer(state.pointee.anchors))
        recycle(fiber)
    }

    /// Gives the fiber another coroutine. Lua resets nearly everything in a coroutine for its next use, with two
    /// exceptions. A coroutine that died in a hook, as by Control-C, would never call hooks again; and a coroutine that
    /// waited inside xpcall would call that handler again.
    private func renew(_ fiber: Fiber) {
        guard cl_new_thread(main) == LUA_OK, let thread = lua_tothread(main, -1) else { return cl_pop(main, 1) }
        lua_rawgeti(main, cl_registry, lua_Integer(state.pointee.anchors))
        lua_rotate(main, -2, 1)
        lua_rawseti(main, -2, lua_Integer(fiber.slot))
        cl_pop(main, 1)
        fiber.thread = thread
    }

    /// Closes the pending to-be-closed variables of all waiting fibers, newest first. None of these fibers may continue
    /// afterwards.
    public final func unwindWaiting() {
        for fiber in fibersThatWait().reversed() where fiber.state == .waiting {
            fiber.cancelWait?(fiber)
            fiber.cancelWait = nil
            unwind(fiber)
        }
    }

    /// Returns the fiber with this number, if it has not ended. O(number of fibers).
    public final func fiber(numbered number: Int) -> Fiber? {
        fibers.first { $0.number == number && ($0.state == .waiting || $0.state == .running) }
    }

    /// Returns the waiting fibers, oldest first.
    public final func fibersThatWait() -> [Fiber] {
        fibers.filter { $0.state == .waiting }.sorted { $0.number < $1.number }
    }

    /// Whether a fiber satisfies a condition. `place` is the index of the fiber that was found last.
    public final func hasFiber(near place: inout Int, where matches: (Fiber) -> Bool) -> Bool {
        if place < fibers.count, matches(fibers[place]) { return true }
        guard let found = fibers.firstIndex(where: matches) else { return false }
        place = found
        return true
    }

    /// Undoes `beginWait` if the wait is impossible: the fiber goes on running.
    public final func endWait(_ fiber: Fiber) {
        fiber.state = .running
        fiber.cancelWait = nil
    }

    /// Returns why the calling code may not wait, or nil if it may.
    public final func reasonNotToWait(_ stack: Stack) -> String? {
        let thread = stack.thread
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

    /// Makes the running task wait. The calling function must then return `Call.yield`.
    public final func beginWait(in name: StaticString, cancel: @escaping (Fiber) -> Void) -> Fiber? {
        guard let fiber = current else { return nil }
        fiber.state = .waiting
        fiber.waitsIn = name
        fiber.waitsSince = 0
        fiber.objectSite = 0
        fiber.cancelWait = cancel
        return fiber
    }
}
