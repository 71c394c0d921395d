internal import CLuaCodecs
internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// Runs turns of the loop of a library, such as luv: when that loop's descriptor is readable, when its next date has
/// come, and when it has work to do at once. Scripts add work to that loop without a notice to the port, so the port
/// checks the loop before each sleep of the run loop.
///
/// The port uses real time even in a simulated world. Simulated time stands still while the library's loop waits for
/// something.
final class BridgePort: RunLoop.EdgePort {
    private let source: UnsafeMutablePointer<bridge_source>?
    private unowned(unsafe) let host: LuaHost  // The host owns the items, so it outlives all code that they call.
    private let timer: TimerPort
    /// The date for which `timer` is set, in nanoseconds of the real clock; `.max` if it is not set.
    private var setFor = Int64.max
    private var isInTurn = false
    /// Whether the last check found work for a turn.
    private var wasServed = false
    /// The last report of a library without a `source`.
    private var reported = (isActive: false, date: BridgePort.idle, waits: "")
    /// Whether the port keeps the run loop running; nil: while it has something to wait for.
    var staysAlive: Bool?

    /// The anchor of the port's userdata: a bridge stays until it is invalidated.
    var slot: UInt32 = 0

    private static let idle: Int64 = -1

    init(
        _ fd: Int32, name: String, source: UnsafeMutablePointer<bridge_source>?, host: LuaHost
    ) throws(SystemError) {
        self.source = source
        self.host = host
        timer = try TimerPort()
        super.init(name: name, owner: host.items)
        timer.bridge = self
        outlastsTests = true
        watch(fd)
    }

    var isActive: Bool { staysAlive ?? source.map { $0.pointee.is_active($0) != 0 } ?? reported.isActive }

    /// The state of a library without a `source`: whether it waits for something, and seconds until its next date.
    func report(isActive: Bool, seconds: Double?, waits: String) {
        let date = seconds.map { max(0, Int64(min($0, 1e9) * 1e9)) }
        reported = (isActive, isActive ? date.map { $0 == 0 ? 0 : Self.now + $0 } ?? .max : Self.idle, waits)
        look()
    }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    private var date: Int64 { source.map { $0.pointee.date($0) } ?? reported.date }

    /// Called before each sleep of the run loop.
    func look() {
        guard !isInTurn else { return }
        let date = date
        if !host.loop.isReal { timer.watch(isActive ? timer.descriptor?.number ?? -1 : -1) }
        guard date != Self.idle else {
            set(.max)
            // Give the bridge one more turn: other code may wait for the end of the library's work.
            if wasServed { signal() }
            wasServed = false
            return
        }
        if date == 0 || !wasServed { signal() }
        wasServed = true
        // A timer that fires too early costs less than setting it again each time.
        if date > 0, date < setFor { set(date) }
    }

    /// Called after each sleep of the run loop.
    func wake() {
        if let source, isValid { source.pointee.wake?(source) }
    }

    private func set(_ date: Int64) {
        guard date != setFor, let descriptor = timer.descriptor else { return }
        setFor = date
        bridge_set_timer(descriptor.number, date)
    }

    override func takeTurn() {
        guard !isInTurn else { return }
        isInTurn = true
        host.items.call(self) { _, _ in 0 }
        isInTurn = false
        guard isValid else { return }
        // The kernel reports only changes, and a turn may leave some events in the queue, so look again.
        if source?.pointee.is_drained != 1, date != Self.idle, bridge_is_readable(fd) != 0 { signal() }
    }

    /// A text about the events for which the library's loop waits.
    var waits: String {
        guard let source else {
            let seconds = Double(reported.date - Self.now) / 1e9
            guard reported.date != .max, seconds > 0 else { return reported.waits }
            return "\(reported.waits), next in \(Time.short(Int64(seconds * 1e9))) s"
        }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 2000) { text in
            guard let base = text.baseAddress else { return "" }
            source.pointee.describe(source, base, text.count)
            return String(cString: base)
        }
    }

    override func didEnter(mode: RunLoop.Mode) {
        host.loop.add(timer, to: mode)
        // Recordings show the timer's turns as turns of this port.
        timer.label = host.loop.label(of: self)
        host.part(Bridges.self).note(self)
    }

    override func didLeave(mode: RunLoop.Mode) { host.loop.remove(timer, from: mode) }

    override func wasInvalidated() {
        watch(-1)
        timer.invalidate()
        if !host.isClosed { host.release(slot) }
        slot = 0
    }

    override var title: String { name }
    override var word: String { "bridge" }

    /// A descriptor that becomes readable at the next date of the library's loop.
    private final class TimerPort: RunLoop.EdgePort {
        /// nil once the port is invalid.
        private(set) var descriptor: Descriptor?
        weak var bridge: BridgePort?

        init() throws(SystemError) {
            let descriptor = try Descriptor(bridge_timer(), "timerfd_create")
            self.descriptor = descriptor
            super.init(serves: true)
            outlastsTests = true
            watch(descriptor.number)
        }

        override func takeTurn() {
            bridge?.setFor = .max
            bridge?.takeTurn()
        }

        override func wasInvalidated() {
            watch(-1)
            descriptor = nil
        }
    }
}

/// The bridges of a state.
final class Bridges: HostPart {
    private var ports: [Weak] = []
    private struct Weak { weak var port: BridgePort? }

    required init(_ host: LuaHost) {
        super.init(host)
        let before = host.loop.turnEndHandler
        host.loop.turnEndHandler = { [weak self] in
            before?()
            self?.look()
        }
        let woken = host.loop.wakeHandler
        host.loop.wakeHandler = { [weak self] in
            woken?()
            self?.wake()
        }
        host.loop.staysForOthers = { [weak self] _, mode in
            self?.ports.contains { $0.port.map { $0.modeNames.contains(mode) && $0.isActive } ?? false } ?? false
        }
    }

    /// Makes the loop call `look` from now on.
    func note(_ port: BridgePort) {
        if !ports.contains(where: { $0.port === port }) {
            ports.removeAll { $0.port?.isValid != true }
            ports.append(Weak(port: port))
        }
        host.loop.wantsTurnEnd = true
    }

    private func look() {
        for one in ports {
            guard let port = one.port, port.isValid, port.loop != nil else { continue }
            host.loop.wantsTurnEnd = true
            port.look()
        }
    }

    private func wake() {
        for one in ports { one.port?.wake() }
    }

    override func willClose() {
        for one in ports { one.port?.invalidate() }
        ports = []
    }

    /// A bridge lasts longer than the test that has made it: its library has one loop.
    override func reset() {
        for one in ports {
            guard let port = one.port, port.isValid, host.stack.reserve(2) else { continue }
            host.push(host.stack, slot: port.slot)
            if host.items.anchor(port, host.stack, -1) { host.loop.add(port, to: .common) }
            host.stack.pop()
        }
    }

    override func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {
        guard let port = item as? BridgePort else { return }
        entry.detail = port.waits
        entry.keepsAlive = port.isActive
        entry.isHosts = true
    }
}
