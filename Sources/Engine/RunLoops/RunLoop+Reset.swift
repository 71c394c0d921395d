extension RunLoop {
    /// Empties the loop: sources call their `leave` callbacks, requests are dropped, and nothing is invalidated. The
    /// loop does this itself when its thread ends. The loop's `handle` does nothing from then on.
    public func close() {
        let mail = handle.close()
        withExtendedLifetime(mail) {}  // the closures are destroyed here, while the lock is not held
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

    /// Restores the initial state: no items, no requests, the initial modes and sequence. Items are removed, not
    /// invalidated. A host calls this if it uses one thread's loop for several programs in turn, as a test runner does.
    ///
    /// Traps while the loop runs.
    public func reset() {
        precondition(runs.isEmpty, "a run loop cannot be reset while it runs")
        _ = handle.takeMail()
        removeAll()
        // Modes and queues refer to each other, and each mode to itself: break the cycles.
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
