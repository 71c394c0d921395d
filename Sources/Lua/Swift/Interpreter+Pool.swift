internal import CLua
internal import CLuaSupport

/// The pool of fibers. The pool shrinks when recent work has needed fewer fibers.
extension Interpreter {
    /// Takes a fiber with only the table of anchors on its stack. Returns nil if there is no memory.
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

    /// Returns a fiber that has ended, or has not begun, to the pool.
    public final func recycle(_ fiber: Fiber) {
        fiber.clear()
        guard !isClosed else { return }
        if state.pointee.locals != 0 { cl_drop_locals(state, fiber.slot) }
        lua_settop(fiber.thread, 1)
        fiber.state = .idle
        fiber.next = pool
        pool = fiber
        idle += 1
        guard hasManyIdle, !isPoolLarge else { return }
        isPoolLarge = true
        poolIsLarge()
    }

    /// Whether the number of idle fibers exceeds both the number that is always kept and the number in use. The second
    /// condition matters if many tasks wait while as many other tasks begin and end: otherwise the loop would be woken
    /// again and again to free fibers that are soon needed again.
    private var hasManyIdle: Bool { idle > max(Self.poolSize, fibers.count - idle) }

    /// The number of idle fibers that are always kept.
    private static let poolSize = 64
    /// The largest number of fibers that one call of `shrinkPool` frees.
    private static let mostFreed = 10_000

    /// Frees idle fibers. Keeps the largest of three numbers of fibers: `poolSize`; the most fibers in use at once
    /// since the last call; half of the corresponding number at the last call. Do not call it while a fiber that has
    /// just ended is further down on the stack: the code that resumed the fiber may still use it.
    ///
    /// - Returns: the number of freed fibers, and whether to call this again soon.
    public final func shrinkPool() -> (freed: Int, isLarge: Bool) {
        var freed = 0
        // Fibers are made only when none is idle, so this number includes those made since the last call.
        mostInUse = max(mostInUse, fibers.count - leastIdle)
        while idle > max(Self.poolSize, mostInUse), let fiber = pool {
            // The next call frees the rest, so that the loop is not blocked for long.
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

    /// Frees the memory that the tables of fibers and anchors needed for a burst.
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
