internal import Lua
internal import RunLoops

/// `rl.observer` and the methods of observers.
enum ObserverBinding {
    static let methods: Library = Library(
        of: Kinds.observer,
        [
            ItemBinding.invalidate, ItemBinding.isValid, ItemBinding.name, ItemBinding.order,
            .init("activities") { observer($0).answer { ValueProgram(list: list($0)) } },
            .init("repeats") { observer($0).answer { $0.repeats } },
            .init("__tostring") { observer($0).run { observer, call in call.answer(text(observer, call)) } },
        ])

    private static func observer(_ thread: OpaquePointer?) -> Receiver<RunLoop.Observer> {
        receiver(thread, RunLoop.Observer.self)
    }

    private enum Option: Int, Field {
        case callback, activities, repeats, order, name, modes
        static let names: [StaticString] = ["callback", "activities", "repeats", "order", "name", "modes"]
    }

    /// rl.observer{…}
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        _ = try options.required(.callback, Function.self)
        let activities = try options.required(.activities, Activities.self)
        let repeats = try options[.repeats, Boolean.self] ?? true
        let order = try options[.order, Integer.self] ?? 0
        let stay = try ItemBinding.Stay(options[.modes, ModeNames.self], nil)
        let name = try options[.name, Name.self] ?? ""
        options.keep(.callback, as: ItemBinding.Value.callback)
        let observer = new(call, activities, repeats: repeats, order: order, name: name)
        return try ItemBinding.fill(call, box, observer, stay)
    }

    /// rl.observe(activities, fn): the observer is in the common modes of the thread's loop.
    static func observe(_ call: Call) throws(Misuse) -> Int32 {
        if call.stack.type(2) == .table, call.stack.length(of: 2) == 0 {
            throw Misuse("argument #1 must be \(Activities.expected), got an empty one")
        }
        let activities = try call.argument(2, Activities.self)
        call.stack.pushCopy(of: try call.argument(3, Function.self))
        call.stack.setUserValue(ItemBinding.Value.callback.number, of: 1)
        return try ItemBinding.fill(call, call.receiver, new(call, activities), ItemBinding.Stay([.common], nil))
    }

    private static func new(
        _ call: Call, _ activities: RunLoop.Activity, repeats: Bool = true, order: Int = 0, name: String = ""
    ) -> RunLoop.Observer {
        let items = call.luaHost.items
        return RunLoop.Observer(activities, repeats: repeats, order: order, name: name, owner: items) {
            observer, activity in
            let call = {
                items.call(observer) { host, stack in
                    host.texts.push(activity, onto: stack)
                    return 1
                }
            }
            if activity == .exit { items.host._withUnsafeGuaranteedRef { $0.whileLeaving(call) } } else { call() }
        }
    }

    private static func list(_ observer: RunLoop.Observer) -> [String] {
        Activities.names.filter { observer.activities.contains($0.activity) }.map(\.name.description)
    }

    private static func text(_ observer: RunLoop.Observer, _ call: Call) -> String {
        let names = observer.activities == .all ? "all" : list(observer).joined(separator: " ")
        return ItemBinding.text(call, [names] + (observer.repeats ? [] : ["once"]))
    }
}

/// Activities by the names that scripts use.
enum Activities: Parameter {
    static let expected = "\"all\" or an array of activity names"

    static let names: [(name: StaticString, activity: RunLoop.Activity)] = [
        ("entry", .entry), ("before_timers", .beforeTimers), ("before_sources", .beforeSources),
        ("before_waiting", .beforeWaiting), ("after_waiting", .afterWaiting), ("exit", .exit),
    ]

    static func read(_ stack: Stack, _ index: Int32) throws(Misuse) -> RunLoop.Activity? {
        if let name = stack.string(index) { return try one(name) }
        guard stack.type(index) == .table, stack.reserve(4), stack.isList(index) else { return nil }
        guard stack.length(of: index) > 0 else {
            throw Misuse("field 'activities' must be \(expected), got an empty one")
        }
        let all = try stack.elements(of: index) { () throws(Misuse) in try stack.string(-1).map(one) }
        return all.map { RunLoop.Activity($0) }
    }

    private static func one(_ name: String) throws(Misuse) -> RunLoop.Activity {
        if name == "all" { return .all }
        if let found = names.first(where: { $0.name.description == name }) { return found.activity }
        let all = ["all"] + names.map(\.name.description)
        throw Misuse("unknown activity \"\(name)\"\(Misuse.hint(for: name, all))")
    }
}
