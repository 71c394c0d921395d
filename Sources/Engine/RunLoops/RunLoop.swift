internal import CLinux
internal import Linux
internal import Synchronization

/// A run loop: waits for timers, sources and requests, and calls them back on its thread, in a documented order.
/// CFRunLoop, NSRunLoop.
///
/// A loop belongs to the thread that created it; only `handle` may be used on others. `RunLoop.current` is the calling
/// thread's, made on first use. Nothing runs unless the thread runs the loop: `run`, `run(in:)`, `run(until:)`.
public final class RunLoop {
    /// What other threads may use.
    public let handle: Handle
    /// The order of events that observers see.
    public var sequence = Sequence.documented
    /// Called on the loop's thread, between two callbacks, after `handle.raiseAttention()`.
    public var attentionHandler: ((RunLoop) -> Void)?
    /// For the owner's use. Not retained: the owner takes it back before it dies. (A weak reference would make each later
    /// retain and release of that object slower, several times over.)
    public unowned(unsafe) var userInfo: AnyObject?
    public var statistics: Statistics {
        var statistics = counters.pointee
        statistics.longest = max(statistics.longest, recorder.pointee.longestTime)
        statistics.asleep += recorder.pointee.asleepTime
        return statistics
    }
    let counters: UnsafeMutablePointer<Statistics>
    /// Since when nobody has been called, by the coarse clock: the next callback begins about now, without another look at the clock.
    /// 0: that is not known.
    var quietSince: Int64 = 0
    /// Called once, after `wantsTurnEnd` was set, when nothing that is ready is left to be handled and the loop is about to ask
    /// the kernel for more, or a run ends: the place for what is cheaper done once for many callbacks. It must call nothing that
    /// is not its own; it may `signal` ports.
    public var turnEndHandler: (() -> Void)?
    /// Set it when there is something for `turnEndHandler` to do.
    public var wantsTurnEnd = false
    /// How many events were taken since then.
    final var turnLength = 0
    @usableFromInline package let recorder: UnsafeMutablePointer<Recorder>
    /// Keeps it. Those who read it on other threads have this as well.
    package let recorderMemory: Recorder.Memory
    /// Called once, on the loop's thread, when it has first run for a second: the time to begin recording.
    package var whenItLasts: ((RunLoop) -> Void)?
    /// Called when the loop is about to sleep for long, in the real world: the time for work that nobody waits for, in
    /// steps of a few milliseconds. Returns after how many nanoseconds to call it again; 0 if it has done something,
    /// `.max` for not before the next long sleep.
    package var restHandler: ((RunLoop) -> Int64)?
    /// What recordings are to call an item, or 0 if that is told when it calls back. Without it: its kind and name.
    package var labels: ((Item) -> UInt32)?

