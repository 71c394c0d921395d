internal import Lua
internal import RunLoops

/// Strings that callbacks get as arguments. They are made and anchored when `runloop` is opened, since making a string
/// may fail, which the start of a callback could not handle.
struct CallbackTexts {
    // InlineArray, not Array: reading it counts no references and needs no lazy initialization.
    private var ofEvents = InlineArray<16, UInt32>(repeating: 0)
    private var ofActivities = InlineArray<8, UInt32>(repeating: 0)
    /// The text that follows nil as the result of a wait whose time is over.
    private(set) var timedOut: UInt32 = 0

    private static func all() -> [String] {
        (0..<16).map { Events.text(.init(rawValue: $0)) } + Activities.names.map(\.name.description) + ["timed out"]
    }

    var areMade: Bool { timedOut != 0 }

    /// Returns false if there is no memory.
    mutating func make(_ host: LuaHost) -> Bool {
        guard !areMade else { return true }
        let all = Self.all()
        guard let slots = host.anchor(texts: all.flatMap { Array($0.utf8CString) }, count: all.count) else {
            return false
        }
        for number in ofEvents.indices { ofEvents[number] = slots[number] }
        for (number, _) in Activities.names.enumerated() { ofActivities[number] = slots[ofEvents.count + number] }
        timedOut = slots[all.count - 1]
        return true
    }

    func slot(of events: RunLoop.FDPort.Events) -> UInt32 { ofEvents[Int(events.rawValue) & 15] }

    /// Pushes the text of events in a fiber that runs a callback.
    func push(_ events: RunLoop.FDPort.Events, onto stack: Stack) { stack.pushAnchored(slot(of: events)) }

    /// Pushes the text of an activity in a fiber that runs a callback.
    func push(_ activity: RunLoop.Activity, onto stack: Stack) {
        let place = Activities.names.firstIndex { $0.activity == activity } ?? 0
        stack.pushAnchored(ofActivities[place])
    }
}
