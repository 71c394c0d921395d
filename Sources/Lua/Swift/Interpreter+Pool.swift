internal import CLua
internal import CLuaSupport

/// The pool of fibers: bounded, and as small as what happened lately allows.
extension Interpreter {
    /// A fiber with nothing on its stack but the anchors; nil when memory is out.
    public final func takeFiber() -> Fiber? {
        taken += 1
        if let fiber = pool {
            pool = fiber.next
            idle -= 1
            if idle < leastIdle { leastIdle = idle }
            fiber.state = .running
            fiber.number = taken
            return fiber
        }
        guard !isClosed, cl_new_thread(main) == LUA_OK, let thread = lua_tothread(main, -1) else {
            cl_pop(main, 1)
            return nil
        }
        let slot = anchor(main, -1)
        cl_pop(main, 1)
        guard slot != 0 else { return nil }
        lua_rawgeti(thread, cl_registry, lua_Integer(state.pointee.anchors))
        let fiber = Fiber(thread: thread, slot: slot, place: fibers.count)
        fiber.state = .running
        fiber.number = taken
        fibers.append(fiber)
        leastIdle = 0
        return fiber
    }

    /// Gives back a fiber that has ended, or has not begun.
    public final func recycle(_ fiber: Fiber) {
        fiber.clear()
        guard !isClosed else { return }
        lua_settop(fiber.thread, 1)
        fiber.state = .idle
        fiber.next = pool
        pool = fiber
        idle += 1
        guard hasManyIdle, !isPoolLarge else { return }
        isPoolLarge = true
        poolIsLarge()
    }

    /// More than are always kept, and more than are in use. While tasks wait, as many others may come and go: nothing is to be
    /// done about those, or the loop would be woken for it for ever.
    private var hasManyIdle: Bool { idle > max(Self.poolSize, fibers.count - idle) }

    /// So many idle fibers are always kept.
    private static let poolSize = 64
    /// By one call of `shrinkPool`.
    private static let mostFreed = 10_000

    /// Frees idle fibers until there are no more than were in use at once since this was last called, half of what there were
    /// before that, or `poolSize`. To be called where no fiber has just ended further down on the stack: what wakes one may
    /// still hold it.
    ///
    /// - Returns: how many it has freed, and whether it is to be called again soon.
    public final func shrinkPool() -> (freed: Int, isLarge: Bool) {
        var freed = 0
        // Fibers are made when none is idle: so this holds for those made meanwhile, too.
        mostInUse = max(mostInUse, fibers.count - leastIdle)
        while idle > max(Self.poolSize, mostInUse), let fiber = pool {
            // The rest in the next call, so that the loop is not held for long.
            guard freed < Self.mostFreed else { return (freed, true) }
            pool = fiber.next
            idle -= 1
            freed += 1
            free(fiber)
        }
        mostInUse = max(mostInUse / 2, fibers.count - idle)
        leastIdle = idle
        isPoolLarge = hasManyIdle
        return (freed, isPoolLarge)
    }

    /// Gives back the memory in which a burst of fibers and of anchored objects was kept track of.
    public final func shrinkTables() {
        if fibers.capacity >= 4096, fibers.count <= fibers.capacity / 4 { fibers = fibers.map { $0 } }
        cl_shrink_anchors(state)
    }

    private func free(_ fiber: Fiber) {
        let last = fibers.removeLast()
        if last != fiber {
            fibers[fiber.place] = last
            last.place = fiber.place
        }
        release(fiber.slot)
        fiber.free()
    }
}
