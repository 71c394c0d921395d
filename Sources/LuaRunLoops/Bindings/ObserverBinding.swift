internal import CLuaSupport
internal import Lua
internal import RunLoops

/// What sources, ports and observers have in common in Lua.
enum ItemBinding {
    /// Puts an engine object into the userdata that is argument 1. The userdata holds it, and is held by it while in a mode.
    static func fill(_ call: Call, _ kind: Kind, _ item: RunLoop.Item) -> Int32 {
        guard let box = call.box(1, kind) else { return call.nothing() }
        LiveObjects.note(1)
        let object = Kinds.crosses(kind) ? SharedItem(item) : item as AnyObject
        box.pointee.object = Unmanaged.passRetained(object).toOpaque()
        box.pointee.site = cl_site_of_caller(call.thread)
        lua_settop(call.thread, 1)
        return 1
    }

    static func item(_ call: Call, _ index: Int32, _ kind: Kind) -> LuaItem? {
        guard Kinds.crosses(kind) else {
            return call.object(index, kind, as: RunLoop.Item.self).map {
                LuaItem(item: $0, isHome: true)
            }
        }
        let items = call.luaHost.items
        return call.object(index, kind, as: SharedItem.self).map {
            LuaItem(item: $0.item, isHome: $0.item.owner === items)
        }
    }

    static func item(_ call: Call, _ index: Int32) -> LuaItem? {
        for kind in Kinds.items {
            if let item = item(call, index, kind) { return item }
        }
        return nil
    }

    /// Sets user value `value` to the field, which must be a function or absent.
    static func keep(_ call: Call, _ options: Options, _ field: Int, as value: Int32) {
        lua_pushvalue(call.thread, options.index(field))
        lua_setiuservalue(call.thread, 1, value)
    }

    /// `observer "flush" (before_waiting, in default, made at app.lua:12)`
    static func text(_ call: Call, _ item: LuaItem, _ kind: Kind, _ details: [String]) -> Int32 {
        var parts = details
        if !item.isHome {
            parts.append("of another thread")
        } else if !item.item.isValid {
            parts.append("invalid")
        } else {
            let modes = item.item.modeNames.map(\.rawValue)
            parts.append(modes.isEmpty ? "in no mode" : "in \(modes.joined(separator: ", "))")
        }
        if let box = call.box(1, kind), let site = call.luaHost.site(box.pointee.site) {
            parts.append("made at \(site)")
        }
        let name = item.item.name
        return call.answer(kind.name + (name.isEmpty ? "" : " \"\(name)\"") + " (\(parts.joined(separator: ", ")))")
    }

    /// A field that names a function, if it is there.
    static func isFunctionOrMissing(_ call: Call, _ options: Options, _ field: Int) -> Bool {
        options.isMissing(field) || call.type(options.index(field)) == LUA_TFUNCTION
    }

    static func invalidate(_ call: Call, _ kind: Kind, _ function: StaticString) -> Int32 {
        guard let item = item(call, 1, kind) else { return call.wrongSelf(function, kind) }
        guard item.isHome else { return call.raise("\(function): only the thread that made it can do that") }
        item.item.invalidate()
        return call.nothing()
    }

    static func isValid(_ call: Call, _ kind: Kind, _ function: StaticString) -> Int32 {
        guard let item = item(call, 1, kind) else { return call.wrongSelf(function, kind) }
        return call.answer(item.item.isValid)
    }

    static func name(_ call: Call, _ kind: Kind, _ function: StaticString) -> Int32 {
        guard let item = item(call, 1, kind) else { return call.wrongSelf(function, kind) }
        return call.answer(item.item.name)
    }

    static func order(_ call: Call, _ kind: Kind, _ function: StaticString) -> Int32 {
        guard let item = item(call, 1, kind) else { return call.wrongSelf(function, kind) }
        return call.answer(item.item.order)
    }
}

/// `rl.observer` and the methods of observers.
enum ObserverBinding {
    static let methods = Library([
        .init("invalidate") { ItemBinding.invalidate(Call($0), Kinds.observer, "observer:invalidate") },
        .init("is_valid") { ItemBinding.isValid(Call($0), Kinds.observer, "observer:is_valid") },
        .init("name") { ItemBinding.name(Call($0), Kinds.observer, "observer:name") },
        .init("order") { ItemBinding.order(Call($0), Kinds.observer, "observer:order") },
        .init("activities") { activities(Call($0)) },
        .init("repeats") { repeats(Call($0)) },
    ])

    static let activityNames: [(name: StaticString, activity: RunLoop.Activity)] = [
        ("entry", .entry), ("before_timers", .beforeTimers), ("before_sources", .beforeSources),
        ("before_waiting", .beforeWaiting), ("after_waiting", .afterWaiting), ("exit", .exit),
    ]

