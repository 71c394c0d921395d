package import Linux
public import Lua
public import RunLoops

/// A Lua state with a run loop. Each thread of rlhost has one.
public final class LuaHost: Interpreter {
    public let loop: RunLoop
    /// The modules besides `runloop` that `require` finds. Called when a script first requires one.
    let batteries: @Sendable () -> [Battery]
    /// The data of modules for this state, in the order in which they were first used.
    package var parts: [HostPart] = []
    /// Parts that each task needs.
    private(set) package lazy var tasks = part(LuaTasks.self)
    private(set) lazy var trails = part(ErrorTrails.self)
    /// Called with an error that nobody handles. The default writes it to standard error.
    public var onUncaught: (LuaHost, Failure) -> Void = { _, failure in write(failure.text + "\n", to: 2) }
    /// While `onUncaught` runs: a coroutine with the error value on top of its stack, if the value is in this state.
    package var uncaughtValue: Stack?
    /// Called with a warning. The default writes it to standard error.
    public var onWarning: (LuaHost, String) -> Void = { _, text in write("rlhost: \(text.shown)\n", to: 2) }
    /// Called when the script asks for the end of the process; must not return.
    public var onExit: (LuaHost, Int32) -> Never = { _, status in Ending.end(status) }
    /// The exit status, once the process is ending. Runs then end, and no new run begins.
    public var endingStatus: Int32?
    /// The script's path as given; nil if there is no script. Set before there is a second thread.
    public nonisolated(unsafe) static var script: String?
    let timers = LuaTimers()
    /// The timers of `rl.at`.
    let wallTimers = WallTimers()
    package let requests = LuaRequests()
    package let items = LuaItems()
    let sleepers = Sleepers()
    /// The open spans of the host's recordings; nil until the host first records.
    // Unmanaged: a plain reference would be counted at each callback.
    var recording: Unmanaged<LuaRecording>?
    /// The number of open spans.
    var openSpans = 0
    /// Whether the module `runloop` has been required.
    var hasOpenedRunloop = false
    /// The texts that callbacks get.
    var texts = CallbackTexts()
    /// Seconds since 1970.
    public var wallClock: Double { loop.wallClock }
    /// Whether the loop's run is the last one of the program or thread.
    package var isInLastRun = false
    /// The number of tasks and futures that have ended.
    var ends = 0
    /// Random numbers that a seed determines, in a test and in a program with a seed.
    package var seeded: SeededNumbers?
    /// While observers of the innermost run's end are called: the number of nested runs. 0 otherwise.
    var depthLeft = 0
    /// The fibers of chunks and tests that have not ended.
    package var mains: [Fiber] = []
    /// The index at which the last search found a task that awaits a future.
    var awaiterPlace = 0
    /// Whether this state ignores LUA_INIT and similar variables. Threads of this state ignore them, too.
    var ignoresEnvironment = false
    /// The script and its arguments.
    public var words: [String] = []

    /// Returns nil if there is not enough memory.
    ///
    /// - Parameter loop: the calling thread's loop.
    public init?(loop: RunLoop, batteries: @escaping @Sendable () -> [Battery] = { [] }) {
        self.loop = loop
        self.batteries = batteries
        super.init()
        timers.host = .passUnretained(self)
        wallTimers.host = .passUnretained(self)
        requests.host = .passUnretained(self)
        items.host = .passUnretained(self)
        sleepers.owner = .passUnretained(self)
        loop.userInfo = self
        loop.awaitsAnswer = { loop in (loop.userInfo as? LuaHost)?.awaitsAnswer ?? false }
        loop.whenItLasts = { loop in (loop.userInfo as? LuaHost)?.lasts() }
        loop.restHandler = { loop in (loop.userInfo as? LuaHost)?.part(LuaMemory.self).rest() ?? .max }
        setHome(loop.handle)
    }

    public override func exits(_ status: Int32, closes: Bool) {
        if closes { close() } else { for part in parts { part.willExit() } }
        onExit(self, status)
    }

    public override func tellWhy() { write("\(whereText())\n\(why())\n", to: 2) }

    public override func grant(_ wishes: Wishes, isRunning: Bool) {
        // A loop that has made no pass after its first second does not record yet.
        if !loop.isRecording, !wishes.isDisjoint(with: [.dump, .record]) { lasts() }
        for part in parts { part.grant(wishes, isRunning: isRunning) }
    }

    public override var isInEntry: Bool { parts.contains { $0.isInEntry } }

    static func running(_ thread: OpaquePointer) -> LuaHost {
        // Every interpreter of this program is a LuaHost.
        unsafe unsafeDowncast(Interpreter.of(thread), to: LuaHost.self)
    }

    /// A request to the recorder.
    package enum RecorderWish {
        /// Records a state's loop, on its thread: when a new thread begins, when a loop has run for a second, or when a
        /// user wants to look at it.
        case begin(LuaHost, isNew: Bool)
        /// Writes the recordings of all loops to a file. On any thread.
        case dump(path: String)
    }

    /// The function that fulfils these requests. It returns the error if the file could not be written. Set before a
    /// second thread exists.
    package nonisolated(unsafe) static var recorder: ((RecorderWish) -> SystemError?)?

    /// Lets the recorder record the loop, if recording is on.
    package func lasts(isNew: Bool = false) { _ = Self.recorder?(.begin(self, isNew: isNew)) }

