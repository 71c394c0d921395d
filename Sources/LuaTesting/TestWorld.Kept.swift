internal import Lua
internal import LuaRunLoops
internal import RunLoops

extension TestWorld {
    /// What is in a loop, of its tasks and threads, at some moment: what a group of tests owns is none of a test's.
    struct Kept {
        /// Held, so that nothing else gets their addresses.
        private var objects: [ObjectIdentifier: AnyObject] = [:]
        private var fibers: Set<UInt32> = []
        private var timers: Set<UnsafeMutablePointer<RunLoop.TimerNode>> = []

        init() {}

        /// All that there is.
        init(_ host: LuaHost) {
            for mode in host.loop.modeNames {
                for item in host.loop.items(in: mode) { insert(item) }
                for node in host.loop.timers(in: mode) { timers.insert(node) }
            }
            for fiber in host.fibersThatWait() { fibers.insert(fiber.slot) }
            for thread in LuaThread.all { insert(thread) }
        }

        var isEmpty: Bool { objects.isEmpty && timers.isEmpty && fibers.isEmpty }

        private mutating func insert(_ object: AnyObject) { objects[ObjectIdentifier(object)] = object }

        func contains(_ object: AnyObject) -> Bool { objects[ObjectIdentifier(object)] != nil }
        func contains(_ fiber: Fiber) -> Bool { fibers.contains(fiber.slot) }
        func contains(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> Bool { timers.contains(node) }
        func contains(identity: UnsafeRawPointer) -> Bool {
            timers.contains { UnsafeRawPointer($0) == identity }
                || objects.values.contains { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) == identity }
        }

        mutating func formUnion(_ other: Kept) {
            objects.merge(other.objects) { own, _ in own }
            timers.formUnion(other.timers)
            fibers.formUnion(other.fibers)
        }

        mutating func subtract(_ other: Kept) {
            for key in other.objects.keys { objects[key] = nil }
            timers.subtract(other.timers)
            fibers.subtract(other.fibers)
        }
    }

    /// What all groups own.
    var kept: Kept {
        var all = Kept()
        for kept in keeps.values { all.formUnion(kept) }
        return all
    }
}

/// What groups of tests own, for the runner.
enum KeepingBinding {
    static let functions: [Library.Entry] = [
        .init("keep_from") { keepFrom(Call($0)) },
        .init("keep") { keep(Call($0)) },
        .init("unkeep") { unkeep(Call($0)) },
        .init("is_kept") { isKept(Call($0)) },
    ]

    /// is_kept(): whether some group owns something.
    private static func isKept(_ call: Call) -> Int32 {
        call.answer(call.luaHost.part(TestPart.self).world?.keeps.isEmpty == false)
    }

    /// keep_from(): what comes into being from now on is to be kept.
    private static func keepFrom(_ call: Call) -> Int32 {
        let host = call.luaHost
        host.part(TestPart.self).world?.keptFrom.append(TestWorld.Kept(host))
        return call.nothing()
    }

    /// keep(number): until now. Without a number, a new one is answered.
    private static func keep(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let world = host.part(TestPart.self).world else { return call.nothing() }
        guard let number = call.integer(1) else {
            world.lastKept += 1
            world.keeps[world.lastKept] = TestWorld.Kept()
            return call.answer(world.lastKept)
        }
        var new = TestWorld.Kept(host)
        if let before = world.keptFrom.popLast() { new.subtract(before) }
        world.keeps[number, default: TestWorld.Kept()].formUnion(new)
        return call.nothing()
    }

    /// unkeep(number): that group is over.
    private static func unkeep(_ call: Call) -> Int32 {
        if let number = call.integer(1) { call.luaHost.part(TestPart.self).world?.keeps[number] = nil }
        return call.nothing()
    }
}
