internal import Linux
internal import Lua
internal import RunLoops

/// `rl.timer`, `rl.after`, `rl.every` and the methods of timers.
///
/// A timer's node is in its userdata, after the head, so that a timer takes a single allocation. This is safe: while
/// the node is in a mode, the userdata is anchored; while it is in no mode, nothing else refers to it. So a timer needs
/// no finalizer.
enum TimerBinding {
    static let methods: Library = Library(
        of: Kinds.timer,
        [
            .init("fire") { timer($0).run { (timer, call) throws(Misuse) in try fire(timer, call) } },
            .init("fire_date") { timer($0).answer { $0.pointee.isValid ? Time.seconds($0.pointee.fireDate) : nil } },
            .init("set_fire_date") {
                timer($0).run { (timer, call) throws(Misuse) in try setFireDate(timer, call) }
            },
            .init("interval") { timer($0).answer { Time.seconds($0.pointee.interval) } },
            .init("repeats") { timer($0).answer { $0.pointee.repeats } },
            .init("tolerance") { timer($0).answer { Time.seconds($0.pointee.tolerance) } },
            .init("set_tolerance") { timer($0).take(Seconds.self) { $0.pointee.setTolerance($1) } },
            .init("order") { timer($0).answer { $0.pointee.order } },
            .init("invalidate") {
                timer($0).run { timer, call in
                    timer.invalidate()
                    return call.forgetCallback(values: Value.name.number)
                }
            },
            .init("is_valid") { timer($0).answer { $0.pointee.isValid } },
            .init("name") { timer($0).run { _, call in call.stack.pushName(ofTimer: 1) ? 1 : call.answer("") } },
            .init("__tostring") { timer($0).run { _, call in call.answer(text(call.receiver, call)) } },
        ])

    enum Value: Int, UserValue {
        case callback, name
        static let labels: [StaticString] = ["callback", "name"]
    }

    typealias Node = UnsafeMutablePointer<RunLoop.TimerNode>

    @inline(__always)
    private static func timer(_ thread: OpaquePointer?) -> Receiver<Node> {
        let call = Call(thread)
        return Receiver(call, node(call.receiver))
    }

    static func node(_ box: Box) -> Node { box.payload(as: RunLoop.TimerNode.self) }
    static func box(_ node: Node) -> Box { Box(before: node) }

    // MARK: Making

    private enum Option: Int, Field {
        case callback, delay, fireDate, interval, tolerance, order, name, modes, keepsAlive
        static let names: [StaticString] = [
            "callback", "delay", "fire_date", "interval", "tolerance", "order", "name", "modes", "keeps_alive",
        ]
    }

