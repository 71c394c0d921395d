import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct KeepsAliveTests {
    @Test("a run ends with the last item that keeps it alive and serves the others until then")
    func aRunEndsWithWhatKeepsItAliveAndServesTheRestUntilThen() throws {
        let world = World()
        let pipe = Pipe()
        let port = try world.port("P", pipe)
        let source = world.source("S")
        let timer = world.timer("T", at: 10, every: 10)
        port.keepsAlive = false
        source.keepsAlive = false
        timer.keepsAlive = false
        world.run(ms: nil)
        #expect(world.journal() == "=1")
        world.timer("last", at: 35)
        pipe.fire()
        source.signal()
        world.run(ms: nil)
        #expect(world.journal() == "S P T T T last =1")
        #expect(timer.isValid && port.isValid && source.isValid)
    }

    @Test("keepsAlive counts in each mode however the item enters and leaves it")
    func itCountsInEachModeHoweverTheItemGetsThereAndLeaves() throws {
        let world = World()
        let pipe = Pipe()
        let port = try RunLoop.FDPort(pipe.reader) { _, _ in }
        let source = RunLoop.Source()
        let timer = RunLoop.Timer(fireDate: world.date(1000)) { _, _ in }
        world.loop.addCommonMode("other")
        for keeps in [false, true, false, true] {
            port.keepsAlive = keeps
            source.keepsAlive = keeps
            timer.keepsAlive = keeps
            for add in [
                { world.loop.add(port, to: .common) }, { world.loop.add(source, to: .common) },
                { world.loop.add(timer, to: .common) },
            ] {
                add()
                for mode in [RunLoop.Mode.default, "other"] {
                    #expect(world.loop.run(in: mode, for: .milliseconds(1)) == (keeps ? .timedOut : .finished))
                }
                for change in [!keeps, keeps] {
                    port.keepsAlive = change
                    source.keepsAlive = change
                    timer.keepsAlive = change
                    #expect(world.loop.run(in: "other", for: .milliseconds(1)) == (change ? .timedOut : .finished))
                }
                world.loop.remove(port, from: .common)
                world.loop.remove(source, from: .common)
                world.loop.remove(timer, from: .common)
                #expect(world.loop.run(in: "other", for: .milliseconds(1)) == .finished)
            }
        }
        world.keepAlive("other")
        #expect(world.loop.run(in: "other", for: .milliseconds(1)) == .timedOut)
    }

    @Test("a timer that moves between modes keeps its keepsAlive") func aTimerThatMovesBetweenModesTakesItAlong() {
        let world = World()
        let timer = world.timer("T", at: 1000)
        timer.keepsAlive = false
        world.loop.add(timer, to: "a")
        world.loop.remove(timer)
        #expect(world.loop.run(in: "a", for: .milliseconds(1)) == .finished)
        timer.keepsAlive = true
        #expect(world.loop.run(in: "a", for: .milliseconds(1)) == .timedOut)
        timer.invalidate()
        #expect(world.loop.run(in: "a", for: .milliseconds(1)) == .finished)
        // The callback sets `keepsAlive` to false.
        world.timer("R", at: 5, every: 5) { $0.keepsAlive = false }
        world.run(ms: nil)
        #expect(world.journal() == "R =1")
    }

    @Test("a message port passes its keepsAlive on to its connections") func aMessagePortTakesItsConnectionsAlong()
        throws
    {
        let world = World()
        let name = "keeps-alive-\(UInt64.random(in: 0 ... .max))"
        let port = try RunLoop.MessagePort(name: name) { _, message in message.answer() }
        world.loop.add(port)
        port.keepsAlive = false
        #expect(world.run(ms: nil) == .finished)
        let remote = try RunLoop.RemotePort(name: name, on: world.loop)
        #expect(throws: Never.self) { try remote.request(1, [], runningIn: .default).get() }
        #expect(world.run(ms: nil) == .finished)
        port.keepsAlive = true
        #expect(world.run(ms: 1) == .timedOut)
    }
}