    let poller: Poller
    var modes: [ModeState] = []
    /// The same by their names, once there are many.
    var modesByName: [Mode: ModeState] = [:]
    /// With as many of them, the unused ones go.
    var modeLimit = RunLoop.usualModes
    /// Modes that have lost their last port, and still have a descriptor set; the latest last.
    var modesToSpare: [ModeState] = []
    var commonModes: [Mode] = [.default]
    /// The sources and observers that were added to the common modes, with the order of addition. Ports are in `ports`.
    var commonItems: [ObjectIdentifier: (item: Item, age: UInt64)] = [:]
    /// Its ports, in modes or common, in no order. Retained.
    let ports = RawBuffer<Unmanaged<PortBase>>(capacity: 4)
    var timerQueues: [TimerQueue] = []
    /// With more of them, the empty ones go.
    var timerQueueLimit = 64
    /// That of the timers in exactly the common modes; it is in `timerQueues`.
    var commonQueue: Unmanaged<TimerQueue>?
    /// Nothing but this loop: an array that all its common items share.
    private(set) lazy var alone = [Unmanaged.passUnretained(self)]
    /// How many ports are in its modes: without any, what is ready has no order to keep.
    var portCount = 0
    /// Timers about to fire, and where.
    let batch = TimerBatch()
    var innermostFiring: NodePointer?
    /// When somebody last looked at the clock.
    var latestNow: Int64 = 0
    /// Owned, by order, and in raw memory: each pass looks at them.
    let requestQueues = RawBuffer<Unmanaged<RequestQueue>>(capacity: 4)
    /// With more of them, the empty ones go.
    var requestQueueLimit = 32
    /// The one for the common modes with order 0: nearly every request goes there.
    var commonRequests: Unmanaged<RequestQueue>?
    var requestCount = 0
    var lastRequest: UInt64 = 0
    var lastAge: UInt64 = 0
    /// Innermost last.
    var runs: [Run] = []
    /// The last of them.
    var innermostRun: Unmanaged<Run>?
    private var lastRun: UInt64 = 0
    /// Goes up whenever code that is not the loop's has run: what was found ready before, or by that code, may no longer be.
    var dispatches: UInt64 = 0
    /// For how many events not to look for more; see `findsMore`.
    var looksInVain = 0
    let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: 64)

    /// What a wait brings.
    enum Event {
        case nothing
        case timers
        /// Retained.
        case port(Unmanaged<PortBase>)
    }

    /// What modes without ports sleep with.
    let wakeOnly: DescriptorSet

    /// A loop in a world of its own, for tests in simulated time. It is not the thread's `current` loop.
    ///
    /// Traps when the process has no descriptors left: who wants to survive that makes the handle first.
    public convenience init(poller: Poller) {
        do throws(SystemError) {
            try self.init(poller: poller, handle: Handle())
        } catch {
            fatalError("a run loop needs two descriptors, and this process gets none: \(error)")
        }
    }

    /// - Parameter handle: made before the loop, for those who need it before the loop's thread has begun, or who want to
    ///   know whether a loop can be had. Only one loop may have it.
    public init(poller: Poller, handle: Handle) {
        self.poller = poller
        wakeOnly = DescriptorSet(of: handle)
        self.handle = handle
        counters = .allocate(capacity: 1)
        counters.initialize(to: Statistics())
        recorderMemory = Recorder.Memory(poller)
        recorder = recorderMemory.recorder
        _ = state(of: .default)
    }

    deinit {
        close()
        // Modes and queues hold each other, and modes themselves.
        for queue in timerQueues { queue.modes = [] }
        for mode in modes { mode.alone = [] }
        ports.free()
        for queue in requestQueues.elements { queue.release() }
        requestQueues.free()
        handle.closeDescriptors()
        events.deallocate()
        counters.deallocate()
        forgetRecorder()
    }

    // MARK: Running

    /// Runs in the default mode until stopped or nothing is left. CFRunLoopRun.
    @discardableResult
    public func run() -> RunResult { run(in: .default) }

    /// The same, but a stop by `stop(by:)` that has come since the last run is not forgotten: then this one does not begin.
    public func runUnlessStopped() -> RunResult {
        handle.earlyStop == nil ? run(in: .default, for: nil, heedsEarlyStop: true) : .stopped
    }

    /// Runs in a mode. CFRunLoopRunInMode.
    ///
    /// - Parameters:
    ///   - mode: not `.common`.
    ///   - limit: for how long at most; nil, or more than 504,911,232 s, for no limit. Zero or less is one pass that does
    ///     not wait; a positive limit, however small, waits at least once.
    ///   - returnAfterSource: return as soon as a custom source or a port was handled. Timers do not count.
    /// - Returns: `.finished` at once if the mode holds nothing. When several ends meet in one pass: `.handledSource`, then
    ///   `.timedOut`, then `.stopped`, then `.finished`; a stop that did not become the result is lost.
    @discardableResult
    public func run(in mode: Mode, for limit: Duration? = nil, returnAfterSource: Bool = false) -> RunResult {
        run(in: mode, for: limit, returnAfterSource: returnAfterSource, heedsEarlyStop: false)
    }

    private func run(
        in mode: Mode, for limit: Duration?, returnAfterSource: Bool = false, heedsEarlyStop: Bool
    ) -> RunResult {
        precondition(mode != .common, "a run loop runs in one mode; \".common\" stands for several")
        // To find out whether it is empty may change which modes there are.
        guard !isEmpty(in: mode), let mode = existingState(of: mode) else { return .finished }
        lastRun += 1
        let run = Run(
            mode: mode, number: lastRun, polls: limit.map { $0 <= .zero } ?? false,
            returnsAfterSource: returnAfterSource, heedsEarlyStop: heedsEarlyStop)
        begin(run)
        defer { end(run) }
        // Raised before the run began, which has forgotten that wake-up.
        if handle.takeAttention() { heed() }

        notify(.entry, mode)  // 1. observers: the run loop is entered
        if let limit, limit <= .seconds(504_911_232) { run.deadline = (now + limit).nanoseconds }
        var result: RunResult? = run.isStopped ? .stopped : nil
        while result == nil { result = pass(run) }
        notify(.exit, mode)  // 10. observers: the run loop is left
        run.result = result ?? .finished
        return run.result
    }

    /// One pass. The numbers are the steps of Apple's list; 1 and 10 are in `run`.
    private func pass(_ run: Run) -> RunResult? {
        let mode = run.mode
        if run.ignoresWakeUps {
            run.ignoresWakeUps = false
            handle.clearWakeUp()
            // Whoever raised it has woken us; that wake-up is forgotten now.
            if handle.takeAttention() { heed() }
        }
        counters.pointee.passes += 1
        noteBegin(of: run)

        notify(.beforeTimers, mode)  // 2. observers: timers are about to fire
        notify(.beforeSources, mode)  // 3. observers: sources are about to fire
        performRequests(mode)
        let handledSource = performSources(run)  // 4. custom sources
        if handledSource { performRequests(mode) }

        var event = Event.nothing
        if handledSource || run.polls {
            event = nextEvent(run, waits: false)
        } else if let port = portReadyAtOnce(mode) {
            event = .port(port)  // 5. a port-based source is ready: on to 9
        } else if !isEmpty(mode) {
            notify(.beforeWaiting, mode)  // 6. observers: about to sleep
            event = nextEvent(run, waits: true)  // 7. sleep until something happens
            run.ignoresWakeUps = true
            notify(.afterWaiting, mode)  // 8. observers: woken up
        }
        run.ignoresWakeUps = true
        if handle.takeAttention() { heed() }
        let handledPort = dispatch(event, mode)  // 9. what woke it
        performRequests(mode)

        // 9, continued: the next pass, unless there is a reason to return.
        if run.returnsAfterSource, handledSource || handledPort { return .handledSource }
        if run.polls || run.deadline != .max && poller.now() >= run.deadline { return .timedOut }
        if isStopped(run) { return .stopped }
        return isEmpty(mode) ? .finished : nil
    }

    /// Runs in the default mode until a date; ends early only when the mode is empty. At least one pass that does not wait,
    /// for a date that is past. `-[NSRunLoop runUntilDate:]`. A stop ends only the run it meets.
    public func run(until date: Instant) {
        repeat {} while run(mode: .default, before: date) && now < date
    }

    /// Runs in a mode once, until a source or port was handled, or the date. `-[NSRunLoop runMode:beforeDate:]`.
    ///
    /// - Returns: false, at once, if there is nothing in the mode; true otherwise, whatever ended the run.
    @discardableResult
    public func run(mode: Mode, before date: Instant) -> Bool {
        guard mode != .common, let state = existingState(of: mode), !isEmpty(state) else { return false }
        run(in: mode, for: date == .never ? nil : date - now, returnAfterSource: true)
        return true
    }

    /// Ends the innermost run when its pass is over; without a run it does nothing, and is not remembered. CFRunLoopStop.
    public func stop() { runs.last?.isStopped = true }

    /// The same, but without a run it is noted for `runUnlessStopped`, with the text for messages.
    public func stop(by caller: @autoclosure () -> String) {
        if let run = runs.last { run.isStopped = true } else { handle.stop(by: caller()) }
    }

    /// Ends all runs in progress, each when its pass is over.
    public func stopAll() { for run in runs { run.isStopped = true } }

    /// Ends the runs from a depth on, counted from 0: those that have been begun since `depth` was that.
    public func stopRuns(from depth: Int) { for run in runs.dropFirst(depth) { run.isStopped = true } }

    /// Ends the run at a depth, from 0 on; those inside it go on until they end by themselves.
    func stop(runAt depth: Int) { if depth < runs.count { runs[depth].isStopped = true } }

    /// Makes the coming wait return at once. Forgotten when the loop does not run, and between the end of a wait and the
    /// next pass: that pass looks at everything before it waits. CFRunLoopWakeUp.
    public func wakeUp() {
        if let run = runs.last, !run.ignoresWakeUps { run.wakeIsPending = true }
    }

    /// The mode of the innermost run; nil when it does not run. CFRunLoopCopyCurrentMode.
    public var currentMode: Mode? { runs.last?.mode.name }

    /// The innermost run is in a common mode, or there is none.
    package var runsInCommonMode: Bool { innermostRun.map { $0._withUnsafeGuaranteedRef { $0.mode.isCommon } } ?? true }

    /// How many runs are in progress, one inside the other.
    public var depth: Int { runs.count }

    /// Seconds since 1970, by the wall clock.
    public static var wallClock: Double { linux_wall_clock() }

    /// Seconds since 1970, by the wall clock of the loop's world.
    public var wallClock: Double { poller.wallClock }

    /// The loop's clock.
    public var now: Instant {
        latestNow = poller.now()
        return Instant(nanoseconds: latestNow)
    }

    /// The latest date that the loop has read from its clock: in a callback, about when the loop woke up. No system call.
    package var latestDate: Instant { Instant(nanoseconds: latestNow) }
}
