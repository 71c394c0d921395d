internal import CLinux

// What a loop does before a long sleep, in step 7 of a pass: it gives memory back.

extension RunLoop {
    /// Nanoseconds. A sleep that is longer than this has time for what nobody waits for.
    static let longSleep: UInt64 = 50_000_000

    /// The loop is about to sleep for long. Returns after how many nanoseconds to call this again; 0 if the loop is to
    /// look for events first; nil if the run has no reason left to sleep.
    @inline(never)
    func rest(_ run: Run) -> Int64? {
        // In a world in which sleeping takes no time, there is none for this.
        guard poller.isReal else { return .max }
        // A mode that an observer has emptied is slept in all the same, as by CoreFoundation.
        let wasEmpty = isEmpty(run.mode)
        let pause = restHandler?(self) ?? .max
        guard pause == 0 else {
            shrink()
            return min(pause, linux_give_memory_back(poller.now()))
        }
        // The handler may have called anything.
        noteForeignCode()
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
