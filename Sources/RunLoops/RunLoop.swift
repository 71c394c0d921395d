internal import CLinux
public import Linux
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
    public unowned(unsafe) var attachment: AnyObject?
    public var statistics: Statistics { counters.pointee }
    let counters: UnsafeMutablePointer<Statistics>
    /// Called once, after `wantsTurnEnd` was set, when nothing that is ready is left to be handled and the loop is about to ask
    /// the kernel for more, or a run ends: the place for what is cheaper done once for many callbacks. It must call nothing that
    /// is not its own; it may `signal` ports.
    public var turnEndHandler: (() -> Void)?
    /// Set it when there is something for `turnEndHandler` to do.
    public var wantsTurnEnd = false

    let poller: Poller
    var modes: [ModeState] = []
    var commonModes: [Mode] = [.default]
    /// The sources and observers that were added to the common modes, with the order of addition. Ports are in `ports`.
    var commonItems: [ObjectIdentifier: (item: Item, age: UInt64)] = [:]
    /// Its ports, in modes or common, in no order. Retained.
    let ports = RawBuffer<Unmanaged<PortBase>>(capacity: 4)
    var timerQueues: [TimerQueue] = []
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
    /// Owned, and in raw memory: each pass looks at them.
    let requestQueues = RawBuffer<Unmanaged<PerformQueue>>(capacity: 4)
    /// The one for the common modes with order 0: nearly every request goes there.
    var commonRequests: Unmanaged<PerformQueue>?
    var requestCount = 0
    var lastRequest: UInt64 = 0
    var lastAge: UInt64 = 0
    /// Innermost last.
    private(set) var runs: [Run] = []
    /// The last of them.
    private(set) var innermostRun: Unmanaged<Run>?
    private var lastRun: UInt64 = 0
    /// Goes up whenever code that is not the loop's has run: what was found ready before, or by that code, may no longer be.
    var dispatches: UInt64 = 0
    /// For how many events not to look for more; see `findsMore`.
    private var looksInVain = 0
    private let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: 64)

    /// What one `run` knows.
    final class Run {
        let mode: ModeState
        let number: UInt64
        var deadline = Int64.max
        let returnsAfterSource: Bool
        /// It makes one pass that does not wait.
        let polls: Bool
        var isStopped = false
        /// Between the end of a wait and the next pass, which looks at everything anyway.
        var ignoresWakeUps = false
        /// Somebody on this thread asked to wake up, since when the run has not waited.
        var wakeIsPending = false

        init(mode: ModeState, number: UInt64, polls: Bool, returnsAfterSource: Bool) {
            self.mode = mode
            self.number = number
            self.polls = polls
            self.returnsAfterSource = returnsAfterSource
        }
    }

    /// What a wait brings.
    private enum Event {
        case nothing
        case timers
        /// Retained.
        case port(Unmanaged<PortBase>)
    }

    /// What modes without ports sleep with.
    private let wakeOnly: DescriptorSet

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
    }

    // MARK: Running

    /// Runs in the default mode until stopped or nothing is left. CFRunLoopRun.
    @discardableResult
    public func run() -> RunResult { run(in: .default) }

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
        precondition(mode != .common, "a run loop runs in one mode; \".common\" stands for several")
        guard let mode = existingState(of: mode), !isEmpty(mode) else { return .finished }
        lastRun += 1
        let run = Run(
            mode: mode, number: lastRun, polls: limit.map { $0 <= .zero } ?? false,
            returnsAfterSource: returnAfterSource)
        begin(run)
        defer { end(run) }
        // Raised before the run began, which has forgotten that wake-up.
        if handle.takeAttention() { heed() }

        notify(.entry, mode)  // 1. observers: the run loop is entered
        if let limit, limit <= .seconds(504_911_232) { run.deadline = (now + limit).nanoseconds }
        var result: RunResult? = run.isStopped ? .stopped : nil
        while result == nil { result = pass(run) }
        notify(.exit, mode)  // 10. observers: the run loop is left
        return result ?? .finished
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

    // MARK: The steps

    @inline(__always)
    private func endTurn() {
        guard wantsTurnEnd else { return }
        wantsTurnEnd = false
        turnEndHandler?()
    }

    private func heed() {
        attentionHandler?(self)
        dispatches += 1
    }

    private func begin(_ run: Run) {
        dispatches += 1  // whatever has run since the last
        if runs.isEmpty { handle.clearWakeUp() }
        spillBatch()
        runs.append(run)
        innermostRun = .passUnretained(run)
        handle.beginRun(run.number)
    }

    private func end(_ run: Run) {
        endTurn()
        handle.endRun()
        runs.removeLast()
        innermostRun = runs.last.map { .passUnretained($0) }
    }

    @inline(__always)
    func notify(_ activity: Activity, _ mode: ModeState) {
        if mode.observed.contains(activity) { tell(activity, mode) }
    }

    private func tell(_ activity: Activity, _ mode: ModeState) {
        defer { dispatches += 1 }
        // A snapshot: an observer may add and remove others, and itself.
        for observer in mode.observers where observer.activities.contains(activity) && !observer.isFiring {
            guard observer.isValid, mode.contains(observer) else { continue }
            counters.pointee.observers += 1
            observer.tell(activity)
        }
    }

    /// Performs the signalled custom sources of the mode, by order, then by time of signal; only the first if the run is to
    /// return after one. Returns whether any was.
    private func performSources(_ run: Run) -> Bool {
        let mode = run.mode
        guard mode.hasSignals.load(ordering: .relaxed), mode.hasSignals.exchange(false, ordering: .acquiring) else {
            return false
        }
        var first: (source: Source, number: UInt64)?
        var others: [(source: Source, number: UInt64)] = []  // rarely any: then nothing is allocated
        for source in mode.sources {
            guard let number = source.signalNumber else { continue }
            if first == nil { first = (source, number) } else { others.append((source, number)) }
        }
        guard let first else { return false }
        if others.isEmpty { return perform(first.source, in: mode) }
        // For those that this pass does not get to, because it returns after one or a nested run comes first.
        mode.hasSignals.store(true, ordering: .releasing)
        others.append(first)
        others.sort { ($0.source.order, $0.number) < ($1.source.order, $1.number) }
        var handled = false
        for (source, _) in others {
            if handled, run.returnsAfterSource { break }
            if perform(source, in: mode) { handled = true }
        }
        return handled
    }

    /// Returns false if one before it has removed or invalidated it, or has run the loop and so had it performed.
    private func perform(_ source: Source, in mode: ModeState) -> Bool {
        guard source.isSignalled, source.isValid, mode.contains(source) else { return false }
        counters.pointee.sources += 1
        let start = linux_monotonic_coarse()
        source.perform()
        dispatches += 1
        counters.pointee.note(callbackSince: start)
        return true
    }

    /// In the documented sequence, a port that is ready is handled without a word about waiting. Without observers that
    /// would hear the word, both sequences are the same, and the kernel need not be asked once more.
    private func portReadyAtOnce(_ mode: ModeState) -> Unmanaged<PortBase>? {
        guard sequence == .documented, !mode.observed.isDisjoint(with: [.beforeWaiting, .afterWaiting]),
            mode.portCount > 0
        else { return nil }
        dropStale(mode)
        if mode.ready.count == 0 { endTurn() }
        if mode.ready.count == 0 { look(mode) }
        // Behind what is queued already; but a port that is ready again at once must not keep them from their turn.
        queueDueTimers(mode)
        guard mode.ready.count > 0, let port = mode.ready.first else { return nil }
        mode.ready.removeFirst()
        return port.retain()
    }

    /// Takes the next event of the mode, waiting for one if need be.
    private func nextEvent(_ run: Run, waits: Bool) -> Event {
        let mode = run.mode
        defer { run.wakeIsPending = false }
        // They take their turn behind what is queued already, however much of that there is.
        if mode.ready.count > 0 { queueDueTimers(mode) }
        if let event = takeReady(mode) {
            handle.clearWakeUp()
            return event
        }
        if wantsTurnEnd {
            endTurn()
            if let event = takeReady(mode) { return event }
        }
        let mayWait = waits && !run.wakeIsPending && !isStopped(run)
        while true {
            var timeout: Int64 = 0
            if mayWait {
                let deadline = min(run.deadline, mode.timersAreTaken ? .max : wakingDate(mode))
                timeout = deadline == .max ? -1 : max(0, deadline.addingSaturating(-poller.now()))
            }
            let woken = wait(mode, timeout: timeout)
            if handle.mayHaveMail { takeMail() }  // messages for ports are events, too
            queueDueTimers(mode)
            if let event = takeReady(mode) { return event }
            if woken || !mayWait || poller.now() >= run.deadline { return .nothing }
            // Neither an event nor the end: a signal, or a stale wake-up. Sleep on.
        }
    }

    /// When to wake up for the mode's timers: as late as their tolerances allow, but no later than the last timer that is
    /// due by then. So timers that are due close together share a wake-up, and one that is alone is on time.
    private func wakingDate(_ mode: ModeState) -> Int64 {
        var first = Int64.max
        for queue in mode.timers { first = min(first, queue.heap.firstDate) }
        guard first != .max, !poller.ignoresTolerance else { return first }
        var limit = Int64.max
        for queue in mode.timers { limit = min(limit, queue.heap.latestStart()) }
        guard limit > first else { return first }
        var date = first
        for queue in mode.timers { date = max(date, queue.heap.latestDate(upTo: limit)) }
        return date
    }

    /// Queues what is ready, waiting for it as long as `timeout` says. Returns whether another thread woke the loop, which is
    /// forgotten with that.
    private func wait(_ mode: ModeState, timeout: Int64) -> Bool {
        // Not retained: a mode keeps the set that it has.
        Unmanaged.passUnretained(mode.descriptors ?? wakeOnly)._withUnsafeGuaranteedRef { descriptors in
            guard timeout != 0, !descriptors.hasAlwaysReady, handle.beginSleep() else {
                look(mode)
                return handle.clearWakeUp()
            }
            let start = poller.coarseNow()
            let count = poller.wait(
                descriptors.epoll, events, capacity: 64, timeout: timeout, watching: descriptors.watching)
            let woken = handle.endSleep()
            counters.pointee.sleeps += 1
            counters.pointee.asleep += poller.coarseNow() - start
            queueReady(mode, descriptors, count)
            return woken
        }
    }

    /// Queues what is ready now. It leaves wake-ups alone: they are for the wait, which may be still to come.
    func look(_ mode: ModeState) {
        // Not retained: a mode keeps the set that it has.
        mode.descriptors.map { Unmanaged.passUnretained($0) }?._withUnsafeGuaranteedRef { descriptors in
            guard descriptors.watching > 0 else { return }
            let count = poller.wait(
                descriptors.epoll, events, capacity: 64, timeout: 0, watching: descriptors.watching)
            queueReady(mode, descriptors, count)
        }
    }

    private func queueReady(_ mode: ModeState, _ descriptors: DescriptorSet, _ count: Int) {
        descriptors.forEachReady(events, count) { port, found in
            guard !mode.ready.contains(port), port.find(found) else { return }
            port.foundAt = dispatches
            mode.ready.append(port)
            linux_prefetch(UnsafeRawPointer(bitPattern: port.context), -64)
            linux_prefetch(UnsafeRawPointer(bitPattern: port.context), 0)
        }
    }

    /// The timers that are due take their place in the mode's queue.
    private func queueDueTimers(_ mode: ModeState) {
        if !mode.ready.holdsTimers, !mode.timersAreTaken, timersAreDue(mode) { mode.ready.appendTimers() }
    }

    /// Timers are no longer due because they were moved or are gone: they lose their place, too.
    func dropTimersEntry(_ queue: TimerQueue) {
        for mode in queue.modes where mode.ready.holdsTimers && !timersAreDue(mode) { mode.ready.removeTimers() }
    }

    func timersAreDue(_ mode: ModeState) -> Bool {
        var date = Int64.max
        for queue in mode.timers { date = min(date, queue.heap.firstDate) }
        return date != .max && date <= poller.now()
    }

    /// A timer has become due by being added or moved, not by the passing of time: it comes after whatever is ready now,
    /// and before what will be.
    func noteDueTimers(_ queue: TimerQueue) {
        for mode in queue.modes where timersAreDue(mode) { queueTimersBehindPorts(mode) }
    }

    /// Without ports there is nothing to be behind: the timers take their place when somebody looks.
    func queueTimersBehindPorts(_ mode: ModeState) {
        guard mode.portCount > 0, !mode.ready.holdsTimers else { return }
        look(mode)
        mode.ready.appendTimers()
    }

    /// Called before a port starts to watch: timers that are due already come first.
    func noteDueTimers(before mode: ModeState) { queueDueTimers(mode) }

    private func dropStale(_ mode: ModeState) {
        while mode.ready.count > 0 {
            if let port = mode.ready.first {
                let isReady = port._withUnsafeGuaranteedRef { $0.foundAt == dispatches || $0.isStillReady() }
                if isReady { return }
            } else if timersAreDue(mode) {
                return
            }
            mode.ready.removeFirst()
        }
    }

    private func takeReady(_ mode: ModeState) -> Event? {
        dropStale(mode)
        guard mode.ready.count > 0 else { return nil }
        let port = mode.ready.first
        mode.ready.removeFirst()
        if let port { return .port(port.retain()) }
        mode.timersAreTaken = true
        return .timers
    }

    /// Returns whether a port was handled.
    private func dispatch(_ event: Event, _ mode: ModeState) -> Bool {
        switch event {
        case .nothing:
            return false
        case .timers:
            mode.timersAreTaken = false
            fireDueTimers(mode)
            dispatches += 1
            return false
        case .port(let port):
            defer { port.release() }
            return port._withUnsafeGuaranteedRef { dispatch($0, mode) }
        }
    }

    private func dispatch(_ port: PortBase, _ mode: ModeState) -> Bool {
        // An observer of the end of the wait may have removed it.
        guard port.isValid, mode.contains(port) else { return false }
        counters.pointee.ports += 1
        // Delivered here, it is not to be delivered again in another mode, nor to keep a place there.
        if port.modes.count > 1, !port.isEdgeTriggered {
            for other in port.modes where other !== mode {
                look(other)
                other.ready.remove(port)
            }
        }
        let start = linux_monotonic_coarse()
        port.deliver()
        dispatches += 1
        counters.pointee.note(callbackSince: start)
        guard port.isValid else { return !port.isInner }
        if port.asksKernel, port.modes.count == 1, findsMore(mode) {
            // Something else is next: whether this one is still ready is asked when its turn comes.
            if !mode.ready.contains(port) { mode.ready.append(port) }
            return !port.isInner
        }
        guard port.isStillReady(inFrontOf: mode.ready, dispatches) else { return !port.isInner }
        // Still ready, so it goes to the end of the queue: behind what became ready meanwhile. Timers first: what the kernel
        // lists may well be this port, which its callback has made ready once more.
        for mode in port.modes {
            queueDueTimers(mode)
            look(mode)
            if !mode.ready.contains(port) { mode.ready.append(port) }
        }
        return !port.isInner
    }

    /// Looks whether another descriptor is ready, if that is worth a system call: while there is always more, it saves the
    /// one that asks about the last; when there is not, the loop is about to sleep, and will look anyway.
    private func findsMore(_ mode: ModeState) -> Bool {
        guard mode.ready.count == 0 else { return false }
        guard looksInVain == 0 else {
            looksInVain -= 1
            return false
        }
        guard !timersAreDue(mode) else { return false }
        endTurn()
        if mode.ready.count == 0 { look(mode) }
        if mode.ready.count > 0 { return true }
        looksInVain = 15
        return false
    }

    private func isStopped(_ run: Run) -> Bool {
        if handle.mayHaveMail { takeMail() }
        return run.isStopped
    }

    // MARK: One loop for each thread

    /// The calling thread's loop, made on first use. It lives until the thread ends. CFRunLoopGetCurrent.
    ///
    /// The first use traps when the process has no descriptors left; `makeCurrent()` says so instead.
    public static var current: RunLoop {
        if let pointer = linux_thread_value() {
            return Unmanaged<RunLoop>.fromOpaque(pointer).takeUnretainedValue()
        }
        let loop = RunLoop(poller: EpollPoller())
        loop.becomeCurrent()
        return loop
    }

    /// Makes the calling thread's loop. Only for a thread that has none yet.
    ///
    /// - Throws: what the operating system refuses.
    public static func makeCurrent() throws(SystemError) -> RunLoop {
        let loop = RunLoop(poller: EpollPoller(), handle: try Handle())
        loop.becomeCurrent()
        return loop
    }

    /// Makes this the calling thread's loop. Only for a thread that has none yet: it would lose it.
    public func becomeCurrent() {
        precondition(linux_thread_value() == nil, "this thread has a run loop already")
        linux_set_thread_value(Unmanaged.passRetained(self).toOpaque()) { pointer in
            guard let pointer else { return }
            let loop = Unmanaged<RunLoop>.fromOpaque(pointer)
            loop.takeUnretainedValue().close()
            linux_set_thread_value(nil, nil)
            loop.release()
        }
        if linux_is_main_thread() != 0 { Self.mainHandle.withLock { $0 = handle } }
    }

    private static let mainHandle = Lock<Handle?>(nil)

    /// The main thread's loop, for use on any thread; nil until the main thread has used its loop. CFRunLoopGetMain.
    public static var main: Handle? { mainHandle.withLock { $0 } }
}
