import TestSupport
import Testing

@testable import RunLoops

/// A single run: its entry, its passes, its exit, and the reason why it ends. All journals have the `coreFoundation`
/// sequence unless a test uses another.
@Suite(.timed) struct PassTests {
    @Test("a run in an empty mode finishes at once and calls no observer")
    func aModeThatHoldsNothingFinishesAtOnceAndTellsNobody() {
        let world = World()
        world.observe()
        world.run()
        #expect(world.journal() == "=1")
        world.run("unknown")
        #expect(world.journal() == "=1")
        #expect(!world.loop.modeNames.contains("unknown"))
    }

    @Test("without events a run sleeps until the time is over") func withNothingToDoItSleepsUntilTheTimeIsOver() {
        let world = World()
        world.observe()
        world.keepAlive()
        world.run(ms: 10)
        #expect(world.journal() == "E BT BS BW AW X =3")
        #expect(world.time == 10)
    }

    @Test("before timers and before sources are sent even when there are neither")
    func beforeTimersAndBeforeSourcesAreSentEvenWhenThereAreNeither() throws {
        let world = World()
        let pipe = Pipe()
        world.observe()
        try world.port("P", pipe)
        world.run()
        #expect(world.journal() == "E BT BS BW AW X =3")
    }

    @Test("a limit of zero or less makes exactly one pass that does not wait", arguments: [0, -5])
    func noTimeIsExactlyOnePassThatDoesNotWait(_ limit: Int) {
        let world = World()
        world.observe()
        world.keepAlive()
        world.timer("T", at: 0)
        world.run(ms: limit)
        #expect(world.journal() == "E BT BS T X =3")
        world.run(ms: limit)
        #expect(world.journal() == "E BT BS X =3")
        #expect(world.time == 0)
    }

    @Test("a positive limit waits once however small it is") func aPositiveTimeHoweverSmallWaitsOnce() {
        let world = World()
        world.observe()
        world.keepAlive()
        #expect(world.loop.run(in: .default, for: .nanoseconds(1)) == .timedOut)
        #expect(world.journal() == "E BT BS BW AW X")
    }

    @Test("a huge limit means no limit") func aHugeTimeIsNoLimit() {
        let world = World()
        world.timer("T", at: 1000)
        #expect(world.loop.run(in: .default, for: .seconds(504_911_233)) == .finished)
        #expect(world.journal() == "T")
    }

    @Test("the deadline is checked at the end of each pass so that a busy loop ends, too")
    func theDeadlineIsLookedAtOnlyAtTheEndOfAPassSoABusyLoopStillEnds() {
        let world = World()
        var passes = 0
        world.source("S", signalled: true) {
            passes += 1
            world.work(3)
            $0.signal()
        }
        #expect(world.run(ms: 10) == .timedOut)
        #expect(passes == 4)
    }

    @Test("timers are served after the wait and not before it") func timersAreServedAfterTheWaitAndNotBeforeIt() {
        let world = World()
        world.observe()
        world.keepAlive()
        world.timer("T", at: -1)
        world.run()
        #expect(world.journal() == "E BT BS BW AW T BT BS BW AW X =3")
    }

    // MARK: The result if a run has several reasons to end

    @Test("a run that has handled a source returns that, although it was stopped") func handledSourceBeatsStopped() {
        let world = World()
        world.keepAlive()
        world.source("S", signalled: true) { _ in world.loop.stop() }
        #expect(world.run(returning: true) == .handledSource)
        // The stop is forgotten.
        #expect(world.run() == .timedOut)
    }

    @Test("a run whose time is over returns that, although it was stopped") func timedOutBeatsStopped() {
        let world = World()
        world.keepAlive()
        world.timer("T", at: 0) { _ in world.loop.stop() }
        #expect(world.run(ms: 0) == .timedOut)
        #expect(world.run() == .timedOut)
        world.observe(.default, .afterWaiting) { _ in world.loop.stop() }
        #expect(world.run() == .timedOut)
    }

    @Test("a run whose time is over returns that, although nothing is left") func timedOutBeatsFinished() {
        let world = World()
        world.source("S", signalled: true) { $0.invalidate() }
        #expect(world.run(ms: 0) == .timedOut)
    }

    @Test("a run that was stopped returns that, although nothing is left") func stoppedBeatsFinished() {
        let world = World()
        world.timer("T", at: 1) { _ in world.loop.stop() }
        #expect(world.run() == .stopped)
    }

