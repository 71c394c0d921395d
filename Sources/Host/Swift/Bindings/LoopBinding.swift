package import Lua
internal import RunLoops

/// `rl.current` and the methods of loops.
enum LoopBinding {
    static let methods: Library = Library(
        of: Kinds.loop,
        [
            .init("run") { own($0).run { (loop, call) throws(Misuse) in try run(loop, call, argument: 2) } },
            .init("run_mode") { own($0).run { (loop, call) throws(Misuse) in try runMode(loop, call) } },
            .init("run_until") { own($0).run { (loop, call) throws(Misuse) in try runUntil(loop, call) } },
            .init("stop") { any($0).run { handle, call in stop(handle, call) } },
            .init("wake_up") { any($0).run { handle, call in wakeUp(handle, call) } },
            .init("is_waiting") { any($0).answer { $0.isWaiting } },
            .init("mode") { own($0).answer { $0.currentMode?.rawValue } },
            .init("modes") { own($0).answer { ValueProgram(list: $0.modeNames.map(\.rawValue)) } },
            .init("add_common_mode") { own($0).take(RealMode.self) { $0.addCommonMode($1) } },
            .init("sequence") {
                own($0).answer { $0.sequence == .documented ? "documented" : "core_foundation" }
            },
            .init("set_sequence") { own($0).take(Sequence.self) { $0.sequence = $1 } },
            .init("next_fire_date") { own($0).run { (loop, call) throws(Misuse) in try nextFireDate(loop, call) } },
            .init("add") { own($0).run { (loop, call) throws(Misuse) in try add(loop, call) } },
            .init("remove") { own($0).run { (loop, call) throws(Misuse) in try remove(loop, call) } },
            .init("contains") { own($0).run { (loop, call) throws(Misuse) in try contains(loop, call) } },
            .init("perform", constructs: Kinds.request, orAfar: Kinds.threadRequest, spread: 3) {
                Call.run($0, RequestBinding.performThere)
            },
            .init("inspect") { inside($0).answer { InspectBinding.inspect($0) } },
            .init("stats") { inside($0).answer { InspectBinding.stats($0) } },
            .init("invalidate") {
                any($0).act { (_) throws(Misuse) in
                    throw Misuse("a loop lives as long as its thread; loop:stop() ends its run")
                }
            },
            .init("is_valid") { any($0).answer { $0.isAlive } },
            .init("name") { any($0).answer { name($0) } },
            .init("__tostring") { any($0).run { handle, call in call.answer(text(handle, call)) } },
        ])

    static let deepest = 40

    // MARK: Receivers

    /// The receiver of a method that works on any thread's loop.
    @inline(__always)
    private static func any(_ thread: OpaquePointer?) -> Receiver<RunLoop.Handle> {
        receiver(thread, RunLoop.Handle.self)
    }

    /// The receiver of a method that works on this thread's loop only.
    private static func own(_ thread: OpaquePointer?) -> Receiver<RunLoop> {
        let call = Call(thread)
        let loop = call.luaHost.loop
        guard call.receiver.object(as: RunLoop.Handle.self) === loop.handle else {
            return Receiver(
                call,
                refusal: "this loop belongs to another thread; here only perform, stop, wake_up and is_waiting work"
            )
        }
        return Receiver(call, loop)
    }

    /// The receiver of a method that inspects this thread's loop: the loop's host.
    private static func inside(_ thread: OpaquePointer?) -> Receiver<LuaHost> {
        let call = Call(thread)
        let host = call.luaHost
        guard call.receiver.object(as: RunLoop.Handle.self) === host.loop.handle else {
            return Receiver(call, refusal: "only a loop's own thread can look inside it")
        }
        return Receiver(call, host)
    }

    // MARK: Running

    private static func text(_ result: RunLoop.RunResult) -> String {
        switch result {
        case .finished: "finished"
        case .stopped: "stopped"
        case .timedOut: "timed_out"
        case .handledSource: "handled_source"
        }
    }

    private enum RunOption: Int, Field {
        case mode, timeout, returnAfterSource
        static let names: [StaticString] = ["mode", "timeout", "return_after_source"]
    }

