import Linux
import Synchronization
import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct HandleTests {
    @Test("a handle outlives its loop and then does nothing") func aHandleOutlivesItsLoopAndThenDoesNothing() {
        var world: World? = World()
        let handle = world?.loop.handle
        #expect(handle?.isAlive == true)
        world = nil
        #expect(handle?.isAlive == false)
        #expect(handle?.perform { _ in } == false)
        handle?.stop()
        handle?.wakeUp()
        handle?.raiseAttention()
        #expect(handle?.isWaiting == false)
    }

    @Test("requests of other threads run on the loop's thread in order")
    func whatOtherThreadsPerformRunsOnTheLoopsThreadInOrder() {
        let world = World()
        world.keepAlive()
        let handle = world.loop.handle
        let count = Atomic(0)
        let outOfOrder = Atomic(0)
        let threads = (0..<4).map { _ in
            Thread {
                for i in 0..<500 {
                    let last = Atomic(0)
                    handle.perform { loop in
                        if last.load(ordering: .relaxed) != 0 { outOfOrder.add(1, ordering: .relaxed) }
                        last.store(i, ordering: .relaxed)
                        if count.add(1, ordering: .relaxed).newValue == 2000 { loop.stop() }
                    }
                }
            }
        }
        #expect(world.run(ms: nil) == .stopped)
        for thread in threads { thread.join() }
        #expect(count.load(ordering: .relaxed) == 2000)
        #expect(outOfOrder.load(ordering: .relaxed) == 0)
    }

    @Test("a request waits for its mode") func aRequestWaitsForItsMode() {
        let world = World()
        world.keepAlive()
        let count = Atomic(0)
        world.loop.handle.perform(in: ["other"]) { _ in count.add(1, ordering: .relaxed) }
        world.run(ms: 0)
        #expect(count.load(ordering: .relaxed) == 0)
        world.run("other", ms: 0)
        #expect(count.load(ordering: .relaxed) == 1)
    }

    @Test("a request that was queued before a run keeps its mode alive")
    func aRequestQueuedBeforeARunKeepsItsModeAlive() {
        let world = World()
        let count = Atomic(0)
        world.loop.handle.perform { _ in count.add(1, ordering: .relaxed) }
        #expect(world.run(ms: nil) == .finished)
        #expect(count.load(ordering: .relaxed) == 1)
    }

    @Test("the attention handler is called between two callbacks") func attentionIsGivenBetweenTwoCallbacks() {
        let world = World()
        world.keepAlive()
        var times = 0
        world.loop.attentionHandler = { loop in
            times += 1
            loop.stop()
        }
        let handle = world.loop.handle
        let thread = Thread {
            handle.awaitWaiting()
            handle.raiseAttention()
        }
        #expect(world.run(ms: nil) == .stopped)
        thread.join()
        #expect(times == 1)
    }

    @Test("attention raised after the end of a wait is handled before the next sleep")
    func attentionRaisedAfterTheEndOfAWaitIsNotSleptThrough() {
        let world = World()
        var times = 0
        world.loop.attentionHandler = { loop in
            times += 1
            loop.stop()
        }
        world.keepAlive()
        world.timer("T", at: 1) { _ in world.loop.handle.raiseAttention() }
        #expect(world.run(ms: 1000) == .stopped)
        #expect(times == 1)
        #expect(world.time == 1)
    }

    @Test("each thread has its own loop which ends with the thread") func eachThreadHasALoopOfItsOwnThatEndsWithIt() {
        let handle = Atomic<UInt>(0)
        let kept = Kept()
        let thread = Thread {
            let loop = RunLoop.current
            kept.handle.withLock { $0 = loop.handle }
            if loop === RunLoop.current { handle.store(1, ordering: .relaxed) }
        }
        thread.join()
        #expect(handle.load(ordering: .relaxed) == 1)
        #expect(kept.handle.withLock { $0?.isAlive } == false)
        #expect(kept.handle.withLock { $0 } !== RunLoop.current.handle)
    }

    private final class Kept: Sendable {
        let handle = Lock<RunLoop.Handle?>(nil)
    }

    @Test("the end of a thread calls the cancel callbacks of its sources") func aThreadThatEndsTellsItsSources() {
        let told = Atomic(0)
        let thread = Thread {
            let source = RunLoop.Source(cancel: { _, _, _ in told.add(1, ordering: .relaxed) })
            RunLoop.current.add(source)
            RunLoop.current.add(source, to: "other")
        }
        thread.join()
        #expect(told.load(ordering: .relaxed) == 2)
    }

    @Test("removing the last item from another thread ends the run")
    func removingTheLastItemFromAnotherThreadEndsTheRun() {
        let world = World()
        let source = world.keepAlive()
        let handle = world.loop.handle
        let thread = Thread {
            handle.awaitWaiting()
            handle.perform { $0.remove(source) }
        }
        #expect(world.run(ms: nil) == .finished)
        thread.join()
    }
}
