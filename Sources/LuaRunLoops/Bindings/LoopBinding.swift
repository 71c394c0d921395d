internal import CLuaSupport
internal import Lua
internal import RunLoops

/// `rl.current` and the methods of loops.
enum LoopBinding {
    static let methods = Library([
        .init("run") { run(Call($0), "loop:run", firstArgument: 2) },
        .init("run_mode") { runMode(Call($0)) },
        .init("run_until") { runUntil(Call($0)) },
        .init("stop") { stop(Call($0)) },
        .init("wake_up") { wakeUp(Call($0)) },
        .init("is_waiting") { isWaiting(Call($0)) },
        .init("mode") { mode(Call($0)) },
        .init("modes") { modes(Call($0)) },
        .init("add_common_mode") { addCommonMode(Call($0)) },
        .init("sequence") { sequence(Call($0)) },
        .init("set_sequence") { setSequence(Call($0)) },
        .init("next_fire_date") { nextFireDate(Call($0)) },
        .init("add") { add(Call($0)) },
        .init("remove") { remove(Call($0)) },
        .init("contains") { contains(Call($0)) },
        .init("perform", constructs: 5, spread: 3) { RequestBinding.perform(Call($0), "loop:perform", self: 2) },
        .init("inspect") { InspectBinding.inspect(Call($0)) },
        .init("stats") { InspectBinding.stats(Call($0)) },
        .init("invalidate") { refuseToInvalidate(Call($0)) },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { name(Call($0)) },
    ])

    static let deepest = 40

    /// The handle of self, whichever thread's loop it is.
    static func handle(_ call: Call, _ index: Int32 = 1) -> RunLoop.Handle? {
        call.object(index, Kinds.loop, as: RunLoop.Handle.self)
    }

    /// This thread's loop, if self is that; otherwise the answer that says so.
    private enum Own {
        case loop(RunLoop)
        case refused(Int32)
    }

    private static func own(_ call: Call, _ function: StaticString) -> Own {
        guard let handle = handle(call) else { return .refused(call.wrongSelf(function, Kinds.loop)) }
        let loop = call.luaHost.loop
        guard handle === loop.handle else {
            return .refused(
                call.raise(
                    "\(function): this loop belongs to another thread; from here it takes perform, stop, wake_up and "
                        + "is_waiting"))
        }
        return .loop(loop)
    }

    // MARK: Running

    static let results: [RunLoop.RunResult: StaticString] = [
        .finished: "finished", .stopped: "stopped", .timedOut: "timed_out", .handledSource: "handled_source",
    ]

    /// loop:run(), loop:run{…}, rl.run(…)
    static func run(_ call: Call, _ function: StaticString, firstArgument: Int32) -> Int32 {
        let loop: RunLoop
        if firstArgument == 2 {
            switch own(call, function) {
            case .loop(let own): loop = own
            case .refused(let answer): return answer
            }
        } else {
            loop = call.luaHost.loop
        }
        var mode = RunLoop.Mode.default
        var limit: Duration?
        var returnsAfterSource = false
        if !call.isMissing(firstArgument) {
            let options: Options
            switch Options.read(call, firstArgument, of: function, ["mode", "timeout", "return_after_source"]) {
            case .success(let read): options = read
            case .failure(let misuse): return call.raise(misuse.message)
            }
            if !options.isMissing(0) {
                guard let name = call.mode(options.index(0)) else {
                    return call.raise(options.wrong(0, "the name of a mode").message)
                }
                mode = name
            }
            if !options.isMissing(1) {
                guard let nanoseconds = call.nanoseconds(options.index(1)) else {
                    return call.raise(options.wrong(1, "a number of seconds").message)
                }
                limit = .nanoseconds(nanoseconds)
            }
            guard options.isMissing(2) || call.type(options.index(2)) == LUA_TBOOLEAN else {
                return call.raise(options.wrong(2, "a boolean").message)
            }
            returnsAfterSource = call.boolean(options.index(2))
        }
        if let refusal = refusal(loop, mode) { return call.raise("\(function): \(refusal)") }
        if call.luaHost.endingStatus != nil { return refuseToRun(call) }
        let result = loop.run(in: mode, for: limit, returnAfterSource: returnsAfterSource)
        return call.answer(results[result]?.description)
    }

    /// The process ends. A script that catches the error and tries again would keep it from that.
    private static func refuseToRun(_ call: Call) -> Int32 {
        cl_interrupt(call.luaHost.host)
        return call.raise("interrupted!")
    }

    private static func refusal(_ loop: RunLoop, _ mode: RunLoop.Mode) -> String? {
        if mode == .common { return "\"common\" is not a mode one can run in: it stands for all common modes" }
        if loop.depth >= deepest { return "too many runs inside each other (\(deepest))" }
        return nil
    }