    /// rl.run(), rl.run{…}
    static func runOwn(_ call: Call) throws(Misuse) -> Int32 { try run(call.luaHost.loop, call, argument: 1) }

    /// loop:run(), loop:run{…}
    private static func run(_ loop: RunLoop, _ call: Call, argument: Int32) throws(Misuse) -> Int32 {
        if let mode = call.string(argument), call.stack.type(argument) == .string {
            throw Misuse("an options table is expected, got \"\(mode)\" (did you mean { mode = \"\(mode)\" }?)")
        }
        let options = try call.optionalFields(argument, RunOption.self)
        let mode = try options?[.mode, ModeName.self] ?? .default
        let limit = try options?[.timeout, Limit.self]
        let returnsAfterSource = try options?[.returnAfterSource, Boolean.self] ?? false
        if let refusal = try refusal(call, loop, mode) { return refusal }
        let result = loop.run(in: mode, for: limit, returnAfterSource: returnsAfterSource)
        call.luaHost.existingPart(LuaThreads.self)?.wasStopped = result == .stopped
        return call.answer(text(result))
    }

    /// A duration. A negative duration means that the time is over.
    private enum Limit: Parameter {
        static let expected = "a number of seconds"
        static func read(_ stack: Stack, _ index: Int32) -> Duration? {
            Date.read(stack, index).map { .nanoseconds($0) }
        }
    }

    /// Returns the error if the process is ending; nil if the loop may run.
    private static func refusal(_ call: Call, _ loop: RunLoop, _ mode: RunLoop.Mode) throws(Misuse) -> Int32? {
        if mode == .common {
            throw Misuse("\"common\" is not a mode one can run in: it stands for all common modes")
        }
        if loop.depth >= deepest { throw Misuse("too many nested runs (\(deepest))") }
        let host = call.luaHost
        guard host.endingStatus != nil else { return nil }
        if host.isLeavingForGood { throw Misuse(LuaHost.tooLate) }
        // Without the interruption, a script that catches the error and tries again would keep the process alive.
        host.interruptToEnd()
        return call.raiseInterruption()
    }

    private static func runMode(_ loop: RunLoop, _ call: Call) throws(Misuse) -> Int32 {
        let mode = try call.argument(2, ModeName.self)
        let date = try call.argument(3, Date.self)
        if let refusal = try refusal(call, loop, mode) { return refusal }
        return call.answer(loop.run(mode: mode, before: .init(nanoseconds: date)))
    }

    private static func runUntil(_ loop: RunLoop, _ call: Call) throws(Misuse) -> Int32 {
        let date = try call.argument(2, Date.self)
        if let refusal = try refusal(call, loop, .default) { return refusal }
        loop.run(until: .init(nanoseconds: date))
        return call.nothing()
    }

    private static func stop(_ handle: RunLoop.Handle, _ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        if handle === loop.handle {
            loop.stop(by: RunloopLibrary.called("loop:stop()", call))
        } else {
            handle.stop(by: RunloopLibrary.called("loop:stop()", call))
        }
        return call.nothing()
    }

    private static func wakeUp(_ handle: RunLoop.Handle, _ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        if handle === loop.handle { loop.wakeUp() } else { handle.wakeUp() }
        return call.nothing()
    }

    // MARK: Modes

    private enum RealMode: Parameter {
        static let expected = ModeName.expected
        static func read(_ stack: Stack, _ index: Int32) throws(Misuse) -> RunLoop.Mode? {
            let mode = ModeName.read(stack, index)
            if mode == .common { throw Misuse("\"common\" is not a mode: it stands for all common modes") }
            return mode
        }
    }

    private enum Sequence: Parameter {
        static let expected = "\"documented\" or \"core_foundation\""
        static func read(_ stack: Stack, _ index: Int32) -> RunLoop.Sequence? {
            switch stack.string(index) {
            case "documented": .documented
            case "core_foundation": .coreFoundation
            default: nil
            }
        }
    }

