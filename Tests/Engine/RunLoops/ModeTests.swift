import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct ModeTests {
    @Test("a new loop has the default mode which is common") func aLoopIsBornWithTheDefaultModeWhichIsCommon() {
        let world = World()
        #expect(world.loop.modeNames == [.default])
        #expect(world.loop.commonModeNames == [.default])
        #expect(world.loop.currentMode == nil)
    }

    @Test("adding to a mode creates it, and it is forgotten when it holds nothing and does not run")
    func modesComeAndGo() {
        let world = World()
        let source = world.keepAlive("a")
        let timer = world.timer("T", at: 0, in: ["b"])
        let request = world.loop.perform(in: ["c"]) {}
        let observer = world.observe("d")
        #expect(world.loop.modeNames == ["default", "a", "b", "c", "d"])
        source.invalidate()
        timer.invalidate()
        if let request { world.loop.cancel(request) }
        // The modes stay listed until the next pass, as in CoreFoundation.
        #expect(world.loop.modeNames == ["default", "a", "b", "c", "d"])
        world.perform("p")
        world.run()
        #expect(world.journal() == "p =1")
        #expect(world.loop.modeNames == ["default", "d"])
        observer.invalidate()
        #expect(world.loop.modeNames == ["default"])
        world.perform("r", in: ["e"]) { #expect(world.loop.modeNames == [.default, "e"]) }
        world.run("e")
        #expect(world.journal() == "r =1")
        #expect(world.loop.modeNames == ["default"])
    }

    @Test("a common mode that has held something stays") func commonModesStay() {
        let world = World()
        world.loop.addCommonMode("a")
        world.timer("T", at: 0, in: [.common]).invalidate()
        for number in 0..<1000 { world.timer("T", at: 0, in: [RunLoop.Mode(rawValue: "\(number)")]).invalidate() }
        world.perform("p")
        world.run()
        #expect(world.loop.modeNames == ["default", "a"])
    }

    @Test("a loop keeps few of many unused modes, and modes with items still work")
    func modesAreForgotten() {
        let world = World()
        world.timer("T", at: 1, in: ["timer"])
        world.perform("R", in: ["request"])
        world.observe("timer", .exit)
        for number in 0..<10_000 {
            let mode = RunLoop.Mode(rawValue: "conversation \(number)")
            switch number % 4 {
            case 0: world.timer("t", at: 0, in: [mode]).invalidate()
            case 1: if let request = world.loop.perform(in: [mode, "request"], {}) { world.loop.cancel(request) }
            case 2:
                world.loop.perform(in: [mode]) {}
                world.loop.run(in: mode)
            default: world.keepAlive(mode).invalidate()
            }
        }
        #expect(world.loop.modes.count <= 3 + RunLoop.usualModes)
        #expect(world.loop.modesByName.count <= 3 + RunLoop.usualModes)
        #expect(world.loop.modeNames.starts(with: ["default", "timer", "request"]))
        world.run("timer")
        world.run("request")
        #expect(world.journal() == "T X =1 R =1")
        #expect(world.loop.modeNames == ["default", "timer"])
    }

    @Test("a running mode stays even if its callbacks create many modes") func runningModesStay() {
        let world = World()
        world.loop.perform(in: ["outer"]) {
            for number in 0..<1000 { world.timer("t", at: 0, in: [RunLoop.Mode(rawValue: "\(number)")]).invalidate() }
            world.timer("after", at: 1, in: ["outer"])
        }
        world.run("outer")
        #expect(world.journal() == "after =1")
    }

    @Test("querying and running an unknown mode does not create it") func askingAndRunningCreatesNoMode() {
        let world = World()
        let source = RunLoop.Source()
        _ = world.loop.contains(source, in: "x")
        world.loop.remove(source, from: "x")
        _ = world.loop.nextFireDate(in: "x")
        world.loop.run(in: "x")
        world.loop.addCommonMode("x")
        #expect(world.loop.modeNames == [.default])
    }

    @Test("each kind of item keeps its mode alive except observers")
    func eachKindOfItemKeepsItsModeAliveExceptObservers() throws {
        let world = World()
        let pipe = Pipe()
        let items: [(RunLoop.Item, Bool)] = [
            (RunLoop.Source(), true), (try RunLoop.FDPort(pipe.reader) { _, _ in }, true),
            (RunLoop.Observer(.all) { _, _ in }, false),
        ]
        for (item, keeps) in items {
            world.loop.add(item)
            #expect(world.run(ms: 0) == (keeps ? .timedOut : .finished))
            item.invalidate()
            #expect(world.run(ms: 0) == .finished)
        }
    }

    @Test("a run does not wait in a mode that has become empty", arguments: [5, nil] as [Int?])
    func aModeThatWasEmptiedIsNotWaitedIn(_ limit: Int?) {
        let world = World()
        let source = world.keepAlive()
        world.observe { if $0 == .entry { source.invalidate() } }
        world.run(ms: limit)
        #expect(world.journal() == "E BT BS X =1")
        #expect(world.time == 0)
    }

    // MARK: Common modes

    @Test("a common item is in every common mode and those that become common later")
    func aCommonItemIsInEveryCommonModeAndThoseThatBecomeCommonLater() {
        let world = World()
        world.loop.addCommonMode("a")
        world.loop.addCommonMode("a")
        let source = world.source("S", in: [.common])
        let timer = world.timer("T", at: 100, in: [.common])
        world.loop.addCommonMode("b")
        for mode in ["default", "a", "b"] as [RunLoop.Mode] {
            #expect(world.loop.contains(source, in: mode))
            #expect(world.loop.contains(timer, in: mode))
            source.signal()
            world.run(mode, ms: 0)
        }
        #expect(world.journal() == "S =3 S =3 S =3")
        #expect(world.loop.contains(source, in: .common) && world.loop.contains(timer, in: .common))
    }

    @Test("a common item that is removed from one mode stays common and can be added again")
    func outOfOneModeACommonItemStaysCommonAndAddingItAgainRestoresIt() {
        let world = World()
        let source = world.keepAlive(.common)
        let timer = world.timer("T", at: 9, in: [.common])
        world.loop.remove(source)
        world.loop.remove(timer)
        #expect(world.run() == .finished)
        #expect(world.loop.contains(source, in: .common) && world.loop.contains(timer, in: .common))
        world.loop.add(source, to: .common)
        world.loop.add(timer, to: .common)
        #expect(world.loop.contains(source) && world.loop.contains(timer))
    }

    @Test("removing an item from the common modes removes it from these modes only")
    func outOfTheCommonModesItLeavesAllOfThemButNoOther() {
        let world = World()
        world.loop.addCommonMode("a")
        let source = world.keepAlive(.common)
        let timer = world.timer("T", at: 9, in: [.common, "a", "other"])
        world.loop.add(source, to: "other")
        world.loop.remove(source, from: .common)
        world.loop.remove(timer, from: .common)
        #expect(source.modeNames == ["other"])
        #expect(timer.node.modeNames == ["other"])
        // The items were not added to the common modes, so the calls have no effect.
        world.loop.remove(source, from: .common)
        world.loop.remove(timer, from: .common)
        #expect(source.modeNames == ["other"] && timer.node.modeNames == ["other"])
    }

    @Test("an item that was added to a common mode only is not a common item")
    func whatIsOnlyInACommonModeIsNoCommonItem() {
        let world = World()
        let source = world.keepAlive()
        let timer = world.timer("T", at: 9)
        world.loop.addCommonMode("a")
        #expect(!world.loop.contains(source, in: .common) && !world.loop.contains(timer, in: .common))
        #expect(!world.loop.contains(source, in: "a") && !world.loop.contains(timer, in: "a"))
    }

    @Test("a mode that becomes common while it runs gets the items at once")
    func aModeThatBecomesCommonWhileItRunsGetsTheItemsAtOnce() {
        let world = World()
        world.timer("T", at: 3, in: [.common])
        world.keepAlive("m")
        world.source("S", in: ["m"], signalled: true) { _ in world.loop.addCommonMode("m") }
        world.run("m", ms: 5)
        #expect(world.journal() == "S T =3")
    }

    @Test("fired or invalidated items are no longer common") func firedOrInvalidatedItemsAreCommonNoMore() {
        let world = World()
        let timer = world.timer("T", at: 1, in: [.common])
        let source = world.keepAlive(.common)
        world.run(ms: 2)
        source.invalidate()
        world.loop.addCommonMode("a")
        #expect(!world.loop.contains(timer, in: .common) && !world.loop.contains(source, in: .common))
        #expect(world.loop.items(in: "a").isEmpty && world.loop.timers(in: "a").isEmpty)
    }

    @Test("an invalidated common item is released") func anInvalidatedCommonItemIsHeldByNobody() {
        let world = World()
        final class Owner: RunLoop.ItemOwner {
            var letGo = 0
            var forgotten: [Int] = []
            override func letGo(of item: RunLoop.Item) { letGo += 1 }
            override func forget(_ context: Int) { forgotten.append(context) }
        }
        weak var observer: RunLoop.Observer?
        let owner = Owner()
        do {
            let strong = RunLoop.Observer(.all, owner: owner) { _, _ in }
            observer = strong
            strong.context = 7
            world.loop.add(strong, to: .common)
            world.loop.remove(strong)
            #expect(owner.letGo == 0)
        }
        #expect(observer != nil && owner.forgotten.isEmpty)
        observer?.invalidate()
        #expect(observer == nil)
        #expect(owner.letGo == 1 && owner.forgotten == [7])
    }

    @Test("a loop retains its ports until they leave in any order")
    func aLoopHoldsItsPortsUntilTheyLeaveInWhateverOrder() throws {
        final class Counter: RunLoop.ItemOwner {
            var contexts: Set<Int> = []
            override func forget(_ context: Int) { contexts.remove(context) }
        }
        let world = World()
        let counter = Counter()
        let pipe = Pipe()
        func add(_ context: Int) throws {
            let port = try RunLoop.FDPort(pipe.reader, owner: counter)
            port.context = context
            counter.contexts.insert(context)
            let modes: [RunLoop.Mode] = [[.default], [.common], ["a", .common], ["a", "b"]][context % 4]
            for mode in modes { world.loop.add(port, to: mode) }
        }
        func ports() -> [RunLoop.FDPort] { world.loop.allItems.compactMap { $0 as? RunLoop.FDPort } }
        for context in 0..<40 { try add(context) }
        for step in 0..<30 {
            let context = step * 17 % 40
            for port in ports() where port.context == context {
                if step % 2 == 0 {
                    port.invalidate()
                } else {
                    for mode in ["a", "b", .default, .common] as [RunLoop.Mode] { world.loop.remove(port, from: mode) }
                }
            }
            #expect(!counter.contexts.contains(context))
            if step % 5 == 0 { try add(100 + step) }
            #expect(Set(ports().map(\.context)) == counter.contexts)
        }
        #expect(counter.contexts.count == 16)
        world.loop.close()
        #expect(counter.contexts.isEmpty)
    }

    @Test("a common item belongs to its loop even when it is in no mode at the moment")
    func aCommonItemBelongsToItsLoopEvenWhenItIsInNoModeAtTheMoment() {
        let world = World()
        let other = World()
        let observer = RunLoop.Observer(.all) { _, _ in }
        world.loop.add(observer, to: .common)
        world.loop.remove(observer)
        #expect(other.loop.isElsewhere(observer))
        world.loop.remove(observer, from: .common)
        #expect(!other.loop.isElsewhere(observer))
    }

    // MARK: Functions of NSRunLoop

    @Test("run(mode:before:) returns whether the mode held anything")
    func runningAModeOnceSaysWhetherThereWasAnythingToRunItFor() {
        let world = World()
        #expect(!world.loop.run(mode: .default, before: .never))
        #expect(!world.loop.run(mode: .common, before: .never))
        world.keepAlive()
        world.timer("T", at: 1)
        #expect(world.loop.run(mode: .default, before: world.date(5)))
        #expect(world.time == 5)
        world.source("S", signalled: true) { _ in world.loop.stop() }
        #expect(world.loop.run(mode: .default, before: .never))
        #expect(world.journal() == "T S")
    }

    @Test("running until a date in the past makes one pass") func aDateInThePastIsOnePass() {
        for date in [RunLoop.Instant.longAgo, .init(nanoseconds: -1), .init(nanoseconds: 0)] {
            let world = World()
            world.observe()
            world.timer("T", at: 0)
            world.keepAlive()
            #expect(world.loop.run(mode: .default, before: date))
            world.loop.run(until: date)
            #expect(world.journal() == "E BT BS T X E BT BS X")
        }
    }

    @Test("running until a date continues after sources and stops") func runningUntilADateGoesOnAfterSourcesAndStops() {
        let world = World()
        world.source("S", signalled: true) { _ in world.loop.stop() }
        world.timer("T", at: 3) { _ in world.loop.stop() }
        world.loop.run(until: world.date(30))
        #expect(world.time == 30)
        #expect(world.journal() == "S T")
    }

    @Test("running until a date ends when nothing is left") func runningUntilADateEndsWhenNothingIsLeft() {
        let world = World()
        world.timer("T", at: 3)
        world.loop.run(until: .never)
        #expect(world.time == 3)
    }
}
