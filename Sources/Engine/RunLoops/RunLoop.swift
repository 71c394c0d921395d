internal import CLinux
internal import Linux
internal import Synchronization

/// A run loop waits for timers, sources, ports and requests, and calls their callbacks on its own thread, in a
/// documented order. CFRunLoop, NSRunLoop.
///
/// A loop belongs to the thread that created it; other threads may use only its `handle`. `RunLoop.current` returns the
/// loop of the calling thread, and makes it on first use. A loop does nothing until its thread calls `run`, `run(in:)`
/// or `run(until:)`.
public final class RunLoop {
    /// The part of the loop that other threads may use.
    public let handle: Handle
    /// The order of events that observers see.
    public var sequence = Sequence.documented
    /// Called on the loop's thread, between two callbacks, after `handle.raiseAttention()`.
    public var attentionHandler: ((RunLoop) -> Void)?
    /// A reference for the owner of the loop. The loop does not retain it: the owner sets it to nil before the
    /// referenced object ends. (A weak reference would make every later retain and release of that object several times
    /// slower.)
    public unowned(unsafe) var userInfo: AnyObject?
    let counters: UnsafeMutablePointer<Statistics>
    /// Called on the loop's thread when `wantsTurnEnd` is set, nothing ready is left to handle, and the loop is about
    /// to ask the kernel for events; also when a run ends. Work that is cheaper once for many callbacks belongs here.
    /// The function must not call foreign code; it may `signal` ports. The loop resets `wantsTurnEnd` before each call.
    public var turnEndHandler: (() -> Void)?
    /// Set this to true to have `turnEndHandler` called.
    public var wantsTurnEnd = false
    /// Called after a sleep, before any callback, while `wantsTurnEnd` is set. The function must not call foreign code.
    public var wakeHandler: (() -> Void)?
    /// The number of events taken since `turnEndHandler` was last called.
    final var turnLength = 0
    /// Since the loop last asked the kernel for events: how often a port was ready after `turnEndHandler` had been
    /// called.
    final var busyTurns = 0
    /// The steps report to the probe what the loop does.
    @usableFromInline package internal(set) var probe: Probe
    /// Called once, on the loop's thread, when the loop has been running for a second: the owner then decides whether
    /// to record it.
    package var whenItLasts: ((RunLoop) -> Void)?
    /// Whether code waits for a result that an item with `mayAnswer` may bring. Called when nothing else keeps the loop
    /// running.
    package var awaitsAnswer: ((RunLoop) -> Bool)?
    /// Whether a run in a mode must go on although the mode holds no items, because another library's event loop is
    /// polled in this mode and still waits for something.
    package var staysForOthers: ((RunLoop, Mode) -> Bool)?
    /// Called on the loop's thread before a long sleep, in real time only. The function does work that can wait, in
    /// steps of a few milliseconds. The function returns the nanoseconds until its next call: 0 if it has done a step
    /// and may have more, `.max` if it needs no call before the next long sleep.
    package var restHandler: ((RunLoop) -> Int64)?
    /// Whether `restHandler` must be called before the next long sleep: its last call has left work, or the handler's
    /// owner has found new work.
    package var restIsWanted = true
    /// The date of the last call of `restHandler`, and the value of `dispatches` at that time.
    var restDate = Int64.min
    var restedAt: UInt64 = 0
    /// Returns the label of an item for recordings, or 0 if the item reports its label when it calls back. If nil,
    /// recordings use the item's kind and name.
    package var labels: ((Item) -> UInt32)?

    /// Whether the loop's clock is CLOCK_MONOTONIC.
    package var isReal: Bool { poller.isReal }