    @Test("a run that has handled a source returns that, although nothing is left") func handledSourceBeatsFinished() {
        let world = World()
        world.source("S", signalled: true) { $0.invalidate() }
        #expect(world.run(returning: true) == .handledSource)
        world.source("S", signalled: true) { $0.invalidate() }
        #expect(world.run() == .finished)
    }

    // MARK: Runs with a single kind of event

    @Test("a signalled source is performed before the loop sleeps") func aSignalledSource() {
        let world = World()
        world.observe()
        world.source("S", signalled: true).signal()
        world.run()
        #expect(world.journal() == "E BT BS S BT BS BW AW X =3")
    }

    @Test("a signalled source ends a run that returns after one") func aSignalledSourceEndsARunThatReturnsAfterOne() {
        let world = World()
        world.observe()
        let source = world.source("S", signalled: true)
        world.run(returning: true)
        source.signal()
        world.run(ms: 0)
        source.signal()
        world.run(ms: 0, returning: true)
        #expect(world.journal() == "E BT BS S X =4 E BT BS S X =3 E BT BS S X =4")
    }

    @Test("a ready port is called after the wait, or without a wait if the run has no time left") func aReadyPort()
        throws
    {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        try world.port("P", pipe)
        pipe.fire()
        world.run()
        #expect(world.journal() == "E BT BS BW AW P BT BS BW AW X =3")
        pipe.fire()
        world.run(returning: true)
        #expect(world.journal() == "E BT BS BW AW P X =4")
        pipe.fire()
        world.run(ms: 0)
        pipe.fire()
        world.run(ms: 0, returning: true)
        #expect(world.journal() == "E BT BS P X =3 E BT BS P X =4")
    }

    @Test("a timer does not count as a source and does not end a run", arguments: [false, true])
    func aTimerIsNoSourceAndEndsNoRun(
        _ returning: Bool
    ) {
        let world = World()
        world.observe()
        world.keepAlive()
        world.timer("T", at: 5)
        world.run(returning: returning)
        #expect(world.journal() == "E BT BS BW AW T BT BS BW AW X =3")
    }

    @Test("a timer fires after the wait, and the run finishes when no item is left") func aTimerThatIsAllThereIs() {
        let world = World()
        world.observe()
        world.timer("T", at: 5)
        world.run(ms: nil)
        #expect(world.journal() == "E BT BS BW AW T X =1")
    }

    @Test("a pass serves requests, sources and a port, and the next pass serves timers") func everythingAtOnce() throws
    {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        world.keepAlive()
        try world.port("P", pipe)
        pipe.fire()
        world.timer("T", at: 0)
        world.source("S", signalled: true)
        world.perform("b")
        world.run()
        #expect(world.journal() == "E BT BS b S P BT BS BW AW T BT BS BW AW X =3")
    }

