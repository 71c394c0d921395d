internal import Lua
internal import RunLoops

/// The texts that callbacks get, anchored when `runloop` is opened: making one may fail, and a callback is no place for that.
struct CallbackTexts {
    private var slots: [UInt32] = []

    private static let activities = Activities.names.map(\.name.description)
    private static let events = (0..<16).map { Events.text(.init(rawValue: $0)) }
    private static let all = activities + events + ["timed out"]
    private static let joined = all.flatMap { Array($0.utf8CString) }

    var areMade: Bool { !slots.isEmpty }

    /// Returns false when memory is out.
    mutating func make(_ host: LuaHost) -> Bool {
        guard slots.isEmpty else { return true }
        guard let slots = host.anchor(texts: Self.joined, count: Self.all.count) else { return false }
        self.slots = slots
        return true
    }

    /// What a wait answers behind nil when its time is over.
    var timedOut: UInt32 { slots[Self.activities.count + Self.events.count] }

    func slot(of events: RunLoop.FDPort.Events) -> UInt32 {
        slots[Self.activities.count + Int(events.rawValue) % Self.events.count]
    }

    /// Pushes its text in a fiber that runs a callback.
    func push(_ events: RunLoop.FDPort.Events, onto stack: Stack) { stack.pushAnchored(slot(of: events)) }

    /// Pushes its text in a fiber that runs a callback.
    func push(_ activity: RunLoop.Activity, onto stack: Stack) {
        let place = Activities.names.firstIndex { $0.activity == activity } ?? 0
        stack.pushAnchored(slots[place])
    }
}
