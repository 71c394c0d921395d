import TestSupport
import Testing

@testable import RunLoops

/// Timers in modes, in their effect on sleep, and in memory.
@Suite(.timed) struct TimerScheduleTests {
    // MARK: Modes

    @Test("a timer in two modes fires once in the first that runs") func inTwoModesItFiresOnceInWhicheverRuns() {
        let world = World()
        let timer = world.timer("T", at: 5, every: 10, in: ["a", "b"])
        world.loop.add(timer, to: "a")
        world.run("a", ms: 10)
        world.run("b", ms: 10)
        world.keepAlive("c")
        world.run("c", ms: 10)
        world.run("a", ms: 3)
        #expect(world.journal() == "T =3 T =3 =3 T =3")
        #expect(world.time == 33)
    }

    @Test("a timer removed in its callback stops and stays valid") func removedInItsCallbackItStopsAndStaysValid() {
        let world = World()
        let timer = world.timer("T", at: 1, every: 1) { world.loop.remove($0) }
        world.run()
        #expect(timer.isValid)
        world.loop.add(timer)
        world.run()
        #expect(world.journal() == "T =1 T =1")
    }

    @Test("a timer removed and added again in its callback continues") func removedAndAddedAgainInItsCallbackItGoesOn()
    {
        let world = World()
        world.timer("T", at: 1, every: 1) {
            world.loop.remove($0)
            world.loop.add($0)
        }
        world.run(ms: 3)
        #expect(world.journal() == "T T T =3")
    }

    @Test("a timer may move to another loop once it has left the first")
    func aTimerMayMoveToAnotherLoopOnceItHasLeftTheFirst() {
        let world = World()
        let other = World()
        let timer = world.timer("T", at: 1)
        world.loop.remove(timer)
        other.loop.add(timer)
        #expect(other.run() == .finished)
        #expect(world.journal() == "T")
    }

    @Test("a loop that ends releases its timers, which stay valid") func aLoopThatEndsLetsItsTimersGoValid() {
        let timer: RunLoop.Timer
        do {
            let world = World()
            timer = world.timer("T", at: 1, in: [.common])
            world.loop.close()
        }
        #expect(timer.isValid)
        let other = World()
        other.loop.add(timer)
        #expect(other.loop.contains(timer))
        timer.invalidate()
    }

    @Test("a common timer that is in no mode enters modes that become common")
    func aCommonTimerInNoModeAtTheMomentEntersThoseThatBecomeCommon() {
        let world = World()
        let timer = world.timer("T", at: 1, in: [.common])
        world.loop.remove(timer)
        world.run()
        #expect(world.loop.contains(timer, in: .common))
        world.loop.addCommonMode("a")
        world.run("a")
        #expect(world.journal() == "=1 T =1")
    }

    @Test("nextFireDate returns the earliest date of the timers in a mode, or nil") func theNextFireDateOfAMode() {
        let world = World()
        #expect(world.loop.nextFireDate(in: .default) == nil)
        #expect(world.loop.nextFireDate(in: "unknown") == nil)
        world.timer("A", at: 7, in: [.common])
        world.timer("B", at: 5, every: 5) {
            #expect($0.fireDate == world.date(5))
            #expect(world.loop.nextFireDate(in: .default) == world.date(5))
            $0.invalidate()
        }
        #expect(world.loop.nextFireDate(in: .default) == world.date(5))
        #expect(world.loop.nextFireDate(in: .common) == nil)
        world.run(ms: 6)
        #expect(world.loop.nextFireDate(in: .default) == world.date(7))
    }

    // MARK: No unneeded pass

    @Test("a removed timer does not wake the loop") func aTimerThatIsGoneWakesNobody() {
        let world = World()
        world.keepAlive()
        let timer = world.timer("T", at: 5)
        timer.invalidate()
        world.timer("A", at: 2)
        world.timer("B", at: 2)
        world.observe()
        world.run(ms: 10)
        #expect(world.journal() == "E BT BS BW AW A B BT BS BW AW X =3")
        #expect(world.time == 10)
    }

    @Test("a run ends when its last timer is invalidated, not at the timer's date")
    func aRunEndsWhenItsLastTimerIsInvalidatedNotAtThatTimersDate() {
        let world = World()
        let timer = world.timer("T", at: 100)
        world.timer("A", at: 5) { _ in timer.invalidate() }
        #expect(world.run(ms: nil) == .finished)
        #expect(world.time == 5)
    }

    @Test("a repeating timer that its callback removes continues from the next date of its grid when it is added again")
    func aRepeatingTimerThatIsTakenOutInItsCallbackGoesOnFromTheNextDateOfItsGrid() {
        let world = World()
        let timer = RunLoop.Timer(fireDate: world.date(10), interval: .milliseconds(10)) { timer, _ in
            world.log("T\(world.time)")
            if world.time == 10 { world.loop.remove(timer) }
        }
        world.loop.add(timer)
        world.run(ms: nil)
        #expect(timer.fireDate == world.date(20))
        world.loop.add(timer)
        world.run(ms: 15)
        #expect(world.journal() == "T10 =1 T20 =3")
    }

    // MARK: Tolerance

    @Test("tolerance never makes a timer early and lets the loop sleep once")
    func toleranceNeverMakesATimerEarlyAndLetsTheLoopSleepOnce() {
        let world = World()
        world.observe(.default, .afterWaiting)
        for (name, date, tolerance) in [("A", 10, 5), ("B", 12, 10), ("C", 14, 1)] {
            let timer = RunLoop.Timer(fireDate: world.date(date), tolerance: .milliseconds(tolerance)) { _, _ in
                world.log("\(name)\(world.time)")
            }
            world.loop.add(timer)
        }
        world.run(ms: 100)
        // The tolerance of A lasts until 15, but no other timer is due after 14.
        #expect(world.journal() == "AW A14 B14 C14 =1")
    }

    @Test("tolerance is at most half the interval and does not move the grid")
    func toleranceIsAtMostHalfTheIntervalAndDoesNotMoveTheGrid() {
        let world = World()
        var times: [Int64] = []
        let timer = RunLoop.Timer(
            fireDate: world.date(10), interval: .milliseconds(10), tolerance: .seconds(1)
        ) { _, missed in
            #expect(missed == 0)
            times.append(world.time)
        }
        #expect(timer.tolerance == .milliseconds(5))
        world.loop.add(timer)
        world.run(ms: 22)
        // A timer without neighbours fires on time.
        #expect(times == [10, 20])
        let other = RunLoop.Timer(
            fireDate: world.date(12), interval: .milliseconds(10), tolerance: .seconds(1)
        ) { _, _ in }
        world.loop.add(other)
        world.run(ms: 22)
        #expect(times == [10, 20, 32, 42])
        timer.tolerance = .seconds(-1)
        #expect(timer.tolerance == .zero)
    }

    // MARK: Memory

    @Test("a loop retains its timers and releases them") func aLoopKeepsItsTimersAndLetsThemGo() {
        let world = World()
        weak var once: RunLoop.Timer?
        weak var again: RunLoop.Timer?
        weak var nowhere: RunLoop.Timer?
        do {
            once = world.timer("T", at: 1)
            let timer = world.timer("U", at: 1, every: 1)
            again = timer
            let other = world.timer("V", at: 1, in: [])
            nowhere = other
        }
        #expect(once != nil && again != nil)
        #expect(nowhere == nil)
        world.run(ms: 2)
        #expect(once == nil && again != nil)
        again?.invalidate()
        #expect(again == nil)
    }
}
