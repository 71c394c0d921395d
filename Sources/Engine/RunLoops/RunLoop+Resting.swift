internal import CLinux

// Before a long sleep, in step 7 of a pass, the loop gives memory back to the system.

extension RunLoop {
    /// Nanoseconds. Before a sleep longer than this, the loop does work that can wait. Even programs that redraw a
    /// clock or an animation sleep for longer than this, so they give the memory of a burst back, too.
    static let longSleep: UInt64 = 5_000_000

    /// Nanoseconds. If the loop has put a rest off, it rests after this time without an event.
    static let restDelay: Int64 = 1_000_000_000
    /// After this number of events, the loop rests before its next long sleep.
    private static let manyEvents: UInt64 = 64
    /// Nanoseconds. A loop that a timer wakes again and again rests at least this often.
    private static let restInterval: Int64 = 250_000_000

    /// Whether the last rest was so recent that the next one can be put off. Costs if removed: 640 instructions before
    /// each long sleep, a tenth of those for an echo of 64 bytes.
    func hasRested(_ timeout: Int64, until deadline: Int64) -> Bool {
        guard poller.isReal, !restIsWanted, dispatches &- restedAt < Self.manyEvents else { return false }
        return deadline == .max || deadline - timeout - restDate < Self.restInterval
    }

    /// Called before a long sleep. Returns the nanoseconds after which to call it again: 0 if the loop must first look
    /// for events. Nil if the run has no reason left to sleep.
    @inline(never)
    func rest(_ run: Run) -> Int64? {
        // In simulated time a sleep takes no time, so it leaves none for this work.
        guard poller.isReal else { return .max }
        // If an observer has emptied the mode, the loop sleeps all the same, as in CoreFoundation. So only a mode that
        // becomes empty during the handler ends the sleep.
        let wasEmpty = isEmpty(run.mode)
        let pause = restHandler?(self) ?? .max
        restIsWanted = pause == 0
        guard restIsWanted else {
            shrink()
            restedAt = dispatches
            restDate = poller.now()
            return min(pause, linux_give_memory_back(restDate))
        }
        // The handler may have called foreign code, which takes time.
        probe.interrupted()
        dispatches += 1
        let isOver = run.wakeIsPending || isStopped(run) || !wasEmpty && isEmpty(run.mode)
        return isOver ? nil : 0
    }

    private func shrink() {
        batch.shrink()
        for queue in timerQueues { queue.heap.shrink() }
        for queue in requestQueues.elements { queue._withUnsafeGuaranteedRef { $0.shrink() } }
        ports.shrink()
    }
}
