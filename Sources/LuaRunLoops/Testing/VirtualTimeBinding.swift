internal import Lua
internal import RunLoops

/// What the Lua-written test runner needs of the state, its loop and its clock.
enum VirtualTimeBinding {
    static let functions: [Library.Entry] = [
        .init("run") { run(Call($0)) },
        .init("stop") { stop(Call($0)) },
        .init("park") { park(Call($0)) },
        .init("unpark") { unpark(Call($0)) },
        .init("take_errors") { takeErrors(Call($0)) },
        .init("waiting") { waiting(Call($0)) },
        .init("scheduled") { scheduled(Call($0)) },
        .init("threads") { threads(Call($0)) },
        .init("stop_threads") { stopThreads(Call($0)) },
        .init("cancel_waiting") { cancelWaiting(Call($0)) },
        .init("last_pass") { lastPass(Call($0)) },
        .init("reset") { reset(Call($0)) },
        .init("next_date") { nextDate(Call($0)) },
        .init("hold") { hold(Call($0)) },
        .init("allow_jump") { allowJump(Call($0)) },
        .init("real_time") { realTime(Call($0)) },
    ]

    private static func world(_ call: Call) -> TestWorld? { call.luaHost.part(TestPart.self).world }

    /// run(fn, seconds): runs fn as a task, and the loop until that has ended. Answers "ended"; or "error", when there are
    /// errors to take; "stopped"; "time", after so many real seconds; "stuck", when the clock is held and nothing else can
    /// happen; "finished", when nothing is left that could wake the task.
    private static func run(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let world = world(call), call.stack.type(1) == .function, let seconds = call.number(2) else {
            return call.raise("run: a function and seconds are expected, in a test's state")
        }
        guard let fiber = host.takeFiber(), call.stack.reserve(4) else { return call.raiseOutOfMemory() }
        call.stack.pushCopy(of: 1)
        call.stack.move(1, to: fiber.stack)
        let task = TestTask(host)
        fiber.attachment = task
        world.startWatch(host, seconds: seconds)
        host.resume(fiber, arguments: 0)
        var outcome: String?
        while outcome == nil {
            if world.isStopped {
                outcome = "stopped"
            } else if !world.errors.isEmpty {
                outcome = "error"
            } else if LuaHost.timeIsOver {
                outcome = "time"
            } else if task.hasEnded {
                outcome = "ended"
            } else if world.isStuck {
                outcome = "stuck"
            } else if host.loop.run() == .finished, !task.hasEnded, world.errors.isEmpty, !world.isStopped {
                outcome = "finished"
            }
        }
        world.stopWatch(host)
        return call.answer(outcome)
    }

    /// stop(): the run ends as "stopped".
    private static func stop(_ call: Call) -> Int32 {
        world(call)?.isStopped = true
        call.luaHost.loop.stopAll()
        return call.nothing()
    }

    /// park(): the running task waits until somebody calls unpark(). That alone does not keep the loop running.
    private static func park(_ call: Call) -> Int32 {
        let host = call.luaHost
        if let reason = host.reasonNotToWait(call.stack) { return call.raise("t.expect: \(reason)") }
        guard let world = world(call), let fiber = host.beginWait(in: "t.expect", cancel: { _ in world.parked = nil })
        else { return call.raiseOutOfMemory() }
        world.parked = fiber
        return call.yield()
    }

    private static func unpark(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let world = world(call), let fiber = world.parked else { return call.nothing() }
        world.parked = nil
        host.loop.perform { host.resume(fiber, arguments: 0) }
        return call.nothing()
    }

    private static func takeErrors(_ call: Call) -> Int32 {
        guard let world = world(call) else { return call.nothing() }
        if call.boolean(1) { call.luaHost.reportFailures() }
        let errors = world.errors
        world.errors = []
        let host = call.luaHost
        var program = ValueProgram()
        program.table { list in
            for (failure, value) in errors {
                list.element { error in
                    error.table { error in
                        error.field("message") { $0.append(failure.message) }
                        error.field("frames") { append(failure.frames ?? [], to: &$0) }
                        if !failure.places.isEmpty {
                            error.field("note") { $0.append(failure.places.joined(separator: ", ")) }
                        }
                        if value != 0 { error.field("value") { $0.append(slot: value) } }
                    }
                }
            }
        }
        // At once: then the values need no anchors any more.
        let isMade = call.stack.reserve(4) && call.stack.push(program)
        for error in errors { host.release(error.value) }
        return isMade ? call.values(1) : call.raiseOutOfMemory()
    }

    private static func append(_ texts: [String], to program: inout ValueProgram) {
        program.table { table in for text in texts { table.element { $0.append(text) } } }
    }

    private static func answer(_ call: Call, _ texts: [String]) -> Int32 {
        var program = ValueProgram()
        append(texts, to: &program)
        return call.answer(program)
    }