    private static func runMode(_ call: Call) -> Int32 {
        let loop: RunLoop
        switch own(call, "loop:run_mode") {
        case .loop(let own): loop = own
        case .refused(let answer): return answer
        }
        guard let mode = call.mode(2) else { return call.wrongArgument("loop:run_mode", 2, "the name of a mode") }
        guard let date = call.nanoseconds(3) else {
            return call.wrongArgument("loop:run_mode", 3, "a date: a number, as of rl.now()")
        }
        if let refusal = refusal(loop, mode) { return call.raise("loop:run_mode: \(refusal)") }
        if call.luaHost.endingStatus != nil { return refuseToRun(call) }
        return call.answer(loop.run(mode: mode, before: .init(nanoseconds: date)))
    }

    private static func runUntil(_ call: Call) -> Int32 {
        let loop: RunLoop
        switch own(call, "loop:run_until") {
        case .loop(let own): loop = own
        case .refused(let answer): return answer
        }
        guard let date = call.nanoseconds(2) else {
            return call.wrongArgument("loop:run_until", 2, "a date: a number, as of rl.now()")
        }
        if let refusal = refusal(loop, .default) { return call.raise("loop:run_until: \(refusal)") }
        if call.luaHost.endingStatus != nil { return refuseToRun(call) }
        loop.run(until: .init(nanoseconds: date))
        return call.nothing()
    }

    private static func stop(_ call: Call) -> Int32 {
        guard let handle = handle(call) else { return call.wrongSelf("loop:stop", Kinds.loop) }
        let loop = call.luaHost.loop
        if handle === loop.handle { loop.stop() } else { handle.stop() }
        return call.nothing()
    }

    private static func wakeUp(_ call: Call) -> Int32 {
        guard let handle = handle(call) else { return call.wrongSelf("loop:wake_up", Kinds.loop) }
        let loop = call.luaHost.loop
        if handle === loop.handle { loop.wakeUp() } else { handle.wakeUp() }
        return call.nothing()
    }

    private static func isWaiting(_ call: Call) -> Int32 {
        guard let handle = handle(call) else { return call.wrongSelf("loop:is_waiting", Kinds.loop) }
        return call.answer(handle.isWaiting)
    }

    // MARK: Modes

    private static func mode(_ call: Call) -> Int32 {
        switch own(call, "loop:mode") {
        case .loop(let loop): return call.answer(loop.currentMode?.rawValue)
        case .refused(let answer): return answer
        }
    }

    private static func modes(_ call: Call) -> Int32 {
        switch own(call, "loop:modes") {
        case .loop(let loop):
            var program = ValueProgram()
            program.table { for mode in loop.modeNames { $0.element { $0.append(mode.rawValue) } } }
            return call.answer(program)
        case .refused(let answer): return answer
        }
    }

    private static func addCommonMode(_ call: Call) -> Int32 {
        switch own(call, "loop:add_common_mode") {
        case .refused(let answer): return answer
        case .loop(let loop):
            guard let mode = call.mode(2) else {
                return call.wrongArgument("loop:add_common_mode", 2, "the name of a mode")
            }
            guard mode != .common else {
                return call.raise("loop:add_common_mode: \"common\" is not a mode: it stands for all common modes")
            }
            loop.addCommonMode(mode)
            return call.nothing()
        }
    }

    private static func sequence(_ call: Call) -> Int32 {
        switch own(call, "loop:sequence") {
        case .loop(let loop): return call.answer(loop.sequence == .documented ? "documented" : "core_foundation")
        case .refused(let answer): return answer
        }
    }

    private static func setSequence(_ call: Call) -> Int32 {
        switch own(call, "loop:set_sequence") {
        case .refused(let answer): return answer
        case .loop(let loop):
            switch call.string(2) {
            case "documented": loop.sequence = .documented
            case "core_foundation": loop.sequence = .coreFoundation
            default: return call.wrongArgument("loop:set_sequence", 2, "\"documented\" or \"core_foundation\"")
            }
            return call.nothing()
        }
    }

    private static func nextFireDate(_ call: Call) -> Int32 {
        switch own(call, "loop:next_fire_date") {
        case .refused(let answer): return answer
        case .loop(let loop):
            guard let mode = call.isMissing(2) ? .default : call.mode(2) else {
                return call.wrongArgument("loop:next_fire_date", 2, "the name of a mode")
            }
            guard let date = loop.nextFireDate(in: mode) else { return call.answerNil() }
            return call.answer(Call.seconds(date.nanoseconds))
        }
    }

