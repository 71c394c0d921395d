internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// For the Lua part of the runner: the state, its loop and its clock.
enum VirtualTimeBinding {
    static let functions: [Library.Entry] = [
        .init("run") { run(Call($0)) },
        .init("fail") { Call.act($0, fail) },
        .init("due") { Call.answer($0, due) },
        .init("stop") { Call.act($0, stop) },
        .init("park") { park(Call($0)) },
        .init("passed") {
            let call = Call($0)
            return call.luaHost.lines(ofPassed: call.stack, 1).map { call.answer(ValueProgram(list: $0)) }
                ?? call.answerNil()
        },
        .init("unpark") { TestWorld.act($0, unpark) },
        .init("take_errors") { takeErrors(Call($0)) },
        .init("waiting") { waiting(Call($0)) },
        .init("scheduled") { Call.answer($0, scheduled) },
        .init("threads") { Call.answer($0, threads) },
        .init("stop_threads") { stopThreads(Call($0)) },
        // await_threads(seconds): waits until no thread is alive, at most that many real seconds.
        .init("await_threads") { TestWorld.act($0) { awaitThreads($1.luaHost, $0, $1.number(1) ?? 0) } },
        .init("cancel_waiting") { Call.act($0, cancelWaiting) },
        // cancel_background(): cancels the tasks with `keeps_alive = false`, newest first, as a program's end does.
        .init("cancel_background") {
            Call.act($0) {
                let kept = kept($0.luaHost)
                $0.luaHost.cancelBackgroundTasks(except: kept.contains)
            }
        },
        // last_pass(): runs the loop once, so that requests that were made already still happen.
        .init("last_pass") { Call.act($0) { $0.luaHost.loop.run(in: .default, for: .zero) } },
        .init("reset") { TestWorld.act($0, reset) },
        .init("next_date") { Call.answer($0, nextDate) },
        .init("settle") { settle(Call($0)) },
        .init("clock_state") { clockState(Call($0)) },
        // set_wall_clock(seconds since 1970): sets the present time of the wall clock.
        .init("set_wall_clock") { TestWorld.act($0) { $0.clock.setWallClock($1.number(1) ?? 0) } },
        .init("hold") { TestWorld.act($0) { $0.clock.isHeld = $1.boolean(1) } },
        .init("allow_jump") { allowJump(Call($0)) },
        // real_time(on): makes the clock follow the real one.
        .init("real_time") { TestWorld.act($0) { $0.clock.followsRealTime = $1.boolean(1) } },
    ]

    /// The objects that groups of tests own.
    private static func kept(_ host: LuaHost) -> TestWorld.Kept {
        host.part(TestPart.self).world?.kept ?? TestWorld.Kept()
    }

    /// run(fn, seconds): runs fn as a task, and the loop until the task has ended. Returns "ended"; or "error" if there
    /// are errors to take; "stopped"; "time" if the seconds are over; "stuck" if the clock is held and nothing else can
    /// happen; "finished" if nothing is left that could wake the task.
    private static func run(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let world = call.testWorld, call.stack.type(1) == .function, let seconds = call.number(2) else {
            return call.raise("run: a function and seconds are expected, in a test's state")
        }
        guard let fiber = host.takeFiber(), call.stack.reserve(4) else { return call.raiseOutOfMemory() }
        call.stack.pushCopy(of: 1)
        call.stack.move(1, to: fiber.stack)
        let task = TestTask(host)
        fiber.owner = task
        host.mains.append(fiber)
        world.startWatch(host, seconds: seconds)
        host.resume(fiber, arguments: 0)
        var outcome: String?
        while outcome == nil {
            if world.isStopped {
                outcome = "stopped"
            } else if world.isStuck {
                outcome = "stuck"
            } else if world.hasFailed || !world.errors.isEmpty {
                outcome = "error"
            } else if LuaHost.timeIsOver {
                outcome = "time"
            } else if task.hasEnded {
                outcome = "ended"
            } else if host.loop.run() == .finished, !task.hasEnded, !world.hasFailed, world.errors.isEmpty,
                !world.isStopped
            {
                outcome = "finished"
            }
        }
        world.stopWatch(host)
        return call.answer(outcome)
    }

    /// stop(): ends the run as "stopped".
    private static func stop(_ call: Call) {
        call.testWorld?.isStopped = true
        call.luaHost.loop.stopAll()
    }

    /// fail(): ends the run as "error".
    private static func fail(_ call: Call) {
        call.testWorld?.hasFailed = true
        call.luaHost.loop.stopAll()
    }

    /// due(): returns descriptions of the timers and requests that are due at this moment.
    private static func due(_ call: Call) -> ValueProgram {
        let host = call.luaHost
        let now = host.loop.now.nanoseconds
        var texts: [String] = []
        for node in host.loop.timers(in: .default) where node.pointee.fireDate <= now {
            let entry = InspectBinding.entries(host, .default).first { $0.identity == UnsafeRawPointer(node) }
            texts.append((entry?.kind ?? "timer") + (entry?.site.map { " made at \($0)" } ?? ""))
        }
        if host.loop.pendingRequests > 0 { texts.append("perform request") }
        return ValueProgram(list: texts)
    }

