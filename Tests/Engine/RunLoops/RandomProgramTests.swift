import Glibc
import TestSupport
import Testing

@testable import RunLoops

/// Random programs: callbacks that add, remove, move, invalidate, signal, stop, and run the loop again. The state of
/// the loop must always agree with the state of its items, and only allowed callbacks may run.
@Suite(.timed) struct RandomProgramTests {
    @Test("random programs keep the invariants of a loop", .soak(seconds: 60)) func invariantsHold() throws {
        for seed in Soak.seeds {
            let program = RandomProgram(seed: seed)
            try program.run()
            #expect(program.problems == [], "seed \(seed)")
            #expect(program.callbacks > 50, "seed \(seed)")
        }
    }
}

private final class RandomProgram {
    let world: World
    var random: Random
    var problems: [String] = []
    var callbacks = 0
    private var sources: [RunLoop.Source] = []
    private var timers: [RunLoop.Timer] = []
    private var observers: [RunLoop.Observer] = []
    private var ports: [RunLoop.FDPort] = []
    private var pipes: [Pipe] = []
    private var tokens: [RunLoop.RequestToken] = []
    private let modes: [RunLoop.Mode] = ["default", "a", "b", "common"]
    private var running: Set<ObjectIdentifier> = []

    init(seed: UInt64) {
        random = Random(seed: seed)
        world = World(seed % 2 == 0 ? .documented : .coreFoundation)
    }

    func run() throws {
        for _ in 0..<6 { pipes.append(Pipe()) }
        for _ in 0..<15 { try make() }
        for _ in 0..<60 {
            try make()
            world.loop.run(
                in: modes[random.next(3)], for: .milliseconds(random.next(8)), returnAfterSource: random.next(4) == 0)
            checkInvariants()
            if random.next(10) == 0 { world.loop.addCommonMode(modes[random.next(3)]) }
        }
        world.loop.close()
        for timer in timers where timer.node.pointee.isScheduled { complain("a timer is in a loop that has ended") }
    }

    private func complain(_ text: String) { if problems.count < 5 { problems.append(text) } }

    private func called(_ name: String, isAllowed: Bool, _ identity: ObjectIdentifier, reenters: Bool) {
        callbacks += 1
        if !isAllowed { complain("\(name) was called, and must not be") }
        if !reenters, !running.insert(identity).inserted { complain("\(name) was called inside itself") }
        act()
        if !reenters { running.remove(identity) }
        checkInvariants()
    }

    private func inRunningMode(_ modes: [RunLoop.Mode]) -> Bool { world.loop.currentMode.map(modes.contains) ?? false }

    private func make() throws {
        let mode = modes[random.next(4)]
        switch random.next(5) {
        case 0:
            let source = RunLoop.Source(
                order: random.next(3),
                perform: { [unowned self] source in
                    called(
                        "a source", isAllowed: source.isValid && inRunningMode(source.modeNames),
                        ObjectIdentifier(source),
                        reenters: true)
                })
            sources.append(source)
            world.loop.add(source, to: mode)
        case 1:
            let now = world.loop.now
            let repeats = random.next(2) == 0
            let timer = RunLoop.Timer(
                fireDate: now + .microseconds(random.next(9_000) - 1_000),
                interval: repeats ? .microseconds(500 + random.next(3_000)) : nil,
                tolerance: .microseconds(random.next(3) * random.next(900)), order: random.next(3)
            ) { [unowned self] timer, missed in
                if timer.fireDate > world.loop.now { complain("a timer was early") }
                if missed < 0 { complain("a timer missed less than nothing") }
                called(
                    "a timer", isAllowed: timer.isValid && inRunningMode(timer.node.modeNames), ObjectIdentifier(timer),
                    reenters: false)
            }
            timers.append(timer)
            world.loop.add(timer, to: mode)
        case 2:
            let observer = RunLoop.Observer(
                RunLoop.Activity(rawValue: UInt(random.next(256))), repeats: random.next(3) > 0, order: random.next(3)
            ) { [unowned self] observer, activity in
                if !observer.activities.contains(activity) { complain("an observer heard what it did not ask for") }
                called(
                    "an observer", isAllowed: observer.isValid && inRunningMode(observer.modeNames),
                    ObjectIdentifier(observer), reenters: false)
            }
            observers.append(observer)
            world.loop.add(observer, to: mode)
        case 3:
            let pipe = pipes[random.next(pipes.count)]
            let port = try RunLoop.FDPort(pipe.reader, once: random.next(5) == 0) { [unowned self] port, _ in
                if random.next(3) > 0 { pipe.read(1) }
                called(
                    "a port", isAllowed: port.isValid && inRunningMode(port.modeNames), ObjectIdentifier(port),
                    reenters: true)
            }
            ports.append(port)
            world.loop.add(port, to: mode)
        default: perform(mode)
        }
    }

