internal import CLua
public import CLuaSupport

/// A `lua_State *`: a coroutine of an interpreter.
public typealias LuaState = OpaquePointer

/// One Lua state with everything a host needs around it: anchors, tasks, kinds of userdata. Used by one thread.
///
/// Swift never makes a Lua call that can raise: see CLuaSupport.
open class Interpreter {
    @usableFromInline let state: UnsafeMutablePointer<cl_state>
    public var main: LuaState { main_ }
    private let main_: LuaState
    /// The stack of the main coroutine. No script runs there, so it has room for calls.
    public final var stack: Stack { Stack(main) }

    /// The task that runs now.
    public final var current: Fiber? { running }
    final var running: Fiber?
    /// The number of nested running tasks.
    package internal(set) final var depth = 0
    final var pool: Fiber?
    final var fibers: [Fiber] = []
    /// The number of fibers in the pool.
    final var idle = 0
    /// The larger of two numbers: the most fibers in use at once before the last `shrinkPool`, and half of the previous
    /// value of this field.
    final var mostInUse = 0
    /// The smallest number of fibers in the pool since the last `shrinkPool`.
    final var leastIdle = 0
    /// The number of fibers taken from the pool so far.
    final var taken = 0
    final var isPoolLarge = false
    /// Whether `goesOn`, `waits`, `fails` and `rests` are called.
    public final var tells = false
    /// Set when the state is being closed; from then on nothing may call into Lua.
    public private(set) final var isClosed = false

    /// Returns nil if there is not enough memory.
    public init?() {
        guard let state = cl_open(nil), let main = state.pointee.main else { return nil }
        self.state = state
        main_ = main
        state.pointee.swift = Unmanaged.passUnretained(self).toOpaque()
        state.pointee.share = { state, kind, object in
            guard let interpreter = Interpreter.of(state), let object else { return nil }
            let shared = interpreter.share(
                Unmanaged<AnyObject>.fromOpaque(object).takeUnretainedValue(), kind: Int(kind))
            return shared.map { Unmanaged.passRetained($0).toOpaque() }
        }
        state.pointee.arrive = { state, kind, shared in
            guard let interpreter = Interpreter.of(state), let shared else { return nil }
            let object = interpreter.arrive(
                Unmanaged<AnyObject>.fromOpaque(shared).takeUnretainedValue(), kind: Int(kind))
            return Unmanaged.passRetained(object).toOpaque()
        }
        state.pointee.exit = { Interpreter.of($0)?.exits($1, closes: $2 != 0) }
        state.pointee.wrong_self = { thread in
            let call = Call(thread)
            let kind = cl_running(call.thread).pointee.self_kind.map { String(cString: $0.pointee.name) } ?? "object"
            return call.raise(
                Misuse("a \(kind) is expected as self, got \(call.describe(1)); call it with a colon"))
        }
        state.pointee.drop = { shared in
            if let shared { Unmanaged<AnyObject>.fromOpaque(shared).release() }
        }
    }

    deinit {
        guard isClosed else {
            // It is too late to close the state now: finalizers would call a host that is partly deinitialized. So leak
            // the state's memory instead.
            isClosed = true
            return willClose()
        }
        cl_free(state)
        for fiber in fibers { fiber.free() }
    }

    /// Closes the state: runs finalizers and frees everything. Waiting tasks never go on.
    ///
    /// The code that makes an interpreter must close it in every case: nothing else closes the state.
    open func close() {
        guard !isClosed, !isClosing else { return }
        isClosing = true
        unwindRunning()
        willClose()
        state.pointee.closing = 1
        // Callbacks of the first `willClose` may have opened further objects, so call it again. From now on nothing can
        // be added.
        willClose()
        isClosed = true
        cl_close(state, endsWithProcess ? 1 : 0)
        for fiber in fibers { fiber.interpreterClosed() }
        pool = nil
    }

    /// Set by the program before its last `close`: memory that the process gives back anyway is not freed one by one.
    public final var endsWithProcess = false

    /// Set once waiting tasks are being ended.
    public private(set) final var isClosing = false

    /// Called when the pool of fibers has grown beyond its usual size: call `shrinkPool` soon.
    open func poolIsLarge() {}

    /// Called when running code is about to be interrupted because its processor time is over. `times`: how often that
    /// has happened so far.
    open func reachedProcessorLimit(_ times: Int) {}

    /// Whether the running code was called by a run of the loop.
    open var isInRun: Bool { false }