    /// park(): makes the running task wait for unpark(). The wait does not keep the loop running.
    private static func park(_ call: Call) -> Int32 {
        let host = call.luaHost
        if let reason = host.reason(notToWaitIn: call.stack) { return call.raise("t.expect: \(reason)") }
        guard let world = call.testWorld,
            let fiber = host.beginWait(in: "t.expect", cancel: { _ in world.parked = nil })
        else { return call.raiseOutOfMemory() }
        world.parked = fiber
        return call.yield()
    }

    private static func unpark(_ world: TestWorld, _ call: Call) {
        let host = call.luaHost
        guard let fiber = world.parked else { return }
        world.parked = nil
        host.loop.perform { host.resume(fiber, arguments: 0) }
    }

    private static func takeErrors(_ call: Call) -> Int32 {
        guard let world = call.testWorld else { return call.nothing() }
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
                        error.field("frames") { $0.append(list: failure.lines) }
                        if !failure.places.isEmpty {
                            error.field("note") { $0.append(failure.places.joined(separator: ", ")) }
                        }
                        if value != 0 { error.field("value") { $0.append(slot: value) } }
                    }
                }
            }
        }
        // The values are pushed at once, so that they need no anchors any more.
        let isMade = call.stack.reserve(4) && call.stack.push(program)
        for error in errors { host.release(error.value) }
        return isMade ? call.values(1) : call.raiseOutOfMemory()
    }

    /// waiting(): returns for each task that waits: `what` it is, or nil if that is unknown, its `place`, and its
    /// `frames`.
    private static func waiting(_ call: Call) -> Int32 {
        let host = call.luaHost
        let kept = Self.kept(host)
        var program = ValueProgram()
        program.table { list in
            for fiber in host.fibersThatWait() where !kept.contains(fiber) && !fiber.isBackground {
                let subject = host.subject(of: fiber)
                let name = subject.map { $0.kind == Kinds.task.name ? $0.text : "the callback of \($0.text)" }
                list.element { task in
                    task.table { task in
                        task.field("what") { $0.append(fiber.owner is TestTask ? "the test" : name) }
                        task.field("place") { $0.append("\(fiber.waitsIn)") }
                        task.field("frames") { $0.append(list: host.frames(of: fiber)) }
                    }
                }
            }
        }
        return call.answer(program)
    }

    /// scheduled(): returns descriptions of everything in the loop, except waiting tasks.
    private static func scheduled(_ call: Call) -> ValueProgram {
        let host = call.luaHost
        for part in host.parts { part.settle() }
        var texts: [String] = []
        var seen: Set<UnsafeRawPointer> = []
        let kept = Self.kept(host)
        for mode in host.loop.modeNames {
            for item in host.loop.items(in: mode) where host.waits.has(item) {
                seen.insert(UnsafeRawPointer(Unmanaged.passUnretained(item).toOpaque()))
            }
            for entry in InspectBinding.entries(host, mode)
            where entry.kind != "task" && !entry.isHosts
                && !seen.contains(entry.identity)
            {
                seen.insert(entry.identity)
                if kept.contains(identity: entry.identity) { continue }
                var parts: [String] = []
                if let interval = entry.interval {
                    parts.append("every \(Time.short(interval)) s")
                }
                if let detail = entry.detail { parts.append(detail) }
                if mode != .default { parts.append("in mode \"\(mode)\"") }
                let kind = entry.kind == "request" ? "perform request" : entry.kind
                texts.append(String(kind, name: entry.name, parts, site: entry.site))
            }
        }
        for (_, slot) in host.loop.pendingRequests(of: host.requests) {
            host.push(host.stack, slot: UInt32(slot))
            let site = host.stack.box(-1).flatMap { host.site($0.site) }
            host.stack.pop()
            texts.append(String("perform request", ["never ran"], site: site))
        }
        return ValueProgram(list: texts)
    }

    /// Returns the threads that are alive and that groups do not own.
    private static func threads(of host: LuaHost) -> [LuaThread] {
        let kept = Self.kept(host)
        guard !kept.isEmpty else { return LuaThread.all }
        return LuaThread.all.filter { !kept.contains($0) }
    }

    /// threads(): returns descriptions of the threads that are alive.
    private static func threads(_ call: Call) -> ValueProgram {
        ValueProgram(list: threads(of: call.luaHost).map { String("thread \"\($0.name)\"", site: $0.site) }.sorted())
    }

    /// stop_threads(seconds): cancels the threads, and returns the names of those that have not stopped after that many
    /// real seconds.
    private static func stopThreads(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let world = call.testWorld else { return call.nothing() }
        for thread in threads(of: host) { thread.cancel() }
        awaitThreads(host, world, call.number(1) ?? 1)
        return call.answer(ValueProgram(list: threads(of: host).map(\.name)))
    }

    private static func awaitThreads(_ host: LuaHost, _ world: TestWorld, _ seconds: Double) {
        world.poller.whileAway {
            let deadline = RunLoop.Instant.now + .seconds(seconds)
            while !threads(of: host).isEmpty, RunLoop.Instant.now < deadline { Linux.Thread.pause(milliseconds: 1) }
        }
    }

    /// cancel_waiting(): cancels every waiting task, and the tasks that wait again because of that.
    private static func cancelWaiting(_ call: Call) {
        let host = call.luaHost
        var rounds = 0
        let kept = Self.kept(host)
        while rounds < 20 {
            let waiting = host.fibersThatWait().filter { !kept.contains($0) }
            if waiting.isEmpty { break }
            for fiber in waiting where fiber.state == .waiting { host.cancel(fiber) }
            rounds += 1
        }
        host.tasks.forgetFailures()
        host.part(TestPart.self).forgetErrors()
    }

    /// reset(seed, date): resets the loop, the clock, the random numbers, and the state of features. `date` is in
    /// seconds since 1970; without it, the usual date is set; with false, the real one. The objects of groups stay; if
    /// there are any, the clock goes on.
    private static func reset(_ world: TestWorld, _ call: Call) {
        let host = call.luaHost
        if world.keeps.isEmpty {
            host.reset()
        } else {
            let kept = world.kept
            for mode in host.loop.modeNames {
                for node in host.loop.timers(in: mode) where !kept.contains(node) { node.invalidate() }
                for item in host.loop.items(in: mode) where !kept.contains(item) && !item.outlastsTests {
                    item.invalidate()
                }
            }
            host.tasks.forgetFailures()
            host.part(TestPart.self).forgetErrors()
        }
        let date = call.stack.type(2) == .boolean ? nil : call.number(2) ?? TestWorld.epoch
        world.reset(seed: UInt64(bitPattern: Int64(call.integer(1) ?? 0)), wallClock: date)
    }

    // MARK: The clock

    /// next_date(): returns the date of the next timer in the current mode, without timers that fire at this moment.
    private static func nextDate(_ call: Call) -> Double? {
        let loop = call.luaHost.loop
        let nodes = loop.timers(in: loop.currentMode ?? .default).filter { !$0.pointee.isFiring }
        return nodes.map(\.pointee.fireDate).min().map(Time.seconds)
    }

    /// settle(): waits until nothing but the passing of time can happen in any loop.
    private static func settle(_ call: Call) -> Int32 {
        guard let world = call.testWorld else {
            return call.raise("rl.clock:settle: only the test's own thread can wait for that")
        }
        if let refusal = call.refusalToWait(in: "rl.clock:settle") { return refusal }
        guard let wait = call.luaHost.beginExternalWait(in: "rl.clock:settle") else { return call.raiseOutOfMemory() }
        world.settlers.append(wait)
        world.poller.settle()
        return call.yield()
    }

    /// clock_state(): returns the reasons why real time has passed, as words; how often the clock was read while it
    /// stood still; and the programs and blocked threads for which time stands still at this moment.
    private static func clockState(_ call: Call) -> Int32 {
        guard let clock = call.testWorld?.clock else { return call.nothing() }
        let reasons = clock.reasons
        var words: [String] = []
        if reasons.contains(.programs) { words.append("a program") }
        if reasons.contains(.answers) { words.append("a file or name") }
        if reasons.contains(.descriptors) { words.append("a descriptor") }
        if reasons.contains(.threads) { words.append("a thread that works") }
        if reasons.contains(.listeners) { words.append("a socket or message port that anyone may connect to") }
        var program = ValueProgram()
        program.append(words.joined(separator: ", "))
        program.append(clock.reads)
        var works = reasons.contains(.programs) || reasons.contains(.threads) ? Program.workOfPrograms : []
        if reasons.contains(.threads) { works += clock.callsOfThreads.map { "a thread is in \($0)" } }
        program.append(list: works)
        return call.answer(program)
    }

    /// allow_jump(date): lets the clock jump up to this date, whatever is outstanding.
    private static func allowJump(_ call: Call) -> Int32 {
        guard let date = Date.read(call.stack, 1) else { return call.raise("allow_jump: a date is expected") }
        call.testWorld?.clock.allowJump(to: .init(nanoseconds: date))
        return call.nothing()
    }
}

/// The task in which a test runs.
final class TestTask: FiberOwner {
    private unowned let host: LuaHost
    private(set) var hasEnded = false

    init(_ host: LuaHost) {
        self.host = host
        super.init()
    }

    override func ended(_ fiber: Fiber, results: Int32) {
        hasEnded = true
        host.mains.removeAll { $0 == fiber }
        if results < 0 { host.uncaught(fiber) }
        host.loop.stopAll()
    }
}