    @Test("a run that returns after a source may still handle a port in the same pass")
    func aRunThatReturnsAfterASourceMayStillHandleAPortInTheSamePass() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        world.keepAlive()
        try world.port("P", pipe)
        pipe.fire()
        world.timer("T", at: 0)
        world.source("S", signalled: true)
        world.perform("b")
        world.run(returning: true)
        #expect(world.journal() == "E BT BS b S P X =4")
        world.run()
        #expect(world.journal() == "E BT BS BW AW T BT BS BW AW X =3")
    }

    @Test("a timer added before a port was ready comes before it") func aTimerAddedBeforeAPortWasReadyComesBeforeIt()
        throws
    {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.keepAlive()
        world.timer("T", at: 0)
        try world.port("P", pipe)
        pipe.fire()
        world.run()
        #expect(world.journal() == "T P =3")
    }

    // MARK: Effects of callbacks

    @Test("a source signalled in a timer is performed in the next pass before any sleep")
    func aSourceSignalledInATimerIsPerformedInTheNextPassBeforeAnySleep() {
        let world = World()
        world.observe()
        let source = world.source("S")
        world.timer("T", at: 1) { _ in source.signal() }
        world.run()
        #expect(world.journal() == "E BT BS BW AW T BT BS S BT BS BW AW X =3")
    }

    @Test("a source signalled in a port is performed in the next pass or run")
    func aSourceSignalledInAPortIsPerformedInTheNextPassOrRun() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        let source = world.source("S")
        try world.port("P", pipe) { _ in source.signal() }
        pipe.fire()
        world.run()
        #expect(world.journal() == "E BT BS BW AW P BT BS S BT BS BW AW X =3")
        pipe.fire()
        world.run(returning: true)
        world.run(ms: 0)
        #expect(world.journal() == "E BT BS BW AW P X =4 E BT BS S X =3")
    }

    @Test(
        "a source signalled in an observer is performed if the pass has not yet served sources",
        arguments: [
            (RunLoop.Activity.entry, "E BT BS S X =4"), (.beforeTimers, "E BT BS S X =4"),
            (.beforeSources, "E BT BS S X =4"),
            // A signal does not wake the loop, so it sleeps with the source signalled.
            (.beforeWaiting, "E BT BS BW AW X =3"),
            (.afterWaiting, "E BT BS BW AW X =3"), (.exit, "E BT BS BW AW X =3"),
        ]) func aSourceSignalledInAnObserver(_ when: RunLoop.Activity, _ expected: String)
    {
        let world = World()
        let source = world.source("S")
        world.observe { if $0 == when { source.signal() } }
        world.run(returning: true)
        #expect(world.journal() == expected)
        #expect(source.isSignalled == !expected.contains("S X"))
    }

    @Test(
        "a port made ready in an observer is called in that pass if the wait comes later",
        arguments: [
            (RunLoop.Activity.entry, true), (.beforeTimers, true), (.beforeSources, true), (.beforeWaiting, true),
            (.afterWaiting, false), (.exit, false),
        ]) func aPortMadeReadyInAnObserver(_ when: RunLoop.Activity, _ inThatPass: Bool) throws
    {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        var fired = false
        try world.port("P", pipe)
        world.observe {
            if $0 == when, !fired {
                fired = true
                pipe.fire()
            }
        }
        world.run(returning: true)
        #expect(world.journal() == (inThatPass ? "E BT BS BW AW P X =4" : "E BT BS BW AW X =3"))
        world.run(ms: 0)
        #expect(world.journal() == (inThatPass ? "E BT BS X =3" : "E BT BS P X =3"))
    }

    @Test(
        "an overdue timer added in an observer fires in that pass if the wait comes later",
        arguments: [
            (RunLoop.Activity.entry, true), (.beforeTimers, true), (.beforeSources, true), (.beforeWaiting, true),
            (.afterWaiting, false), (.exit, false),
        ]) func anOverdueTimerAddedInAnObserver(_ when: RunLoop.Activity, _ inThatPass: Bool)
    {
        let world = World()
        world.keepAlive()
        var added = false
        world.observe {
            if $0 == when, !added {
                added = true
                world.timer("T", at: -1)
            }
        }
        world.run(ms: 1)
        let expected = inThatPass ? "E BT BS BW AW T BT BS BW AW X =3" : "E BT BS BW AW X =3"
        #expect(world.journal() == expected)
        world.run(ms: 0)
        #expect(world.journal() == (inThatPass ? "E BT BS X =3" : "E BT BS T X =3"))
    }

    @Test("a port that a source makes ready is handled in the same pass")
    func whatASourceMakesReadyIsHandledInTheSamePass()
        throws
    {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        world.keepAlive()
        world.source("S", signalled: true) { source in
            _ = try? world.port("P", pipe)
            pipe.fire()
            source.invalidate()
        }
        world.run(ms: 0)
        #expect(world.journal() == "E BT BS S P X =3")
        world.source("S", signalled: true) { _ in world.timer("T", at: -1) }
        world.run(ms: 0)
        #expect(world.journal() == "E BT BS S T X =3")
    }

    @Test("a timer that becomes due during a long source fires in the same pass")
    func aTimerThatFallsDueDuringALongSourceFiresInTheSamePass() {
        let world = World()
        world.observe()
        world.timer("T", at: 5)
        world.source("S", signalled: true) { _ in world.work(6) }
        world.run(ms: 20)
        #expect(world.journal() == "E BT BS S T BT BS BW AW X =3")
    }

    @Test("ports of one descriptor are called by their order") func portsOfOneDescriptor() throws {
        let world = World()
        let pipe = Pipe()
        for order in [3, 1, 2, 1] {
            world.loop.add(
                try RunLoop.FDPort(pipe.reader, order: order) { port, _ in
                    world.log("\(order)")
                    port.invalidate()
                })
        }
        pipe.fire()
        world.run()
        #expect(world.journal() == "1 1 2 3 =1")
    }
}