    /// waiting(): for each task that waits: `what` it is, nil for one of which nothing is known, its `place`, and `frames`.
    private static func waiting(_ call: Call) -> Int32 {
        let host = call.luaHost
        var program = ValueProgram()
        program.table { list in
            for fiber in host.fibersThatWait() {
                let subject = host.subject(of: fiber)
                let name = subject.map { $0.kind == Kinds.task.name ? $0.text : "the callback of \($0.text)" }
                list.element { task in
                    task.table { task in
                        task.field("what") { $0.append(fiber.attachment is TestTask ? "the test" : name) }
                        task.field("place") { $0.append("\(fiber.waitsIn)") }
                        task.field("frames") { append(host.frames(of: fiber), to: &$0) }
                    }
                }
            }
        }
        return call.answer(program)
    }

    /// scheduled(): descriptions of what is in the loop, other than tasks that wait.
    private static func scheduled(_ call: Call) -> Int32 {
        let host = call.luaHost
        for part in host.parts { part.settle() }
        var texts: [String] = []
        var seen: Set<UnsafeRawPointer> = []
        for mode in host.loop.modeNames {
            for item in host.loop.items(in: mode) where host.waits.has(item) {
                seen.insert(UnsafeRawPointer(Unmanaged.passUnretained(item).toOpaque()))
            }
            for entry in InspectBinding.entries(host, mode) where entry.kind != "task" && !seen.contains(entry.identity)
            {
                seen.insert(entry.identity)
                var parts: [String] = []
                if let interval = entry.interval {
                    parts.append("every \(Time.short(interval)) s")
                }
                if let detail = entry.detail { parts.append(detail) }
                if mode != .default { parts.append("in mode \"\(mode)\"") }
                if let site = entry.site { parts.append("made at \(site)") }
                let name = entry.name.isEmpty ? "" : " \"\(entry.name)\""
                let kind = entry.kind == "request" ? "perform request" : entry.kind
                texts.append(kind + name + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))"))
            }
        }
        for slot in host.loop.pendingRequests(of: host.requests) {
            host.push(host.stack, slot: UInt32(slot))
            let site = host.stack.box(-1).flatMap { host.site($0.site) }
            host.stack.pop()
            texts.append("perform request (never ran\(site.map { ", made at \($0)" } ?? ""))")
        }
        return answer(call, texts)
    }

    /// threads(): descriptions of the threads that are alive.
    private static func threads(_ call: Call) -> Int32 {
        answer(
            call, LuaThread.all.map { "thread \"\($0.name)\"" + ($0.site.map { " (made at \($0))" } ?? "") }.sorted())
    }

    /// stop_threads(seconds): the names of those that did not stop within so many real seconds.
    private static func stopThreads(_ call: Call) -> Int32 {
        answer(call, LuaHost.stopThreads(within: call.number(1) ?? 1))
    }

    /// cancel_waiting(): ends every task that waits, and whatever they do about it.
    private static func cancelWaiting(_ call: Call) -> Int32 {
        let host = call.luaHost
        var rounds = 0
        while !host.fibersThatWait().isEmpty, rounds < 20 {
            host.cancelAllTasks()
            rounds += 1
        }
        host.tasks.forgetFailures()
        host.part(TestPart.self).forgetErrors()
        return call.nothing()
    }

    /// last_pass(): what was asked for at once still happens.
    private static func lastPass(_ call: Call) -> Int32 {
        call.luaHost.loop.run(in: .default, for: .zero)
        return call.nothing()
    }

    /// reset(): the loop, the clock, and what features keep, as new.
    private static func reset(_ call: Call) -> Int32 {
        if world(call) != nil { call.luaHost.reset() }
        return call.nothing()
    }

    // MARK: The clock

    /// next_date(): that of the next timer in the current mode, those aside that fire at this moment.
    private static func nextDate(_ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        let nodes = loop.timers(in: loop.currentMode ?? .default).filter { !$0.pointee.isFiring }
        guard let date = nodes.map(\.pointee.fireDate).min() else { return call.answerNil() }
        return call.answer(Time.seconds(date))
    }

    private static func hold(_ call: Call) -> Int32 {
        world(call)?.clock.isHeld = call.boolean(1)
        return call.nothing()
    }

    /// allow_jump(date): up to this date the clock jumps whatever is outstanding.
    private static func allowJump(_ call: Call) -> Int32 {
        guard let date = Date.read(call.stack, 1) else { return call.raise("allow_jump: a date is expected") }
        world(call)?.clock.allowJump(to: .init(nanoseconds: date))
        return call.nothing()
    }

    /// real_time(on): the clock goes as the real one does.
    private static func realTime(_ call: Call) -> Int32 {
        world(call)?.clock.followsRealTime = call.boolean(1)
        return call.nothing()
    }
}

/// The task that a test runs in.
final class TestTask: FiberAttachment {
    private unowned let host: LuaHost
    private(set) var hasEnded = false

    init(_ host: LuaHost) {
        self.host = host
        super.init()
    }

    override func ended(_ fiber: Fiber, results: Int32) {
        hasEnded = true
        if results < 0 { host.uncaught(fiber) }
        host.loop.stopAll()
    }
}
