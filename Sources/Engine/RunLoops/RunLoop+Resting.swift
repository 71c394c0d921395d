internal import CLinux

// Before a long sleep, in step 7 of a pass, the loop gives memory back to the system.

extension RunLoop {
    /// Nanoseconds. Before a sleep longer than this, there is time for work that can wait. Shorter than the interval of
    /// a clock or an animation: the memory of a burst goes back in such a program, too.
    static let longSleep: UInt64 = 5_000_000

    /// Called before a long sleep. Returns the nanoseconds after which to call it again: 0 if the loop must first look
    /// for events. Nil if the run has no reason left to sleep.
    @inline(never)
    func rest(_ run: Run) -> Int64? {
        // In simulated time a sleep takes no time, so there is none for this work.
        guard poller.isReal else { return .max }
        // If an observer has emptied the mode, the loop sleeps all the same, as in CoreFoundation. So only a mode that
        // becomes empty during the handler ends the sleep.
        let wasEmpty = isEmpty(run.mode)
        let pause = restHandler?(self) ?? .max
        guard pause == 0 else {
            shrink()
            return min(pause, linux_give_memory_back(poller.now()))
        }
        // The handler may have called foreign code.
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
