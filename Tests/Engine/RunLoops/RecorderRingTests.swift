import TestSupport
import Testing

@testable import RunLoops

/// Records at the end of the ring, and in each form that they have in the ring.
@Suite(.timed) struct RecorderRingTests {
    private typealias Record = RunLoop.Recorder.Record
    private typealias Kind = RunLoop.Recorder.Kind

    /// Returns the faults in a recording: an event that does not end within the event around it; a send that arrives
    /// before it was sent, or never.
    private static func check(_ records: [Record]) -> [String] {
        var faults: [String] = []
        var depth = 0
        var last: UInt64 = 0
        var sent: [UInt32: UInt64] = [:]
        for (place, record) in records.enumerated() {
            if record.time < last { faults.append("\(place): earlier than the one before") }
            last = record.time
            switch Kind(rawValue: record.kind) {
            case .run, .pass, .begin: depth += 1
            case .runEnd, .passEnd, .end: depth -= 1
            case .out:
                if sent[record.flow] != nil { faults.append("\(place): \(record.flow) is sent twice") }
                sent[record.flow] = record.time
            default: break
            }
            if record.flow != 0, record.kind == Kind.begin.rawValue || record.kind == Kind.whole.rawValue {
                guard let time = sent[record.flow] else {
                    faults.append("\(place): \(record.flow) was never sent")
                    continue
                }
                if time > record.time { faults.append("\(place): \(record.flow) arrives before it is sent") }
            }
            if depth < 0 { faults.append("\(place): ends twice") }
        }
        if depth != 0 { faults.append("\(depth) have not ended") }
        return faults
    }

    @Test("records at the end of the ring are neither lost nor torn", .soak(seconds: 30))
    func nothingIsLost() {
        for seed in Soak.seeds { fillTheRing(offset: Int(seed % 8)) }
    }

    private func fillTheRing(offset: Int) {
        let world = World()
        world.loop.record(as: "main")
        var position = RunLoop.Recorder.Position(now: world.loop.recorder)
        var records: [Record] = []
        world.loop.recorder.pointee.setReader {
            records += RunLoop.Recorder.read(world.loop.recorder, &position)
            return true
        }
        // Passes write one, two, three and more records, so that each kind meets the end of the ring in some round.
        for _ in 0..<offset { world.loop.recorder.pointee.mark(0) }
        var left = 12_000
        var calls = 0
        let source = world.source("source") { source in
            calls += 1
            world.loop.perform { calls += 1 }
            if left % 3 == 0 { world.loop.perform { calls += 1 } }
            if left % 5 == 0 { world.loop.recorder.pointee.mark(0) }
            if left % 7 == 0 {
                // A callback inside this one, with a send of its own.
                world.loop.recorder.pointee.beginNow(0)
                world.loop.perform { calls += 1 }
                world.loop.recorder.pointee.end()
            }
            left -= 1
            if left > 0 { source.signal() } else { source.invalidate() }
        }
        source.signal()
        world.loop.run()
        records += RunLoop.Recorder.read(world.loop.recorder, &position)
        world.loop.recorder.pointee.dropReader()
        #expect(Self.check(records) == [])
        let told = records.count {
            $0.kind == Kind.whole.rawValue || $0.kind == Kind.begin.rawValue && $0.object != 0
        }
        #expect(calls == 12_000 * 2 + 4_000 + 1_714 && told == calls, "\(told) of \(calls)")
        #expect(world.loop.recorder.pointee.next > 2 * RunLoop.Recorder.capacity)
    }

    @Test("flow numbers of sends wrap around without meeting those of requests") func numbers() {
        let world = World()
        world.loop.record(as: "main")
        let recorder = world.loop.recorder
        recorder.pointee.lastFlow = recorder.pointee.flowBase + RunLoop.Recorder.counted - 3
        for _ in 0..<4 {
            world.loop.perform {
                let flows = [recorder.pointee.sendsHere(), recorder.pointee.sendsHere()]
                // The callback's record has room for one send only.
                #expect(flows[0] != nil && flows[1] == nil)
            }
        }
        world.loop.run()
        let sent = RunLoop.Recorder.copy(recorder).records.filter { $0.kind == Kind.out.rawValue }
        let numbers = sent.map { $0.flow & (RunLoop.Recorder.counted * 2 - 1) }
        #expect(numbers.filter { $0 < RunLoop.Recorder.counted } == [0x1F_FFFE, 0x1F_FFFF, 1, 2])
        #expect(Set(sent.map { $0.flow >> 22 }) == [UInt32(recorder.pointee.number & 1023)])
    }

    @Test("a callback is a section of its task only if it waits or continues the task") func pieces() {
        let world = World()
        world.loop.record(as: "main")
        let recorder = world.loop.recorder
        let label = RunLoop.Recorder.label(.init("task", "task"))
        world.loop.perform { recorder.pointee.name(label, fiber: 5) }
        world.loop.perform {
            recorder.pointee.name(label, fiber: 6)
            recorder.pointee.waits(6, in: "rl.sleep")
        }
        world.loop.perform {
            recorder.pointee.name(0, fiber: 7)
            let goOn = [7, 8].map { recorder.pointee.goesOnHere(label, task: 1 << 22 | $0) }
            #expect(goOn == [true, false])
            recorder.pointee.waits(9, in: "rl.sleep")
        }
        world.loop.perform {
            // More events than the record of a callback has room for.
            recorder.pointee.name(label, fiber: 10)
            recorder.pointee.mark(0)
        }
        world.loop.run()
        let ends = RunLoop.Recorder.copy(recorder).records.filter {
            $0.object == label && $0.kind != Kind.begin.rawValue
        }
        #expect(ends.map { $0.task & Record.tasks } == [0, 6, 7, 0])
    }

    @Test("statistics have the time asleep, with and without recording") func asleep() {
        for recorded in ["never", "always", "later"] {
            let world = World()
            if recorded == "always" { world.loop.record(as: "main") }
            for date in [10, 30] {
                world.loop.add(
                    RunLoop.Timer(fireDate: world.date(date)) { _, _ in
                        world.work(5)
                        if recorded == "later" { world.loop.record(as: "main") }
                    })
            }
            world.loop.run()
            #expect(world.loop.statistics.asleep == 25_000_000, "\(recorded)")

            // Measured by the processor's ticks; the coarse clock may show a few milliseconds more.
            let loop = RunLoop(poller: EpollPoller())
            if recorded != "never" { loop.record(as: "main") }
            let start = loop.now
            loop.add(RunLoop.Timer(fireDate: start + .milliseconds(100)) { _, _ in })
            loop.run()
            let elapsed = (loop.now - start) / .nanoseconds(1)
            #expect(loop.statistics.asleep > 0 && Double(loop.statistics.asleep) < elapsed + 2e7, "\(recorded)")
        }
    }
}
