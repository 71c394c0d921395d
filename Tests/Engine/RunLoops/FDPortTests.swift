import Glibc
import Linux
import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct FDPortTests {
    @Test("each pass handles one port in the order in which ports became ready")
    func portsAreHandledOneAPassInTheOrderInWhichTheyBecameReady() throws {
        let world = World()
        let pipes = [Pipe(), Pipe(), Pipe()]
        for (i, pipe) in pipes.enumerated() { try world.port("P\(i)", pipe, order: 3 - i) }
        world.observe(.default, .beforeTimers)
        for i in [2, 0, 1] { pipes[i].fire() }
        world.run()
        #expect(world.journal() == "BT P2 BT P0 BT P1 BT =3")
    }

    @Test("the timers take their turn among the ports") func theTimersTakeTheirTurnAmongThePorts() throws {
        let world = World()
        let pipes = [Pipe(), Pipe(), Pipe()]
        for (i, pipe) in pipes.enumerated() { try world.port("P\(i)", pipe) }
        pipes[0].fire()
        pipes[1].fire()
        world.timer("T", at: 0)
        pipes[2].fire()
        world.run()
        #expect(world.journal() == "P0 P1 T P2 =3")
    }

    @Test("ports and timers that are always ready do not starve others") func nobodyStarves() throws {
        let world = World()
        let pipes = [Pipe(), Pipe()]
        for (i, pipe) in pipes.enumerated() {
            pipe.fire()
            let port = try RunLoop.FDPort(pipe.reader) { _, _ in world.log("P\(i)") }
            world.loop.add(port)
        }
        world.timer("T", at: 0, every: 1)
        var passes = 0
        world.source("S", signalled: true) {
            passes += 1
            world.work(1)
            if passes == 9 { world.loop.stop() }
            $0.signal()
        }
        world.run(ms: nil)
        #expect(world.journal() == "S P0 S P1 S T S P0 S P1 S T S P0 S P1 S T =2")
    }

    @Test("several writes before a callback cause one callback") func severalWritesBeforeACallbackAreOneCallback()
        throws
    {
        let world = World()
        let pipe = Pipe()
        try world.port("P", pipe)
        for _ in 0..<5 { pipe.fire() }
        world.run()
        #expect(world.journal() == "P =3")
    }

    /// A port loses its turn if a callback of any kind, or code between two runs, has read the port's data.
    @Test(
        "a port whose data was read before its turn is not called",
        arguments: ["port", "request", "source", "observer", "attention", "caller"])
    func nobodyIsCalledForNothing(reader: String) throws {
        let world = World()
        let pipes = [Pipe(), Pipe(), Pipe()]
        let read = { pipes[1].drain() }
        if reader == "observer" {
            world.observe(.default, .beforeSources) { _ in if pipes[0].isDry { read() } }
            _ = world.journal()
        }
        let source = world.source("S") { _ in if reader == "source" { read() } }
        if reader == "attention" { world.loop.attentionHandler = { _ in read() } }
        for (i, pipe) in pipes.enumerated() {
            pipe.fire()
            let port = try RunLoop.FDPort(pipe.reader) { [unowned world] port, _ in
                world.log("P\(i)")
                pipe.drain()
                guard i == 0 else { return }
                switch reader {
                case "port": read()
                case "request": world.loop.perform(read)
                case "source": source.signal()
                case "attention": world.loop.handle.raiseAttention()
                case "caller": world.loop.stop()
                default: break
                }
            }
            world.loop.add(port)
        }
        world.run()
        if reader == "caller" {
            #expect(world.journal() == "P0 =2")
            read()
            world.run()
        }
        let handled = world.journal().split(separator: " ").filter { $0.hasPrefix("P") }
        #expect(handled == (reader == "caller" ? ["P2"] : ["P0", "P2"]))
    }

    @Test("a callback that reads another port's data takes that port's turn away")
    func whoLooksAndThenReadsInOneCallbackLeavesNothingToBeCalledFor() throws {
        let world = World()
        let pipes = [Pipe(), Pipe()]
        try world.port("P0", pipes[0]) { _ in
            pipes[1].fire()
            world.timer("T", at: 0)  // due at once, so that the loop checks which ports come before the timer
            pipes[1].drain()
        }
        try world.port("P1", pipes[1])
        pipes[0].fire()
        world.run()
        #expect(world.journal() == "P0 T =3")
    }

    @Test("unread data is reported again and the loop never reads")
    func whatIsLeftUnreadIsReportedAgainAndNothingIsReadBehindTheUsersBack() throws {
        let world = World()
        let pipe = Pipe()
        pipe.fire("hello")
        let port = try RunLoop.FDPort(pipe.reader) { _, _ in world.log("\(pipe.read(2))") }
        world.loop.add(port)
        world.run()
        #expect(world.journal() == "2 2 1 =3")
    }

    @Test("a port with once is called once, and again after setEvents") func onceMeansOnceUntilAskedAgain() throws {
        let world = World()
        let pipe = Pipe()
        pipe.fire("hello")
        let port = try RunLoop.FDPort(pipe.reader, once: true) { _, _ in world.log("P") }
        world.loop.add(port)
        world.run()
        #expect(world.journal() == "P =3")
        try port.setEvents(.read)
        world.run()
        #expect(world.journal() == "P =3")
    }

    @Test("the end of a file is delivered once and does not make the loop spin")
    func theEndOfAFileIsDeliveredOnceAndDoesNotSpin()
        throws
    {
        let world = World()
        let pipe = Pipe()
        pipe.fire("ab")
        pipe.closeWriter()
        let port = try RunLoop.FDPort(pipe.reader) { _, events in
            world.log("\(events.rawValue):\(pipe.read(1))")
        }
        world.loop.add(port)
        world.run()
        let entries = world.journal()
        #expect(entries.hasSuffix(":0 =3"))
        #expect(entries.split(separator: " ").count <= 4, "\(entries)")
        let passes = world.loop.statistics.passes
        world.run()
        #expect(world.loop.statistics.passes == passes + 1)
    }

    @Test("a hang up without interest does not make the loop spin") func aHangUpWithNoInterestDoesNotSpin() throws {
        let world = World()
        let pipe = Pipe(socket: true)
        let port = try RunLoop.FDPort(pipe.reader, []) { _, _ in world.log("P") }
        world.loop.add(port)
        pipe.closeWriter()
        world.run()
        #expect(world.loop.statistics.passes <= 3)
        #expect(!world.journal().contains("P P"))
    }

    @Test("writing continues after the peer has closed its sending half") func afterAHalfCloseByThePeerWritingGoesOn()
        throws
    {
        let world = World()
        let pipe = Pipe(socket: true)
        shutdown(pipe.writer, Int32(SHUT_WR))
        var writes = 0
        let port = try RunLoop.FDPort(pipe.reader, [.read, .write]) { port, events in
            if events.contains(.read) { world.log("r\(pipe.read(1))") }
            if events.contains(.write) {
                writes += 1
                if writes == 3 { try? port.setEvents(.read) }
            }
        }
        world.loop.add(port)
        world.run()
        #expect(writes == 3)
        #expect(world.loop.statistics.passes < 10)
    }

    @Test("a port invalidated or removed before its turn is not called")
    func oneInvalidatedOrRemovedBeforeItsTurnIsNotCalled() throws {
        let world = World()
        let pipes = [Pipe(), Pipe(), Pipe()]
        var ports: [RunLoop.FDPort] = []
        ports.append(
            try world.port("P0", pipes[0]) { _ in
                ports[1].invalidate()
                world.loop.remove(ports[2])
            })
        ports.append(try world.port("P1", pipes[1]))
        ports.append(try world.port("P2", pipes[2]))
        for pipe in pipes { pipe.fire() }
        world.run()
        #expect(world.journal() == "P0 =3")
        world.loop.add(ports[2])
        world.run()
        #expect(world.journal() == "P2 =3")
    }

    @Test("a port in two modes is delivered once") func inTwoModesItIsDeliveredOnce() throws {
        let world = World()
        let pipe = Pipe()
        try world.port("P", pipe, in: ["a", "b"])
        pipe.fire()
        world.run("b", ms: 0)
        world.run("a", ms: 0)
        #expect(world.journal() == "P =3 =3")
    }

    @Test("a nested run calls a port again that became ready in its callback")
    func madeReadyInItsCallbackANestedRunCallsItAgain()
        throws
    {
        let world = World()
        let pipe = Pipe()
        var depth = 0
        try world.port("P", pipe) { _ in
            depth += 1
            if depth < 3 {
                pipe.fire()
                world.run(ms: 0)
            }
        }
        pipe.fire()
        world.run(ms: 0)
        #expect(world.journal() == "P P P =3 =3 =3")
    }

    @Test("several ports may watch one descriptor") func severalPortsMayWatchOneDescriptor() throws {
        let world = World()
        let pipe = Pipe()
        pipe.fire()
        let first = try RunLoop.FDPort(pipe.reader) { port, _ in
            world.log("A")
            port.invalidate()
        }
        let second = try RunLoop.FDPort(pipe.reader) { _, _ in
            world.log("B")
            pipe.drain()
        }
        world.loop.add(first)
        world.loop.add(second)
        world.run()
        #expect(world.journal() == "A B =3")
        pipe.fire()
        world.run()
        #expect(world.journal() == "B =3")
    }

    @Test("a bad descriptor fails at once") func aBadDescriptorFailsAtOnce() {
        #expect(throws: SystemError("fcntl", errno: EBADF)) { try RunLoop.FDPort(-1) { _, _ in } }
        #expect(throws: SystemError("fcntl", errno: EBADF)) { try RunLoop.FDPort(999_999) { _, _ in } }
    }

    @Test("a regular file is always ready") func aRegularFileIsAlwaysReady() throws {
        let world = World()
        let fd = open("/proc/self/exe", O_RDONLY)
        defer { close(fd) }
        var count = 0
        let port = try RunLoop.FDPort(fd) { port, events in
            #expect(events == .read)
            count += 1
            if count == 3 { port.invalidate() }
        }
        world.loop.add(port)
        #expect(world.run() == .finished)
        #expect(count == 3)
    }

    @Test("an owned descriptor is closed with its port and only then") func aDescriptorItOwnsIsClosedWithItAndOnlyThen()
        throws
    {
        let pipe = Pipe()
        let world = World()
        let copy = fcntl(pipe.reader, F_DUPFD, 880)  // high: see Pipe
        let port = try RunLoop.FDPort(copy, owns: true) { _, _ in }
        world.loop.add(port)
        world.loop.remove(port)
        #expect(fcntl(copy, F_GETFD) != -1)
        port.invalidate()
        #expect(fcntl(copy, F_GETFD) == -1)
        let another = fcntl(pipe.reader, F_DUPFD, 900)
        do { _ = try RunLoop.FDPort(another, owns: true) { _, _ in } }
        #expect(fcntl(another, F_GETFD) == -1)
    }

    @Test("a loop that ends frees its modes and their descriptors")
    func aLoopThatIsGoneHasGivenBackItsModesAndTheirDescriptors() throws {
        weak var mode: RunLoop.ModeState?
        do {
            let world = World()
            let pipe = Pipe()
            world.timer("T", at: 1)
            try world.port("P", pipe)
            world.timer("U", at: 1, in: [.common, "a"])
            world.run(ms: 0)
            mode = world.loop.modes.first
            #expect(mode?.descriptors != nil)
        }
        #expect(mode == nil)
    }

    // MARK: Descriptors that other code closes

    @Test("a port gets no events of a new file with the same number") func aReusedNumberNeverBringsTheOldPortAnEvent()
        throws
    {
        let world = World()
        let old = Pipe(readerFrom: 800)
        let number = old.reader
        let stale = try RunLoop.FDPort(number) { _, events in world.log("stale\(events.rawValue)") }
        world.loop.add(stale)
        world.run(ms: 0)
        _ = world.journal()
        old.closeReader()
        let new = Pipe()
        #expect(dup2(new.reader, number) == number)
        defer { close(number) }
        new.fire()
        world.run()
        #expect(world.journal() == "=3")
        // When the number is watched again, the loop notices the change and reports it once.
        let fresh = try RunLoop.FDPort(number) { _, _ in
            world.log("fresh")
            new.drain()
        }
        world.loop.add(fresh)
        world.run()
        let journal = world.journal()
        #expect(journal.contains("fresh"))
        #expect(journal.contains("stale\(RunLoop.FDPort.Events.error.rawValue)"))
    }

    @Test("a number that is reused within a batch brings no stale event")
    func aNumberReusedWithinABatchBringsNoStaleEvent()
        throws
    {
        let world = World()
        let pipes = [Pipe(), Pipe(readerFrom: 820)]
        let number = pipes[1].reader
        let other = Pipe()
        let victim = try RunLoop.FDPort(number) { _, _ in world.log("victim") }
        try world.port("P", pipes[0]) { _ in
            victim.invalidate()
            pipes[1].closeReader()
            #expect(dup2(other.reader, number) == number)
            if let port = try? RunLoop.FDPort(number, callback: { _, _ in world.log("new") }) { world.loop.add(port) }
        }
        world.loop.add(victim)
        pipes[0].fire()
        pipes[1].fire()
        world.run()
        close(number)
        #expect(world.journal() == "P =3")
    }

    @Test("adding a port whose descriptor was closed delivers an error once")
    func addingAPortWhoseDescriptorWasClosedDeliversAnErrorOnce() throws {
        let world = World()
        let pipe = Pipe(readerFrom: 840)
        let port = try RunLoop.FDPort(pipe.reader) { _, events in world.log("\(events.rawValue)") }
        pipe.closeReader()
        world.loop.add(port)
        world.run()
        #expect(world.journal() == "\(RunLoop.FDPort.Events.error.rawValue) =3")
        #expect(throws: SystemError("epoll_ctl", errno: EBADF)) { try port.setEvents(.read) }
    }

    @Test("a closed descriptor does not make the loop spin") func aClosedDescriptorDoesNotMakeTheLoopSpin() throws {
        let world = World()
        let pipe = Pipe(readerFrom: 860)
        let duplicate = dup(pipe.reader)
        defer { close(duplicate) }
        let port = try RunLoop.FDPort(pipe.reader) { _, events in world.log("\(events.rawValue)") }
        world.loop.add(port)
        world.run(ms: 0)
        pipe.closeReader()
        pipe.fire()
        world.run()
        #expect(world.loop.statistics.passes < 5)
        // The kernel reports the open file, but poll reports that the descriptor is closed.
        #expect(world.journal() == "=3 1 8 =3")
    }
}
