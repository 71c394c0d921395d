import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct RequestTests {
    @Test("all queued requests run in one pass in the order of the calls")
    func allThatAreQueuedRunInOnePassInTheOrderQueued() {
        let world = World()
        world.observe(.default, .beforeTimers)
        for i in 0..<100 { world.perform("\(i)") }
        world.run(ms: 0)
        #expect(world.journal() == "BT " + (0..<100).map(String.init).joined(separator: " ") + " =3")
    }

    @Test("requests with lower orders run first") func lowerOrdersFirst() {
        let world = World()
        for (name, order) in [("a", 1), ("b", -1), ("c", 0), ("d", -1)] { world.perform(name, order: order) }
        world.run(ms: 0)
        #expect(world.journal() == "b d c a =3")
    }

    @Test("a request for several modes runs once in the first that runs")
    func oneForSeveralModesRunsOnceInWhicheverRunsFirst() {
        let world = World()
        world.perform("r", in: ["a", "b"])
        world.run(ms: 0)
        world.run("b", ms: 0)
        world.run("a", ms: 0)
        #expect(world.journal() == "=1 r =3 =1")
    }

    @Test("skipped requests keep their places") func skippedOnesKeepTheirPlaces() {
        let world = World()
        world.perform("d1", in: ["default"])
        world.perform("m1", in: ["m"])
        world.perform("d2", in: ["default"])
        world.perform("m2", in: ["m"])
        world.run(ms: 0)
        world.perform("m3", in: ["m"])
        world.run("m", ms: 0)
        #expect(world.journal() == "d1 d2 =3 m1 m2 m3 =3")
    }

    @Test("the common modes of a request are those at the time it runs")
    func commonMeansTheModesThatAreCommonWhenItRuns() {
        let world = World()
        world.keepAlive("m")
        world.perform("r")
        world.run("m", ms: 0)
        world.loop.addCommonMode("m")
        world.run("m", ms: 0)
        #expect(world.journal() == "=3 r =3")
    }

    @Test("a request queued at any step of a pass runs at the next drain without a sleep before it")
    func queuedInEachPlaceOfAPassItRunsAtTheNextDrainAndTheLoopDoesNotSleepBeforeThat() {
        let expected: [(RunLoop.Activity, String)] = [
            (.entry, "E BT BS r BW AW BT BS BW AW X =3"), (.beforeTimers, "E BT BS r BW AW BT BS BW AW X =3"),
            (.beforeSources, "E BT BS r BW AW BT BS BW AW X =3"),
            (.beforeWaiting, "E BT BS BW AW r BT BS BW AW X =3"), (.afterWaiting, "E BT BS BW AW r X =3"),
            (.exit, "E BT BS BW AW X =3"),
        ]
        for (when, journal) in expected {
            let world = World()
            world.keepAlive()
            var first = true
            world.observe {
                if $0 == when, first {
                    first = false
                    world.perform("r")
                }
            }
            world.run()
            #expect(world.journal() == journal, "queued at \(when)")
        }
    }

    @Test("a request queued by a request waits for the next drain") func queuedByARequestItWaitsForTheNextDrain() {
        let world = World()
        world.observe()
        world.keepAlive()
        world.perform("a") { world.perform("b") { world.perform("c") } }
        world.run()
        #expect(world.journal() == "E BT BS a BW AW b BT BS c BW AW X =3")
    }

    @Test("a request queued by a source runs right after the sources") func queuedByASourceItRunsRightAfterTheSources()
        throws
    {
        let world = World()
        let pipe = Pipe()
        pipe.fire()
        try world.port("P", pipe) { _ in world.perform("q") }
        world.source("S", signalled: true) { _ in world.perform("r") }
        world.source("S2", signalled: true)
        world.run()
        #expect(world.journal() == "S S2 r P q =3")
    }

    @Test("a request does not count as a source") func aRequestIsNoSource() {
        let world = World()
        world.keepAlive()
        world.perform("r")
        #expect(world.run(returning: true) == .timedOut)
    }

    @Test("a mode that holds only a request runs it and finishes") func aModeThatHoldsOnlyARequestRunsItAndFinishes() {
        let world = World()
        world.observe()
        world.perform("r")
        world.run(ms: nil)
        #expect(world.journal() == "E BT BS r X =1")
        #expect(world.time == 0)
    }

    @Test("nested runs find what the outer drain has not reached") func nestedRunsFindWhatTheOuterDrainHasNotReached() {
        let world = World()
        world.perform("a") {
            world.perform("x")
            world.run(ms: 0)
        }
        world.perform("b")
        world.run(ms: 0)
        #expect(world.journal() == "a b x =3 =3")
    }

    @Test("a request cancelled in time does not run") func cancelledInTimeItDoesNotRun() {
        let world = World()
        world.keepAlive()
        let token = world.loop.perform { world.log("no") }
        var later: RunLoop.RequestToken?
        world.perform("a") {
            if let later { #expect(world.loop.cancel(later)) }
        }
        later = world.loop.perform { world.log("no") }
        if let token {
            #expect(world.loop.cancel(token))
            #expect(!world.loop.cancel(token))
        }
        world.run(ms: 0)
        #expect(world.journal() == "a =3")
        #expect(world.loop.pendingRequests == 0)
    }

    @Test("cancelling many in any order leaves the others") func cancellingManyInAnyOrderLeavesTheOthers() {
        let world = World()
        var tokens: [RunLoop.RequestToken?] = []
        for i in 0..<200 { tokens.append(world.loop.perform { world.log("\(i)") }) }
        for i in 0..<200 where i % 7 != 0 {
            if let token = tokens[(i * 37) % 200], (i * 37) % 200 % 7 != 0 { world.loop.cancel(token) }
        }
        let left = world.loop.pendingRequests
        world.loop.run(in: .default, for: .zero)
        let ran = world.journal().split(separator: " ").compactMap { Int($0) }
        #expect(ran.count == left)
        #expect(ran == ran.sorted())
        #expect(ran.filter { $0 % 7 == 0 } == Array(stride(from: 0, to: 200, by: 7)))
    }

    @Test("a ring that grows after it has wrapped around keeps the order")
    func aQueueThatGrowsWhileItGoesRoundKeepsTheirOrder() {
        // Each round moves the front of the ring and enlarges the ring.
        let world = World()
        world.keepAlive()
        var expected: [Int] = []
        var ran: [Int] = []
        var next = 0
        func queue(_ count: Int) {
            for _ in 0..<count {
                let number = next
                next += 1
                expected.append(number)
                world.loop.perform { ran.append(number) }
            }
        }
        for round in 1...9 {
            queue(5 * round)
            // Queue more requests in the middle of a pass, when the ring is not empty and its front has moved.
            world.loop.perform { queue(1 << round) }
            world.loop.run(in: .default, for: .zero)
        }
        world.loop.run(in: .default, for: .zero)
        #expect(ran == expected)
        #expect(world.loop.pendingRequests == 0)
    }

    @Test("cancelling finds the request in any queue") func cancellingFindsTheRequestInWhicheverQueueItIs() {
        let world = World()
        world.keepAlive()
        var tokens: [RunLoop.RequestToken] = []
        for i in 0..<60 {
            let modes: [RunLoop.Mode] = [[.common], ["a"], ["a", "b"]][i % 3]
            if let token = world.loop.perform(in: modes, order: i % 4, { world.log("\(i)") }) { tokens.append(token) }
        }
        for i in 0..<60 where i % 5 != 0 { #expect(world.loop.cancel(tokens[i])) }
        for i in 0..<60 where i % 5 != 0 { #expect(!world.loop.cancel(tokens[i])) }
        #expect(!world.loop.cancel(.init(number: 1_000_000)))
        #expect(world.loop.pendingRequests == 12)
    }

    @Test("without modes nothing is queued") func noModesIsNoRequest() {
        let world = World()
        #expect(world.loop.perform(in: []) { world.log("no") } == nil)
        #expect(world.run() == .finished)
    }

    @Test("naming a mode in a request creates it unless it is the common mode")
    func namingAModeCreatesItButTheCommonOneIsNone() {
        let world = World()
        world.perform("r", in: ["new", .common])
        #expect(world.loop.modeNames.contains("new"))
        #expect(!world.loop.modeNames.contains(.common))
    }

    @Test("requests that never run are dropped") func requestsThatNeverRunAreDropped() {
        final class Probe {}
        weak var probe: Probe?
        do {
            let world = World()
            let strong = Probe()
            probe = strong
            world.loop.perform(in: ["never"]) { _ = strong }
            world.loop.handle.perform { _ in }
            world.loop.close()
        }
        #expect(probe == nil)
    }

    @Test("memory of requests is freed after they have run") func whatARunOfRequestsHoldsIsFreedAfterwards() {
        final class Probe {}
        let world = World()
        weak var probe: Probe?
        do {
            let strong = Probe()
            probe = strong
            world.loop.perform { _ = strong }
        }
        #expect(probe != nil)
        world.run(ms: 0)
        #expect(probe == nil)
    }
}