    private static let names: [StaticString] = ["callback", "activities", "repeats", "order", "name"]

    /// rl.observer{…}
    static func make(_ call: Call) -> Int32 {
        let options: Options
        switch Options.read(call, 2, of: "rl.observer", names) {
        case .success(let read): options = read
        case .failure(let misuse): return call.raise(misuse.message)
        }
        guard call.type(options.index(0)) == LUA_TFUNCTION else {
            return call.raise(options.wrong(0, "a function").message)
        }
        let activities: RunLoop.Activity
        switch read(call, options.index(1)) {
        case .success(let read): activities = read
        case .failure(let misuse):
            return call.raise(misuse.message.isEmpty ? options.wrong(1, expected).message : misuse.message)
        }
        guard options.isMissing(2) || call.type(options.index(2)) == LUA_TBOOLEAN else {
            return call.raise(options.wrong(2, "a boolean").message)
        }
        guard options.isMissing(3) || call.integer(options.index(3)) != nil else {
            return call.raise(options.wrong(3, "an integer").message)
        }
        guard options.isMissing(4) || call.isName(options.index(4)) else {
            return call.raise(options.wrong(4, "a string").message)
        }
        ItemBinding.keep(call, options, 0, as: 1)
        let items = call.luaHost.items
        let observer = RunLoop.Observer(
            activities, repeats: options.isMissing(2) || call.boolean(options.index(2)),
            order: call.integer(options.index(3)) ?? 0, name: call.name(options.index(4)), owner: items
        ) { observer, activity in
            items.call(observer) { host, thread in
                // Anchored as an upvalue of nothing: short strings that Lua has interned already cost no allocation, but
                // pushing one may still fail; so the names are kept in the registry.
                host.pushActivity(activity, onto: thread)
                return 1
            }
        }
        return ItemBinding.fill(call, Kinds.observer, observer)
    }

    private static let expected = "\"all\" or an array of activity names"

    /// Activities as scripts write them. An empty message: not even of the right type.
    static func read(_ call: Call, _ index: Int32) -> Result<RunLoop.Activity, Misuse> {
        let wrong = Misuse("")
        if let name = call.string(index) {
            if name == "all" { return .success(.all) }
            return one(name).map { .success($0) } ?? .failure(unknown(name))
        }
        guard call.type(index) == LUA_TTABLE, lua_checkstack(call.thread, 2) != 0 else { return .failure(wrong) }
        var activities: RunLoop.Activity = []
        for i in 0..<lua_rawlen(call.thread, index) {
            lua_rawgeti(call.thread, index, lua_Integer(i + 1))
            defer { cl_pop(call.thread, 1) }
            guard let name = call.string(-1) else { return .failure(wrong) }
            guard let activity = name == "all" ? .all : one(name) else { return .failure(unknown(name)) }
            activities.formUnion(activity)
        }
        return .success(activities)
    }

    private static func one(_ name: String) -> RunLoop.Activity? {
        activityNames.first { $0.name.description == name }?.activity
    }

    private static func unknown(_ name: String) -> Misuse {
        let all = activityNames.map(\.name.description)
        let near = Options.nearest(to: name, all + ["all"]).map { "did you mean \"\($0)\"?" }
        return Misuse(
            "rl.observer: unknown activity \"\(name)\" (\(near ?? "there are: all, \(all.joined(separator: ", "))"))")
    }

    private static func observer(_ call: Call) -> RunLoop.Observer? {
        call.object(1, Kinds.observer, as: RunLoop.Observer.self)
    }

    private static func list(_ observer: RunLoop.Observer) -> [String] {
        activityNames.filter { observer.activities.contains($0.activity) }.map(\.name.description)
    }

    private static func activities(_ call: Call) -> Int32 {
        guard let observer = observer(call) else { return call.wrongSelf("observer:activities", Kinds.observer) }
        var program = ValueProgram()
        program.table { for name in list(observer) { $0.element { $0.append(name) } } }
        return call.answer(program)
    }

    private static func repeats(_ call: Call) -> Int32 {
        guard let observer = observer(call) else { return call.wrongSelf("observer:repeats", Kinds.observer) }
        return call.answer(observer.repeats)
    }

    static func describe(_ call: Call) -> Int32 {
        guard let item = ItemBinding.item(call, 1, Kinds.observer), let observer = observer(call) else {
            return call.wrongSelf("observer:__tostring", Kinds.observer)
        }
        let names = observer.activities == .all ? "all" : list(observer).joined(separator: " ")
        return ItemBinding.text(call, item, Kinds.observer, [names] + (observer.repeats ? [] : ["once"]))
    }
}