    private static func nextFireDate(_ loop: RunLoop, _ call: Call) throws(Misuse) -> Int32 {
        let mode = try call.optional(2, ModeName.self) ?? .default
        guard let date = loop.nextFireDate(in: mode) else { return call.answerNil() }
        return call.answer(Time.seconds(date.nanoseconds))
    }

    // MARK: Contents

    /// An object that `add`, `remove` and `contains` accept.
    private enum Thing {
        case timer(Box)
        case item(LuaItem)
        case other(any Schedulable)
    }

    /// Reads the modes before the object, since scripts rely on the order of these errors.
    private static func thing(_ call: Call) throws(Misuse) -> (Thing, [RunLoop.Mode]) {
        let modes = try call.optional(3, ModeNames.self) ?? [.default]
        call.stack.replaceByItem(2)
        if let box = call.stack.box(2) {
            if box.is(Kinds.timer) { return (.timer(box), modes) }
            if let item = ItemBinding.item(box, call.stack) { return (.item(item), modes) }
            if let object = box.schedulable { return (.other(object), modes) }
        }
        throw call.wrong(2, "a timer, source, port or observer")
    }

    private static func add(_ loop: RunLoop, _ call: Call) throws(Misuse) -> Int32 {
        let (thing, modes) = try thing(call)
        switch thing {
        case .timer(let box):
            let node = TimerBinding.node(box)
            guard node.pointee.isValid, !modes.isEmpty else { return call.nothing() }
            guard TimerBinding.anchor(call, box, 2) else { throw .noMemory }
            for mode in modes { loop.add(node, to: mode) }
            let host = call.luaHost
            if host.isWallTimer(node) { host.wallTimers.listen(host, in: modes) }
        case .item(let item):
            guard item.isHome else {
                throw Misuse(
                    "this \(item.item is RunLoop.Source ? "source" : "port") belongs to another thread, and so do its "
                        + "callbacks; add it there")
            }
            guard item.item.isValid, !modes.isEmpty else { return call.nothing() }
            try ItemBinding.add(item.item, to: modes, call, 2)
        case .other(let object):
            for mode in modes { try object.add(to: loop, mode: mode, call) }
        }
        return call.nothing()
    }

    private static func remove(_ loop: RunLoop, _ call: Call) throws(Misuse) -> Int32 {
        let (thing, modes) = try thing(call)
        for mode in modes {
            switch thing {
            case .timer(let box): loop.remove(TimerBinding.node(box), from: mode)
            case .item(let item): loop.remove(item.item, from: mode)
            case .other(let object): object.remove(from: loop, mode: mode)
            }
        }
        return call.nothing()
    }

    private static func contains(_ loop: RunLoop, _ call: Call) throws(Misuse) -> Int32 {
        let (thing, modes) = try thing(call)
        let isInAll = modes.allSatisfy { mode in
            switch thing {
            case .timer(let box): loop.contains(TimerBinding.node(box), in: mode)
            case .item(let item): loop.contains(item.item, in: mode)
            case .other(let object): object.isIn(loop, mode: mode)
            }
        }
        return call.answer(isInAll)
    }

    // MARK: Descriptions

    private static func name(_ handle: RunLoop.Handle) -> String { handle === RunLoop.main ? "main" : "thread" }

    private static func text(_ handle: RunLoop.Handle, _ call: Call) -> String {
        let loop = call.luaHost.loop
        var state = handle.isAlive ? handle.isWaiting ? "waiting" : "awake" : "gone"
        if handle === loop.handle { state = loop.currentMode.map { "running in \($0)" } ?? "not running" }
        return "loop \"\(name(handle))\" (\(state))"
    }
}

extension Library.Entry {
    /// For modules written in Lua: uncommon_mode(): the mode that the loop of this thread runs in; nil if the loop does
    /// not run, or runs in a common mode.
    package static let uncommonMode = Library.Entry("uncommon_mode") { thread in
        let call = Call(thread)
        let loop = call.luaHost.loop
        return loop.runsInCommonMode ? call.answerNil() : call.answer(loop.currentMode?.rawValue)
    }
}
