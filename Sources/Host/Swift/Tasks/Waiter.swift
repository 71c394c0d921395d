internal import Linux
package import Lua
package import RunLoops

/// Everything a fiber needs for waiting. It is made at the first wait and reused, so that later waits allocate nothing.
/// A fiber waits for one thing at a time, and possibly for a time limit.
package final class Waiter: RunLoop.ItemOwner {
    /// Two timers: while one fires, and so lets the fiber go on, the fiber may already sleep with the other.
    private let nodes = UnsafeMutablePointer<RunLoop.TimerNode>.allocate(capacity: 2)
    private let sleepers: Sleepers
    let fiber: Fiber
    /// The timer that is to end the wait.
    private var timer: UnsafeMutablePointer<RunLoop.TimerNode>?
    /// The kind of event for which it waits, besides the time limit.
    fileprivate(set) var purpose = Purpose.time
    private var tasks: [LuaTask] = []
    /// The number of the state's wait for tasks: a task's waiters are sorted by it.
    private(set) var number = 0
    private var port: RunLoop.FDPort?
    private var wakeUp: RunLoop.RequestToken?
    private var condition: LuaCondition?
    /// Its place in the queue of a condition.
    var links = LuaCondition.Links()
    /// The number of values with which it was woken, on top of its fiber's stack; -1 if it was not woken.
    private var given: Int32 = -1
    /// The number of tasks at the head of the list that are known to have ended.
    private var endedCount: Int32 = 0

    enum Purpose {
        case time
        /// Events on a descriptor.
        case descriptor
        /// A task's results.
        case results
        /// The end of one of several tasks.
        case anyOf
        /// A signal of the script's own.
        case condition
        /// The end of several tasks, or the first failure among them.
        case allOf
        /// Something else, which ends the wait itself, unless the time limit comes first.
        case other
    }
    private var timedOut: ((Fiber, LuaHost) -> Void)?

    init(_ sleepers: Sleepers, _ fiber: Fiber) {
        self.sleepers = sleepers
        self.fiber = fiber
        super.init()
        for i in 0...1 { (nodes + i).initialize(to: .init(fireDate: 0, owner: sleepers)) }
    }

    deinit { nodes.deallocate() }

    /// Returns the fiber's own waiter.
    package static func of(_ fiber: Fiber, _ host: LuaHost) -> Waiter {
        // No other code sets the fiber's sleeper.
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

    /// Ends a wait without letting the fiber go on: for `Interpreter.beginWait`.
    package static func cancel(_ fiber: Fiber) {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.stop() }
    }

    // MARK: Beginning a wait

    /// Wakes the fiber at a date, in nanoseconds of the loop's clock.
    func sleep(until date: Int64, _ host: LuaHost) {
        let node = nodes[0].isFiring ? nodes + 1 : nodes
        node.pointee = RunLoop.TimerNode(fireDate: date, owner: sleepers, context: fiber.context)
        timer = node
        host.addToWaitingModes(node)
    }

    /// Limits a wait that something else ends: after this many nanoseconds it calls `timedOut`, which has to let the
    /// fiber go on. Code that ends the wait earlier calls `cancel`. A closure that captures nothing costs nothing.
    package func limit(_ nanoseconds: Int64, _ host: LuaHost, timedOut: @escaping (Fiber, LuaHost) -> Void) {
        purpose = .other
        self.timedOut = timedOut
        sleep(until: host.loop.now.nanoseconds + nanoseconds, host)
    }

    /// Wakes the fiber when tasks have ended. At least one of them has not ended yet.
    func wait(for tasks: [LuaTask], _ purpose: Purpose) {
        self.purpose = purpose
        self.tasks = tasks
        number = sleepers.host.tasks.countWait()
        for task in tasks where !task.isEnded { task.awaiters.append(self) }
    }

    /// Wakes the fiber when its turn comes.
    func wait(on condition: LuaCondition) {
        purpose = .condition
        self.condition = condition
        condition.append(self)
    }

    /// Ends its wait on a condition with the top values of a stack, which move to the fiber. The fiber goes on in a
    /// request of its own.
    ///
    /// - Returns: false if there is no memory; then nothing has changed, and the values stay.
    func wake(with count: Int32, from stack: Stack) -> Bool {
        guard fiber.stack.reserve(count + 4) else { return false }
        condition?.remove(self)
        timer?.invalidate()
        timer = nil
        stack.move(count, to: fiber.stack)
        given = count
        wakeUp = sleepers.host.performForWaiters(fiber.context)
        return true
    }

    /// Whether the waiting fiber has been given its result, and will go on.
    static func isWoken(_ fiber: Fiber) -> Bool {
        existing(fiber)?._withUnsafeGuaranteedRef { $0.given >= 0 } ?? false
    }

    /// Wakes the fiber at the first of the events.
    func wait(for fd: Int32, _ events: RunLoop.FDPort.Events, _ host: LuaHost) throws(SystemError) {
        let port = try RunLoop.FDPort(fd, events, once: true, owner: self)
        purpose = .descriptor
        self.port = port
        host.addToWaitingModes(port)
    }

    package override func deliver(_ events: RunLoop.FDPort.Events, of port: RunLoop.FDPort) {
        stop()
        let host = sleepers.host
        guard !host.isClosed, fiber.stack.reserve(4) else { return }
        // Index 1 is not the table of anchors here: the stack's frame is that of the waiting function.
        host.push(fiber.stack, slot: host.texts.slot(of: events))
        host.resume(fiber, arguments: 1)
    }

    /// Returns what it waits for, and how long that may still take: "task made at app.lua:3", "fd 5, 1.8 s to go".
    func detail(_ now: Int64, _ host: LuaHost) -> String? {
        var parts = tasks.filter { !$0.isEnded }.map { host.title(of: $0.fiber) }
        if let port { parts.append("fd \(port.fd)") }
        if let timer { parts.append("\(Time.short(max(0, timer.pointee.fireDate - now))) s to go") }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }

    // MARK: The end of the wait

    /// Forgets everything it waits for.
    func stop() {
        timer?.invalidate()
        timer = nil
        guard purpose != .time else { return }
        purpose = .time
        if let condition {
            if given < 0 { condition.remove(self) } else { fiber.stack.pop(given) }
            given = -1
            self.condition = nil
        }
        for task in tasks where !task.isEnded { task.awaiters.remove(self) }
        tasks = []
        endedCount = 0
        port?.invalidate()
        port = nil
        if let wakeUp { sleepers.host.loop.cancel(wakeUp) }
        wakeUp = nil
    }

    /// Called when a task that it waits for has ended. The fiber goes on in a request of its own: otherwise the ends of
    /// a chain of tasks, each awaiting the next, would nest on the stack.
    func taskEnded(_ task: LuaTask) {
        guard wakeUp == nil, purpose != .allOf || task.hasFailed || haveAllEnded() else { return }
        wakeUp = sleepers.host.performForWaiters(fiber.context)
    }

    /// Skips the tasks that were seen to have ended: without that, each of many ends would visit all earlier ones.
    private func haveAllEnded() -> Bool {
        while endedCount < tasks.count, tasks[Int(endedCount)].isEnded { endedCount += 1 }
        return endedCount == tasks.count
    }

    /// Lets the fiber go on with the results of the tasks.
    fileprivate func deliver() {
        let purpose = purpose
        let tasks = tasks
        wakeUp = nil
        if purpose == .condition {
            let count = given
            given = -1
            condition = nil
            self.purpose = .time
            sleepers.host.resume(fiber, arguments: count)
            return
        }
        stop()
        let stack = fiber.stack
        let host = sleepers.host
        if purpose == .results, let task = tasks.first {
            guard stack.reserve(8) else { return }
            // Index 1 is the task's userdata, on which `await` was called.
            let isTheTask = stack.object(1, Kinds.task, as: LuaTask.self) === task
            if task.hasFailed { stack.pushRaiseMark() }
            guard let count = isTheTask ? task.push(onto: stack, 1) : 0 else { return }
            host.resume(fiber, arguments: task.hasFailed ? count + 1 : count)
        } else {
            guard stack.reserve(4) else { return }
            stack.push(Self.decisive(tasks, purpose) ?? 0)
            host.resume(fiber, arguments: 1)
        }
    }

    /// Returns the position, from 1, of the task that ends a wait for several; 0 if all have ended well, nil if the
    /// wait goes on.
    static func decisive(_ tasks: [LuaTask], _ purpose: Purpose) -> Int? {
        if purpose == .anyOf {
            // If several have ended, the one that ended first decides.
            let ended = tasks.indices.filter { tasks[$0].isEnded }
            return ended.min { tasks[$0].endNumber < tasks[$1].endNumber }.map { $0 + 1 }
        }
        if let failed = tasks.firstIndex(where: \.hasFailed) { return failed + 1 }
        return tasks.allSatisfy(\.isEnded) ? 0 : nil
    }

    /// Ends the wait at its time limit.
    fileprivate func timeIsOver(_ host: LuaHost) {
        timer = nil
        guard purpose != .time else { return host.resume(fiber, arguments: 0) }
        // The tasks have ended at the same moment.
        if wakeUp != nil { return }
        let other = purpose == .other ? timedOut : nil
        let saysSo = purpose == .condition
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
            // Invalidated first: the task may run the loop now, and that run must not go on for a sleep that is over.
            node.invalidate()
            Self.waiter(node.pointee.context)?._withUnsafeGuaranteedRef { $0.timeIsOver(host) }
        }
    }

    /// Lets a fiber go on whose awaited tasks have ended.
    final class Request: RunLoop.RequestOwner {
        override func perform(_ context: Int) {
            Sleepers.waiter(context)?._withUnsafeGuaranteedRef { if $0.fiber.state == .waiting { $0.deliver() } }
        }
    }

    let request = Request()
}

extension LuaHost {
    /// The mode that runs now, unless it is a common one.
    private var uncommonMode: RunLoop.Mode? { loop.runsInCommonMode ? nil : loop.currentMode }

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

    fileprivate func performForWaiters(_ context: Int) -> RunLoop.RequestToken? {
        guard uncommonMode != nil else { return loop.perform(sleepers.request, context) }
        return loop.perform(sleepers.request, context, in: waitingModes)
    }
}
