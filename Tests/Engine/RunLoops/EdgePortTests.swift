import Glibc
import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct EdgePortTests {
    /// Tracks the state of a pipe's reading end, as a stream does.
    private final class Reader: RunLoop.EdgePort {
        let pipe: Pipe
        let world: World
        var isReadable = false
        var mostAtOnce = 4096
        private(set) var notes = 0

        init(_ name: String, _ pipe: Pipe, _ world: World, in modes: [RunLoop.Mode] = [.default]) {
            self.pipe = pipe
            self.world = world
            super.init(name: name)
            watch(pipe.reader)
            isAwaited = true
            for mode in modes { world.loop.add(self, to: mode) }
        }

        override func note(_ events: RunLoop.FDPort.Events) -> Bool {
            notes += 1
            if events.contains(.read) { isReadable = true }
            return isReadable
        }

        override func takeTurn() {
            guard isReadable else { return }
            let count = pipe.read(mostAtOnce)
            if count < mostAtOnce { isReadable = false }
            world.log("\(name)\(count)")
            if isReadable { signal() }
        }
    }

    @Test("an edge port gets each change once and takes turns with other ports")
    func itHearsOfEachChangeOnceAndTakesTurnsWithTheOthers() throws {
        let world = World()
        let pipes = [Pipe(), Pipe(), Pipe()]
        let a = Reader("A", pipes[0], world)
        try world.port("P", pipes[1])
        let b = Reader("B", pipes[2], world)
        a.mostAtOnce = 2
        for pipe in [pipes[2], pipes[0], pipes[1]] { pipe.fire("12345") }
        world.run()
        #expect(world.journal() == "B5 A2 P A2 A1 =3")
        #expect(a.notes == 1 && b.notes == 1)
        // Data that B has left unread is not reported again, but new data is.
        b.mostAtOnce = 4096
        pipes[2].fire()
        world.run()
        #expect(world.journal() == "B1 =3")
    }

    @Test("a change while an edge port waits for its turn is not lost") func whatChangesWhileItWaits() throws {
        let world = World()
        let pipes = [Pipe(), Pipe()]
        let a = Reader("A", pipes[0], world)
        // P is still ready after its callback, so it is queued after ports that became ready meanwhile. The loop asks
        // the kernel for these events, which queues A.
        var again = true
        try world.port("P", pipes[1], in: [.default, "other"]) { _ in
            guard again else { return }
            again = false
            a.signal()
            pipes[0].fire("123")
            pipes[1].fire()
        }
        pipes[1].fire()
        world.run()
        #expect(world.journal() == "P A3 P =3")
    }

    @Test("an edge port keeps the loop running only while it is awaited") func itKeepsTheLoopRunningOnlyWhileItSaysSo()
    {
        let world = World()
        let pipe = Pipe()
        let reader = Reader("A", pipe, world)
        #expect(world.run(ms: 5) == .timedOut)
        reader.isAwaited = false
        #expect(world.run(ms: nil) == .finished)
        world.timer("T", at: 100)
        pipe.fire()
        world.run(ms: nil)
        #expect(world.journal() == "=3 =1 A1 T =1")
    }

    @Test("an edge port in several modes takes its turn once") func inSeveralModesItTakesItsTurnOnce() {
        let world = World()
        let pipe = Pipe()
        let reader = Reader("A", pipe, world, in: ["m", "n"])
        pipe.fire("123")
        world.run("m")
        world.run("n")
        #expect(world.journal() == "A3 =3 =3")
        pipe.fire("12")
        world.run("n")
        world.loop.remove(reader, from: "n")
        pipe.fire()
        world.keepAlive("n")
        world.run("n")
        world.run("m")
        #expect(world.journal() == "A2 =3 =3 A1 =3")
    }

    @Test("a signal gives an edge port a turn without a descriptor") func aSignalGivesItATurnWithoutADescriptor() {
        final class Bell: RunLoop.EdgePort {
            var turns = 0
            override func takeTurn() { turns += 1 }
        }
        let world = World()
        let bell = Bell()
        bell.signal()
        bell.signal()
        world.loop.add(bell)
        bell.isAwaited = true
        world.run()
        #expect(bell.turns == 1)
        bell.invalidate()
        bell.signal()
        world.run()
        #expect(bell.turns == 1)
    }

    @Test("an edge port reports a descriptor that cannot be watched") func whatCannotBeWatchedIsSaid() {
        final class Lost: RunLoop.EdgePort {
            var losses = 0
            override func cannotWatch() { losses += 1 }
        }
        let world = World()
        let lost = Lost()
        world.loop.add(lost)
        lost.watch(999_999)
        #expect(lost.losses == 1)
    }

    @Test("the turn's end handler is called once for many callbacks") func theEndOfATurnIsSaidOnceForManyCallbacks()
        throws
    {
        let world = World()
        let pipes = [Pipe(), Pipe()]
        for (i, pipe) in pipes.enumerated() {
            try world.port("P\(i)", pipe) { _ in world.loop.wantsTurnEnd = true }
        }
        world.loop.turnEndHandler = { world.log("end") }
        for pipe in pipes { pipe.fire() }
        world.run()
        #expect(world.journal() == "P0 P1 end =3")
    }
}