    let poller: Poller
    var modes: [ModeState] = []
    /// `modes` by name; empty while there are few.
    var modesByName: [Mode: ModeState] = [:]
    /// When `modes` reaches this count, the loop drops unused modes.
    var modeLimit = RunLoop.usualModes
    /// Modes that have lost their last port and still own a descriptor set; the most recent last.
    var modesToSpare: [ModeState] = []
    /// The names of dropped modes in which the loop had run.
    var modesThatRan: Set<Mode> = []
    var commonModes: [Mode] = [.default]
    /// The sources and observers that were added to the common modes, with their order of addition. Common ports are in
    /// `ports`.
    var commonItems: [ObjectIdentifier: (item: Item, age: UInt64)] = [:]
    /// All ports that are in a mode or were added to the common modes, unordered. Retained.
    let ports = RawBuffer<Unmanaged<PortBase>>(capacity: 4)
    var timerQueues: [TimerQueue] = []
    /// When `timerQueues` reaches this count, the loop drops empty ones.
    var timerQueueLimit = 64
    /// The queue of the timers that are in exactly the common modes. The queue is also in `timerQueues`.
    var commonQueue: Unmanaged<TimerQueue>?
    /// An array that contains only this loop. All common items of the loop share it.
    private(set) lazy var alone = [Unmanaged.passUnretained(self)]
    /// The number of ports in the loop's modes. If it is 0, timers need no place in a queue of ready items.
    var portCount = 0
    /// Timers taken from their queues that are about to fire.
    let batch = TimerBatch()
    var innermostFiring: NodePointer?
    /// The latest time read from the clock, in nanoseconds.
    var latestNow: Int64 = 0
    /// Sorted by order; retained. In raw memory: each pass reads the buffer, and should not count references.
    let requestQueues = RawBuffer<Unmanaged<RequestQueue>>(capacity: 4)
    /// When `requestQueues` exceeds this count, the loop drops empty ones.
    var requestQueueLimit = 32
    /// The queue for the common modes with order 0, which takes nearly all requests.
    var commonRequests: Unmanaged<RequestQueue>?
    var requestCount = 0
    var lastRequest: UInt64 = 0
    var lastAge: UInt64 = 0
    /// The runs in progress, innermost last.
    var runs: [Run] = []
    /// The last element of `runs`.
    var innermostRun: Unmanaged<Run>?
    private var lastRun: UInt64 = 0
    /// Incremented whenever foreign code has run: a port that was found ready before, or by that code, may not be ready
    /// any more.
    var dispatches: UInt64 = 0
    /// The number of events for which `findsMore` skips its check.
    var looksInVain = 0
    let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: 64)

    /// The result of a wait.
    enum Event {
        case nothing
        case timers
        /// Retained.
        case port(Unmanaged<PortBase>)
    }

    /// The descriptor set with which modes without ports sleep.
    let wakeOnly: DescriptorSet

    /// Makes a loop in a world of its own, for tests in simulated time. The new loop is not the thread's `current`
    /// loop.
    ///
    /// Traps if the process has no descriptors left. To get an error instead, make the handle first, and pass it to
    /// `init(poller:handle:)`.
    public convenience init(poller: Poller) {
        do throws(SystemError) {
            try self.init(poller: poller, handle: Handle())
        } catch {
            fatalError("a run loop needs two descriptors, and this process gets none: \(error)")
        }
    }

    /// Makes a loop with a handle that was made before it. So a caller can use the handle before the loop's thread has
    /// begun, or find out whether the system has descriptors for a loop.
    ///
    /// - Parameter handle: the handle, which only one loop may have.
    public init(poller: Poller, handle: Handle) {
        self.poller = poller
        wakeOnly = DescriptorSet(of: handle)
        self.handle = handle
        counters = .allocate(capacity: 1)
        counters.initialize(to: Statistics())
        probe = Probe(poller, counters)
        _ = state(of: .default)
    }

    deinit {
        close()
        // Modes and queues refer to each other, and each mode to itself: break the cycles.
        for queue in timerQueues { queue.modes = [] }
        for mode in modes { mode.alone = [] }
        ports.free()
        for queue in requestQueues.elements { queue.release() }
        requestQueues.free()
        handle.closeDescriptors()
        events.deallocate()
        endRecording()
        counters.deallocate()
    }

    // MARK: Running

    /// Runs in the default mode until the run is stopped or the mode is empty. CFRunLoopRun.
    @discardableResult
    public func run() -> RunResult { run(in: .default) }

    /// Runs as `run()` does, but returns `.stopped` at once if `stop(by:)` was called since the last run.
    public func runUnlessStopped() -> RunResult {
        handle.earlyStop == nil ? run(in: .default, for: nil, heedsEarlyStop: true) : .stopped
    }

    /// Runs in a mode. CFRunLoopRunInMode.
    ///
    /// - Parameters:
    ///   - mode: The mode to run in; not `.common`.
    ///   - limit: The longest time that the run may take. Nil, or more than 504,911,232 s, means no limit. With zero or
    ///     less the run makes one pass that does not wait; with a positive limit, however small, it waits at least
    ///     once.
    ///   - returnAfterSource: If true, the run returns as soon as a custom source or a port was handled. Timers do not
    ///     count.
    /// - Returns: The reason why the run ended; `.finished` at once if the mode holds nothing. If several reasons meet
    ///   in one pass, the order is `.handledSource`, `.timedOut`, `.stopped`, `.finished`. A stop that loses to another
    ///   reason is forgotten.
    @discardableResult
    public func run(in mode: Mode, for limit: Duration? = nil, returnAfterSource: Bool = false) -> RunResult {
        run(in: mode, for: limit, returnAfterSource: returnAfterSource, heedsEarlyStop: false)
    }

    private func run(
        in mode: Mode, for limit: Duration?, returnAfterSource: Bool = false, heedsEarlyStop: Bool
    ) -> RunResult {
        precondition(mode != .common, "a run loop runs in one mode; \".common\" stands for several")
        // `isEmpty` may create or drop modes, so the mode is looked up after it.
        guard !isEmpty(in: mode), let mode = existingState(of: mode) else { return .finished }
        lastRun += 1
        let run = Run(
            mode: mode, number: lastRun, polls: limit.map { $0 <= .zero } ?? false,
            returnsAfterSource: returnAfterSource, heedsEarlyStop: heedsEarlyStop)
        begin(run)
        defer { end(run) }
        // `begin` has cleared the wake-up of a `raiseAttention` that came before the run, so check for attention here.
        if handle.takeAttention() { heed() }

        notify(.entry, mode)  // 1. observers: the run begins
        if let limit, limit <= .seconds(504_911_232) { run.deadline = (now + limit).nanoseconds }
        var result: RunResult? = run.isStopped ? .stopped : nil
        while result == nil { result = pass(run) }
        notify(.exit, mode)  // 10. observers: the run ends
        run.result = result ?? .finished
        return run.result
    }

    /// Makes one pass. The numbers are the steps of Apple's list; steps 1 and 10 are in `run`.
    private func pass(_ run: Run) -> RunResult? {
        let mode = run.mode
        if run.ignoresWakeUps {
            run.ignoresWakeUps = false
            handle.clearWakeUp()
            // The wake-up that was just cleared may have come from `raiseAttention`.
            if handle.takeAttention() { heed() }
        }
        counters.pointee.passes += 1
        if probe.pass(label(of: mode), poller) { whenItLasts?(self) }

        notify(.beforeTimers, mode)  // 2. observers: timers are about to fire
        notify(.beforeSources, mode)  // 3. observers: sources are about to fire
        performRequests(mode)
        let handledSource = performSources(run)  // 4. custom sources are performed
        if handledSource { performRequests(mode) }

        var event = Event.nothing
        if handledSource || run.polls {
            event = nextEvent(run, waits: false)
        } else if let port = portReadyAtOnce(mode) {
            event = .port(port)  // 5. a port is ready: go to 9
        } else if !isEmpty(mode) {
            notify(.beforeWaiting, mode)  // 6. observers: the loop is about to sleep
            event = nextEvent(run, waits: true)  // 7. sleep until an event
            run.ignoresWakeUps = true
            notify(.afterWaiting, mode)  // 8. observers: the loop has woken
        }
        run.ignoresWakeUps = true
        if handle.takeAttention() { heed() }
        let handledPort = dispatch(event, mode)  // 9. handle the event
        performRequests(mode)

        // 9, continued: make another pass unless there is a reason to return.
        if run.returnsAfterSource, handledSource || handledPort { return .handledSource }
        if run.polls || run.deadline != .max && poller.now() >= run.deadline { return .timedOut }
        if isStopped(run) { return .stopped }
        return isEmpty(mode) ? .finished : nil
    }

    /// Runs in the default mode until a date, and returns earlier only if the mode becomes empty. If the date has
    /// passed, this makes one pass that does not wait. A stop ends only the current inner run, after which this
    /// function begins another. `-[NSRunLoop runUntilDate:]`.
    public func run(until date: Instant) {
        repeat {} while run(mode: .default, before: date) && now < date
    }

    /// Runs in a mode until one source or port was handled, or until a date. `-[NSRunLoop runMode:beforeDate:]`.
    ///
    /// - Returns: False at once if the mode is empty; otherwise true, for whatever reason the run ended.
    @discardableResult
    public func run(mode: Mode, before date: Instant) -> Bool {
        guard mode != .common, let state = existingState(of: mode), !isEmpty(state) else { return false }
        run(in: mode, for: date == .never ? nil : date - now, returnAfterSource: true)
        return true
    }

    /// Ends the innermost run when its current pass is over. Without a run the call has no effect, not even later.
    /// CFRunLoopStop.
    public func stop() { runs.last?.isStopped = true }

    /// Ends the innermost run when its current pass is over. Without a run, the loop remembers the stop for
    /// `runUnlessStopped`.
    ///
    /// - Parameter caller: The name of the caller, for messages.
    public func stop(by caller: @autoclosure () -> String) {
        if let run = runs.last { run.isStopped = true } else { handle.stop(by: caller()) }
    }

    /// Ends all runs in progress, each when its current pass is over.
    public func stopAll() { for run in runs { run.isStopped = true } }

    /// Ends all runs that began while the loop's `depth` was `depth` or more, each when its current pass is over.
    public func stopRuns(from depth: Int) { for run in runs.dropFirst(depth) { run.isStopped = true } }

    /// Ends the run at a depth, counted from 0. Runs inside it continue until they end by themselves.
    func stop(runAt depth: Int) { if depth < runs.count { runs[depth].isStopped = true } }

    /// Makes the next wait return at once. The call has no effect while the loop does not run, and none between the end
    /// of a wait and the next pass, since that pass checks everything before it waits. CFRunLoopWakeUp.
    public func wakeUp() {
        if let run = runs.last, !run.ignoresWakeUps { run.wakeIsPending = true }
    }

    /// The mode of the innermost run; nil if the loop does not run. CFRunLoopCopyCurrentMode.
    public var currentMode: Mode? { runs.last?.mode.name }

    /// Whether the innermost run is in a common mode; also true if the loop does not run.
    package var runsInCommonMode: Bool { innermostRun.map { $0._withUnsafeGuaranteedRef { $0.mode.isCommon } } ?? true }

    /// The number of nested runs in progress.
    public var depth: Int { runs.count }

    /// The time of the system's wall clock, in seconds since 1970.
    public static var wallClock: Double { linux_wall_clock() }

    /// The time of the wall clock in the loop's world, in seconds since 1970; simulated in simulated time.
    public var wallClock: Double { poller.wallClock }

    /// The time of the loop's monotonic clock.
    public var now: Instant {
        latestNow = poller.now()
        return Instant(nanoseconds: latestNow)
    }

    /// The latest time that the loop has read from its clock: in a callback, about when the loop woke. No system call.
    package var latestDate: Instant { Instant(nanoseconds: latestNow) }
}
