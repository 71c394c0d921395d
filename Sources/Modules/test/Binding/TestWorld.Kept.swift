internal import Lua
internal import LuaRunLoops
internal import RunLoops

extension TestWorld {
    /// The contents of a loop, with its tasks and threads, at some moment. Objects that a group of tests owns do not
    /// belong to a test.
    struct Kept {
        /// Kept alive, so that no other object gets their addresses.
        private var objects: [ObjectIdentifier: AnyObject] = [:]
        private var fibers: Set<UInt32> = []
        private var timers: Set<UnsafeMutablePointer<RunLoop.TimerNode>> = []

        init() {}

        /// Records all objects that exist now.
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

    /// Everything that groups own.
    var kept: Kept {
        var all = Kept()
        for kept in keeps.values { all.formUnion(kept) }
        return all
    }
}

/// For the runner: the objects that groups of tests own.
enum KeepingBinding {
    static let functions: [Library.Entry] = [
        // keep_from(): the objects that are made between this call and keep(number) belong to the group with this
        // number.
        .init("keep_from") { TestWorld.act($0) { $0.keptFrom.append(TestWorld.Kept($1.luaHost)) } },
        .init("keep") { keep(Call($0)) },
        // unkeep(number): ends the group.
        .init("unkeep") { TestWorld.act($0) { $0.keeps[$1.integer(1) ?? 0] = nil } },
        // is_kept(): returns whether a group owns something.
        .init("is_kept") { Call.answer($0) { $0.testWorld?.keeps.isEmpty == false } },
    ]

    /// keep(number): gives the group the objects made since keep_from. Without a number, returns the number of a new
    /// group.
    private static func keep(_ call: Call) -> Int32 {
        guard let world = call.testWorld else { return call.nothing() }
        guard let number = call.integer(1) else {
            world.lastKept += 1
            world.keeps[world.lastKept] = TestWorld.Kept()
            return call.answer(world.lastKept)
        }
        var new = TestWorld.Kept(call.luaHost)
        if let before = world.keptFrom.popLast() { new.subtract(before) }
        world.keeps[number, default: TestWorld.Kept()].formUnion(new)
        return call.nothing()
    }

}
