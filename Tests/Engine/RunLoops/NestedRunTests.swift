import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct NestedRunTests {
    /// The kinds of callbacks; the tests have one of each kind ready at once.
    private static let callers = ["source", "timer", "port", "request", "observer"]

    private func calledBack(_ world: World, _ caller: String, _ pipe: Pipe, _ body: @escaping () -> Void) throws {
        switch caller {
        case "source":
            world.source("S", signalled: true) { source in
                body()
                source.invalidate()
            }
        case "timer": world.timer("T", at: 0) { _ in body() }
        case "port":
            pipe.fire()
            try world.port("P", pipe) { port in
                body()
                port.invalidate()
            }
        case "request": world.perform("r") { body() }
        default:
            world.loop.add(RunLoop.Observer(.beforeSources, repeats: false) { _, _ in body() })
        }
    }

    @Test("any callback may run the loop", arguments: callers) func anyCallbackMayRunTheLoop(_ caller: String) throws {
        let world = World()
        let pipe = Pipe()
        world.keepAlive()
        world.timer("i", at: 2, in: ["inner"])
        try calledBack(world, caller, pipe) {
            #expect(world.loop.depth == 1)
            world.run("inner", ms: nil)
        }
        world.observe("inner", [.entry, .exit], prefix: "i")
        world.run()
        #expect(world.journal().hasSuffix("iE i iX =1 =3"))
        #expect(world.loop.depth == 0)
    }

    @Test("a run of an empty mode in a callback ends at once", arguments: callers)
    func aRunOfAnEmptyModeInACallbackEndsAtOnce(_ caller: String) throws {
        let world = World()
        let pipe = Pipe()
        world.keepAlive()
        world.observe("unknown")
        try calledBack(world, caller, pipe) { world.run("unknown", ms: nil) }
        world.run(ms: 1)
        #expect(world.journal().hasSuffix("=1 =3"))
    }

    @Test("a nested run handles events that the outer run has collected")
    func theInnerRunTakesWhatTheOuterHasCollected() {
        let world = World()
        world.source("A", order: 1, signalled: true) { _ in world.run(ms: 0) }
        world.source("B", order: 2, signalled: true)
        world.run(ms: 0)
        #expect(world.journal() == "A B =3 =3")
    }

    @Test("the outer deadline does not end the inner run nor disturb it")
    func theOuterDeadlineDoesNotEndTheInnerRunNorDisturbIt() {
        let world = World()
        world.keepAlive()
        world.keepAlive("inner")
        world.observe("inner", prefix: "i")
        world.timer("T", at: 1) { _ in world.run("inner", ms: 50) }
        world.run(ms: 10)
        #expect(world.journal() == "T iE iBT iBS iBW iAW iX =3 =3")
        #expect(world.time == 51)
    }

    @Test("the event that woke the outer run is handled after a nested run in its after waiting")
    func whatWokeTheOuterRunIsHandledAfterANestedRunInItsAfterWaiting() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.keepAlive("inner")
        try world.port("P", pipe)
        pipe.fire()
        world.observe(.default, .afterWaiting) { _ in world.run("inner", ms: 0) }
        world.run(returning: true)
        #expect(world.journal() == "AW =3 P =4")
    }

    @Test("a port that is gone after a nested run is not handled") func aPortThatIsGoneByThenIsNot() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.keepAlive()
        let port = try world.port("P", pipe)
        pipe.fire()
        world.observe(.default, .afterWaiting) { _ in port.invalidate() }
        world.run(returning: true)
        #expect(world.journal() == "AW AW =3")
    }

    @Test("the result of a nested run does not affect the outer run") func resultsDoNotPropagate() {
        let world = World()
        world.keepAlive()
        world.timer("T", at: 1) { _ in
            world.source("S", in: ["inner"], signalled: true)
            world.run("inner", returning: true)
        }
        world.run(returning: true)
        #expect(world.journal() == "T S =4 =3")
    }

    @Test("runs nest deeply") func runsNestDeeply() {
        let world = World()
        world.keepAlive()
        var depth = 0
        func nest() {
            depth += 1
            guard depth < 200 else { return world.loop.stop() }
            world.loop.perform { nest() }
            world.loop.run(in: .default, for: .seconds(1))
        }
        nest()
        #expect(depth == 200)
        #expect(world.loop.depth == 0)
    }

    @Test("timers of an outer batch may be removed moved and freed by an inner run")
    func timersOfAnOuterBatchMayBeRemovedMovedAndFreedByAnInnerRun() {
        let world = World()
        var timers: [RunLoop.Timer] = []
        world.timer("first", at: 1) { _ in
            world.perform("inner", in: ["inner"]) {
                timers[0].invalidate()
                timers[1].fireDate = world.date(5)
                world.loop.remove(timers[2])
                world.loop.add(timers[2])
                timers.removeAll()
            }
            world.run("inner", ms: 0)
        }
        timers = [world.timer("a", at: 1), world.timer("b", at: 1), world.timer("c", at: 1)]
        world.timer("d", at: 1)
        world.run(ms: 9)
        #expect(world.journal() == "first inner =3 d c b =1")
    }
}