    /// rl.timer{…}; the new object is argument 1.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        _ = try options.required(.callback, Function.self)
        let interval = try options[.interval, Seconds.self] ?? 0
        let tolerance = try options[.tolerance, Seconds.self] ?? 0
        let order = try options[.order, Integer.self] ?? 0
        _ = try options[.name, Name.self]
        let stay = try ItemBinding.Stay(options[.modes, ModeNames.self], options[.keepsAlive, Boolean.self])
        let host = call.luaHost
        let now = host.loop.now.nanoseconds
        if options.has(.fireDate), options.has(.delay) { throw Misuse("give 'delay' or 'fire_date', not both") }
        let date: Int64
        if let fireDate = try options[.fireDate, Date.self] {
            date = fireDate
        } else if let delay = try options[.delay, Seconds.self] {
            date = now + delay
        } else {
            guard options.has(.interval) else {
                throw Misuse("when is it to fire? Give 'delay', 'fire_date' or 'interval'")
            }
            date = now + interval
        }
        options.keep(.callback, as: Value.callback)
        options.keep(.name, as: Value.name)
        if options.has(.name) { box.flags |= named }
        box.site = call.site
        node(box).initialize(
            to: RunLoop.TimerNode(
                fireDate: date, interval: interval, tolerance: tolerance, order: order, owner: host.timers))
        call.stack.top = 1
        if !stay.keepsAlive { node(box).setKeepsAlive(false) }
        if !stay.modes.isEmpty {
            guard anchor(call, box, 1) else { throw .noMemory }
            for mode in stay.modes { host.loop.add(node(box), to: mode) }
        }
        return 1
    }

    /// Whether the timer could still fire, but was never in a mode.
    static let isUnused: Kind.IsUnused = { head, _, _ in
        guard let head else { return 0 }
        let node = node(Box(head))
        return node.pointee.isValid && !node.pointee.wasScheduled ? 1 : 0
    }

    /// Set for a timer with `spread` extra arguments. Its callback gets these arguments, and not `missed`.
    private static let oneLine: UInt32 = 1
    /// Set for a timer with a name, which recordings show.
    static let named: UInt32 = 2

    /// rl.after(seconds, fn, …); the new object is argument 1.
    static func makeAfter(_ call: Call) throws(Misuse) -> Int32 { try makeScheduled(call, repeats: false) }

    /// rl.every(seconds, fn, …); the new object is argument 1.
    static func makeEvery(_ call: Call) throws(Misuse) -> Int32 { try makeScheduled(call, repeats: true) }

    /// Makes a timer in the common modes. The timer's tolerance is a tenth of the delay, at most 1 ms, or 0.25 ms for a
    /// timer that repeats. Timers made one after the other differ by nanoseconds; without a tolerance the loop would
    /// sleep between any two of them.
    @inline(__always)
    private static func makeScheduled(_ call: Call, repeats: Bool) throws(Misuse) -> Int32 {
        let box = call.receiver
        let stack = call.stack
        guard let delay = Seconds.read(stack, 2), !repeats || stack.number(2) != 0 else {
            throw call.wrong(2, "a number of seconds, \(repeats ? "more than 0" : "0 or more")")
        }
        stack.pushCopy(of: try call.argument(3, Function.self))
        stack.setUserValue(Value.callback.number, of: 1)
        box.site = call.site
        if box.spread > 0 { box.flags = oneLine }
        let interval = repeats ? max(1, delay) : 0
        let node = node(box)
        let isAnchored = call.withHost { host in
            node.initialize(
                to: RunLoop.TimerNode(
                    fireDate: host.loop.now.nanoseconds + (repeats ? interval : delay), interval: interval,
                    tolerance: min(delay / 10, repeats ? 250_000 : 1_000_000), owner: host.timers))
            guard anchor(call, box, 1) else { return false }
            host.loop.addToCommonModes(node)
            return true
        }
        guard isAnchored else { throw .noMemory }
        stack.top = 1
        return 1
    }

    private static func setFireDate(_ timer: Node, _ call: Call) throws(Misuse) -> Int32 {
        let date = try call.argument(2, Date.self)
        let host = call.luaHost
        timer.setFireDate(date)
        if host.isWallTimer(timer) { host.wallTimers.follow(timer, call.stack, 1) }
        return call.nothing()
    }

    /// Keeps the userdata alive while the engine knows its node. Must be called before the engine gets the node, since
    /// it may fail.
    static func anchor(_ call: Call, _ box: Box, _ index: Int32) -> Bool {
        guard box.slot == 0 else { return true }
        let slot = call.stack.anchor(index)
        box.slot = slot
        node(box).pointee.context = Int(slot)
        return slot != 0
    }

    private static func fire(_ timer: Node, _ call: Call) throws(Misuse) -> Int32 {
        guard timer.pointee.isValid, !timer.pointee.isFiring else { return call.nothing() }
        guard anchor(call, box(timer), 1) else { throw .noMemory }
        timer.fire()
        return call.nothing()
    }

    /// Returns a description such as `timer "poll" (every 0.1 s, next in 0.03 s, made at app.lua:12)`.
    private static func text(_ box: Box, _ call: Call) -> String {
        let host = call.luaHost
        let node = node(box)
        var parts: [String] = []
        if node.pointee.repeats { parts.append("every \(Time.short(node.pointee.interval)) s") }
        if host.isWallTimer(node), let time = call.stack.moment(ofTimer: 1) {
            parts.append("at \(LocalTime.text(time))")
        }
        if !node.pointee.isValid {
            parts.append("invalid")
        } else if !node.pointee.isScheduled {
            parts.append("in no mode")
        } else {
            let left = node.pointee.fireDate - host.loop.now.nanoseconds
            parts.append(left > 0 ? "next in \(Time.short(left)) s" : "due")
        }
        return String("timer", name: Kinds.name(call.stack, 1) ?? "", parts, site: host.site(box.site))
    }
}

extension Stack {
    /// Pushes the name of the timer at an index. Pushes nothing and returns false if it has none.
    func pushName(ofTimer index: Int32) -> Bool {
        if pushUserValue(TimerBinding.Value.name.number, of: index) != .nil { return true }
        pop()
        return false
    }
}

/// Fires the timers of one state.
class LuaTimers: RunLoop.TimerOwner {
    // Unmanaged: the host owns this object and outlives it, and a plain reference, even an unowned one, would be
    // counted at each callback.
    var host: Unmanaged<LuaHost>! = nil

    override func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        host._withUnsafeGuaranteedRef { $0.fire(node, missed: missed) }
    }

    override func release(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) {
        let slot = UInt32(node.pointee.context)
        node.pointee.context = 0
        TimerBinding.box(node).slot = 0
        host._withUnsafeGuaranteedRef { $0.release(slot) }
    }
}

extension LuaHost {
    fileprivate func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        guard !isClosed, let (fiber, box) = prepareCallback(slot: UInt32(node.pointee.context)) else { return }
        let stack = fiber.stack
        tellSubject(box, node, fiber)
        let spread = box.spread
        stack.pushCopy(of: 2)
        guard spread > 0 else {
            stack.push(missed)
            return resume(fiber, arguments: 2)
        }
        guard pushSpread(box, from: 3, onto: fiber) else {
            recycle(fiber)
            return report(Failure("not enough memory"))
        }
        resume(fiber, arguments: 1 + spread)
    }

    /// Pushes an object's further user values as arguments onto the stack of the fiber that will run the object's
    /// callback. Returns whether there was room.
    func pushSpread(_ box: Box, from first: Int32, onto fiber: Fiber) -> Bool {
        // `prepareCallback` has not reserved enough slots for these values.
        guard fiber.stack.reserve(box.spread + 4) else { return false }
        for i in 0..<box.spread { fiber.stack.pushUserValue(first + i, of: 2) }
        return true
    }
}
