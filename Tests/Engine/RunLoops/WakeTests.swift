import Synchronization
import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct WakeTests {
    @Test("wake ups before a wait cause one extra pass") func wakeUpsBeforeAWaitAreOneExtraPass() {
        let world = World()
        world.keepAlive()
        var first = true
        world.observe {
            if $0 == .beforeWaiting, first {
                first = false
                world.loop.wakeUp()
                world.loop.handle.wakeUp()
                world.loop.wakeUp()
            }
        }
        world.run(returning: true)
        #expect(world.journal() == "E BT BS BW AW BT BS BW AW X =3")
        #expect(world.time == 10)
    }

    @Test("a wake up of a loop that does not run has no effect") func aWakeUpOfALoopThatDoesNotRunIsForgotten() {
        let world = World()
        world.keepAlive()
        world.observe()
        world.loop.wakeUp()
        world.loop.handle.wakeUp()
        world.run()
        #expect(world.journal() == "E BT BS BW AW X =3")
    }

    @Test(
        "a wake up before the wait is kept",
        arguments: [RunLoop.Activity.entry, .beforeTimers, .beforeSources, .beforeWaiting])
    func aWakeUpBeforeTheWaitIsKept(_ when: RunLoop.Activity) {
        let world = World()
        world.keepAlive()
        var first = true
        world.observe {
            if $0 == when, first {
                first = false
                world.loop.wakeUp()
            }
        }
        world.run()
        #expect(world.journal() == "E BT BS BW AW BT BS BW AW X =3")
    }

    @Test(
        "a wake up by a handle is kept when ports are looked at before the wait",
        arguments: [RunLoop.Activity.entry, .beforeTimers, .beforeSources, .beforeWaiting])
    func aWakeUpByAHandleIsKeptWhenPortsAreLookedAtBeforeTheWait(_ when: RunLoop.Activity) throws {
        let world = World()
        let pipe = Pipe()
        try world.port("P", pipe)
        var first = true
        world.observe {
            if $0 == when, first {
                first = false
                world.loop.handle.wakeUp()
                // A port that shares its descriptor makes the loop check which other ports are ready.
                if let port = try? RunLoop.FDPort(pipe.reader, callback: { _, _ in }) {
                    world.loop.add(port, to: .default)
                }
            }
        }
        world.run()
        #expect(world.journal() == "E BT BS BW AW BT BS BW AW X =3")
    }

    @Test("attention raised before a run is handled in the run") func whatWasRaisedBeforeARunIsAttendedToInIt() {
        let world = World()
        world.keepAlive()
        world.observe()
        world.loop.attentionHandler = { loop in loop.stop() }
        world.loop.handle.raiseAttention()
        #expect(world.run() == .stopped)
        #expect(world.time == 0)
    }

    @Test(
        "a wake up between the end of a wait and the next pass has no effect",
        arguments: [RunLoop.Activity.afterWaiting, .exit]) func aWakeUpBetweenTheEndOfAWaitAndTheNextPassIsForgotten(
            _ when: RunLoop.Activity
        )
    {
        let world = World()
        world.keepAlive()
        world.observe { if $0 == when { world.loop.wakeUp() } }
        world.run()
        world.run()
        #expect(world.journal() == "E BT BS BW AW X =3 E BT BS BW AW X =3")
    }

    @Test("a wake up in a timer or port has no effect") func aWakeUpInATimerOrPortIsForgotten() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        try world.port("P", pipe) { _ in world.loop.wakeUp() }
        pipe.fire()
        world.run()
        #expect(world.journal() == "E BT BS BW AW P BT BS BW AW X =3")
        world.timer("T", at: 0) { _ in world.loop.wakeUp() }
        world.run()
        #expect(world.journal() == "E BT BS BW AW T BT BS BW AW X =3")
    }

    @Test("a wake up in a source makes no extra pass because the pass polls anyway")
    func aWakeUpInASourceMakesNoExtraPassBecauseThePassPollsAnyway() {
        let world = World()
        world.observe()
        world.source("S", signalled: true) { _ in world.loop.wakeUp() }
        world.run()
        #expect(world.journal() == "E BT BS S BT BS BW AW X =3")
    }

    @Test("a wake up does not take a port's turn") func aWakeUpDoesNotTakeAPortsTurn() throws {
        let world = World()
        let pipe = Pipe()
        world.observe {
            if $0 == .entry {
                world.loop.wakeUp()
                pipe.fire()
            }
        }
        try world.port("P", pipe)
        world.run(ms: 0)
        #expect(world.journal() == "E BT BS P X =3")
        world.run()
        // The port was ready, so the wake-up ends the wait that follows the port's callback.
        #expect(world.journal() == "E BT BS P BT BS BW AW BT BS BW AW X =3")
    }

    @Test("no wake up is left over for the next run") func noWakeUpIsLeftOverForTheNextRun() throws {
        let world = World(.coreFoundation)
        let pipe = Pipe()
        world.observe()
        try world.port("P", pipe)
        world.source("S", signalled: true) { _ in
            pipe.fire()
            world.loop.wakeUp()
            world.loop.handle.wakeUp()
        }
        world.run(returning: true)
        #expect(world.journal() == "E BT BS S P X =4")
        world.run()
        #expect(world.journal() == "E BT BS BW AW X =3")
    }

    @Test("isWaiting is true only during sleep") func isWaitingOnlyWhileAsleep() {
        let world = World()
        let handle = world.loop.handle
        world.source("S", signalled: true) { _ in #expect(!handle.isWaiting) }
        world.timer("T", at: 1) { _ in #expect(!handle.isWaiting) }
        world.observe { _ in #expect(!handle.isWaiting) }
        #expect(!handle.isWaiting)
        world.run()
        let thread = Thread { handle.stopWhenWaiting() }
        #expect(world.run(ms: nil) == .stopped)
        thread.join()
        #expect(!handle.isWaiting)
    }

    @Test("the current mode is the mode of the innermost run") func theCurrentModeIsThatOfTheInnermostRun() {
        let world = World()
        world.keepAlive()
        world.keepAlive("inner")
        var seen: [RunLoop.Mode?] = [world.loop.currentMode]
        world.observe("inner", [.entry, .exit]) { _ in seen.append(world.loop.currentMode) }
        world.observe(.default, [.entry, .exit]) { _ in seen.append(world.loop.currentMode) }
        world.timer("T", at: 1) { _ in
            world.run("inner")
            seen.append(world.loop.currentMode)
        }
        world.run()
        seen.append(world.loop.currentMode)
        #expect(seen == [nil, "default", "inner", "inner", "default", "default", nil])
    }

    @Test("signalling from another thread does not wake") func signallingFromAnotherThreadDoesNotWake() {
        let world = World()
        world.observe()
        let source = world.source("S")
        let handle = world.loop.handle
        let thread = Thread {
            handle.awaitWaiting()
            source.signal()
            handle.stop()
        }
        world.run(ms: nil)
        thread.join()
        #expect(source.isSignalled)
        #expect(world.journal() == "E BT BS BW AW X =2")
    }

    @Test("signalling and waking from another thread performs the source")
    func signallingAndWakingFromAnotherThreadPerformsTheSource() {
        let world = World()
        world.observe()
        let source = world.source("S") { _ in world.loop.stop() }
        let handle = world.loop.handle
        let thread = Thread {
            handle.awaitWaiting()
            source.signal()
            source.wakeLoops()
        }
        world.run(ms: nil)
        thread.join()
        #expect(world.journal() == "E BT BS BW AW BT BS S X =2")
    }

    @Test("any number of wake ups during a sleep causes one pass") func anyNumberOfWakeUpsWhileAsleepIsOnePass() {
        let world = World()
        world.keepAlive()
        let handle = world.loop.handle
        let isOver = Atomic(false)
        world.observe { if $0 == .afterWaiting { while !isOver.load(ordering: .acquiring) {} } }
        let thread = Thread {
            handle.awaitWaiting()
            for _ in 0..<100 { handle.wakeUp() }
            isOver.store(true, ordering: .releasing)
            handle.stopWhenWaiting()
        }
        world.run(ms: nil)
        thread.join()
        #expect(world.journal() == "E BT BS BW AW BT BS BW AW X =2")
    }
}
