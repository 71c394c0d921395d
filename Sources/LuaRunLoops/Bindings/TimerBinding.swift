internal import CLuaSupport
internal import Lua
internal import RunLoops

/// `rl.timer`, `rl.after`, `rl.every` and the methods of timers.
///
/// A timer's node lies in its userdata, behind the head: making a timer makes one Lua object and nothing else. That is safe
/// because a node in a mode is anchored, and one in no mode is known to nobody else; so it needs no finalizer either.
enum TimerBinding {
    static let methods = Library([
        .init("fire") { fire(Call($0)) },
        .init("fire_date") { fireDate(Call($0)) },
        .init("set_fire_date") { setFireDate(Call($0)) },
        .init("interval") { interval(Call($0)) },
        .init("repeats") { repeats(Call($0)) },
        .init("tolerance") { tolerance(Call($0)) },
        .init("set_tolerance") { setTolerance(Call($0)) },
        .init("order") { order(Call($0)) },
        .init("invalidate") { invalidate(Call($0)) },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { name(Call($0)) },
    ])

    /// `spread` extra arguments and no others: the callback does not get `missed`.
    private static let oneLine: UInt32 = 1

    static func node(_ box: UnsafeMutablePointer<cl_box>) -> UnsafeMutablePointer<RunLoop.TimerNode> {
        UnsafeMutableRawPointer(box + 1).assumingMemoryBound(to: RunLoop.TimerNode.self)
    }

