import TestSupport
import Testing

@testable import RunLoops

@Suite("Work before long sleeps", .timed) struct RestTests {
    /// A world that counts as real, in which sleeping takes no time.
    private final class QuickPoller: Poller {
        var time: Int64 = 0
        override var isReal: Bool { true }
        override func now() -> Int64 { time }
        override func wait(
            _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
        ) -> Int {
            time += max(0, timeout)
            return 0
        }
    }

    /// Runs a loop for a second in which a timer fires each 10 ms. Returns the times in milliseconds at which the loop
    /// called its handler; `results` are the handler's first results.
    private func rests(_ results: [Int64] = []) -> [Int64] {
        let poller = QuickPoller()
        let loop = RunLoop(poller: poller)
        var times: [Int64] = []
        loop.restHandler = { _ in
            times.append(poller.time / 1_000_000)
            return times.count <= results.count ? results[times.count - 1] : .max
        }
        let interval = Duration.milliseconds(10)
        loop.add(RunLoop.Timer(fireDate: loop.now + interval, interval: interval) { _, _ in })
        _ = loop.run(in: .default, for: .milliseconds(1007))
        return times
    }

    @Test("timers put the work off for a quarter of a second") func timers() {
        #expect(rests() == [0, 250, 500, 750, 1000])
    }

    @Test("unfinished work continues at once") func steps() {
        #expect(rests([0, 0, 0]) == [0, 0, 0, 0, 250, 500, 750, 1000])
    }

    @Test("a quiet loop does its work after a second") func quiet() {
        let poller = QuickPoller()
        let loop = RunLoop(poller: poller)
        var times: [Int64] = []
        loop.restHandler = { _ in
            times.append(poller.time / 1_000_000)
            return .max
        }
        for date in [0, 100] { loop.add(RunLoop.Timer(fireDate: loop.now + .milliseconds(date)) { _, _ in }) }
        loop.add(RunLoop.Timer(fireDate: loop.now + .seconds(60)) { _, _ in })
        _ = loop.run(in: .default, for: .seconds(30))
        // The loops of other tests may make this loop give the process's memory back, which adds one call.
        #expect(times.starts(with: [0, 1100]) && times.count <= 3, "\(times)")
    }
}
