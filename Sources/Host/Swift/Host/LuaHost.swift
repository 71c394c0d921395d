package import Linux
public import Lua
public import RunLoops

/// A Lua state with a run loop: what a thread of rlhost has.
public final class LuaHost: Interpreter {
    public let loop: RunLoop
    /// The modules beside `runloop` that `require` finds; asked for the first time when a script wants one.
    let batteries: @Sendable () -> [Battery]
    /// What the features keep for this state, in the order in which they were first used.
    package var parts: [HostPart] = []
    /// Called with an error that nobody handles. The default writes it to standard error.
    public var onUncaught: (LuaHost, Failure) -> Void = { _, failure in write(failure.text + "\n", to: 2) }
    /// Meanwhile: a coroutine with the error value on top of its stack, if that is in this state.
    package var uncaughtValue: Stack?
    /// Called with what is worth knowing and nobody's error. The default writes it to standard error.
    public var onWarning: (LuaHost, String) -> Void = { _, text in write("rlhost: \(text.shown)\n", to: 2) }
    /// Called when the script asks for the end of the process; must not return.
    public var onExit: (LuaHost, Int32) -> Never = { _, status in Ending.end(status) }
    /// The exit status, once somebody has asked for the end: runs end, and no new ones begin.
    public var endingStatus: Int32?
    /// The script's path as it was given; nil without one. Set before there is a second thread.
    public nonisolated(unsafe) static var script: String?
    let timers = LuaTimers()
    /// Those of `rl.at`.
    let wallTimers = WallTimers()
    package let requests = LuaRequests()
    package let items = LuaItems()
    let sleepers = Sleepers()
    /// What its recordings need, once there are any.
    // A plain reference would be counted at each callback.
    var recording: Unmanaged<LuaRecording>?
    /// How many spans that has.
    var openSpans = 0
    /// The module `runloop` has been required.
    var hasOpenedRunloop = false
    /// What callbacks get.
    var texts = CallbackTexts()
    /// Seconds since 1970.
    public var wallClock: Double { loop.wallClock }
    /// The loop's run is the last that the program, or the thread, has for it.
    package var isInLastRun = false
    /// How many runs there are inside each other while the observers of the end of the innermost are called; 0: they are not.
    var depthLeft = 0
    /// Also for the states of its threads.
    var ignoresEnvironment = false
    /// The script and its arguments.
    public var words: [String] = []

    /// nil when there is not enough memory.
    ///
    /// - Parameter loop: the calling thread's.
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
        // Its loop may not have turned since its first second.
        if !loop.isRecording, !wishes.isDisjoint(with: [.dump, .record]) { lasts() }
        for part in parts { part.grant(wishes, isRunning: isRunning) }
    }

    public override var isInEntry: Bool { parts.contains { $0.isInEntry } }

    static func running(_ thread: OpaquePointer) -> LuaHost {
        // Every interpreter of this program is one.
        unsafe unsafeDowncast(Interpreter.of(thread), to: LuaHost.self)
    }

    /// What may be wanted of the recorder.
    package enum RecorderWish {
        /// That a state's loop is recorded, on its thread: that of a new thread, or one that has first run for a second, or at which
        /// somebody wants to look.
        case begin(LuaHost, isNew: Bool)
        /// That what is recorded of all loops is written to a file. On any thread.
        case dump(path: String)
    }

    /// Answers what has kept the file from being written. Set before there is a second thread.
    package nonisolated(unsafe) static var recorder: ((RecorderWish) -> SystemError?)?

    /// Has its loop recorded, if anything is to be.
    package func lasts(isNew: Bool = false) { _ = Self.recorder?(.begin(self, isNew: isNew)) }

    /// Opens the standard libraries, and makes `require "runloop"` work. Returns an error message, or nil.
    public func openLibraries(ignoringEnvironment: Bool = false) -> String? {
        ignoresEnvironment = ignoringEnvironment
        guard openLibraries(withoutEnvironment: ignoringEnvironment), openModules() else { return popMessage() }
        return nil
    }

    /// Stops everything that could call into Lua, in this order, before Lua gives its memory back. It is the list for the end of a state,
    /// of a thread as of the program; that for the end of the process is in ending.h.
    ///
    /// - Tasks come first: what they close on their way out may still need everything else.
    /// - Then the features: programs, watchers and pools end, resolvers forget their questions, and the recorder leaves the file that other
    ///   threads may be completing. They release items, so the items are still there.
    /// - Timers and items of the loop next: they hold objects of Lua.
    /// - Requests of other threads last: items that were invalidated may have queued some.
    ///
    /// Threads of pools and resolvers go on. What they share with a state is counted (`Mailbox.Shared`, `RunLoop.Handle`,
    /// `RunLoop.Recorder.Memory`), so the last owner frees it, whichever that is.
    public override func willClose() {
        if cancelled != 0 { cancelAllTasks() }
        // Those that have caught that and wait again never go on.
        unwindWaiting()
        for part in parts { part.willClose() }
        for node in loop.allTimers { node.invalidate() }
        for item in loop.allItems { item.invalidate() }
        items.invalidateCrossing()
        loop.dropRequests(of: requests)
        loop.labels = nil
        if loop.userInfo === self { loop.userInfo = nil }
    }

    /// Makes the loop, and what features keep, as new: between two tests.
    package func reset() {
        for node in loop.allTimers { node.invalidate() }
        for item in loop.allItems { item.invalidate() }
        loop.reset()
        endingStatus = nil
        for part in parts { part.reset() }
    }

    public override func poolIsLarge() { part(LuaMemory.self).shrinkSoon() }

    func fiber(of node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Fiber? {
        // Only asked of a sleeper's node.
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
        loop.recorder.pointee.waits(fiber.number, in: fiber.waitsIn)
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

    /// What waits while its thread, or the program, is ended ends so: that is nobody's error.
    func isEnd(_ failure: Failure) -> Bool { failure.cause == .cancelled && isEnding }

    /// Whether its thread, or the program, is being ended: what waits is cancelled.
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

    /// What a stream without a name is called: "connection at 127.0.0.1:8080".
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

/// Writes a text to a descriptor, all of it.
func write(_ text: String, to fd: Int32) {
    _ = text.withAnyBytes { bytes in Descriptor.write(bytes, to: fd) }
}