    static func box(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> UnsafeMutablePointer<cl_box> {
        UnsafeMutableRawPointer(node).assumingMemoryBound(to: cl_box.self) - 1
    }

    private static func node(_ call: Call) -> UnsafeMutablePointer<RunLoop.TimerNode>? {
        call.box(1, Kinds.timer).map(node)
    }

    // MARK: Making

    private static let names: [StaticString] = [
        "callback", "delay", "fire_date", "interval", "tolerance", "order", "name",
    ]

    /// rl.timer{…}; the new object is argument 1.
    static func make(_ call: Call) -> Int32 {
        let options: Options
        switch Options.read(call, 2, of: "rl.timer", names) {
        case .success(let read): options = read
        case .failure(let misuse): return call.raise(misuse.message)
        }
        func bad(_ field: Int, _ expected: String) -> Int32 { call.raise(options.wrong(field, expected).message) }
        guard call.type(options.index(0)) == LUA_TFUNCTION else { return bad(0, "a function") }
        var interval: Int64 = 0
        if !options.isMissing(3) {
            guard let value = call.duration(options.index(3)) else { return bad(3, "a number of seconds, 0 or more") }
            // Smaller than the clock's unit is not zero: it would not repeat.
            interval = value == 0 && call.number(options.index(3)) != 0 ? 1 : value
        }
        var tolerance: Int64 = 0
        if !options.isMissing(4) {
            guard let value = call.duration(options.index(4)) else { return bad(4, "a number of seconds, 0 or more") }
            tolerance = value
        }
        var order = 0
        if !options.isMissing(5) {
            guard let value = call.integer(options.index(5)) else { return bad(5, "an integer") }
            order = value
        }
        if !options.isMissing(6), !call.isName(options.index(6)) { return bad(6, "a string") }
        let host = call.luaHost
        var date: Int64
        if !options.isMissing(2) {
            guard options.isMissing(1) else { return call.raise("rl.timer: give 'delay' or 'fire_date', not both") }
            guard let value = call.nanoseconds(options.index(2)) else {
                return bad(2, "a date: a number, as of rl.now()")
            }
            date = value
        } else if !options.isMissing(1) {
            guard let value = call.duration(options.index(1)) else { return bad(1, "a number of seconds, 0 or more") }
            date = host.loop.now.nanoseconds + value
        } else {
            guard !options.isMissing(3) else {
                return call.raise("rl.timer: when is it to fire? Give 'delay', 'fire_date' or 'interval'")
            }
            date = host.loop.now.nanoseconds + interval
        }
        guard let box = call.box(1, Kinds.timer) else { return call.nothing() }
        lua_pushvalue(call.thread, options.index(0))
        lua_setiuservalue(call.thread, 1, 1)
        lua_pushvalue(call.thread, options.index(6))
        lua_setiuservalue(call.thread, 1, 2)
        box.pointee.site = cl_site_of_caller(call.thread)
        node(box).initialize(
            to: RunLoop.TimerNode(
                fireDate: date, interval: interval, tolerance: tolerance, order: order, owner: host.timers))
        lua_settop(call.thread, 1)
        return 1
    }

    /// rl.after(seconds, fn, …), rl.every(seconds, fn, …); the new object is argument 1.
    ///
    /// Their tolerance is a tenth of the delay, at most 1 ms, or 0.25 ms for a timer that repeats. Each is made at a moment of its
    /// own, to the nanosecond; without a tolerance the loop would go to sleep between any two of them.
    static func makeScheduled(_ call: Call, _ function: StaticString, repeats: Bool) -> Int32 {
        guard let box = call.constructed else { return call.nothing() }
        guard let delay = call.duration(2), !repeats || call.number(2) != 0 else {
            return call.raise(
                "\(function): argument #1 must be a number of seconds, \(repeats ? "more than 0" : "0 or more"), got "
                    + call.describe(2))
        }
        guard call.type(3) == LUA_TFUNCTION else {
            return call.raise("\(function): argument #2 must be a function, got \(call.describe(3))")
        }
        lua_pushvalue(call.thread, 3)
        lua_setiuservalue(call.thread, 1, 1)
        box.pointee.site = cl_site_of_caller(call.thread)
        if box.pointee.spread > 0 { box.pointee.flags = oneLine }
        let interval = repeats ? max(1, delay) : 0
        let node = node(box)
        return call.withHost { host in
            node.initialize(
                to: RunLoop.TimerNode(
                    fireDate: host.loop.now.nanoseconds + (repeats ? interval : delay), interval: interval,
                    tolerance: min(delay / 10, repeats ? 250_000 : 1_000_000), owner: host.timers))
            guard anchor(call, box, 1) else { return call.raiseOutOfMemory() }
            host.loop.addToCommonModes(node)
            lua_settop(call.thread, 1)
            return 1
        }
    }

    /// Keeps the userdata alive while the engine knows its node. First this, which may fail, then the engine.
    static func anchor(_ call: Call, _ box: UnsafeMutablePointer<cl_box>, _ index: Int32) -> Bool {
        guard box.pointee.slot == 0 else { return true }
        let slot = cl_anchor(call.thread, index)
        box.pointee.slot = slot
        node(box).pointee.context = Int(slot)
        return slot != 0
    }

    // MARK: Methods

    private static func fire(_ call: Call) -> Int32 {
        guard let box = call.box(1, Kinds.timer) else { return call.wrongSelf("timer:fire", Kinds.timer) }
        let node = node(box)
        guard node.pointee.isValid, !node.pointee.isFiring else { return call.nothing() }
        guard anchor(call, box, 1) else { return call.raiseOutOfMemory() }
        node.fire()
        return call.nothing()
    }

    private static func fireDate(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:fire_date", Kinds.timer) }
        return node.pointee.isValid ? call.answer(Call.seconds(node.pointee.fireDate)) : call.answerNil()
    }

    private static func setFireDate(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:set_fire_date", Kinds.timer) }
        guard let date = call.nanoseconds(2) else {
            return call.wrongArgument("timer:set_fire_date", 2, "a date: a number, as of rl.now()")
        }
        node.setFireDate(date)
        return call.nothing()
    }

    private static func interval(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:interval", Kinds.timer) }
        return call.answer(Call.seconds(node.pointee.interval))
    }

    private static func repeats(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:repeats", Kinds.timer) }
        return call.answer(node.pointee.repeats)
    }

    private static func tolerance(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:tolerance", Kinds.timer) }
        return call.answer(Call.seconds(node.pointee.tolerance))
    }

    private static func setTolerance(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:set_tolerance", Kinds.timer) }
        guard let tolerance = call.duration(2) else {
            return call.wrongArgument("timer:set_tolerance", 2, "a number of seconds, 0 or more")
        }
        node.pointee.setTolerance(tolerance)
        return call.nothing()
    }

    private static func order(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:order", Kinds.timer) }
        return call.answer(node.pointee.order)
    }

    private static func invalidate(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:invalidate", Kinds.timer) }
        node.invalidate()
        return call.nothing()
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let node = node(call) else { return call.wrongSelf("timer:is_valid", Kinds.timer) }
        return call.answer(node.pointee.isValid)
    }

    private static func name(_ call: Call) -> Int32 {
        guard node(call) != nil else { return call.wrongSelf("timer:name", Kinds.timer) }
        if lua_getiuservalue(call.thread, 1, 2) == LUA_TNIL {
            cl_pop(call.thread, 1)
            return call.answer("")
        }
        return 1
    }

    static func describe(_ call: Call) -> Int32 {
        guard let box = call.box(1, Kinds.timer) else { return call.wrongSelf("timer:__tostring", Kinds.timer) }
        return call.answer(text(call, box, 1))
    }

    /// `timer "poll" (every 0.1 s, next in 0.03 s, made at app.lua:12)`
    static func text(_ call: Call, _ box: UnsafeMutablePointer<cl_box>, _ index: Int32) -> String {
        let host = call.luaHost
        let node = node(box)
        var parts: [String] = []
        if node.pointee.repeats { parts.append("every \(short(node.pointee.interval)) s") }
        if !node.pointee.isValid {
            parts.append("invalid")
        } else if !node.pointee.isScheduled {
            parts.append("in no mode")
        } else {
            let left = node.pointee.fireDate - host.loop.now.nanoseconds
            parts.append(left > 0 ? "next in \(short(left)) s" : "due")
        }
        if let site = host.site(box.pointee.site) { parts.append("made at \(site)") }
        let name = Kinds.name(call, index) ?? ""
        return "timer" + (name.isEmpty ? "" : " \"\(name)\"") + " (\(parts.joined(separator: ", ")))"
    }

    /// Seconds with as many digits as one wants to read.
    static func short(_ nanoseconds: Int64) -> String {
        let unit: Int64 = nanoseconds < 1_000_000 ? 1_000 : nanoseconds < 10_000_000_000 ? 100_000 : 100_000_000
        let rounded = (nanoseconds + unit / 2) / unit * unit
        let text = "\(Double(rounded) / 1e9)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}

/// Fires the timers of one state.
final class LuaTimers: RunLoop.TimerOwner {
    // It owns us, and outlives us. A plain reference, even an unowned one, would be counted at each callback.
    var host: Unmanaged<LuaHost>! = nil

    override func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        host._withUnsafeGuaranteedRef { $0.fire(node, missed: missed) }
    }

    override func release(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) {
        let slot = UInt32(node.pointee.context)
        node.pointee.context = 0
        TimerBinding.box(node).pointee.slot = 0
        host._withUnsafeGuaranteedRef { $0.release(slot) }
    }
}

extension LuaHost {
    fileprivate func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        guard !isClosed, let (fiber, _) = prepareCallback(slot: UInt32(node.pointee.context)) else { return }
        let box = TimerBinding.box(node)
        let spread = Int32(box.pointee.spread)
        lua_pushvalue(fiber.thread, 2)
        guard spread > 0 else {
            lua_pushinteger(fiber.thread, lua_Integer(missed))
            return resume(fiber, arguments: 2)
        }
        guard pushSpread(box, from: 3, onto: fiber) else {
            recycle(fiber)
            return uncaught(text: "not enough memory")
        }
        resume(fiber, arguments: 1 + spread)
    }

    /// Pushes the further user values of the object whose callback a fiber is prepared for. Returns whether there was room.
    func pushSpread(_ box: UnsafeMutablePointer<cl_box>, from first: Int32, onto fiber: Fiber) -> Bool {
        let spread = Int32(box.pointee.spread)
        // Slots beyond those that `prepareCallback` made sure of.
        guard lua_checkstack(fiber.thread, spread + 4) != 0 else { return false }
        for i in 0..<spread { lua_getiuservalue(fiber.thread, 2, first + i) }
        return true
    }
}
