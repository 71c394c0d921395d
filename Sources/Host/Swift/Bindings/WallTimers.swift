internal import Linux
internal import Lua
internal import RunLoops

/// Fires the timers of `rl.at`, which are set to wall-clock times. The fire dates of these timers are computed again
/// whenever that clock jumps.
///
/// The wall-clock time is stored in a further user value of the timer, so that other timers need no memory for it.
final class WallTimers: LuaTimers {
    private var port: RunLoop.WallClockPort?

    fileprivate static let moment = TimerBinding.Value.name.number + 1
    /// Whether the timer also fires as soon as the clock has been set.
    fileprivate static let looksAnew = moment + 1

    private enum Option: Int, Field {
        case name, modes, keepsAlive, order, tolerance
        static let names: [StaticString] = ["name", "modes", "keeps_alive", "order", "tolerance"]
    }

    /// (function, options or nil, wall-clock time, whether the timer also fires when the clock is set). The last two
    /// arguments become further user values, which is why they come last. The new object is argument 1.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let host = call.luaHost
        guard let time = call.number(4), !time.isNaN else {
            let expected = "a number of seconds since 1970, or a table as os.time takes it"
            throw Misuse("argument #1 must be \(expected), got \(call.describe(4))")
        }
        guard let function = Function.read(call.stack, 2) else {
            throw Misuse("argument #2 must be a function, got \(call.describe(2))")
        }
        call.stack.pushCopy(of: function)
        call.stack.setUserValue(TimerBinding.Value.callback.number, of: 1)
        let options = try call.optionalFields(3, Option.self)
        let order = try options?[.order, Integer.self] ?? 0
        let tolerance = try options?[.tolerance, Seconds.self] ?? 0
        let stay = try ItemBinding.Stay(
            options?[.modes, ModeNames.self] ?? [.common], options?[.keepsAlive, Boolean.self])
        _ = try options?[.name, Name.self]
        options?.keep(.name, as: TimerBinding.Value.name)
        if options?.has(.name) == true { box.flags |= TimerBinding.named }
        let timers = host.wallTimers
        do throws(SystemError) {
            // Watch the clock before reading it, since it may be set in between.
            try timers.begin(host)
        } catch {
            return call.fail(error)
        }
        box.site = call.site
        let node = TimerBinding.node(box)
        node.initialize(
            to: RunLoop.TimerNode(fireDate: host.date(of: time), tolerance: tolerance, order: order, owner: timers))
        call.stack.top = 1
        if !stay.keepsAlive { node.setKeepsAlive(false) }
        guard !stay.modes.isEmpty else { return 1 }
        guard TimerBinding.anchor(call, box, 1) else { throw .noMemory }
        for mode in stay.modes { host.loop.add(node, to: mode) }
        timers.listen(host, in: stay.modes)
        return 1
    }

    override func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
        host._withUnsafeGuaranteedRef { host in
            // The clock may have been set back while the loop ran in a mode that does not watch the clock. So the timer
            // may not be due yet by the wall clock. A timer that `fire` has fired is due in any case.
            let now = host.loop.now.nanoseconds
            if node.pointee.fireDate <= now, let time = host.moment(of: node) {
                let date = host.date(of: time)
                if date > now + 1_000 { return node.putOff(until: date) }
            }
            host.fireAtMoment(node)
        }
    }

    /// After a script has set the timer's fire date: updates the wall-clock time of the timer at an index.
    func follow(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, _ stack: Stack, _ index: Int32) {
        let time = host._withUnsafeGuaranteedRef { host in
            host.wallClock + Time.seconds(node.pointee.fireDate - host.loop.now.nanoseconds)
        }
        stack.push(time)
        stack.setUserValue(Self.moment, of: index)
    }

    /// Watches for jumps of the clock in these modes.
    func listen(_ host: LuaHost, in modes: [RunLoop.Mode]) {
        guard let port else { return }
        for mode in modes { host.loop.add(port, to: mode) }
    }

    private func begin(_ host: LuaHost) throws(SystemError) {
        if let port, port.isValid { return }
        port = try RunLoop.WallClockPort(host.loop) { [unowned self] in adjust() }
    }

    /// Moves the timers after the wall clock has jumped.
    private func adjust() {
        host._withUnsafeGuaranteedRef { host in
            for node in host.loop.allTimers where host.isWallTimer(node) {
                if host.looksAnew(node) { host.setMoment(of: node, host.wallClock) }
                if let time = host.moment(of: node) { node.setFireDate(host.date(of: time)) }
            }
        }
    }
}

extension LuaHost {
    func isWallTimer(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Bool { node.pointee.owner(is: wallTimers) }

    /// Converts a wall-clock time to a fire date of the loop's clock, in nanoseconds. The distance from now is rounded
    /// up to whole microseconds: the wall clock's value is not more precise, and the timer must not fire early.
    fileprivate func date(of time: Double) -> Int64 {
        let left = max(-4e9, min(4e9, time - wallClock))
        return loop.now.nanoseconds + Int64((left * 1e6 - 0.25).rounded(.up)) * 1000
    }

    /// Returns the wall-clock time for which a timer is set, if the timer is in a mode.
    fileprivate func moment(of node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Double? {
        push(stack, slot: UInt32(node.pointee.context))
        defer { stack.pop() }
        return stack.moment(ofTimer: -1)
    }

    fileprivate func setMoment(of node: UnsafeMutablePointer<RunLoop.TimerNode>, _ time: Double) {
        push(stack, slot: UInt32(node.pointee.context))
        defer { stack.pop() }
        stack.push(time)
        stack.setUserValue(WallTimers.moment, of: -2)
    }

    fileprivate func looksAnew(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Bool {
        push(stack, slot: UInt32(node.pointee.context))
        stack.pushUserValue(WallTimers.looksAnew, of: -1)
        defer { stack.pop(2) }
        return stack.boolean(-1)
    }

    /// Returns the description of a timer of `rl.at`, by the local clock: `at 2026-03-29 02:30:00`.
    func momentText(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> String? {
        guard isWallTimer(node), let time = moment(of: node) else { return nil }
        return "at \(LocalTime.text(time))"
    }

    fileprivate func fireAtMoment(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) {
        guard !isClosed, let (fiber, box) = prepareCallback(slot: UInt32(node.pointee.context)) else { return }
        tellSubject(box, node, fiber)
        fiber.stack.pushCopy(of: 2)
        resume(fiber, arguments: 1)
    }
}

extension Stack {
    /// Returns the wall-clock time for which the timer at an index is set.
    func moment(ofTimer index: Int32) -> Double? {
        pushUserValue(WallTimers.moment, of: index)
        defer { pop() }
        return number(-1)
    }
}
