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
    /// Called with message and traceback of an error that nobody handles. The default writes them to standard error.
    public var onUncaught: (LuaHost, String) -> Void = { _, text in write(text + "\n", to: 2) }
    /// Called with what is worth knowing and nobody's error. The default writes it to standard error.
    public var onWarning: (LuaHost, String) -> Void = { _, text in write("rlhost: \(text)\n", to: 2) }
    /// Called when the script asks for the end of the process; must not return.
    public var onExit: (LuaHost, Int32) -> Never = { _, status in System.exit(status) }
    /// The exit status, once somebody has asked for the end: runs end, and no new ones begin.
    public var endingStatus: Int32?
    /// Tasks that failed, and may still be awaited.
    var failures: [WeakTask] = []
    var isLookingForFailures = false
    /// When, at the earliest, to look again.
    var nextLookForFailures = Int64.min
    var endedTasks = 0
    /// The anchored function of `rl.on_error`, or 0.
    var errorHandler: UInt32 = 0
    let timers = LuaTimers()
    let requests = LuaRequests()
    let items = LuaItems()
    let sleepers = Sleepers()
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
    var report: (@Sendable (String) -> Void)?
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

    func fiber(of node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Fiber? {
        // Only asked of a sleeper's node.
        Fiber(context: node.pointee.context)
    }

    // MARK: Errors

    public override func uncaught(_ fiber: Fiber) {
        reportUncaught(
            fiber.stack, explanation(of: fiber.stack), describeSubject(fiber), mayCallHandler: !fiber.isErrorHandler)
    }

    /// An error that nobody handles: its value is on top of a stack.
    func reportUncaught(_ source: Stack, _ traceback: String, _ context: String?, mayCallHandler: Bool) {
        if errorHandler != 0, mayCallHandler, source.reserve(1), let handler = takeFiber() {
            // (function, error value, what it was in)
            handler.stack.pushAnchored(errorHandler)
            source.pushCopy(of: -1)
            source.move(1, to: handler.stack)
            var info = ValueProgram()
            info.table { info in
                info.field("traceback") { $0.append(traceback) }
                info.field("where") { $0.append(context) }
            }
            if handler.stack.push(info) {
                handler.isErrorHandler = true
                resume(handler, arguments: 2)
                return
            }
            recycle(handler)
        }
        let text = context.map { "\(traceback)\nin \($0)" } ?? traceback
        // What a guest has left behind must not end the process.
        if context?.contains("made at \(AttachSession.chunkName):") == true { return write("rlhost: \(text)\n", to: 2) }
        onUncaught(self, text)
    }

    /// An error of another thread that nobody there handles.
    func uncaught(text: String) {
        guard errorHandler != 0, let handler = takeFiber() else { return onUncaught(self, text) }
        handler.stack.pushAnchored(errorHandler)
        push(text: text, onto: handler.stack)
        var info = ValueProgram()
        info.table { $0.field("traceback") { $0.append(text) } }
        guard handler.stack.push(info) else {
            recycle(handler)
            return onUncaught(self, text)
        }
        handler.isErrorHandler = true
        resume(handler, arguments: 2)
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

    /// `timer "poll" made at app.lua:12`, for what a fiber runs.
    func describeSubject(_ fiber: Fiber) -> String? {
        guard let kind = fiber.subjectKind else { return nil }
        var text = kind
        if fiber.subject != 0, let name = nameOfAnchored(fiber.subject), !name.isEmpty { text += " \"\(name)\"" }
        if let site = site(fiber.subjectSite) { text += " made at \(site)" }
        return text
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