    /// Called at the last moment at which Lua can be called.
    open func willClose() {}

    /// Returns the interpreter of a coroutine.
    public static func of(_ thread: LuaState) -> Interpreter {
        // `swift` is set before any Lua code can run, and the interpreter closes its state before it is deallocated.
        unsafe Unmanaged<Interpreter>.fromOpaque(cl_state_of(thread).pointee.swift).takeUnretainedValue()
    }

    static func of(_ state: UnsafeMutablePointer<cl_state>?) -> Interpreter? {
        state?.pointee.swift.map { Unmanaged<Interpreter>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Returns the part of a userdata's object that all threads share; nil if objects of the kind cannot be sent.
    open func share(_ object: AnyObject, kind: Int) -> AnyObject? { nil }

    /// Makes the object for this state's userdata from the shared part.
    open func arrive(_ shared: AnyObject, kind: Int) -> AnyObject { shared }

    /// Sets the object that identifies this state. An object of a kind that is made with `orAfar` belongs to the state
    /// whose home it refers to.
    public final func setHome(_ object: AnyObject) { state.pointee.home = Unmanaged.passUnretained(object).toOpaque() }

    // MARK: The whole state

    /// Makes the collector run only when memory runs out, until `startCollector`. Opening a state makes no garbage.
    public final func stopCollector() { cl_stop_collector(main) }

    /// Starts the collector in generational mode. On failure the error is on the stack.
    public final func startCollector() -> Bool { cl_start_collector(main) == LUA_OK }

    /// Makes `require` find `runloop`, which the library's first function makes, and the public modules below it.
    /// `knows` gets package.preload and a name, and returns whether scripts can require a module of that name; the
    /// second function makes the module when it is first required. The third function makes a private part of a module,
    /// which only parts can require, or returns false if no part has the name. On failure the error is on the stack.
    public final func openModules(_ openers: Library, knows: LuaFunction) -> Bool {
        guard let entries = openers.entries.baseAddress, openers.entries.count > CL_OPEN_PART else {
            return false
        }
        return cl_open_modules(main, entries, knows) == LUA_OK
    }

    public final func collectGarbage() { lua_gc_collect(main) }

    /// The bytes of Lua's memory.
    public final var bytesInUse: Int { Int(state.pointee.bytes) }

    /// The progress of a collection in steps.
    public enum CollectionProgress { case underWay, cycleEnded, interrupted }

    /// Begins a collection in steps. Returns false if a collection must not begin now: see cl_begin_collection.
    public final func beginCollection() -> Bool { cl_begin_collection(state) != 0 }

    /// Collects for about this many nanoseconds, and adds the processor time used to `spent`.
    public final func collect(for nanoseconds: Int64, spent: inout Int64) -> CollectionProgress {
        switch cl_collect(state, nanoseconds, &spent) {
        case 0: .underWay
        case 1: .cycleEnded
        default: .interrupted
        }
    }

    public final func endCollection() { cl_end_collection(state) }

    /// Pops a table and puts its fields into a global table. On failure the error is on the stack instead.
    public final func replaceFields(of global: String) -> Bool {
        global.withCString { cl_replace(main, $0) == LUA_OK }
    }

    /// Interrupts the running Lua code because the process ends. If the code catches this error, interrupts it once
    /// more.
    public final func interruptToEnd() { cl_interrupt(state) }

    /// Returns the short name of a site's source, and its line.
    public final func place(_ number: UInt32) -> (source: String, line: Int32)? {
        var line: Int32 = 0
        return cl_site(state, number, &line).map { (String(anyBytes: $0), line) }
    }

    /// Returns a site as text: "app.lua:12".
    public final func site(_ number: UInt32) -> String? { place(number).map { "\($0.source):\($0.line)" } }

    // MARK: Cancelling

    /// The slot of the error value that cancels code, or 0.
    public final var cancelled: UInt32 {
        get { state.pointee.cancelled }
        set { state.pointee.cancelled = newValue }
    }

    /// Makes Lua code on the calling thread cancellable, by the returned number. Must not be called on the main thread.
    public final func acceptCancelling() -> UInt { cl_accept_cancelling(state) }

    /// Ends `acceptCancelling`, on the same thread.
    public static func endCancelling() { cl_end_cancelling() }

    /// Raises `cancelled` in the code that runs on a thread between `acceptCancelling` and `endCancelling`. May be
    /// called on any thread.
    public static func cancelRunning(_ thread: UInt) { cl_cancel_running(thread) }

    /// If a C function keeps a cancelled thread from ending: returns a text such as "string.find, called at app.lua:3",
    /// and the nanoseconds since the cancellation. Otherwise returns nil. Takes up to 50 ms.
    public static func whereCancelled(_ thread: UInt) -> (text: String, nanoseconds: Int64)? {
        var whereabouts = cl_whereabouts()
        guard cl_where_cancelled(thread, &whereabouts) != 0 else { return nil }
        let name = withUnsafeBytes(of: &whereabouts.function) {
            String(anyBytes: UnsafeRawBufferPointer(rebasing: $0.prefix { $0 != 0 }))
        }
        let source = withUnsafeBytes(of: &whereabouts.source) {
            String(anyBytes: UnsafeRawBufferPointer(rebasing: $0.prefix { $0 != 0 }))
        }
        let place = whereabouts.line == 0 ? "" : ", called at \(source):\(whereabouts.line)"
        return ((name.isEmpty ? "a function of C" : name) + place, whereabouts.nanoseconds)
    }

    /// Sets whether a cancellation also makes the system calls of the cancelled thread fail, so that a blocking call
    /// returns; the cancellation then raises its error only once.
    public static func letCallsFail(_ fail: Bool) { cl_let_calls_fail(fail ? 1 : 0) }

    // MARK: Anchors

    /// Keeps the value at an index alive. Returns a number other than 0, or 0 if there is no memory. Cannot raise.
    public final func anchor(_ thread: LuaState, _ index: Int32) -> UInt32 { cl_anchor(thread, index) }

    /// Makes strings and anchors them: `texts` are NUL-terminated texts in a row. Returns nil if there is no memory.
    public final func anchor(texts: [CChar], count: Int) -> [UInt32]? {
        var slots = [UInt32](repeating: 0, count: count)
        return cl_anchor_texts(main, texts, &slots, Int32(count)) != 0 ? slots : nil
    }

    /// Releases an anchored value. Does nothing for 0, or after the state is closed.
    public final func release(_ slot: UInt32) { cl_let_go(state, slot) }

    /// Pushes an anchored value.
    public final func push(_ stack: Stack, slot: UInt32) {
        lua_rawgeti(stack.thread, cl_registry, lua_Integer(state.pointee.anchors))
        lua_rawgeti(stack.thread, -1, lua_Integer(slot))
        lua_copy(stack.thread, -1, -2)
        stack.pop()
    }

    public final func push(_ thread: LuaState, slot: UInt32) { push(Stack(thread), slot: slot) }

    // MARK: The scratch buffer

    /// The text in the scratch buffer.
    public var scratch: String {
        guard let bytes = state.pointee.scratch else { return "" }
        return String(anyBytes: UnsafeRawBufferPointer(start: bytes, count: state.pointee.length))
    }

    @discardableResult
    public func setScratch(_ text: String) -> Bool {
        cl_reset(state)
        return text.withAnyBytes { cl_write(state, $0.baseAddress, $0.count) != 0 }
    }

    // MARK: For subclasses

    /// Called when the script asks for the end of the process; must not return.
    open func exits(_ status: Int32, closes: Bool) {}

    /// Called by SIGQUIT: reports what the running code does.
    open func tellWhy() {}

    /// Fulfils the requests of other threads and processes.
    ///
    /// - Parameter isRunning: whether Lua code is running, between two instructions; otherwise no code runs.
    open func grant(_ wishes: Wishes, isRunning: Bool) {}

    /// Whether the code that is about to be interrupted belongs to an entry; see `watchEntries`.
    open var isInEntry: Bool { false }

    // MARK: For recordings

    /// Called when a task begins, or when a waiting task or callback goes on. Returns whether to call `rests` when it
    /// next waits or ends.
    open func goesOn(_ fiber: Fiber) -> Bool { false }

    /// Called when the fiber begins to wait.
    open func waits(_ fiber: Fiber) {}

    /// Called when the fiber has ended with an error.
    open func fails(_ fiber: Fiber) {}

    /// Called when the fiber waits or has ended, if `goesOn` had returned true.
    open func rests(_ fiber: Fiber) {}

    /// Called when a task has ended with an error and no other task awaits it. The value is on top of the fiber's
    /// stack.
    open func uncaught(_ fiber: Fiber) {}
}
