import Glibc
import TestSupport
import Testing

@testable import RunLoops

/// Properties of the real and the simulated world on which a loop relies.
@Suite(.timed, .serialized) struct PollerContractTests {
    enum Kind: CaseIterable { case epoll, simulated }

    private func loop(_ kind: Kind) -> RunLoop {
        RunLoop(poller: kind == .epoll ? EpollPoller() : SimulatedPoller(start: .now, waitsForDescriptors: true))
    }

    @Test("the clock never goes back", arguments: Kind.allCases) func theClockNeverGoesBack(_ kind: Kind) {
        let loop = loop(kind)
        loop.add(RunLoop.Source())
        var last = loop.now
        for _ in 0..<100 {
            loop.run(in: .default, for: .microseconds(10))
            #expect(loop.now >= last)
            last = loop.now
        }
    }

    @Test("a run with a limit lasts at least that long", arguments: Kind.allCases)
    func aRunLastsAtLeastAsLongAsItWasTold(_ kind: Kind) {
        let loop = loop(kind)
        loop.add(RunLoop.Source())
        for duration in [Duration.nanoseconds(1), .nanoseconds(1_500), .microseconds(700), .milliseconds(3)] {
            let start = loop.now
            #expect(loop.run(in: .default, for: duration) == .timedOut)
            #expect(loop.now - start >= duration)
        }
    }

    @Test("timers are never early", arguments: Kind.allCases) func timersAreNeverEarly(_ kind: Kind) {
        let loop = loop(kind)
        var early = 0
        var fired = 0
        var random = Random(seed: 7)
        for _ in 0..<1000 {
            let date = loop.now + .nanoseconds(random.next(20_000_000))
            loop.add(
                RunLoop.Timer(fireDate: date) { _, _ in
                    fired += 1
                    if loop.now < date { early += 1 }
                })
        }
        #expect(loop.run() == .finished)
        #expect(fired == 1000 && early == 0)
    }

    @Test("a ready descriptor ends the wait", arguments: Kind.allCases) func aDescriptorEndsTheWait(_ kind: Kind) throws
    {
        let loop = loop(kind)
        let pipe = Pipe()
        var got = 0
        let port = try RunLoop.FDPort(pipe.reader) { _, _ in
            got += pipe.read()
            loop.stop()
        }
        loop.add(port)
        let handle = loop.handle
        let writer = pipe.writer
        let thread = Thread {
            handle.awaitWaiting()
            _ = write(writer, "x", 1)
        }
        #expect(loop.run(in: .default, for: .seconds(60)) == .stopped)
        thread.join()
        #expect(got == 1)
    }

    @Test("a wake up ends the wait", arguments: Kind.allCases) func aWakeUpEndsTheWait(_ kind: Kind) {
        let loop = loop(kind)
        loop.add(RunLoop.Source())
        let handle = loop.handle
        for _ in 0..<50 {
            let thread = Thread { handle.stopWhenWaiting() }
            #expect(loop.run() == .stopped)
            thread.join()
        }
    }

    @Test("a wake up at any time around the sleep is not lost", arguments: Kind.allCases)
    func noWakeUpIsLostHoweverItMeetsTheSleep(_ kind: Kind) {
        let loop = loop(kind)
        loop.add(RunLoop.Source())
        let handle = loop.handle
        let rounds = 3000
        let count = Counter()
        let thread = Thread {
            for i in 1...rounds {
                handle.perform { loop in
                    count.value += 1
                    if i == rounds { loop.stop() }
                }
                if i % 3 == 0 { sched_yield() }
            }
        }
        #expect(loop.run() == .stopped)
        thread.join()
        #expect(count.value == rounds)
    }

    /// Used only on the loop's thread.
    private final class Counter: @unchecked Sendable { var value = 0 }

    @Test("a signal handler does not shorten a wait") func aSignalHandlerDoesNotShortenAWait() {
        let loop = loop(.epoll)
        loop.add(RunLoop.Source())
        signal(SIGUSR2) { _ in }
        let own = pthread_self()
        let thread = Thread {
            for _ in 0..<20 {
                pthread_kill(own, SIGUSR2)
                usleep(1000)
            }
        }
        var passes = 0
        loop.add(RunLoop.Observer(.beforeTimers) { _, _ in passes += 1 })
        let start = loop.now
        #expect(loop.run(in: .default, for: .milliseconds(40)) == .timedOut)
        #expect(loop.now - start >= .milliseconds(40))
        #expect(passes == 1)
        thread.join()
    }
}
