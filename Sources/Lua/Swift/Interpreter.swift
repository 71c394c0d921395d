internal import CLua
public import CLuaSupport

/// A `lua_State *`: a coroutine of some interpreter.
public typealias LuaState = OpaquePointer

/// One Lua state with what a host needs around it: anchors, tasks, kinds of userdata. Used by one thread.
///
/// No Lua call that can raise is made from Swift: see CLuaSupport.
open class Interpreter {
    @usableFromInline let state: UnsafeMutablePointer<cl_state>
    public var main: LuaState { main_ }
    private let main_: LuaState
    /// That of the main coroutine, in which no script runs: there is room for calls.
    public final var stack: Stack { Stack(main) }

    /// The task that runs now.
    public final var current: Fiber? { running }
    final var running: Fiber?
    /// How many tasks run, one inside the other.
    package internal(set) final var depth = 0
    final var pool: Fiber?
    final var fibers: [Fiber] = []
    /// How many of them are in the pool.
    final var idle = 0
    /// How many of them were in use at once before `shrinkPool` was last called, or half of those before that.
    final var mostInUse = 0
    /// How many were in the pool since then, when it had the fewest.
    final var leastIdle = 0
    /// How often one was taken.
    final var taken = 0
    final var isPoolLarge = false
    /// On: `goesOn`, `waits`, `fails` and `rests` are called.
    public final var tells = false
    /// Set when the state is being closed: from then on nothing may call into Lua.
    public private(set) final var isClosed = false

