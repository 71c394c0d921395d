import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct ObserverTests {
    private func observer(
        _ world: World, _ name: String, _ activities: RunLoop.Activity = .beforeTimers, order: Int = 0,
        repeats: Bool = true, then: @escaping (RunLoop.Observer) -> Void = { _ in }
    ) -> RunLoop.Observer {
        let observer = RunLoop.Observer(activities, repeats: repeats, order: order) { observer, _ in
            world.log(name)
            then(observer)
        }
        world.loop.add(observer)
        return observer
    }

    @Test("activities have their documented bits") func activitiesHaveTheirDocumentedBits() {
        let bits: [(RunLoop.Activity, UInt)] = [
            (.entry, 1), (.beforeTimers, 2), (.beforeSources, 4), (.beforeWaiting, 32), (.afterWaiting, 64),
            (.exit, 128), (.all, 0x0FFF_FFFF),
        ]
        for (activity, bit) in bits { #expect(activity.rawValue == bit) }
    }

    @Test("observers are called by order, then by addition") func toldByOrderThenAsAdded() {
        let world = World()
        world.keepAlive()
        for (name, order) in [("a", 1), ("b", 0), ("c", 0), ("d", -1)] { _ = observer(world, name, order: order) }
        world.run(ms: 0)
        #expect(world.journal() == "d b c a =3")
    }

    @Test("an observer of no activity is never called") func oneForNoActivityIsNeverTold() {
        let world = World()
        world.keepAlive()
        _ = observer(world, "never", [])
        world.run()
        #expect(world.journal() == "=3")
    }

    @Test("an observer invalidated or removed by an earlier one is not called")
    func oneInvalidatedOrRemovedByAnEarlierOneIsNotTold() {
        let world = World()
        world.keepAlive()
        var victims: [RunLoop.Observer] = []
        _ = observer(world, "o") { _ in
            victims[0].invalidate()
            world.loop.remove(victims[1])
        }
        victims = [observer(world, "v1"), observer(world, "v2")]
        world.run(ms: 0)
        #expect(world.journal() == "o =3")
    }

    @Test("an observer added during an activity is called for the next one")
    func oneAddedDuringAnActivityIsToldOfTheNext() {
        let world = World()
        world.keepAlive()
        for activity in [RunLoop.Activity.entry, .beforeTimers] {
            let first = observer(world, "o", activity) { own in
                own.invalidate()
                _ = observer(world, "new", [activity, .beforeSources]) { $0.invalidate() }
            }
            world.run(ms: 0)
            #expect(world.journal() == "o new =3")
            #expect(!first.isValid)
        }
    }

    @Test("an observer that does not repeat is called once in all its modes")
    func oneThatDoesNotRepeatIsToldOnceInAnyOfItsModes() {
        let world = World()
        world.keepAlive()
        world.keepAlive("a")
        let once = observer(world, "o", repeats: false) { observer in
            #expect(observer.isValid)
            world.loop.remove(observer)
            world.loop.add(observer)
        }
        world.loop.add(once, to: "a")
        world.run("a", ms: 0)
        world.run(ms: 0)
        #expect(world.journal() == "o =3 =3")
        #expect(!once.isValid)
        #expect(world.loop.items(in: "a").count == 1)
    }

    @Test("an observer whose callback runs the loop is not called for that run")
    func oneWhoseCallbackRunsTheLoopIsNotToldOfThat() {
        let world = World()
        world.keepAlive()
        var nested = false
        _ = observer(world, "o1", [.beforeTimers, .exit]) { _ in
            guard !nested else { return }
            nested = true
            world.run(ms: 0)
        }
        _ = observer(world, "o2", [.entry, .beforeTimers, .exit])
        world.run(ms: 0)
        #expect(world.journal() == "o2 o1 o2 o2 o2 =3 o2 o1 o2 =3")
    }

    @Test("an observer of the exit may run the loop") func anObserverOfTheExitMayRunTheLoop() {
        let world = World()
        world.keepAlive()
        world.keepAlive("inner")
        world.observe("inner", prefix: "i")
        world.observe(.default, [.exit]) { _ in world.run("inner", ms: 0) }
        world.run(ms: 0)
        #expect(world.journal() == "X iE iBT iBS iX =3 =3")
    }

    @Test("adding an observer twice has no effect and an invalid one is not added")
    func addingTwiceIsAddingOnceAndAnInvalidOneStaysOut() {
        let world = World()
        world.keepAlive()
        let one = observer(world, "o")
        world.loop.add(one)
        world.run(ms: 0)
        one.invalidate()
        world.loop.add(one)
        world.run(ms: 0)
        #expect(world.journal() == "o =3 =3")
    }

    @Test("observers do not keep a mode alive") func observersKeepNoModeAlive() {
        let world = World()
        world.observe()
        #expect(world.run() == .finished)
    }

    @Test("an observer may move to another loop once it has left the first")
    func anObserverMayMoveToAnotherLoopOnceItHasLeftTheFirst() {
        let world = World()
        let other = World()
        other.keepAlive()
        let one = observer(world, "o")
        #expect(other.loop.isElsewhere(one))
        world.loop.remove(one)
        other.loop.add(one)
        other.run(ms: 0)
        #expect(world.journal() == "o")
    }

    @Test("observers keep their order in a mode that becomes common")
    func observersKeepTheirOrderInAModeThatBecomesCommon() {
        let world = World()
        for (name, order) in [("a", 1), ("b", 0), ("c", 0), ("d", -1)] {
            let one = RunLoop.Observer(.beforeTimers, order: order) { _, _ in world.log(name) }
            world.loop.add(one, to: .common)
        }
        world.loop.addCommonMode("m")
        world.keepAlive("m")
        world.run("m", ms: 0)
        #expect(world.journal() == "d b c a =3")
    }
}