    /// Opens the standard libraries, and makes `require "runloop"` work. Returns an error message, or nil.
    public func openLibraries(ignoringEnvironment: Bool = false) -> String? {
        ignoresEnvironment = ignoringEnvironment
        guard openLibraries(withoutEnvironment: ignoringEnvironment), openModules() else { return popMessage() }
        return nil
    }

    /// Stops everything that could call into Lua, in this order, before Lua frees its memory. This is the list for the
    /// end of a state, in a thread as in the program; the list for the end of the process is in ending.h.
    ///
    /// - Tasks come first: when they close their variables, they may still need everything else.
    /// - The features come next: programs, watchers and pools end, resolvers drop their queries, and the recorder
    ///   closes its part of a file that other threads may still complete. Features release items, so the items must
    ///   still exist.
    /// - The timers and items of the loop, which hold objects of Lua, come after them.
    /// - Requests of other threads come last: items that were invalidated may have queued some.
    ///
    /// Threads of pools and resolvers go on. The objects that they share with a state are counted (`Mailbox.Shared`,
    /// `RunLoop.Handle`, `RunLoop.Recorder.Memory`), so the last owner frees them.
    public override func willClose() {
        if cancelled != 0 { cancelAllTasks() }
        // A task that has caught its cancellation and waits again is never resumed.
        unwindWaiting()
        for part in parts { part.willClose() }
        for node in loop.allTimers { node.invalidate() }
        for item in loop.allItems { item.invalidate() }
        items.invalidateCrossing()
        loop.dropRequests(of: requests)
        loop.labels = nil
        if loop.userInfo === self { loop.userInfo = nil }
    }

    public override func close() {
        super.close()
        for part in parts { part.didClose() }
    }

    /// Resets the loop and the data of features between two tests.
    package func reset() {
        for node in loop.allTimers { node.invalidate() }
        for item in loop.allItems where !item.outlastsTests { item.invalidate() }
        loop.reset()
        endingStatus = nil
        for part in parts { part.reset() }
    }

    public override func poolIsLarge() { part(LuaMemory.self).shrinkSoon() }

    public override func reachedProcessorLimit(_ times: Int) { part(LuaLimits.self).reachedProcessorLimit(times) }
    public override var isInRun: Bool { loop.currentMode != nil }

    func fiber(of node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Fiber? {
        // Only nodes of `Sleepers` come here.
        Fiber(context: node.pointee.context)
    }

    public override func goesOn(_ fiber: Fiber) -> Bool {
        if openSpans == 0, fiber.label != 0, loop.recorder.pointee.goesOnHere(fiber.label, task: fiber.number) {
            return false
        }
        return tellGoingOn(fiber)
    }
    public override func waits(_ fiber: Fiber) {
        if openSpans != 0 { tellSpansEnd(fiber) }
        let site = fiber.objectSite
        if site == 0 { return loop.recorder.pointee.waits(fiber.number, in: fiber.waitsIn) }
        loop.recorder.pointee.waits(fiber.number, in: fiber.waitsIn, site: site) { madeAt(fiber) }
    }
    public override func fails(_ fiber: Fiber) { tellFailing() }
    public override func rests(_ fiber: Fiber) { tellResting() }

    public override func uncaught(_ fiber: Fiber) {
        var failure = failure(of: fiber)
        if isEnd(failure) { return }
        closeVariables(of: fiber, after: &failure)
        if depth > Self.deepestReport, reportLater(failure, of: fiber) { return }
        report(failure, of: fiber.stack)
    }

    /// Whether a failure only reports that a waiting task was cancelled because its thread or program ends. Such a
    /// failure does not count as an error.
    func isEnd(_ failure: Failure) -> Bool { failure.cause == .cancelled && isEnding }

    /// Whether the host's thread or program is ending: waiting tasks are cancelled then.
    var isEnding: Bool { thread?.isCancelled == true || isClosing || endingStatus != nil }

    public override func share(_ object: AnyObject, kind: Int) -> AnyObject? {
        switch object {
        case is RunLoop.Handle, is ThreadRequest, is SharedItem: object
        case let reference as LuaThread.Reference: reference.thread
        case let task as LuaTask: task.shared
        case is SharedTask: object
        default: nil
        }
    }

    public override func arrive(_ shared: AnyObject, kind: Int) -> AnyObject {
        switch shared {
        case let thread as LuaThread: reference(to: thread)
        default: shared
        }
    }

    /// Returns the text for a stream without a name: "connection at 127.0.0.1:8080".
    func titleOfAnchored(_ slot: UInt32) -> String? {
        guard slot != 0 else { return nil }
        push(stack, slot: slot)
        defer { stack.pop() }
        guard let box = stack.box(-1), box.isFilled else { return nil }
        return (box.object(as: AnyObject.self) as? RunLoop.EdgePort)?.title
    }

    func nameOfAnchored(_ slot: UInt32) -> String? {
        push(stack, slot: slot)
        defer { stack.pop() }
        return Kinds.name(stack, -1)
    }
}

/// Writes a text to a descriptor, completely.
func write(_ text: String, to fd: Int32) {
    _ = text.withAnyBytes { bytes in Descriptor.write(bytes, to: fd) }
}