    private func perform(_ mode: RunLoop.Mode) {
        let token = world.loop.perform(in: [mode], order: random.next(3)) { [unowned self] in
            callbacks += 1
            act()
        }
        if let token { tokens.append(token) }
    }

    /// An action of a callback.
    private func act() {
        let loop = world.loop
        let mode = modes[random.next(4)]
        func item() -> RunLoop.Item? {
            let all: [RunLoop.Item] = sources + observers + ports
            return all.isEmpty ? nil : all[random.next(all.count)]
        }
        switch random.next(16) {
        case 0: if loop.depth < 4 { loop.run(in: modes[random.next(3)], for: .microseconds(random.next(2_000))) }
        case 1: loop.stop()
        case 2: loop.wakeUp()
        case 3, 4: sources.randomElement(using: &random)?.signal()
        case 5, 6: pipes.randomElement(using: &random)?.fire()
        case 7: if let item = item() { loop.remove(item, from: mode) }
        case 8: if let item = item() { loop.add(item, to: mode) }
        case 9: item()?.invalidate()
        case 10: if let timer = timers.randomElement(using: &random) { loop.remove(timer, from: mode) }
        case 11: if let timer = timers.randomElement(using: &random) { loop.add(timer, to: mode) }
        case 12:
            timers.randomElement(using: &random)?.fireDate = loop.now + .microseconds(random.next(4_000) - 1_000)
        case 13:
            if random.next(2) == 0 {
                timers.randomElement(using: &random)?.invalidate()
            } else {
                if let timer = timers.randomElement(using: &random), !running.contains(ObjectIdentifier(timer)),
                    inRunningMode(timer.node.modeNames), timer.fireDate <= loop.now
                {
                    timer.fire()
                }
            }
        case 14: if random.next(2) == 0, let token = tokens.popLast() { loop.cancel(token) } else { perform(mode) }
        default: world.poller.advance(by: .microseconds(random.next(1_500)))
        }
    }

    private func checkInvariants() {
        let loop = world.loop
        for mode in loop.modes {
            for item in mode.items where !item.isValid || !mode.contains(item) {
                complain("\(mode.name) holds an item that is invalid or does not know of it")
            }
            for queue in mode.timers.elements.map({ $0.takeUnretainedValue() }) where !queue.serves(mode) {
                complain("\(mode.name) has a queue that is not its own")
            }
        }
        for item in sources + observers + ports as [RunLoop.Item] {
            for mode in item.modes where !mode.items.contains(where: { $0 === item }) {
                complain("an item says that it is in \(mode.name), which does not know of it")
            }
            if !item.isValid, !item.modes.isEmpty || loop.contains(item, in: .common) {
                complain("an invalid item is in a mode")
            }
        }
        for queue in loop.timerQueues {
            for i in 0..<queue.heap.count {
                let node = queue.heap[i]
                if Int(node.pointee.heapIndex) != i { complain("a timer is not where it thinks it is") }
                if node.pointee.queue?.takeUnretainedValue() !== queue { complain("a timer is in another's heap") }
                if node.pointee.isFiring { complain("a timer that fires is in a heap") }
            }
        }
        for timer in timers {
            let node = timer.node
            if !node.pointee.isValid, node.pointee.isScheduled || node.pointee.heapIndex >= 0 {
                complain("an invalid timer is in a loop")
            }
            let isFound = node.pointee.heapIndex >= 0 || node.pointee.batchPlaces > 0 || node.pointee.isFiring
            if node.pointee.isScheduled != isFound, !node.pointee.isFiring {
                complain("a timer is in a mode and yet nowhere, or the other way round")
            }
        }
        let counted = loop.timerQueues.reduce(0) { $0 + $1.count }
        let scheduled = timers.filter { $0.node.pointee.isScheduled }.count
        if counted != scheduled { complain("\(counted) timers are counted, \(scheduled) are in modes") }
        let queued = loop.requestQueues.elements.reduce(0) { $0 + $1.takeUnretainedValue().count }
        if queued != loop.pendingRequests { complain("\(queued) requests are queued, \(loop.pendingRequests) counted") }
    }
}