    /// nil when there is not enough memory.
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
            // Too late: finalizers would call a host that is half gone. Losing the state's memory is the lesser evil.
            isClosed = true
            return willClose()
        }
        cl_free(state)
        for fiber in fibers { fiber.free() }
    }

    /// Closes the state: finalizers run, everything is freed. Tasks that wait never go on.
    ///
    /// Whoever makes an interpreter closes it, whatever has happened to it: there is no other way in which its state ends.
    open func close() {
        guard !isClosed, !isClosing else { return }
        isClosing = true
        unwindRunning()
        willClose()
        state.pointee.closing = 1
        // What the callbacks of that have left behind. Nothing can be added any more.
        willClose()
        isClosed = true
        cl_close(state)
        for fiber in fibers { fiber.interpreterClosed() }
        pool = nil
    }

    /// Tasks that wait are ended.
    public private(set) final var isClosing = false

    /// The pool of fibers has grown beyond its usual size: call `shrinkPool` soon.
    open func poolIsLarge() {}

    /// The last moment at which Lua can be called.
    open func willClose() {}

    /// The interpreter of a coroutine.
    public static func of(_ thread: LuaState) -> Interpreter {
        // The host's `swift` is set before any Lua code can run, and the interpreter closes its state before it dies.
        unsafe Unmanaged<Interpreter>.fromOpaque(cl_state_of(thread).pointee.swift).takeUnretainedValue()
    }

    static func of(_ state: UnsafeMutablePointer<cl_state>?) -> Interpreter? {
        state?.pointee.swift.map { Unmanaged<Interpreter>.fromOpaque($0).takeUnretainedValue() }
    }

    /// What of a userdata's object all threads share; nil if objects of the kind cannot cross.
    open func share(_ object: AnyObject, kind: Int) -> AnyObject? { nil }

    /// The object of this state's userdata for what is shared.
    open func arrive(_ shared: AnyObject, kind: Int) -> AnyObject { shared }

    /// Objects of kinds that are made `orAfar` belong to this state if they hold this object.
    public final func setHome(_ object: AnyObject) { state.pointee.home = Unmanaged.passUnretained(object).toOpaque() }

    // MARK: The whole state

    /// Until `startCollector` nothing is collected but when memory is out: for the opening of a state, which makes no garbage.
    public final func stopCollector() { cl_stop_collector(main) }

    /// Generational. On failure the error is on the stack.
    public final func startCollector() -> Bool { cl_start_collector(main) == LUA_OK }

    /// Has `require` find `runloop`, which the library's first function makes, and those modules beneath it that `knows` finds, called
    /// with package.preload and the name: the second function makes them when they are first required. On failure the error is on
    /// the stack.
    public final func openModules(_ openers: Library, knows: LuaFunction) -> Bool {
        guard let entries = openers.entries.baseAddress else { return false }
        return cl_open_modules(main, entries, knows, entries + 1) == LUA_OK
    }

    public final func collectGarbage() { lua_gc_collect(main) }

    /// Bytes of Lua's memory.
    public final var bytesInUse: Int { Int(state.pointee.bytes) }

    /// How far a collection in steps has come.
    public enum CollectionProgress { case underWay, cycleEnded, interrupted }

    /// Begins a collection in steps; false if there is a reason not to. See cl_begin_collection.
    public final func beginCollection() -> Bool { cl_begin_collection(state) != 0 }

    /// Goes on with it for about so many nanoseconds, and adds the processor time that this has taken to `spent`.
    public final func collect(for nanoseconds: Int64, spent: inout Int64) -> CollectionProgress {
        switch cl_collect(state, nanoseconds, &spent) {
        case 0: .underWay
        case 1: .cycleEnded
        default: .interrupted
        }
    }

    public final func endCollection() { cl_end_collection(state) }

    /// Pops a table; its fields take the places of a global table's. On failure the error is on the stack instead.
    public final func replaceFields(of global: String) -> Bool {
        global.withCString { cl_replace(main, $0) == LUA_OK }
    }

    /// The process ends: Lua code that runs is interrupted, and once more if it catches that.
    public final func interruptToEnd() { cl_interrupt(state) }

    /// The source's short name and the line of a site.
    public final func place(_ number: UInt32) -> (source: String, line: Int32)? {
        var line: Int32 = 0
        return cl_site(state, number, &line).map { (String(anyBytes: $0), line) }
    }

    /// The same as text: "app.lua:12".
    public final func site(_ number: UInt32) -> String? { place(number).map { "\($0.source):\($0.line)" } }

    // MARK: Cancelling

    /// The anchored error value by which code is cancelled, or 0.
    public final var cancelled: UInt32 {
        get { state.pointee.cancelled }
        set { state.pointee.cancelled = newValue }
    }

    /// From now on Lua code that runs on the calling thread, which is no main thread, can be cancelled by the number returned.
    public final func acceptCancelling() -> UInt { cl_accept_cancelling(state) }

    /// On the same thread.
    public static func endCancelling() { cl_end_cancelling() }

    /// Raises `cancelled` in the code that runs there. From any thread, between the two.
    public static func cancelRunning(_ thread: UInt) { cl_cancel_running(thread) }

    /// "string.find, called at app.lua:3", and for how many nanoseconds: the function of C that keeps a cancelled thread from ending. Nil
    /// if there is none. Takes up to 50 ms.
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

    /// From now on that has system calls there fail, so that code comes back from one that blocks, and raises nothing twice; or
    /// no longer.
    public static func letCallsFail(_ fail: Bool) { cl_let_calls_fail(fail ? 1 : 0) }

    // MARK: Anchors

    /// Keeps the value at an index alive, under a number other than 0; 0 when memory is out. Cannot raise.
    public final func anchor(_ thread: LuaState, _ index: Int32) -> UInt32 { cl_anchor(thread, index) }

    /// Makes strings and anchors them: texts that end with a 0 each, one behind the other. nil when memory is out.
    public final func anchor(texts: [CChar], count: Int) -> [UInt32]? {
        var slots = [UInt32](repeating: 0, count: count)
        return cl_anchor_texts(main, texts, &slots, Int32(count)) != 0 ? slots : nil
    }

    /// Lets go of it. Does nothing for 0, and once the state is closed.
    public final func release(_ slot: UInt32) { cl_let_go(state, slot) }

    /// Pushes what a slot anchors.
    public final func push(_ stack: Stack, slot: UInt32) {
        lua_rawgeti(stack.thread, cl_registry, lua_Integer(state.pointee.anchors))
        lua_rawgeti(stack.thread, -1, lua_Integer(slot))
        lua_copy(stack.thread, -1, -2)
        stack.pop()
    }

    public final func push(_ thread: LuaState, slot: UInt32) { push(Stack(thread), slot: slot) }

    // MARK: The scratch buffer

    /// Its text.
    public var scratch: String {
        guard let bytes = state.pointee.scratch else { return "" }
        return String(anyBytes: UnsafeRawBufferPointer(start: bytes, count: state.pointee.length))
    }

    @discardableResult
    public func setScratch(_ text: String) -> Bool {
        cl_reset(state)
        return text.withAnyBytes { cl_write(state, $0.baseAddress, $0.count) != 0 }
    }

    // MARK: For a host to say

    /// The script asks for the end of the process; must not return.
    open func exits(_ status: Int32, closes: Bool) {}

    /// Code that runs was asked what it does, by SIGQUIT.
    open func tellWhy() {}

    /// Does what others want of this thread.
    ///
    /// - Parameter isRunning: Lua code is at an instruction; otherwise nothing runs.
    open func grant(_ wishes: Wishes, isRunning: Bool) {}

    /// Code that is about to be interrupted is that of an entry; see `watchEntries`.
    open var isInEntry: Bool { false }

    // MARK: For recordings

    /// A task begins, or what has waited goes on, a callback too. Returns whether to call `rests` when it next waits or ends.
    open func goesOn(_ fiber: Fiber) -> Bool { false }

    /// It waits from now on.
    open func waits(_ fiber: Fiber) {}

    /// It has ended with an error.
    open func fails(_ fiber: Fiber) {}

    /// It waits, or has ended.
    open func rests(_ fiber: Fiber) {}

    /// A task ended with an error that nobody waits for. The value is on top of the fiber's stack.
    open func uncaught(_ fiber: Fiber) {}
}
