import TestSupport
import Testing

@testable import RunLoops

/// The documented sequences of steps: CoreFoundation's, and that of Apple's documentation.
@Suite(.timed) struct SequenceTests {
    /// The steps of the documented list:
    ///  1. observers: the run loop has been entered
    ///  2. observers: timers are about to fire
    ///  3. observers: sources that are not port-based are about to fire
    ///  4. sources that are not port-based and signalled are performed
    ///  5. if a port-based source is ready, go to 9
    ///  6. observers: the thread is about to sleep
    ///  7. the thread sleeps until an event of a port, a timer, the end of the run's time, or a wake-up
    ///  8. observers: the thread has woken
    ///  9. the event is handled: after a timer, or a wake-up before the end of the time, go to 2; a port delivers
    /// 10. observers: the run loop has been left
    @Test("a run with a ready port follows the documented steps") func theDocumentedListWithAPortThatIsReady() throws {
        let world = World(.documented)
        let pipe = Pipe()
        world.observe()
        world.source("4", signalled: true)
        try world.port("9", pipe)
        world.run(ms: 0)
        #expect(world.journal() == "E BT BS 4 X =3")
        pipe.fire()
        world.run(returning: true)
        #expect(world.journal() == "E BT BS 9 X =4")  // 1 2 3 5 9 10
    }

    @Test("a run with a port that becomes ready in the sleep follows the documented steps")
    func theDocumentedListWithAPortThatBecomesReadyInTheSleep() throws {
        let world = World(.documented)
        let pipe = Pipe()
        try world.port("9", pipe)
        world.observe { if $0 == .beforeWaiting { pipe.fire() } }
        world.run(returning: true)
        #expect(world.journal() == "E BT BS BW AW 9 X =4")  // 1 2 3 6 7 8 9 10
    }

    @Test("a run with a timer follows the documented steps") func theDocumentedListWithATimer() {
        let world = World(.documented)
        world.observe()
        world.keepAlive()
        world.timer("9", at: 5)
        world.run(ms: 10)
        // 1 2 3 6 7 8 9, again 2 3 6 7 8, 10
        #expect(world.journal() == "E BT BS BW AW 9 BT BS BW AW X =3")
    }

    @Test("a run with a wake up follows the documented steps") func theDocumentedListWithAWakeUp() {
        let world = World(.documented)
        world.keepAlive()
        var first = true
        world.observe {
            if $0 == .beforeWaiting, first {
                first = false
                world.loop.wakeUp()
            }
        }
        world.run(ms: 10)
        #expect(world.journal() == "E BT BS BW AW BT BS BW AW X =3")
    }

    @Test("a run until its time limit follows the documented steps") func theDocumentedListWhenTheTimeIsOver() {
        let world = World(.documented)
        world.observe()
        world.keepAlive()
        world.run(ms: 10)
        #expect(world.journal() == "E BT BS BW AW X =3")
    }

    @Test("CoreFoundation's sequence calls the observers of the wait even if a port is ready")
    func coreFoundationSaysThatItSleepsEvenWhenAPortIsReady() throws {
        for (sequence, expected) in [
            (RunLoop.Sequence.documented, "E BT BS P BT BS BW AW X =3"),
            (.coreFoundation, "E BT BS BW AW P BT BS BW AW X =3"),
        ] {
            let world = World(sequence)
            let pipe = Pipe()
            world.observe()
            try world.port("P", pipe)
            pipe.fire()
            world.run()
            #expect(world.journal() == expected)
        }
    }

    @Test(
        "without observers of the wait both sequences are the same",
        arguments: [RunLoop.Sequence.documented, .coreFoundation])
    func withoutObserversOfTheWaitTheTwoCannotBeToldApart(_ sequence: RunLoop.Sequence) throws {
        let world = World(sequence)
        let pipes = [Pipe(), Pipe()]
        world.observe(.default, [.entry, .beforeTimers, .beforeSources, .exit])
        for (i, pipe) in pipes.enumerated() {
            try world.port("P\(i)", pipe)
            pipe.fire()
        }
        world.source("S", signalled: true)
        world.timer("T", at: 0)
        world.perform("r")
        world.run()
        #expect(world.journal() == "E BT BS r S P0 BT BS P1 BT BS T BT BS X =3")
    }

    @Test("messages sent before a timer was due come before it, later ones after it")
    func messagesAndTimers() {
        let world = World(.documented)
        let ports = (1...3).map { i in
            RunLoop.Port(name: "P\(i)") { [unowned world] port, _ in world.log(port.name) }
        }
        for port in ports { world.loop.add(port) }
        for port in ports.prefix(2) { #expect(port.send(0) == .sent) }
        world.timer("T", at: -5)
        #expect(ports[2].send(0) == .sent)
        world.run(ms: 10)
        #expect(world.journal() == "P1 P2 T P3 =3")
    }

    @Test(
        "a timer that was due first keeps its turn before a port",
        arguments: [RunLoop.Sequence.documented, .coreFoundation]) func aTimerThatIsDueFirstDoesNotLoseItsTurnToAPort(
            _ sequence: RunLoop.Sequence
        ) throws
    {
        let world = World(sequence)
        let pipe = Pipe()
        world.observe()
        world.timer("T", at: 0)
        try world.port("P", pipe)
        pipe.fire()
        world.run()
        let expected =
            sequence == .documented
            ? "E BT BS BW AW T BT BS P BT BS BW AW X =3" : "E BT BS BW AW T BT BS BW AW P BT BS BW AW X =3"
        #expect(world.journal() == expected)
    }

    @Test(
        "ports that are always ready do not starve timers",
        arguments: [RunLoop.Sequence.documented, .coreFoundation]) func portsThatAreAlwaysReadyLeaveTimersTheirTurn(
            _ sequence: RunLoop.Sequence
        ) throws
    {
        let world = World(sequence)
        let pipe = Pipe()
        world.observe(.default, [.beforeWaiting])
        world.timer("T", at: 2) { _ in world.loop.stop() }
        let port = try RunLoop.FDPort(pipe.reader) { _, _ in world.work(1) }  // and reads nothing
        world.loop.add(port)
        pipe.fire()
        world.run(ms: 1000)
        #expect(world.journal().hasSuffix("T =2"))
        #expect(world.time < 10)
    }

    @Test("the sequence may change while the loop runs") func theSequenceMayChangeWhileTheLoopRuns() throws {
        let world = World(.documented)
        let pipe = Pipe()
        world.observe()
        try world.port("P", pipe) { _ in
            if world.loop.sequence == .documented {
                world.loop.sequence = .coreFoundation
                pipe.fire()
            }
        }
        pipe.fire()
        world.run()
        #expect(world.journal() == "E BT BS P BT BS BW AW P BT BS BW AW X =3")
    }
}
