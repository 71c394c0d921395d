import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct SourceTests {
    @Test("sources are performed by order, then by the time of the first signal")
    func performedByOrderThenByTheTimeOfTheFirstSignal() {
        let world = World()
        let names = ["A", "B", "C", "D"]
        let sources = names.map { world.source($0, order: $0 == "B" ? -1 : 0) }
        for source in sources.reversed() { source.signal() }
        sources[3].signal()
        world.run(ms: 0)
        #expect(world.journal() == "B D C A =3")
    }

    @Test("any number of signals causes one perform") func anyNumberOfSignalsIsOnePerform() {
        let world = World()
        let source = world.source("S")
        for _ in 0..<5 { source.signal() }
        #expect(source.isSignalled)
        world.run()
        #expect(world.journal() == "S =3")
        #expect(!source.isSignalled)
    }

    @Test("a signal in the source's own callback counts for the next pass")
    func aSignalInItsOwnCallbackCountsForTheNextPass() {
        let world = World()
        world.observe()
        var again = true
        world.source("S", signalled: true) {
            #expect(!$0.isSignalled)
            if again { $0.signal() }
            again = false
        }
        world.run()
        #expect(world.journal() == "E BT BS S BT BS S BT BS BW AW X =3")
    }

    @Test("a source signalled by another one waits for the next pass whatever its order")
    func oneSignalledByAnotherInTheSamePassWaitsForTheNextWhateverItsOrder() {
        let world = World()
        world.observe(.default, .beforeSources)
        let low = world.source("L", order: -9)
        world.source("S", signalled: true) { _ in low.signal() }
        world.run()
        #expect(world.journal() == "BS S BS L BS =3")
    }

    @Test("a run that returns after a source performs one and leaves the rest signalled")
    func aRunThatReturnsAfterASourcePerformsOneAndLeavesTheRestSignalled() {
        let world = World()
        world.source("A", order: 2, signalled: true)
        world.source("B", order: 1, signalled: true)
        world.run(returning: true)
        world.run(returning: true)
        world.run(returning: true)
        #expect(world.journal() == "B =4 A =4 =3")
    }

    @Test("a source invalidated by another one is not performed") func oneInvalidatedByAnotherIsNotPerformed() {
        let world = World()
        let victim = world.source("V", order: 2, signalled: true)
        world.source("S", order: 1, signalled: true) { _ in victim.invalidate() }
        world.run()
        #expect(world.journal() == "S =3")
    }

    @Test("a source removed by another one is not performed and keeps its signal")
    func oneRemovedByAnotherIsNotPerformedAndKeepsItsSignal() {
        let world = World()
        let victim = world.source("V", order: 2, signalled: true)
        world.source("S", order: 1, signalled: true) { _ in world.loop.remove(victim) }
        world.run()
        #expect(world.journal() == "S =3")
        world.loop.add(victim)
        world.run()
        #expect(world.journal() == "V =3")
    }

    @Test("a pass has handled a source even if the last collected one is gone")
    func whenTheLastCollectedOneIsGoneThePassStillCountsAsHavingHandledOne() {
        let world = World()
        world.observe()
        let other = world.source("C")
        let victim = world.source("V", order: 2, signalled: true)
        world.source("S", order: 1, signalled: true) { _ in
            victim.invalidate()
            other.signal()
        }
        world.run()
        #expect(world.journal() == "E BT BS S BT BS C BT BS BW AW X =3")
    }

    @Test("a signalled source is performed in the first of its modes that runs")
    func aSignalBelongsToTheSourceAndIsPerformedInWhicheverOfItsModesRunsFirst() {
        let world = World()
        let source = world.source("S", in: ["a", "b"], signalled: true)
        world.keepAlive()
        world.run(ms: 0)
        #expect(source.isSignalled)
        world.run("b", ms: 0)
        world.run("a", ms: 0)
        #expect(world.journal() == "=3 S =3 =3")
    }

    @Test("a source in two loops is performed by the first loop that makes a pass")
    func aSourceMayBeInTwoLoopsAndIsPerformedInTheFirstThatLooks() {
        let world = World()
        let other = World()
        let source = world.source("S", signalled: true)
        other.loop.add(source)
        other.run(ms: 0)
        world.run(ms: 0)
        #expect(world.journal() == "S =3")
        #expect(other.journal() == "=3")
        source.invalidate()
        #expect(world.run() == .finished)
        #expect(other.run() == .finished)
    }

    @Test("an invalid source cannot be signalled or added") func anInvalidSourceCannotBeSignalledOrAdded() {
        let world = World()
        let source = world.source("S")
        source.invalidate()
        source.invalidate()
        source.signal()
        #expect(!source.isSignalled)
        world.loop.add(source)
        #expect(!world.loop.contains(source))
        #expect(world.run() == .finished)
    }

    @Test("a signal is kept while the source is in no mode") func aSignalIsKeptWhileTheSourceIsInNoMode() {
        let world = World()
        let source = world.source("S", in: [], signalled: true)
        world.loop.add(source)
        world.run(ms: 0)
        #expect(world.journal() == "S =3")
    }

    @Test("a source without a callback still counts as handled") func aSourceWithoutACallbackStillCountsAsHandled() {
        let world = World()
        let source = RunLoop.Source()
        world.loop.add(source)
        source.signal()
        #expect(world.run(returning: true) == .handledSource)
    }

    @Test("a source that runs the loop is reentered when signalled again")
    func aSourceThatRunsTheLoopIsReenteredWhenSignalledAgain() {
        let world = World()
        var depth = 0
        world.source("S", signalled: true) {
            depth += 1
            if depth < 3 {
                $0.signal()
                world.run(ms: 0)
            }
        }
        world.run(ms: 0)
        #expect(world.journal() == "S S S =3 =3 =3")
    }

    // MARK: Schedule and cancel

    private func journaling(_ world: World) -> RunLoop.Source {
        RunLoop.Source(
            schedule: { [weak world] _, _, mode in world?.log("+\(mode)") },
            cancel: { [weak world] _, _, mode in world?.log("-\(mode)") })
    }

    @Test("schedule and cancel are called once for each mode") func isToldOnceForEachModeItEntersAndLeaves() {
        let world = World()
        let source = journaling(world)
        world.loop.add(source, to: "a")
        world.loop.add(source, to: "a")
        world.loop.add(source, to: "b")
        world.loop.remove(source, from: "c")
        world.loop.remove(source, from: "a")
        world.loop.remove(source, from: "a")
        #expect(world.journal() == "+a +b -a")
    }

    @Test("schedule and cancel get the names of present and future common modes")
    func commonModesAreToldByTheirOwnNamesThoseToComeIncluded() {
        let world = World()
        let source = journaling(world)
        world.loop.addCommonMode("a")
        world.loop.add(source, to: .common)
        world.loop.addCommonMode("b")
        world.loop.addCommonMode("b")
        world.loop.remove(source, from: .common)
        #expect(world.journal() == "+default +a +b -default -a -b")
    }

    @Test("invalidating calls cancel once for each mode and removes the source everywhere")
    func invalidatingTellsEveryModeOnceAndForgetsItEverywhere() {
        let world = World()
        let source = journaling(world)
        world.loop.add(source, to: .common)
        world.loop.add(source, to: "a")
        source.invalidate()
        source.invalidate()
        world.loop.add(source)
        #expect(world.journal() == "+default +a -default -a")
        #expect(!world.loop.contains(source, in: .common))
        world.loop.addCommonMode("b")
        #expect(world.journal() == "")
    }

    @Test("a source invalidated in its own callback is invalid at once") func invalidInItsOwnCallbackAtOnce() {
        let world = World()
        world.source("S", signalled: true) {
            $0.invalidate()
            #expect(!$0.isValid)
            #expect(world.loop.items(in: .default).isEmpty)
        }
        world.run()
        #expect(world.journal() == "S =1")
    }

    @Test("a source that leaves a mode in its schedule callback stays out")
    func aSourceThatLeavesWhileItIsToldThatItEntersStaysOut() {
        let world = World()
        let source = RunLoop.Source(schedule: { source, loop, _ in loop.remove(source, from: .common) })
        world.loop.addCommonMode("a")
        world.loop.add(source, to: .common)
        #expect(source.modeNames == [])
        #expect(!world.loop.contains(source, in: .common))
        #expect(world.run() == .finished)
    }

    @Test("a loop that ends calls cancel of its sources and invalidates nothing")
    func aLoopThatEndsTellsItsSourcesAndInvalidatesNothing() {
        let world = World()
        let source = journaling(world)
        world.loop.add(source)
        world.loop.add(source, to: "a")
        world.loop.close()
        #expect(world.journal() == "+default +a -default -a")
        #expect(source.isValid)
        let other = World()
        other.loop.add(source)
        #expect(other.loop.contains(source))
        source.invalidate()
        #expect(world.journal() == "+default -default")
    }

    @Test("two sources with the same values are two sources") func twoSourcesAlikeAreStillTwo() {
        let world = World()
        world.source("S", signalled: true)
        world.source("S", signalled: true)
        world.run(ms: 0)
        #expect(world.journal() == "S S =3")
    }

    @Test("a source is freed with its last owner") func aSourceIsFreedWithItsLastOwner() {
        let world = World()
        weak var observed: RunLoop.Source?
        do {
            let source = RunLoop.Source()
            observed = source
            world.loop.add(source)
        }
        #expect(observed != nil)
        observed?.invalidate()
        #expect(observed == nil)
    }
}
