import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct StopTests {
    @Test("stopping a loop that does not run is not remembered") func stoppingALoopThatDoesNotRunIsNotRemembered() {
        let world = World()
        world.keepAlive()
        world.loop.stop()
        world.loop.handle.stop()
        #expect(world.run() == .timedOut)
    }

    @Test("a stop at the entry ends the run before any pass") func atTheEntryItEndsTheRunBeforeAnyPass() {
        let world = World()
        world.keepAlive()
        world.observe { if $0 == .entry { world.loop.stop() } }
        world.run()
        #expect(world.journal() == "E X =2")
    }

    @Test(
        "after a stop in an observer the pass is completed without sleeping",
        arguments: [RunLoop.Activity.beforeTimers, .beforeSources, .beforeWaiting])
    func inAnObserverThePassIsCompletedWithoutSleeping(_ when: RunLoop.Activity) {
        let world = World()
        world.keepAlive()
        world.observe { if $0 == when { world.loop.stop() } }
        world.run(ms: 10_000)
        #expect(world.journal() == "E BT BS BW AW X =2")
        #expect(world.time == 0)
    }

    @Test("after a stop in after waiting the event that woke the loop is still handled")
    func afterWaitingWhatWokeTheLoopIsStillHandled() {
        let world = World()
        world.timer("T", at: 1, every: 1)
        world.observe { if $0 == .afterWaiting { world.loop.stop() } }
        world.run(ms: 10_000)
        #expect(world.journal() == "E BT BS BW AW T X =2")
    }

    @Test("a stop at the exit has no effect, not even on the next run") func atTheExitItHasNoEffectNotEvenOnTheNextRun()
    {
        let world = World()
        world.keepAlive()
        world.observe { if $0 == .exit { world.loop.stop() } }
        world.run()
        world.run()
        #expect(world.journal() == "E BT BS BW AW X =3 E BT BS BW AW X =3")
    }

    @Test("after a stop in a timer other due timers still fire") func otherDueTimersStillFire() {
        let world = World()
        world.keepAlive()
        world.timer("T1", at: 1) { _ in world.loop.stop() }
        world.timer("T2", at: 1)
        world.run()
        #expect(world.journal() == "T1 T2 =2")
    }

    @Test("after a stop in a source other signalled sources and a ready port are still handled")
    func otherSignalledSourcesAndAReadyPortAreStillHandled() throws {
        let world = World()
        let pipe = Pipe()
        try world.port("P", pipe)
        pipe.fire()
        world.source("S1", signalled: true) { _ in world.loop.stop() }
        world.source("S2", signalled: true)
        world.run()
        #expect(world.journal() == "S1 S2 P =2")
    }

    @Test("after a stop in a request later requests of the same drain still run")
    func laterRequestsOfTheSameDrainStillRun() {
        let world = World()
        world.observe()
        world.keepAlive()
        world.perform("a") { world.loop.stop() }
        world.perform("b")
        world.run()
        #expect(world.journal() == "E BT BS a b BW AW X =2")
    }

    @Test("a stop in a port ends the run after its pass") func inAPort() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        try world.port("P", pipe) { _ in world.loop.stop() }
        pipe.fire()
        world.run()
        #expect(world.journal() == "E BT BS BW AW P X =2")
    }

    @Test("stopping twice is the same as stopping once") func twiceIsOnce() {
        let world = World()
        world.keepAlive()
        world.timer("T", at: 1) { _ in
            world.loop.stop()
            world.loop.stop()
            world.loop.handle.stop()
        }
        #expect(world.run() == .stopped)
        #expect(world.run() == .timedOut)
    }

    @Test("a stop ends only the innermost run") func endsOnlyTheInnermostRun() {
        let world = World()
        world.keepAlive()
        world.keepAlive("inner")
        world.timer("T", at: 1) { _ in
            world.perform("i", in: ["inner"]) { world.loop.stop() }
            world.run("inner")
        }
        world.run()
        #expect(world.journal() == "T i =2 =3")
    }

    @Test("stop all ends every run in progress") func stopAllEndsEveryRunInProgress() {
        let world = World()
        world.keepAlive()
        world.keepAlive("inner")
        world.timer("T", at: 1) { _ in
            world.perform("i", in: ["inner"]) { world.loop.stopAll() }
            world.run("inner")
        }
        world.run()
        #expect(world.journal() == "T i =2 =2")
    }

    @Test("a stop before a nested run ends the outer one after the inner")
    func aStopBeforeANestedRunEndsTheOuterOneAfterTheInner() {
        let world = World()
        world.keepAlive()
        world.keepAlive("inner")
        world.observe("inner")
        world.timer("T", at: 1) { _ in
            world.loop.stop()
            world.run("inner", ms: 5)
        }
        world.run()
        #expect(world.journal() == "T E BT BS BW AW X =3 =2")
    }

    @Test("a run without a limit continues until it is stopped or finished")
    func runningWithoutALimitGoesOnUntilStoppedOrFinished() {
        let world = World()
        var count = 0
        world.timer("T", at: 1, every: 1) { _ in
            count += 1
            if count == 1000 { world.loop.stop() }
        }
        #expect(world.loop.run() == .stopped)
        world.timer("U", at: 0) { _ in world.loop.stop() }
        #expect(world.loop.run() == .stopped)
    }

    @Test("another thread can stop a run") func endsARunThatAFriendlyThreadStops() {
        let world = World()
        world.keepAlive()
        let handle = world.loop.handle
        let thread = Thread { handle.stopWhenWaiting() }
        #expect(world.run(ms: nil) == .stopped)
        thread.join()
    }
}
