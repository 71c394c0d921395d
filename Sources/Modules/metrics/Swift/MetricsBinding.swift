internal import CLuaCodecs
internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The native functions of `runloop.metrics`: the numbers of all loops of the process, and the functions of gauges,
/// which belong to their threads.
enum MetricsBinding {
    static let functions = Library(
        "metrics.",
        [
            .native("open", metrics_open),
            // begin(function): the function asks this state's gauges, and calls `asked` when they have answered.
            .init("begin") { Call.run($0) { call in begin(call) } },
            .init("asked") { Call.run($0) { call in asked(call) } },
            .init("ask", saidAs: "metrics.text") { Call.run($0) { call throws(Misuse) in try ask(call) } },
            .init("loops") { Call.answer($0) { call in loops(of: call.luaHost) } },
            .init("warn") { Call.run($0) { call throws(Misuse) in try warn(call) } },
        ])

    final class Part: HostPart {
        /// The slot of the function that asks this state's gauges; 0 if there is none.
        var asks: UInt32 = 0
        /// Called when the gauges have answered.
        var whenAsked: [() -> Void] = []
        /// At the first measurement: the time for which the loop had been awake, minus the processor time until then.
        var awakeBefore: Int64?

        override func reset() { metrics_reset() }

        func sample() -> Sample {
            let loop = host.loop
            let statistics = loop.statistics
            let awake = loop.now.nanoseconds - statistics.asleep
            if awakeBefore == nil { awakeBefore = awake - Int64(threadSeconds() * 1e9) }
            return Sample(
                passes: statistics.passes, busy: max(0, awake - (awakeBefore ?? awake)), longest: loop.takeLongest(),
                tasks: host.fibersThatWait().count, memory: host.bytesInUse)
        }

        private func threadSeconds() -> Double {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }

        /// Reads the gauges of this state for another thread.
        func ask(_ then: @escaping () -> Void) {
            guard asks != 0, let fiber = host.takeFiber(), host.stack.reserve(4) else { return then() }
            whenAsked.append(then)
            host.push(host.stack, slot: asks)
            host.stack.move(1, to: fiber.stack)
            host.resume(fiber, arguments: 0)
        }
    }

    struct Sample: Sendable {
        var passes = 0, busy: Int64 = 0, longest: Int64 = 0, tasks = 0, memory = 0
    }

    /// The last measurements of the loops, by their handles.
    private static let known = Lock<[ObjectIdentifier: Sample]>([:])

    /// The handle of the main thread's state, once it has required the module. In a test, use the loop of the main
    /// thread instead: the state of a test has a loop of its own.
    private static let mainHandle = Lock<RunLoop.Handle?>(nil)

    private static var handles: [(String, RunLoop.Handle)] {
        let main = mainHandle.withLock { $0 } ?? RunLoop.main
        return (main.map { [("main", $0)] } ?? []) + LuaHost.threadsByName
    }

    private static func note(_ host: LuaHost) {
        let sample = host.part(Part.self).sample()
        known.withLock { known in known[ObjectIdentifier(host.loop.handle)] = sample }
    }

    private static func begin(_ call: Call) -> Int32 {
        let part = call.luaHost.part(Part.self)
        part.asks = call.stack.anchor(1)
        // The busy time counts from here on.
        _ = part.sample()
        let own = call.luaHost.loop.handle
        if !LuaHost.threadsByName.contains(where: { $0.1 === own }) { mainHandle.withLock { $0 = own } }
        return call.nothing()
    }

    private static func asked(_ call: Call) -> Int32 {
        let part = call.luaHost.part(Part.self)
        let all = part.whenAsked
        part.whenAsked = []
        for then in all { then() }
        return call.nothing()
    }

    /// The loops that have not answered yet.
    private final class Question: Sendable {
        private let left: Lock<Int>
        private let then: @Sendable () -> Void

        init(_ count: Int, _ then: @escaping @Sendable () -> Void) {
            left = Lock(count)
            self.then = then
        }

        func answered() {
            let isLast = left.withLock { left in
                left -= 1
                return left == 0
            }
            if isLast { then() }
        }
    }

    /// ask(): requests the numbers of all other loops, and waits for them for at most 0.1 seconds.
    private static func ask(_ call: Call) throws(Misuse) -> Int32 {
        let host = call.luaHost
        let own = host.loop.handle
        let others = handles.map(\.1).filter { $0 !== own && $0.isAlive }
        guard !others.isEmpty else { return call.answer(true) }
        let name = WaitName.of("metrics.text") ?? "a call of runloop.metrics"
        if let refusal = call.refusalToWait(in: name) { return refusal }
        guard let (number, modes) = host.beginExternalWait(in: name, timeout: 100_000_000) else { throw .noMemory }
        let question = Question(others.count) { LuaHost.end(number, of: own, in: modes, with: .sent(true)) }
        for other in others {
            let isThere = other.perform(in: [.common]) { loop in
                guard let host = loop.userInfo as? LuaHost else { return question.answered() }
                note(host)
                host.part(Part.self).ask { question.answered() }
            }
            if !isThere { question.answered() }
        }
        return call.yield()
    }

    /// loops(): returns a table of { thread, passes, seconds awake, longest callback, waiting tasks, bytes } of the
    /// loops that are alive. The numbers of threads with the same name are added.
    private static func loops(of host: LuaHost) -> ValueProgram {
        note(host)
        var order: [String] = []
        var samples: [String: Sample] = [:]
        let handles = handles
        known.withLock { known in
            let alive = Set(handles.map { ObjectIdentifier($0.1) })
            known = known.filter { alive.contains($0.key) }
            for (name, handle) in handles {
                guard let sample = known[ObjectIdentifier(handle)] else { continue }
                if samples[name] == nil { order.append(name) }
                var sum = samples[name] ?? Sample()
                sum.passes += sample.passes
                sum.busy += sample.busy
                sum.longest = max(sum.longest, sample.longest)
                sum.tasks += sample.tasks
                sum.memory += sample.memory
                samples[name] = sum
            }
        }
        var program = ValueProgram()
        program.table { program in
            for name in order {
                let sample = samples[name] ?? Sample()
                program.element { program in
                    program.table { program in
                        program.element { $0.append(name) }
                        program.element { $0.append(sample.passes) }
                        program.element { $0.append(Double(sample.busy) / 1e9) }
                        program.element { $0.append(Double(sample.longest) / 1e9) }
                        program.element { $0.append(sample.tasks) }
                        program.element { $0.append(sample.memory) }
                    }
                }
            }
        }
        return program
    }

    /// warn(text)
    private static func warn(_ call: Call) throws(Misuse) -> Int32 {
        let host = call.luaHost
        host.onWarning(host, try call.argument(1, Text.self))
        return call.nothing()
    }
}