    // MARK: What is in them

    private static let anObject = "a timer, source, port or observer"

    private static func add(_ call: Call) -> Int32 {
        let loop: RunLoop
        switch own(call, "loop:add") {
        case .loop(let own): loop = own
        case .refused(let answer): return answer
        }
        guard let modes = call.modes(3, otherwise: .default) else {
            return call.wrongArgument("loop:add", 3, "the name of a mode, or an array of them")
        }
        if let box = call.box(2, Kinds.timer) {
            let node = TimerBinding.node(box)
            guard node.pointee.isValid, !modes.isEmpty else { return call.nothing() }
            guard TimerBinding.anchor(call, box, 2) else { return call.raiseOutOfMemory() }
            for mode in modes { loop.add(node, to: mode) }
            return call.nothing()
        }
        if let object = call.schedulable(2) {
            for mode in modes {
                if let misuse = object.add(to: loop, mode: mode, call) { return call.raise(misuse) }
            }
            return call.nothing()
        }
        guard let item = ItemBinding.item(call, 2) else { return call.wrongArgument("loop:add", 2, anObject) }
        guard item.isHome else {
            return call.raise(
                "loop:add: this \(item.item is RunLoop.Source ? "source" : "port") belongs to another thread, and so do its "
                    + "callbacks; add it there")
        }
        guard item.item.isValid, !modes.isEmpty else { return call.nothing() }
        let items = call.luaHost.items
        for mode in modes {
            // Each time: a source that is told of one mode may leave it at once, and its anchor with it.
            guard items.anchor(item.item, call, 2) else { return call.raiseOutOfMemory() }
            loop.add(item.item, to: mode)
            if !loop.isHolding(item.item) { items.letGo(of: item.item) }
        }
        return call.nothing()
    }

    private static func remove(_ call: Call) -> Int32 {
        let loop: RunLoop
        switch own(call, "loop:remove") {
        case .loop(let own): loop = own
        case .refused(let answer): return answer
        }
        guard let modes = call.modes(3, otherwise: .default) else {
            return call.wrongArgument("loop:remove", 3, "the name of a mode, or an array of them")
        }
        if let box = call.box(2, Kinds.timer) {
            for mode in modes { loop.remove(TimerBinding.node(box), from: mode) }
        } else if let item = ItemBinding.item(call, 2) {
            for mode in modes { loop.remove(item.item, from: mode) }
        } else if let object = call.schedulable(2) {
            for mode in modes { object.remove(from: loop, mode: mode) }
        } else {
            return call.wrongArgument("loop:remove", 2, anObject)
        }
        return call.nothing()
    }

    private static func contains(_ call: Call) -> Int32 {
        let loop: RunLoop
        switch own(call, "loop:contains") {
        case .loop(let own): loop = own
        case .refused(let answer): return answer
        }
        guard let modes = call.modes(3, otherwise: .default) else {
            return call.wrongArgument("loop:contains", 3, "the name of a mode, or an array of them")
        }
        if let box = call.box(2, Kinds.timer) {
            let node = TimerBinding.node(box)
            return call.answer(modes.allSatisfy { loop.contains(node, in: $0) })
        }
        if let object = call.schedulable(2) {
            return call.answer(modes.allSatisfy { object.isIn(loop, mode: $0) })
        }
        guard let item = ItemBinding.item(call, 2) else { return call.wrongArgument("loop:contains", 2, anObject) }
        return call.answer(modes.allSatisfy { loop.contains(item.item, in: $0) })
    }

    // MARK: What every object has

    private static func refuseToInvalidate(_ call: Call) -> Int32 {
        call.raise("loop:invalidate: a loop lives as long as its thread; loop:stop() ends its run")
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let handle = handle(call) else { return call.wrongSelf("loop:is_valid", Kinds.loop) }
        return call.answer(handle.isAlive)
    }

    private static func name(_ call: Call) -> Int32 {
        guard let handle = handle(call) else { return call.wrongSelf("loop:name", Kinds.loop) }
        return call.answer(name(handle))
    }

    private static func name(_ handle: RunLoop.Handle) -> String { handle === RunLoop.main ? "main" : "thread" }

    static func describe(_ call: Call) -> Int32 {
        guard let handle = handle(call) else { return call.wrongSelf("loop:__tostring", Kinds.loop) }
        let loop = call.luaHost.loop
        var state = handle.isAlive ? handle.isWaiting ? "waiting" : "awake" : "gone"
        if handle === loop.handle { state = loop.currentMode.map { "running in \($0)" } ?? "not running" }
        return call.answer("loop \"\(name(handle))\" (\(state))")
    }
}
