internal import CLuaSupport
internal import Linux
public import Lua
public import RunLoops

/// A Lua state with a run loop: what a thread of rlhost has.
public final class LuaHost: Interpreter {
    public let loop: RunLoop
    /// The modules beside `runloop` that `require` finds; asked for the first time when a script wants one.
    let batteries: @Sendable () -> [Battery]
    /// The anchored tables of the functions of those that have been required, by module.
    var openedBatteries: [String: UInt32] = [:]
    /// What the features keep for this state, in the order in which they were first used.
    var parts: [HostPart] = []
    /// Called with an error that nobody handles. The default writes it to standard error.
    public var onUncaught: (LuaHost, Failure) -> Void = { _, failure in write(failure.text + "\n", to: 2) }
    /// Meanwhile: a coroutine with the error value on top of its stack, if that is in this state.
    var uncaughtValue: Stack?
    /// Called with what is worth knowing and nobody's error. The default writes it to standard error.
    public var onWarning: (LuaHost, String) -> Void = { _, text in write("rlhost: \(text)\n", to: 2) }
    /// Called when the script asks for the end of the process; must not return.
    public var onExit: (LuaHost, Int32) -> Never = { _, status in System.exit(status) }
    /// The exit status, once somebody has asked for the end: runs end, and no new ones begin.
    public var endingStatus: Int32?
    /// Tasks that failed, and may still be awaited.
    var failures: [WeakTask] = []
    var isLookingForFailures = false
    /// When, at the earliest, to collect all garbage again.
    var nextCollection = Int64.min
    /// Since memory was last given back.
    private var freedFibers = 0
    var endedTasks = 0
    /// The anchored function of `rl.on_error`, or 0.
    var errorHandler: UInt32 = 0
    let timers = LuaTimers()
    let requests = LuaRequests()
    let items = LuaItems()
    let sleepers = Sleepers()
    /// The anchored `rl.cancelled`.
    var cancelled: UInt32 = 0
    /// What callbacks get.
    var texts = CallbackTexts()
    /// Seconds since 1970.
    public var wallClock: Double { loop.wallClock }
    /// The thread it runs on; nil on the main thread.
    var thread: LuaThread?
    var threadCount = 0
    /// What this state has of threads. Entries go with the references, so that no thread's memory outlives all use of it.
    var references: [ObjectIdentifier: LuaThread.WeakReference] = [:]
    /// In a thread: where errors go that nobody handles here.
    var report: (@Sendable (Failure) -> Void)?
    /// The world of new threads' loops.
    var threadWorld = ThreadWorld()
    var ignoresEnvironment = false
    /// Waits for other threads, by number.
    var waits: [UInt64: ExternalWait] = [:]
    var lastWait: UInt64 = 0
    /// The world of a test runner's state; see TestWorld.
    var testWorld: TestWorld?
    /// The remote ports that are in use, by name.
    var remotes: [String: WeakRemote] = [:]
    /// Set while `rlhost attach` finds this process.
    var attachServer: AttachServer?
    /// The script and its arguments.
    public var words: [String] = []
    /// The same, for `rlhost attach` to show.
    public var title: String { words.joined(separator: " ") }
    /// Delayed perform requests that have not run, by slot.
    var delayed: [UInt32: RunLoop.Timer] = [:]

    /// nil when there is not enough memory.
    ///
    /// - Parameter loop: the calling thread's.
    public init?(loop: RunLoop, batteries: @escaping @Sendable () -> [Battery] = { [] }) {
        self.loop = loop
        self.batteries = batteries
        super.init()
        timers.host = .passUnretained(self)
        requests.host = .passUnretained(self)
        items.host = .passUnretained(self)
        sleepers.host = self
        loop.attachment = self
        setHome(loop.handle)
        host.pointee.exit = { host, status, closes in
            guard let swift = host?.pointee.swift else { return }
            let lua = unsafe Unmanaged<LuaHost>.fromOpaque(swift).takeUnretainedValue()
            if closes != 0 { lua.close() } else { lua.stopBeingAttachable() }
            lua.onExit(lua, status)
        }
    }

    static func running(_ thread: OpaquePointer) -> LuaHost {
        // Every interpreter of this program is one.
        unsafe unsafeDowncast(Interpreter.of(thread), to: LuaHost.self)
    }

    /// Opens the standard libraries, and makes `require "runloop"` work. Returns an error message, or nil.
    public func openLibraries(ignoringEnvironment: Bool = false) -> String? {
        ignoresEnvironment = ignoringEnvironment
        guard cl_open_libraries(main, ignoringEnvironment ? 1 : 0) == LUA_OK, openModules() else { return popMessage() }
        return nil
    }

    /// Stops everything that could call into Lua.
    public override func willClose() {
        for part in parts { part.willClose() }
        stopBeingAttachable()
        for node in loop.allTimers { node.invalidate() }
        for item in loop.allItems { item.invalidate() }
        loop.dropRequests(of: requests)
        delayed = [:]
        if loop.attachment === self { loop.attachment = nil }
    }

    // MARK: Memory

    public override func poolIsLarge() { shrinkSoon() }

    /// In passes to come: the number of fibers falls as that of tasks does, and what they took goes back to the system.
    private func shrinkSoon() {
        loop.perform { [weak self] in
            guard let self, !isClosed else { return }
            let (freed, isLarge) = shrinkPool()
            freedFibers += freed
            if isLarge { return shrinkSoon() }
            guard freedFibers >= Self.manyFibers, collectInMeasure() else { return }
            freedFibers = 0
            // What has a finalizer is freed by the second one: the tasks.
            collectGarbage()
            System.trimMemory()
        }
    }

    /// They are a megabyte or more.
    private static let manyFibers = 1000

    var mayCollect: Bool { loop.now.nanoseconds >= nextCollection }

    /// A full collection, unless the last one was so long that this takes more than a twentieth of the time.
    func collectInMeasure() -> Bool {
        guard mayCollect else { return false }
        let start = loop.now.nanoseconds
        collectGarbage()
        let end = loop.now.nanoseconds
        nextCollection = end + 20 * (end - start)
        return true
    }

    func fiber(of node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Fiber? {
        // Only asked of a sleeper's node.
        Fiber(context: node.pointee.context)
    }

    public override func uncaught(_ fiber: Fiber) {
        report(failure(of: fiber), of: fiber.stack, mayCallHandler: !fiber.isErrorHandler)
    }

    public override func share(_ object: AnyObject, kind: Int) -> AnyObject? {
        switch object {
        case is RunLoop.Handle, is ThreadRequest, is SharedItem: object
        case let reference as LuaThread.Reference: reference.thread
        default: nil
        }
    }

    public override func arrive(_ shared: AnyObject, kind: Int) -> AnyObject {
        switch shared {
        case let thread as LuaThread: reference(to: thread)
        default: shared
        }
    }

    func nameOfAnchored(_ slot: UInt32) -> String? {
        push(stack, slot: slot)
        defer { stack.pop() }
        return Kinds.name(stack, -1)
    }
}

/// Writes a text to a descriptor, all of it.
func write(_ text: String, to fd: Int32) {
    _ = text.withAnyBytes { bytes in Descriptor.write(bytes, to: fd) }
}
