extension RunLoop {
    /// Empties the loop: sources are told that they leave, requests are dropped, nothing is invalidated. Called when its
    /// thread ends; `handle` does nothing from then on.
    public func close() {
        let mail = handle.close()
        withExtendedLifetime(mail) {}  // what it holds is dropped with no lock held
        removeAll()
    }

    private func removeAll() {
        for mode in modes {
            for item in mode.items { remove(item, from: mode) }
        }
        for item in commonItemsByAge { forgetCommonItem(item) }
        detachTimers()
        dropRequests()
    }

    /// As new: nothing in any mode, nothing queued, the modes and the sequence of the beginning. What was in it is not
    /// invalidated. For hosts that use one thread's loop for several things in turn, as a test runner does.
    ///
    /// Only while the loop does not run.
    public func reset() {
        precondition(runs.isEmpty, "a run loop cannot be reset while it runs")
        _ = handle.takeMail()
        removeAll()
        // Modes and queues hold each other, and modes themselves.
        for mode in modes {
            mode.timers.count = 0
            mode.alone = []
        }
        timerQueues = []
        commonQueue = nil
        modes = []
        modesByName = [:]
        modeLimit = Self.usualModes
        modesToSpare = []
        commonModes = [.default]
        sequence = .documented
        counters.pointee = Statistics()
        _ = state(of: .default)
    }
}
