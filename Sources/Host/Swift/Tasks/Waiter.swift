internal import Linux
package import Lua
package import RunLoops

/// Everything a fiber needs for waiting. The waiter is made at the first wait and reused, so that later waits allocate
/// nothing. A fiber waits for one thing at a time, and possibly for a time limit.
package final class Waiter: RunLoop.ItemOwner {
    /// Two timers. While one fires and its callback runs the fiber, the fiber may already sleep again with the other
    /// timer.
    private let nodes = UnsafeMutablePointer<RunLoop.TimerNode>.allocate(capacity: 2)
    private let sleepers: Sleepers
    let fiber: Fiber
    /// The timer that is to end the wait.
    private var timer: UnsafeMutablePointer<RunLoop.TimerNode>?
    /// The kind of event that the fiber waits for, besides the time limit.
    fileprivate(set) var purpose = Purpose.time
    private var awaited: [Awaited] = []
    /// The mode that ran when the wait began, unless it is a common one.
    private var beganIn: RunLoop.Mode?
    /// The queue of the future or mutex that the fiber waits for, and the waiter's link in that queue.
    private var queue: UnsafeMutablePointer<WaitQueue>?
    private var link: UnsafeMutablePointer<WaitLink>?
    /// The waiter's links in the queues of several futures.
    private var links: [(link: UnsafeMutablePointer<WaitLink>, future: Future.Pointer)] = []
    /// The sequence number of this wait among all waits for tasks in this state. The waiters of a task are sorted by
    /// it.
    private(set) var number = 0
    private var port: RunLoop.FDPort?
    private var wakeUp: RunLoop.RequestToken?
    private var condition: LuaCondition?
    /// The waiter's links in the queue of a condition.
    var neighbours = LuaCondition.Links()
    /// The number of values with which the fiber was woken; they are on top of its stack. -1 if it was not woken.
    private var given: Int32 = -1
    /// The number of tasks at the head of the list that are known to have ended.
    private var endedCount: Int32 = 0

    enum Purpose {
        case time
        /// Events on a descriptor.
        case descriptor
        /// A task's results.
        case results
        /// A future's answer.
        case future
        /// A place of a mutex.
        case mutex
        /// The end of one of several tasks.
        case anyOf
        /// A wake-up of a condition, by the script.
        case condition
        /// The end of several tasks, or the first failure among them.
        case allOf
        /// Another event. The source of the event ends the wait, unless the time limit comes first.
        case other
    }
    private var timedOut: ((Fiber, LuaHost) -> Void)?

    init(_ sleepers: Sleepers, _ fiber: Fiber) {
        self.sleepers = sleepers
        self.fiber = fiber
        super.init()
        for i in 0...1 { (nodes + i).initialize(to: .init(fireDate: 0, owner: sleepers)) }
    }

    deinit {
        nodes.deallocate()
        link?.deallocate()
    }

    /// Returns the fiber's own waiter.
    package static func of(_ fiber: Fiber, _ host: LuaHost) -> Waiter {
        // The fiber's sleeper is always a Waiter: no other code sets it.
        if let waiter = existing(fiber) { return waiter.takeUnretainedValue() }
        let waiter = Waiter(host.sleepers, fiber)
        fiber.setSleeper(waiter)
        return waiter
    }

    /// Calls `body` with the fiber's waiter, without counting references.
    @inline(__always)
    static func use(_ fiber: Fiber, _ host: LuaHost, _ body: (Waiter) -> Void) {
        if let waiter = existing(fiber) { waiter._withUnsafeGuaranteedRef(body) } else { body(of(fiber, host)) }
    }

    /// Returns the fiber's waiter, without counting references; nil if the fiber has never waited.
    @inline(__always)
    static func existing(_ fiber: Fiber) -> Unmanaged<Waiter>? { fiber.sleeper.map { .fromOpaque($0.toOpaque()) } }

    /// Ends a wait without resuming the fiber. A `cancel` function for `Interpreter.beginWait`.
    package static func cancel(_ fiber: Fiber) {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.stop() }
    }

    // MARK: Beginning a wait

    /// Wakes the fiber at a date, in nanoseconds of the loop's clock.
    func sleep(until date: Int64, _ host: LuaHost, keepsAlive: Bool = true) {
        let node = nodes[0].isFiring ? nodes + 1 : nodes
        node.pointee = RunLoop.TimerNode(fireDate: date, owner: sleepers, context: fiber.context)
        if fiber.isBackground || !keepsAlive {
            node.setKeepsAlive(false)
            node.setMayAnswer(true)
        }
        timer = node
        host.addToWaitingModes(node)
    }

    /// Sets a time limit for a wait that something else ends. At the limit, in nanoseconds from now, the waiter calls
    /// `timedOut`, which must resume the fiber. Code that ends the wait earlier calls `cancel`. A closure that captures
    /// nothing allocates nothing.
    package func limit(
        _ nanoseconds: Int64, _ host: LuaHost, keepsAlive: Bool = true, timedOut: @escaping (Fiber, LuaHost) -> Void
    ) {
        purpose = .other
        self.timedOut = timedOut
        sleep(until: host.loop.now.nanoseconds + nanoseconds, host, keepsAlive: keepsAlive)
    }

    /// Changes whether the time limit of a wait keeps the loop running.
    package static func setKeepsAlive(_ keeps: Bool, _ fiber: Fiber) {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.timer?.setKeepsAlive(keeps && !fiber.isBackground) }
    }

    /// Wakes the fiber when tasks and futures have ended. At least one of these must not have ended yet.
    func wait(for awaited: [Awaited], _ purpose: Purpose) {
        self.purpose = purpose
        self.awaited = awaited
        beganIn = sleepers.host.uncommonMode
        number = sleepers.host.tasks.countWait()
        for one in awaited where !one.isEnded {
            switch one {
            case .task(let task): task.awaiters.append(self)
            case .future(let future):
                let link = UnsafeMutablePointer<WaitLink>.allocate(capacity: 1)
                link.initialize(to: WaitLink(self))
                Future.queue(future).pointee.append(link)
                links.append((link, future))
            }
        }
    }

    /// Makes the fiber wait until the future or mutex that has this queue wakes it.
    func wait(in queue: UnsafeMutablePointer<WaitQueue>, _ purpose: Purpose) {
        let link = self.link ?? .allocate(capacity: 1)
        if self.link == nil { link.initialize(to: WaitLink(self)) }
        self.link = link
        self.purpose = purpose
        beganIn = sleepers.owner._withUnsafeGuaranteedRef { $0.uncommonMode }
        self.queue = queue
        queue.pointee.append(link)
    }

    /// Wakes the fiber when its turn comes.
    func wait(on condition: LuaCondition) {
        purpose = .condition
        self.condition = condition
        condition.append(self)
    }

    /// Ends the waiter's wait on a condition. The top values of `stack` move to the fiber, as the results of its wait.
    /// The fiber goes on in a request of its own.
    ///
    /// - Returns: false if there is no memory; then nothing has changed, and the values stay.
    func wake(with count: Int32, from stack: Stack) -> Bool {
        guard fiber.stack.reserve(count + 4) else { return false }
        condition?.remove(self)
        timer?.invalidate()
        timer = nil
        stack.move(count, to: fiber.stack)
        given = count
        wakeUp = sleepers.host.performForWaiters(fiber.context, nil, alsoHere: true)
        return true
    }

    /// Whether the waiting fiber has its result already, and will go on soon.
    static func isWoken(_ fiber: Fiber) -> Bool {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.given >= 0 } ?? false
    }

    /// Whether the waiting fiber has its result already, or waits for several tasks, one of which has its result. Tasks
    /// may wait for each other in a circle, so that only the first eight waits are looked at.
    static func goesOnSoon(_ fiber: Fiber, _ depth: Int) -> Bool {
        existing(fiber)?._withUnsafeGuaranteedRef { waiter in
            waiter.given >= 0 || waiter.wakeUp != nil
                || depth < 8 && waiter.purpose == .anyOf && waiter.awaited.contains { $0.isWoken(depth + 1) }
        } ?? false
    }

    /// Whether a waiting fiber waits for the answer of a future, or for the first answer of several futures.
    static func awaitsFuture(_ fiber: Fiber) -> Bool {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.purpose == .future || !$0.links.isEmpty } ?? false
    }

    /// Whether a waiting fiber waits for a future or a mutex, and so for another task.
    static func isForTasks(_ fiber: Fiber) -> Bool {
        existing(fiber)?._withUnsafeGuaranteedRef { [.future, .mutex].contains($0.purpose) } ?? false
    }

    /// Whether a waiting fiber waits for a place of a mutex, which is at index 2 of its stack.
    static func isForPlace(_ fiber: Fiber) -> Bool {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.purpose == .mutex && $0.given < 0 } ?? false
    }

    /// Wakes the fiber at the first of the events.
    func wait(for fd: Int32, _ events: RunLoop.FDPort.Events, _ host: LuaHost) throws(SystemError) {
        let port = try RunLoop.FDPort(fd, events, once: true, owner: self)
        purpose = .descriptor
        self.port = port
        if fiber.isBackground {
            port.keepsAlive = false
            port.mayAnswer = true
        }
        host.addToWaitingModes(port)
    }

    package override func deliver(_ events: RunLoop.FDPort.Events, of port: RunLoop.FDPort) {
        stop()
        let host = sleepers.host
        guard !host.isClosed, fiber.stack.reserve(4) else { return }
        // Do not use `pushAnchored`: index 1 of this stack is the first argument of the waiting function, not the table
        // of anchors.
        host.push(fiber.stack, slot: host.texts.slot(of: events))
        host.resume(fiber, arguments: 1)
    }

    /// Returns what the fiber waits for, and the time left until the limit: "task made at app.lua:3", "fd 5, 1.8 s to
    /// go".
    func detail(_ now: Int64, _ host: LuaHost) -> String? {
        var parts = awaited.filter { !$0.isEnded }.map { $0.title(host) }
        if let origin = host.origin(ofWait: fiber) { parts.append(origin) }
        if let port { parts.append("fd \(port.fd)") }
        if let timer { parts.append("\(Time.short(max(0, timer.pointee.fireDate - now))) s to go") }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }

    // MARK: The end of the wait

    /// Ends all registrations of this wait: timers, queues, and ports.
    func stop() {
        timer?.invalidate()
        timer = nil
        guard purpose != .time else { return }
        if purpose == .future || purpose == .mutex { return leaveQueue() }
        purpose = .time
        if let condition {
            if given < 0 { condition.remove(self) } else { fiber.stack.pop(given) }
            given = -1
            self.condition = nil
        }
        forgetAwaited()
        port?.invalidate()
        port = nil
        if let wakeUp { sleepers.host.loop.cancel(wakeUp) }
        wakeUp = nil
    }

    private func forgetAwaited() {
        for case .task(let task) in awaited where !task.isEnded { task.awaiters.remove(self) }
        for (link, future) in links {
            if future.pointee.state == .open { Future.queue(future).pointee.remove(link) }
            link.deallocate()
        }
        awaited = []
        links = []
        endedCount = 0
    }

    private func leaveQueue() {
        purpose = .time
        if let wakeUp {
            // The fiber has left the queue already.
            sleepers.host.loop.cancel(wakeUp)
            self.wakeUp = nil
            if given >= 0 { fiber.stack.pop(given) }
            given = -1
        } else if let queue, let link {
            queue.pointee.remove(link)
        }
        queue = nil
    }

    /// Gives the fiber the place of the mutex for which it waits. The fiber keeps the place even if it is cancelled
    /// before it goes on.
    func takePlace() {
        let stack = fiber.stack
        guard let queue, let link, stack.reserve(8) else { return }
        queue.pointee.remove(link)
        timer?.invalidate()
        timer = nil
        // On the waiting function's stack, index 1 has the place (a `Held`), and index 2 has the mutex.
        Held.take(stack, place: 1, mutex: 2)
        stack.pushCopy(of: 1)
        given = 1
        wakeUp = sleepers.owner._withUnsafeGuaranteedRef { host in
            host.performForWaiters(fiber.context, beganIn, alsoHere: false)
        }
    }

    /// Called when a task or future that the fiber waits for has ended. The fiber goes on in a request of its own.
    /// Otherwise, in a chain of tasks that each await the next one, each end would resume the next task inside itself,
    /// and fill the stack.
    func hasEnded(failed: Bool) {
        guard wakeUp == nil, purpose != .allOf || failed || haveAllEnded() else { return }
        wakeUp = sleepers.owner._withUnsafeGuaranteedRef { host in
            // If the fiber awaits tasks, it may also go on in the mode in which the awaited task ends.
            host.performForWaiters(fiber.context, beganIn, alsoHere: purpose != .future)
        }
    }

    /// Skips tasks at the head of the list that are known to have ended. Otherwise each of n ends would visit all
    /// earlier tasks.
    private func haveAllEnded() -> Bool {
        while endedCount < awaited.count, awaited[Int(endedCount)].isEnded { endedCount += 1 }
        return endedCount == awaited.count
    }

    /// Lets the fiber go on with the results of the tasks.
    fileprivate func deliver() {
        let purpose = purpose
        wakeUp = nil
        if purpose == .future { return deliverAnswer() }
        let awaited = awaited
        if purpose == .condition || purpose == .mutex {
            let count = given
            given = -1
            condition = nil
            queue = nil
            self.purpose = .time
            sleepers.host.resume(fiber, arguments: count)
            return
        }
        stop()
        let stack = fiber.stack
        let host = sleepers.host
        if purpose == .results, case .task(let task)? = awaited.first {
            guard stack.reserve(8) else { return }
            // If index 1 is the task's userdata, `await` was called on the task.
            let isTheTask = stack.object(1, Kinds.task, as: LuaTask.self) === task
            if let error = task.error { host.trails.pass(error, task.trail, to: fiber, stack) }
            if task.hasFailed { stack.pushRaiseMark() }
            guard let count = isTheTask ? task.push(onto: stack, 1) : 0 else { return }
            host.resume(fiber, arguments: task.hasFailed ? count + 1 : count)
        } else {
            guard stack.reserve(4) else { return }
            stack.push(Self.decisive(awaited, purpose) ?? 0)
            host.resume(fiber, arguments: 1)
        }
    }

    /// Lets the fiber go on with the future's answer. The fiber has called `await` on the future's userdata.
    private func deliverAnswer() {
        timer?.invalidate()
        timer = nil
        purpose = .time
        let stack = fiber.stack
        guard let queue, stack.reserve(8) else { return }
        self.queue = nil
        let future = Future.of(queue)
        let hasFailed = future.pointee.state == .failed
        if hasFailed { stack.pushRaiseMark() }
        guard let count = Future.push(future, onto: stack) else { return }
        sleepers.owner._withUnsafeGuaranteedRef { host in
            if hasFailed { host.trails.pass(errorOf: future, to: fiber, stack) }
            host.resume(fiber, arguments: hasFailed ? count + 1 : count)
        }
    }

    /// Returns the position, from 1, of the task or future that ends a wait for several; 0 if all have ended well, nil
    /// if the wait goes on.
    static func decisive(_ awaited: [Awaited], _ purpose: Purpose) -> Int? {
        if purpose == .anyOf {
            // If several have ended, the one that ended first decides.
            let ended = awaited.indices.filter { awaited[$0].isEnded }
            return ended.min { awaited[$0].endNumber < awaited[$1].endNumber }.map { $0 + 1 }
        }
        if let failed = awaited.firstIndex(where: \.hasFailed) { return failed + 1 }
        return awaited.allSatisfy(\.isEnded) ? 0 : nil
    }

    /// Ends the wait at its time limit.
    fileprivate func timeIsOver(_ host: LuaHost) {
        timer = nil
        guard purpose != .time else { return host.resume(fiber, arguments: 0) }
        // The tasks have ended at the same moment as the time limit, and win.
        if wakeUp != nil { return }
        let other = purpose == .other ? timedOut : nil
        // If an awaited task has received its result already, such as a value of a channel, `rl.timeout` lets that task
        // go on.
        if purpose == .anyOf, awaited.contains(where: { $0.isWoken() }) {
            stop()
            guard fiber.stack.reserve(4) else { return }
            fiber.stack.push(false)
            return host.resume(fiber, arguments: 1)
        }
        let saysSo = [.condition, .results, .future, .mutex].contains(purpose)
        stop()
        if let other { return other(fiber, host) }
        guard fiber.stack.reserve(4) else { return }
        fiber.stack.pushNil()
        if saysSo { host.push(fiber.stack, slot: host.texts.timedOut) }
        host.resume(fiber, arguments: saysSo ? 2 : 1)
    }
}

