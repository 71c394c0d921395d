import TestSupport
import Testing

@testable import RunLoops

/// The records of a loop.
@Suite(.timed) struct RecorderTests {
    /// Returns records as text: milliseconds, kind, object, and other fields.
    private static func text(_ records: [RunLoop.Recorder.Record]) -> [String] {
        records.map { record in
            let kind = RunLoop.Recorder.Kind(rawValue: record.kind).map { "\($0)" } ?? "?"
            let object = RunLoop.Recorder.title(record.object).map { " \($0.text)" } ?? ""
            return "\(record.time / 1_000_000) \(kind)\(object)" + (record.a == 0 ? "" : " \(record.a)")
                + (record.flags == 0 ? "" : " flags \(record.flags)")
                + (RunLoop.Recorder.title(record.waitsIn).map { " in \($0.text)" } ?? "")
        }
    }

    @Test("a run is recorded as it happens") func aRunIsRecorded() {
        let world = World()
        world.loop.record(as: "main")
        world.loop.add(RunLoop.Timer(fireDate: world.date(10), name: "once") { _, _ in world.work(5) })
        world.loop.run()
        let (records, lost) = RunLoop.Recorder.copy(world.loop.recorder)
        #expect(
            Self.text(records) == [
                "0 run default", "0 pass default", "0 sleep 10000000", "10 wake 1", "10 begin timer \"once\" 10000000",
                "15 end timer \"once\"", "15 passEnd", "15 runEnd default 1",
            ])
        #expect(lost == 0)
    }

    @Test("nested runs are recorded within their callbacks") func runsInsideCallbacksLie() {
        let world = World()
        world.loop.record(as: "main")
        let inner = RunLoop.Timer(fireDate: world.date(20), name: "inner") { _, _ in }
        world.loop.add(inner, to: "modal")
        world.loop.add(
            RunLoop.Timer(fireDate: world.date(10), name: "outer") { _, _ in world.loop.run(in: "modal") })
        world.loop.run()
        #expect(
            Self.text(RunLoop.Recorder.copy(world.loop.recorder).records) == [
                "0 run default", "0 pass default", "0 sleep 10000000", "10 wake 1",
                "10 begin timer \"outer\" 10000000", "10 run modal", "10 pass modal", "10 sleep 20000000", "20 wake 1",
                "20 begin timer \"inner\" 20000000", "20 end timer \"inner\"", "20 passEnd", "20 runEnd modal 1",
                "20 end timer \"outer\"", "20 passEnd", "20 runEnd default 1",
            ])
    }

    @Test("sends are recorded within their callback, and a pass begins with its first event")
    func whatIsSentLiesInside() {
        let world = World()
        world.loop.record(as: "main")
        var position = RunLoop.Recorder.Position(now: world.loop.recorder)
        var pieces: [RunLoop.Recorder.Record] = []
        let source = world.source("source") { source in
            world.loop.perform { source.invalidate() }
            world.loop.perform {}
            // The current callback has no record yet: a reader at this point gets its send later, together with the
            // callback.
            pieces += RunLoop.Recorder.read(world.loop.recorder, &position)
            world.work(2)
        }
        world.loop.add(
            RunLoop.Timer(fireDate: world.date(5), name: "go") { _, _ in
                world.loop.perform {}
                source.signal()
            })
        world.loop.run()
        pieces += RunLoop.Recorder.read(world.loop.recorder, &position)
        let whole = Self.text(RunLoop.Recorder.copy(world.loop.recorder).records)
        #expect(
            whole == [
                "0 run default", "0 pass default", "0 sleep 5000000", "5 wake 1", "5 begin timer \"go\" 5000000",
                "5 out", "5 end timer \"go\"", "5 whole request", "5 passEnd", "5 pass default",
                "5 begin source \"source\"", "5 out", "5 out", "7 end source \"source\"", "7 whole request",
                "7 whole request", "7 passEnd", "7 runEnd default 1",
            ])
        #expect(Self.text(pieces) == whole)
    }

    @Test("a send to the own loop is part of the callback's record") func sentToItself() {
        let world = World()
        world.loop.record(as: "main")
        world.loop.perform { world.loop.perform {} }
        world.loop.run()
        // The first request, the run, each callback with its pass, and the end.
        #expect(world.loop.recorder.pointee.next == 5)
        #expect(
            Self.text(RunLoop.Recorder.copy(world.loop.recorder).records) == [
                "0 out", "0 run default", "0 pass default", "0 begin request", "0 out", "0 end request",
                "0 whole request", "0 passEnd", "0 runEnd default 1",
            ])
    }

    @Test("a section of a task that ends with a wait names the waiting function") func waits() {
        let world = World()
        world.loop.record(as: "main")
        var position = RunLoop.Recorder.Position(now: world.loop.recorder)
        func waits(_ task: Int, in name: StaticString) { world.loop.recorder.pointee.waits(task, in: name) }
        world.loop.perform { waits(7, in: "stream:read") }
        world.loop.perform {
            waits(8, in: "rl.sleep")
            world.work(5000)
        }
        world.loop.add(RunLoop.Timer(fireDate: world.date(10), name: "once") { _, _ in waits(7, in: "stream:read") })
        world.loop.add(
            RunLoop.Timer(fireDate: world.date(5010), name: "span") { _, _ in
                let span = RunLoop.Recorder.label(.init("span", "part"))
                world.loop.recorder.pointee.beginNow(span)
                world.loop.recorder.pointee.endWaiting(9, in: "rl.sleep")
                // More than a record has room for.
                waits(1 << 22 | 9, in: "rl.sleep")
            })
        world.loop.run()
        let records = RunLoop.Recorder.copy(world.loop.recorder).records
        #expect(
            Self.text(records).filter { $0.contains(" end ") } == [
                "0 end request flags 1 in stream:read", "5000 end request flags 1 in rl.sleep",
                "5000 end timer \"once\" flags 1 in stream:read", "5010 end part flags 1 in rl.sleep",
                "5010 end timer \"span\" flags 1 in rl.sleep",
            ])
        let tasks = records.filter { $0.flags != 0 }.map { $0.task & (1 << 22 - 1) }
        #expect(tasks == [7, 8, 7, 9, 9])
        #expect(Self.text(RunLoop.Recorder.read(world.loop.recorder, &position)) == Self.text(records))
    }

    @Test("a callback that takes seconds is recorded with its full length") func aCallbackThatTakes() {
        let world = World()
        world.loop.record(as: "main")
        world.loop.add(RunLoop.Timer(fireDate: world.date(5), name: "long") { _, _ in world.work(10_000) })
        world.loop.perform { world.work(20_000) }
        world.loop.run()
        #expect(
            Self.text(RunLoop.Recorder.copy(world.loop.recorder).records) == [
                "0 out", "0 run default", "0 pass default", "0 begin request", "20000 end request",
                "20000 begin timer \"long\" 5000000",
                "30000 end timer \"long\"", "30000 passEnd", "30000 runEnd default 1",
            ])
    }

    @Test("overwritten records are counted, and events in progress begin with the remaining ones")
    func whatWasOverwrittenIs() throws {
        let world = World()
        world.loop.record(as: "main")
        var left = 3 * RunLoop.Recorder.capacity
        let source = world.source("again") { source in
            left -= 1
            if left > 0 { source.signal() } else { source.invalidate() }
        }
        source.signal()
        world.loop.run()
        let (records, lost) = RunLoop.Recorder.copy(world.loop.recorder)
        #expect(lost > RunLoop.Recorder.capacity && records.count >= RunLoop.Recorder.capacity - 1)
        let first = try #require(records.first)
        #expect(first.kind == RunLoop.Recorder.Kind.run.rawValue, "\(first)")
        var depth = 0
        for record in records {
            switch RunLoop.Recorder.Kind(rawValue: record.kind) {
            case .run, .begin, .pass: depth += 1
            case .runEnd, .end, .passEnd: depth -= 1
            default: break
            }
            #expect(depth >= 0)
        }
        // The pass in progress had begun earlier.
        #expect(depth == 0 || depth == -1)
    }

    @Test("a reader misses nothing, however much there is") func aReaderMissesNothing() {
        let world = World()
        world.loop.record(as: "main")
        var position = RunLoop.Recorder.Position(now: world.loop.recorder)
        var records: [RunLoop.Recorder.Record] = []
        world.loop.recorder.pointee.setReader {
            records += RunLoop.Recorder.read(world.loop.recorder, &position)
            return true
        }
        var left = 40_000
        func next() {
            left -= 1
            if left > 0 { world.loop.perform { next() } }
        }
        world.loop.perform { next() }
        world.loop.add(RunLoop.Timer(fireDate: world.date(1)) { _, _ in })
        world.loop.run()
        records += RunLoop.Recorder.read(world.loop.recorder, &position)
        let requests = records.count { RunLoop.Recorder.title($0.object)?.kind == "request" && $0.kind != 2 }
        let flows = records.filter { $0.kind == RunLoop.Recorder.Kind.out.rawValue }.map(\.flow)
        #expect(requests == 40_000 && flows.count == 40_000 && Set(flows).count == flows.count)
        world.loop.recorder.pointee.dropReader()
    }

    @Test("statistics have the longest callback, with and without recording") func statisticsKnowTheLongest() {
        for isRecorded in [false, true] {
            let loop = RunLoop(poller: EpollPoller())
            if isRecorded { loop.record(as: "main") }
            loop.add(
                RunLoop.Timer(fireDate: loop.now) { _, _ in
                    let end = RunLoop.Instant.now + .milliseconds(30)
                    while RunLoop.Instant.now < end {}
                })
            loop.run()
            #expect(loop.statistics.longest >= 20_000_000 && loop.statistics.longest < 20_000_000_000)
        }
    }

    /// The real world, with a count of the readings of its clock.
    private final class CountingPoller: Poller {
        private let real = EpollPoller()
        var looks = 0
        override var isReal: Bool { true }
        override func now() -> Int64 {
            looks += 1
            return real.now()
        }
        override func coarseNow() -> Int64 { real.coarseNow() }
        override func wait(
            _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
        ) -> Int { real.wait(epoll, events, capacity: capacity, timeout: timeout, watching: watching) }
    }

    @Test("a timer's next date uses the recorder's reading of the clock") func looks() {
        guard RunLoop.Recorder.ticksAreSteady else { return }
        var looks: [Int] = []
        for isRecorded in [false, true] {
            let poller = CountingPoller()
            let loop = RunLoop(poller: poller)
            if isRecorded { loop.record(as: "main") }
            let date = loop.now + .milliseconds(20)
            var fires = 0
            for _ in 0..<500 {
                loop.add(RunLoop.Timer(fireDate: date, interval: .seconds(60)) { _, _ in fires += 1 })
            }
            poller.looks = 0
            loop.run(in: .default, for: .milliseconds(60))
            #expect(fires == 500)
            looks.append(poller.looks)
        }
        #expect(looks[0] >= 500 && looks[1] < 100, "\(looks)")
    }

    @Test("a timer's next date is on its grid and not past whatever its callback does") func theNextDate() {
        let loop = RunLoop(poller: EpollPoller())
        loop.record(as: "main")
        let first = loop.now + .milliseconds(5)
        let interval = Duration.milliseconds(4)
        var missed = 0
        var fires = 0
        let timer = RunLoop.Timer(fireDate: first, interval: interval) { timer, passed in
            fires += 1
            missed += passed
            // A timer never fires before its date.
            #expect(RunLoop.Instant.now.nanoseconds >= timer.fireDate.nanoseconds)
            guard fires % 3 == 0 else { return }
            let end = RunLoop.Instant.now + .milliseconds(Int64(fires))
            while RunLoop.Instant.now < end {}
        }
        loop.add(timer)
        loop.run(in: .default, for: .milliseconds(150))
        let steps = (timer.fireDate.nanoseconds - first.nanoseconds) / 4_000_000
        #expect((timer.fireDate.nanoseconds - first.nanoseconds) % 4_000_000 == 0)
        // Each date was reported as a fire or as missed, will be reported with the next fire, or is in the future.
        #expect(fires + missed + Int(timer.node.pointee.passedOver) == Int(steps), "\(fires), \(missed), \(steps)")
        #expect(missed > 0)
    }

    @Test("recording begins when a loop has been running for a second, and not before") func itBeginsWhenA() {
        let loop = RunLoop(poller: EpollPoller())
        var began = 0
        loop.whenItLasts = { _ in began += 1 }
        loop.add(RunLoop.Timer(fireDate: loop.now, interval: .milliseconds(5)) { _, _ in })
        loop.run(in: .default, for: .milliseconds(300))
        #expect(began == 0 && !loop.isRecording)
        loop.run(in: .default, for: .milliseconds(900))
        #expect(began == 1)
    }
}
