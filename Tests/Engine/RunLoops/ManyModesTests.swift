import Glibc
import Linux
import TestSupport
import Testing

@testable import RunLoops

/// Programs may use any number of mode names and of orders for requests.
@Suite(.timed) struct ManyModesTests {
    @Test("a mode that loses its last port finally frees its descriptors")
    func aModeThatLosesItsLastPortGivesItsDescriptorsBackInTheEnd() throws {
        let world = World()
        let pipe = Pipe()
        let port = try RunLoop.FDPort(pipe.reader) { _, _ in world.log("P") }
        for number in 0..<200 {
            let mode = RunLoop.Mode(rawValue: "conversation \(number)")
            world.loop.add(port, to: mode)
            pipe.fire()
            #expect(world.loop.run(in: mode, for: .zero, returnAfterSource: true) == .handledSource)
            pipe.drain()
            world.loop.remove(port, from: mode)
        }
        #expect(world.loop.modes.count { $0.descriptors != nil } <= 17)
        #expect(world.loop.modeNames == [.default])
        // A descriptor set is made again when it is needed.
        world.loop.add(port, to: "conversation 0")
        pipe.fire()
        #expect(world.loop.run(in: "conversation 0", for: .zero, returnAfterSource: true) == .handledSource)
    }

    @Test("a mode in use keeps its descriptors") func aModeInUseKeepsItsDescriptors() throws {
        let world = World()
        let pipes = [Pipe(), Pipe()]
        let port = try world.port("P", pipes[0], in: ["outer"])
        let other = try RunLoop.FDPort(pipes[1].reader) { _, _ in }
        world.loop.perform(in: ["outer"]) {
            world.loop.remove(port, from: "outer")
            for number in 0..<40 {
                let mode = RunLoop.Mode(rawValue: "inner \(number)")
                world.loop.add(other, to: mode)
                world.loop.remove(other, from: mode)
            }
            world.loop.add(port, to: "outer")
            pipes[0].fire()
        }
        world.run("outer")
        #expect(world.journal() == "P =3")
    }

    @Test("empty queues of timers and requests are freed") func emptyQueuesOfTimersAndRequestsAreGivenBack() {
        let world = World()
        for number in 0..<1000 {
            let mode = RunLoop.Mode(rawValue: "m\(number)")
            let timer = RunLoop.Timer(fireDate: world.date(0)) { _, _ in world.log("T") }
            world.loop.add(timer, to: mode)
            world.loop.perform(in: [mode], order: number) { world.log("R") }
            world.loop.run(in: mode, for: .zero)
            #expect(world.journal() == "R T")
        }
        #expect(world.loop.timerQueues.count <= 65)
        #expect(world.loop.requestQueues.count <= 65)
    }

    @Test("many sources can be added and removed in any order") func sourcesThatComeAndGo() {
        let world = World()
        var numbers = SystemRandomNumberGenerator()
        var sources: [RunLoop.Source] = []
        for round in 0..<2_000 {
            // The number of sources goes up, down, and up again.
            if round % 400 < 200 {
                sources.append(RunLoop.Source())
                if let source = sources.last { world.loop.add(source) }
            } else if let place = sources.indices.randomElement(using: &numbers), sources.count > 10 {
                sources.remove(at: place).invalidate()
            }
            #expect(world.loop.items(in: .default).count == sources.count)
        }
        #expect(
            Set(world.loop.items(in: .default).map(ObjectIdentifier.init)) == Set(sources.map(ObjectIdentifier.init)))
        for source in sources { source.invalidate() }
        #expect(world.loop.run(in: .default, for: .zero) == .finished)
    }

    @Test("requests of many orders run in order") func requestsOfManyOrdersRunInOrder() {
        let world = World()
        let orders = (0..<500).map { ($0 * 37) % 101 - 50 }
        var performed: [Int] = []
        for (number, order) in orders.enumerated() {
            world.loop.perform(in: number % 3 == 0 ? [.default] : [.common], order: order) {
                performed.append(order * 1000 + number)
                if number == 7 { world.loop.perform(order: -100) { performed.append(.max) } }
            }
        }
        world.keepAlive()
        world.run()
        #expect(performed.last == .max)
        #expect(performed.dropLast().elementsEqual(performed.dropLast().sorted()))
        #expect(performed.count == 501)
    }

    /// Ten times as many items take ten times as long, not a hundred times.
    @Test(
        "the time grows linearly with the number of items", arguments: ["modes", "orders", "held", "cancelled", "left"])
    func manyTakeNoMoreThanTheirShare(
        what: String
    ) {
        func cost(_ count: Int) -> Double {
            let world = World()
            var sources: [RunLoop.Source] = []
            let start = threadTime()
            for number in 0..<count {
                let mode = RunLoop.Mode(rawValue: "mode \(number)")
                switch what {
                case "modes": world.loop.add(RunLoop.Source(), to: mode)
                case "held":
                    let source = RunLoop.Source()
                    world.loop.add(source, to: mode)
                    #expect(world.loop.isHolding(source))
                case "cancelled": if let request = world.loop.perform(in: [mode], {}) { world.loop.cancel(request) }
                case "left":
                    sources.append(RunLoop.Source())
                    world.loop.add(sources[number])
                default: world.loop.perform(order: number) {}
                }
            }
            for source in sources.reversed() { source.invalidate() }
            if what == "orders" { world.run(ms: 0) }
            return threadTime() - start
        }
        let ratio = (0..<3).map { _ in cost(10_000) / cost(1_000) }.min() ?? .infinity
        #expect(ratio < 40, "\(ratio)")
    }

    @Test("any thread may signal a source and query it while it moves")
    func aSourceIsSignalledAndAskedFromAnyThreadWhileItMoves() {
        let world = World()
        let source = RunLoop.Source()
        let isOver = Lock(false)
        let threads = (0..<2).map { _ in
            Thread {
                while isOver.withLock({ !$0 }) {
                    source.wakeLoops()
                    source.signal()
                    _ = source.isValid
                    _ = source.loop?.handle
                    _ = source.modeNames
                }
            }
        }
        for number in 0..<3000 {
            let mode = RunLoop.Mode(rawValue: "m\(number % 3)")
            world.loop.add(source, to: mode)
            world.loop.remove(source, from: mode)
        }
        source.invalidate()
        isOver.withLock { $0 = true }
        for thread in threads { thread.join() }
        #expect(!source.isValid && source.modeNames.isEmpty)
    }

    /// Like CFRunLoopPerformBlock and CFRunLoopWakeUp, which wake the loop for a block of any mode.
    @Test("a request for another mode wakes the loop", arguments: [RunLoop.Mode.default, "a"])
    func aRequestForAnotherModeWakesTheLoop(mode: RunLoop.Mode) {
        let world = World(.coreFoundation)
        world.keepAlive()
        world.observe()
        world.loop.perform(in: [.default]) {
            world.log("b")
            world.loop.perform(in: [mode]) {}
        }
        world.run(ms: 5)
        #expect(world.journal() == "E BT BS b BW AW BT BS BW AW X =3")
        // The same request, made by an observer of `beforeWaiting`.
        let other = World(.coreFoundation)
        other.keepAlive()
        var isFirst = true
        other.observe { activity in
            if activity == .beforeWaiting, isFirst {
                isFirst = false
                other.loop.perform(in: ["a"]) {}
            }
        }
        other.run(ms: 5)
        #expect(other.journal() == "E BT BS BW AW BT BS BW AW X =3")
    }
}