/// The timers and requests of waiters.
final class Sleepers: RunLoop.TimerOwner {
    // The host owns this object and outlives it. Unmanaged; see `LuaRequests`.
    var owner: Unmanaged<LuaHost>! = nil
    var host: LuaHost { owner.takeUnretainedValue() }

    static func waiter(_ context: Int) -> Unmanaged<Waiter>? { Fiber(context: context).flatMap(Waiter.existing) }

    override func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        owner._withUnsafeGuaranteedRef { host in
            guard !host.isClosed else { return }
            // Invalidate the timer first: the task may run the loop now, and this timer must not keep that run going.
            node.invalidate()
            Self.waiter(node.pointee.context)?._withUnsafeGuaranteedRef { $0.timeIsOver(host) }
        }
    }

    /// Lets a fiber go on after its awaited tasks have ended.
    final class Request: RunLoop.RequestOwner {
        override func perform(_ context: Int) {
            Sleepers.waiter(context)?._withUnsafeGuaranteedRef { if $0.fiber.state == .waiting { $0.deliver() } }
        }
    }

    let request = Request()
}

extension LuaHost {
    /// The mode that runs now, unless it is a common one.
    fileprivate var uncommonMode: RunLoop.Mode? { loop.runsInCommonMode ? nil : loop.currentMode }

    /// The modes in which a wait that begins now can end.
    var waitingModes: [RunLoop.Mode] { uncommonMode.map { [.common, $0] } ?? [.common] }

    /// Adds a timer to the modes in which a wait can end: every common mode, and the mode that runs now.
    func addToWaitingModes(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) {
        loop.addToCommonModes(node)
        if let mode = uncommonMode { loop.add(node, to: mode) }
    }

    func addToWaitingModes(_ item: RunLoop.Item) {
        loop.add(item, to: .common)
        if let mode = uncommonMode { loop.add(item, to: mode) }
    }

    /// Lets a fiber go on in the common modes, in `mode` and, if `alsoHere` is true, in the mode that runs.
    fileprivate func performForWaiters(
        _ context: Int, _ mode: RunLoop.Mode?, alsoHere: Bool
    ) -> RunLoop.RequestToken? {
        let here = alsoHere ? uncommonMode : nil
        if mode == nil, here == nil { return loop.perform(sleepers.request, context) }
        var modes = [RunLoop.Mode.common]
        if let mode { modes.append(mode) }
        if let here, here != mode { modes.append(here) }
        return loop.perform(sleepers.request, context, in: modes)
    }
}
