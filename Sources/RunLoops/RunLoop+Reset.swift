extension RunLoop {
    /// As new: nothing in any mode, nothing queued, the modes and the sequence of the beginning. What was in it is not
    /// invalidated. For hosts that use one thread's loop for several things in turn, as a test runner does.
    ///
    /// Only while the loop does not run.
    public func reset() {
        precondition(runs.isEmpty, "a run loop cannot be reset while it runs")
        _ = handle.takeMail()
        for mode in modes {
            for item in mode.items { remove(item, from: mode) }
        }
        for item in commonItemsByAge { forgetCommonItem(item) }
        detachTimers()
        dropRequests()
        // Modes and queues hold each other, and modes themselves.
        for mode in modes {
            mode.timers = []
            mode.alone = []
        }
        timerQueues = []
        commonQueue = nil
        modes = []
        commonModes = [.default]
        sequence = .documented
        counters.pointee = Statistics()
        _ = state(of: .default)
    }
}
