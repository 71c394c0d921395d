import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct TimerTests {
    // MARK: Order

    @Test("due timers fire by date then order then age") func dueTimersFireByDateThenOrderThenAge() {
        let world = World()
        world.timer("c", at: 2)
        world.timer("e", at: 3, order: 1)
        world.timer("d", at: 3, order: -1)
        world.timer("a", at: -5)
        world.timer("b", at: -3)
        world.timer("f", at: 3, order: 1)
        world.work(5)
        world.run(ms: 0)
        #expect(world.journal() == "a b c d e f =3")
    }

    @Test("all due timers fire in one pass, and timers that become due meanwhile in the next")
    func allThatAreDueFireInOnePassAndWhatBecomesDueMeanwhileInTheNext() {
        let world = World()
        world.observe(.default, .beforeTimers)
        world.timer("A", at: 1) { _ in
            world.timer("late", at: 0)
            world.work(5)
        }
        world.timer("B", at: 1)
        world.timer("C", at: 3)
        world.run(ms: 20)
        #expect(world.journal() == "BT A B BT late C =1")
    }

    @Test("timers of several modes fire in one order") func timersOfSeveralModesFireInOneOrder() {
        let world = World()
        world.loop.addCommonMode("a")
        world.timer("3", at: 3, in: ["default", "b"])
        world.timer("1", at: 1, in: ["default"])
        world.timer("2", at: 2, in: [.common])
        world.timer("4", at: 3, in: ["default"])
        world.work(9)
        world.run(ms: 0)
        #expect(world.journal() == "1 2 3 4 =3")
    }

    // MARK: Before each callback

    @Test("a timer that an earlier one invalidates, removes or postpones does not fire")
    func oneInvalidatedRemovedOrPostponedByAnEarlierOneDoesNotFire() {
        let world = World()
        var victims: [RunLoop.Timer] = []
        world.timer("A", at: 1) { _ in
            victims[0].invalidate()
            world.loop.remove(victims[1])
            victims[2].fireDate = world.date(5)
            world.loop.remove(victims[3])
        }
        victims.append(world.timer("invalidated", at: 1))
        victims.append(world.timer("removed", at: 1))
        victims.append(world.timer("postponed", at: 1))
        victims.append(world.timer("elsewhere", at: 1, in: ["default", "other"]))
        world.run()
        #expect(world.journal() == "A postponed =1")
        #expect(world.time == 5)
        world.run("other")
        #expect(world.journal() == "elsewhere =1")
    }

    @Test("a timer that a nested run has fired does not fire again") func oneThatANestedRunHasFiredDoesNotFireAgain() {
        let world = World()
        world.timer("A", at: 1) { _ in world.run(ms: 0) }
        world.timer("once", at: 1)
        world.timer("again", at: 1, every: 10)
        world.keepAlive()
        world.run(ms: 5)
        #expect(world.journal() == "A once again =3 =3")
    }

    @Test("a timer that a nested run has freed is not touched") func oneThatANestedRunHasFreedIsNotTouched() {
        let world = World()
        weak var freed: RunLoop.Timer?
        world.timer("A", at: 1) { _ in
            world.run(ms: 0)
            #expect(freed == nil)
        }
        freed = world.timer("once", at: 1)
        world.run(ms: 5)
        #expect(world.journal() == "A once =3 =1")
    }

    @Test("a timer that an earlier one moves to the present fires in the next pass")
    func oneMovedToThePresentByAnEarlierOneFiresInTheNextPass() {
        let world = World()
        world.observe(.default, .beforeTimers)
        let other = world.timer("B", at: 9)
        world.timer("A", at: 1) { _ in other.fireDate = world.date(1) }
        world.run()
        #expect(world.journal() == "BT A BT B =1")
    }

    // MARK: Repeating

    /// The times at which it fired, in milliseconds.
    private func fires(_ interval: Int, until end: Int, working: @escaping (Int) -> Int) -> [Int64] {
        let world = World()
        var times: [Int64] = []
        world.timer("T", at: interval, every: interval) { _ in
            times.append(world.time)
            world.work(working(times.count))
        }
        world.loop.run(in: .default, for: .milliseconds(end))
        return times
    }

    @Test("repeating timers stay on their grid however long a callback takes")
    func stayOnTheirGridHoweverLongACallbackTakes() {
        #expect(fires(10, until: 65) { _ in 0 } == [10, 20, 30, 40, 50, 60])
        #expect(fires(10, until: 65) { $0 == 1 ? 25 : 0 } == [10, 40, 50, 60])
        #expect(fires(10, until: 75) { _ in 15 } == [10, 30, 50, 70])
    }

    @Test("a timer of 10 ms with a callback of 3 ms fires for the 200th time at 2 s")
    func theTwoHundredthFireOfATenMillisecondTimerThatWorksThreeIsAtTwoSeconds() {
        #expect(fires(10, until: 2005) { _ in 3 }[199] == 2000)
    }

    @Test("missed dates cause one fire and are counted") func whatWasMissedIsOneFireAndIsCounted() {
        let world = World()
        var missed: [Int] = []
        let timer = RunLoop.Timer(fireDate: world.date(10), interval: .milliseconds(10)) { _, count in
            world.log("\(world.time)")
            missed.append(count)
        }
        world.loop.add(timer)
        world.work(45)
        world.run(ms: 20)
        #expect(world.journal() == "45 50 60 =3")
        #expect(missed == [3, 0, 0])
    }

    @Test("no missed date is counted twice") func nothingIsCountedTwice() {
        let world = World()
        var sum = 0
        let timer = RunLoop.Timer(fireDate: world.date(10), interval: .milliseconds(10)) { _, missed in
            sum += 1 + missed
            world.work(sum % 7 * 9)
        }
        world.loop.add(timer)
        world.loop.run(in: .default, for: .milliseconds(2_000))
        #expect(sum == 200 || sum == Int(world.time / 10))
    }

    @Test("after a long stall a timer fires once without delay") func aLongStallCostsNothing() {
        let world = World()
        var count = 0
        let timer = RunLoop.Timer(fireDate: world.date(0), interval: .nanoseconds(1)) { timer, _ in
            count += 1
            world.work(3_600_000)
            if count == 3 { timer.invalidate() }
        }
        world.loop.add(timer)
        world.run(ms: nil)
        #expect(count == 3)
    }

    @Test("a date set in the callback replaces the next date and moves the grid")
    func aDateSetInTheCallbackReplacesTheNextOneAndMovesTheGrid() {
        for (shift, expected) in [(25, "10 35 45 =3"), (3, "10 13 23 33 43 =3")] {
            let world = World()
            var first = true
            let timer = RunLoop.Timer(fireDate: world.date(10), interval: .milliseconds(10)) { timer, _ in
                world.log("\(world.time)")
                if first { timer.fireDate = world.date(10 + shift) }
                first = false
            }
            world.loop.add(timer)
            world.run(ms: 50)
            #expect(world.journal() == expected)
        }
    }

    @Test("a date set outside the callback moves the grid, too") func aDateSetOutsideMovesTheGridToo() {
        for (date, expected) in [(25, "25 35 45 =3"), (5, "5 15 25 35 45 =3")] {
            let world = World()
            let timer = RunLoop.Timer(fireDate: world.date(10), interval: .milliseconds(10)) { _, _ in
                world.log("\(world.time)")
            }
            world.loop.add(timer)
            timer.fireDate = world.date(date)
            world.run(ms: 50)
            #expect(world.journal() == expected)
        }
    }

    // MARK: Once

    @Test("a timer that does not repeat is valid in its callback and invalid afterwards")
    func aTimerThatFiresOnceIsValidInItsCallbackAndInvalidAfterwards() {
        let world = World()
        let timer = world.timer("T", at: 1, in: ["default", "other"]) {
            #expect($0.isValid)
            #expect($0.fireDate == world.date(1))
            $0.fireDate = world.date(100)
        }
        world.run()
        #expect(!timer.isValid)
        #expect(world.run("other") == .finished)
        timer.fireDate = world.date(200)
        world.loop.add(timer)
        #expect(world.loop.nextFireDate(in: .default) == nil)
    }

    @Test("a timer with an interval of zero or less fires once") func anIntervalOfZeroOrLessFiresOnce() {
        let world = World()
        for interval in [0, -1] {
            let timer = RunLoop.Timer(fireDate: world.date(0), interval: .seconds(interval)) { _, _ in }
            #expect(!timer.repeats)
            world.loop.add(timer)
        }
        #expect(world.run() == .finished)
    }

    // MARK: Extremes

    @Test("extreme dates and intervals do not trap") func extremeDatesAndIntervalsAreNoTrap() {
        for date in [RunLoop.Instant.longAgo, .never, .init(nanoseconds: .max - 1), .init(nanoseconds: .min + 1)] {
            for interval in [Duration.nanoseconds(1), .nanoseconds(Int64.max), .seconds(Int64.max), .zero] {
                let world = World()
                world.work(1)
                let timer = RunLoop.Timer(fireDate: date, interval: interval, tolerance: .seconds(Int64.max)) { _, _ in
                    world.log("T")
                }
                world.loop.add(timer)
                world.run(ms: 0)
                timer.fireDate = date
                timer.fire()
                world.run(ms: 0)
            }
        }
    }

    @Test("a timer that is never due keeps the mode alive") func aTimerThatIsNeverDueKeepsTheModeAlive() {
        let world = World()
        world.loop.add(RunLoop.Timer(fireDate: .never) { _, _ in world.log("T") })
        #expect(world.run() == .timedOut)
        #expect(world.time == 10)
    }

    // MARK: Reentrancy

    @Test("a timer does not fire during its own callback, but others do")
    func aTimerDoesNotFireInItsOwnCallbackAndOthersDo() {
        let world = World()
        world.timer("A", at: 1, every: 1) { timer in
            if world.time == 1 { world.run(ms: 5) }
            if world.time > 8 { timer.invalidate() }
        }
        world.timer("B", at: 3)
        world.keepAlive()
        world.run(ms: 9)
        #expect(world.journal() == "A B =3 A A A =3")
    }

    @Test("firing by hand leaves the dates of a repeating timer alone")
    func firingByHandLeavesTheDatesOfARepeatingTimerAlone() {
        let world = World()
        let timer = world.timer("T", at: 10, every: 10)
        timer.fire()
        #expect(timer.fireDate == world.date(10))
        world.run(ms: 15)
        #expect(world.journal() == "T T =3")
    }

    @Test("firing by hand invalidates a timer that does not repeat") func firingByHandUsesUpATimerThatFiresOnce() {
        let world = World()
        let timer = world.timer("T", at: 10)
        timer.fire()
        timer.fire()
        #expect(!timer.isValid)
        #expect(world.run() == .finished)
        #expect(world.journal() == "T =1")
    }

    @Test("a due timer can be fired by hand in an earlier one's callback")
    func firingByHandADueTimerInAnEarlierOnesCallback() {
        let world = World()
        var other: RunLoop.Timer?
        world.timer("A", at: 1) { _ in other?.fire() }
        other = world.timer("B", at: 1)
        let third = world.timer("C", at: 1, every: 100)
        third.fire()
        world.run(ms: 5)
        #expect(world.journal() == "C A B C =3")
    }

    @Test("a timer that is fired by hand and added in its callback continues")
    func aTimerAddedInItsOwnCallbackByHandGoesOn() {
        let world = World()
        let timer = world.timer("T", at: 5, every: 5, in: []) { world.loop.add($0) }
        timer.fire()
        world.run(ms: 12)
        #expect(world.journal() == "T T T =3")
    }
}
