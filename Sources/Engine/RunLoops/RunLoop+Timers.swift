// Timer nodes in the queues of a loop. Both `RunLoop.Timer` and the timers of hosts use them.

extension RunLoop {
    /// Adds a timer to a mode; with `.common`, to all present and future common modes. CFRunLoopAddTimer.
    ///
    /// An invalid timer is not added. A timer can be in one loop only: adding it to a second loop traps. O(log n).
    public func add(_ node: UnsafeMutablePointer<TimerNode>, to mode: Mode) {
        guard node.pointee.isValid else { return }
        let old = node.pointee.queue?.takeUnretainedValue()
        precondition(old == nil || old?.isOf(self) == true, "the timer is in another run loop: remove it there first")
        if mode == .common {
            if old == nil, commonQueue != nil { return addToCommonModes(node) }
            var modes = old?.modes ?? []
            for name in commonModes {
                let mode = state(of: name)
                if !modes.contains(where: { $0 === mode }) { modes.append(mode) }
            }
            move(node, to: queue(modes, isCommon: true))
        } else {
            let mode = state(of: mode)
            guard let old else { return move(node, to: queue([mode], isCommon: false)) }
            guard !old.serves(mode) else { return }
            move(node, to: queue(old.modes + [mode], isCommon: old.isCommon))
        }
    }

    /// Adds a timer to the common modes, by far the most frequent case. The timer must be valid and in no mode.
    public func addToCommonModes(_ node: UnsafeMutablePointer<TimerNode>) {
        guard let queue = commonQueue else { return add(node, to: .common) }
        queue._withUnsafeGuaranteedRef { insert(node, $0) }
    }

    /// Removes a timer from a mode; with `.common`, from all common modes if it was added to them.
    /// CFRunLoopRemoveTimer.
    public func remove(_ node: UnsafeMutablePointer<TimerNode>, from mode: Mode) {
        guard let old = node.pointee.queue?.takeUnretainedValue(), old.isOf(self) else { return }
        if mode == .common {
            guard old.isCommon else { return }
            move(node, toModes: old.modes.filter { !$0.isCommon }, isCommon: false)
        } else {
            guard old.modes.contains(where: { $0.name == mode }) else { return }
            move(node, toModes: old.modes.filter { $0.name != mode }, isCommon: old.isCommon)
        }
    }

    /// Whether a timer is in a mode; with `.common`, whether it was added to the common modes. CFRunLoopContainsTimer.
    public func contains(_ node: UnsafeMutablePointer<TimerNode>, in mode: Mode) -> Bool {
        guard let queue = node.pointee.queue?.takeUnretainedValue(), queue.isOf(self) else { return false }
        return mode == .common ? queue.isCommon : queue.modes.contains { $0.name == mode }
    }

    /// The timers in a mode, unordered. O(n).
    public func timers(in mode: Mode) -> [UnsafeMutablePointer<TimerNode>] {
        guard let mode = existingState(of: mode) else { return [] }
        spillBatch()
        var nodes = firingTimers.filter { $0.pointee.queue?.takeUnretainedValue().serves(mode) ?? false }
        for queue in mode.timerQueues {
            for index in 0..<queue.heap.count { nodes.append(queue.heap[index]) }
        }
        return nodes
    }

    /// All timers that are in a mode or were added to the common modes, unordered. O(n).
    public var allTimers: [UnsafeMutablePointer<TimerNode>] {
        spillBatch()
        var nodes = firingTimers.filter { $0.pointee.isScheduled }
        for queue in timerQueues {
            for index in 0..<queue.heap.count { nodes.append(queue.heap[index]) }
        }
        return nodes
    }

    // MARK: Queues

    /// Adds a timer that is in no mode. A faster `move` for this case.
    private func insert(_ node: NodePointer, _ queue: TimerQueue) {
        node.pointee.queue = Unmanaged.passUnretained(queue)
        queue.enter(node)
        lastAge += 1
        node.pointee.age = lastAge
        if !node.pointee.isFiring {
            node.pointee.owner._withUnsafeGuaranteedRef { $0.retain(node) }
            queue.heap.insert(node)
        }
        // Compares with the last time read: reading the clock again would cost as much as creating the timer did.
        if portCount > 0, node.pointee.fireDate <= latestNow { noteDueTimers(queue) }
    }

    private func queue(_ modes: [ModeState], isCommon: Bool) -> TimerQueue {
        func isIt(_ queue: TimerQueue) -> Bool {
            queue.isCommon == isCommon && queue.modes.count == modes.count && modes.allSatisfy(queue.serves)
        }
        let known = modes.first.map { $0.timerQueues.first(where: isIt) } ?? timerQueues.first(where: isIt)
        if let known { return known }
        if timerQueues.count >= timerQueueLimit { dropEmptyTimerQueues() }
        let queue = TimerQueue(loop: .passUnretained(self), modes: modes, isCommon: isCommon)
        timerQueues.append(queue)
        if isCommon, modes.count == commonModes.count, modes.allSatisfy(\.isCommon) {
            commonQueue = Unmanaged.passUnretained(queue)
        }
        for mode in modes { mode.timers.append(.passUnretained(queue)) }
        return queue
    }

    /// Frees empty queues. A program may use many combinations of modes.
    func dropEmptyTimerQueues() {
        let common = commonQueue?.takeUnretainedValue()
        timerQueues.removeAll { queue in
            guard queue.count == 0, queue !== common else { return false }
            let opaque = Unmanaged.passUnretained(queue).toOpaque()
            for mode in queue.modes { mode.timers.removeAll { $0.toOpaque() == opaque } }
            return true
        }
        timerQueueLimit = max(64, timerQueues.count * 2)
    }

    private func move(_ node: NodePointer, toModes modes: [ModeState], isCommon: Bool) {
        // A common timer stays in a queue even if the queue has no modes, since modes may become common later.
        move(node, to: modes.isEmpty && !isCommon ? nil : queue(modes, isCommon: isCommon))
    }

    func move(_ node: NodePointer, to new: TimerQueue?) {
        let old = node.pointee.queue?.takeUnretainedValue()
        guard old !== new else { return }
        guard let new else { return forget(node) }
        guard let old else { return insert(node, new) }
        let wasInHeap = node.pointee.heapIndex >= 0
        if wasInHeap { old.heap.remove(node) }
        old.leave(node)
        node.pointee.queue = Unmanaged.passUnretained(new)
        new.enter(node)
        if wasInHeap { new.heap.insert(node) }
        dropTimersEntry(old)
        if node.pointee.fireDate <= latestNow { noteDueTimers(new) }
    }
}

extension NodePointer {
    var owner: RunLoop.TimerOwner { pointee.owner.takeUnretainedValue() }

    /// The loop that the timer is in; nil if it is in none.
    public var loop: RunLoop? { pointee.queue?._withUnsafeGuaranteedRef { $0.loop.takeUnretainedValue() } }

    /// The modes that the timer is in.
    public var modeNames: [RunLoop.Mode] { pointee.queue?.takeUnretainedValue().modes.map(\.name) ?? [] }

    /// Sets the next date, in nanoseconds of the loop's clock. See `RunLoop.Timer.fireDate`. O(log n).
    public func setFireDate(_ date: Int64) {
        guard pointee.isValid else { return }
        pointee.fireDate = date
        pointee.dateWasSet = true
        pointee.passedOver = 0
        guard !pointee.isFiring else { return }
        pointee.queue?._withUnsafeGuaranteedRef { queue in
            // A timer in the batch stays there, since the new date may be due, too.
            if pointee.heapIndex >= 0 { queue.heap.move(self) } else { queue.heap.insert(self) }
            queue.loop._withUnsafeGuaranteedRef { loop in
                guard loop.portCount > 0 else { return }
                loop.dropTimersEntry(queue)
                if date <= loop.latestNow { loop.noteDueTimers(queue) }
            }
        }
    }

    /// Delays a timer that is due by the loop's clock, but not yet by its owner's clock. The timer stays in its modes,
    /// even if it does not repeat, and is due again at `date`.
    public func putOff(until date: Int64) {
        setFireDate(date)
        pointee.isPutOff = true
    }

    /// See `RunLoop.Timer.keepsAlive`. O(1).
    public func setKeepsAlive(_ keeps: Bool) {
        guard keeps != pointee.keepsAlive else { return }
        pointee.keepsAlive = keeps
        pointee.queue?._withUnsafeGuaranteedRef { $0.countIdle(self, keeps ? -1 : 1) }
    }

    /// Sets `mayAnswer`, for a timer that does not keep the loop running: see `RunLoop.Item.mayAnswer`.
    package func setMayAnswer(_ may: Bool) {
        guard may != pointee.mayAnswer else { return }
        pointee.mayAnswer = may
        guard !pointee.keepsAlive else { return }
        pointee.queue?._withUnsafeGuaranteedRef { $0.answering += may ? 1 : -1 }
    }

    /// See `RunLoop.Timer.invalidate`. O(log n).
    public func invalidate() {
        guard pointee.isValid else { return }
        pointee.isValid = false
        pointee.queue?._withUnsafeGuaranteedRef { queue in
            queue.loop._withUnsafeGuaranteedRef { $0.forget(self) }
        }
    }

    /// See `RunLoop.Timer.fire`. Does nothing while the callback runs.
    public func fire() {
        guard pointee.isValid, !pointee.isFiring else { return }
        if let queue = pointee.queue?.takeUnretainedValue() {
            return queue.loop.takeUnretainedValue().fireByHand(self, in: queue)
        }
        owner.retain(self)
        pointee.isFiring = true
        owner.fire(self, missed: 0)
        if !pointee.repeats { invalidate() }
        pointee.isFiring = false
        // The callback may have added the timer to a loop, which then retains it.
        guard let queue = pointee.queue?.takeUnretainedValue() else { return owner.release(self) }
        queue.heap.insert(self)
        queue.loop.takeUnretainedValue().noteDueTimers(queue)
    }

    /// Sets the next date of the timer's grid that is after `now`.
    func setNextDate(after now: Int64, reported: Int64) {
        let interval = pointee.interval
        let late = Swift.max(0, now.subtractingSaturating(pointee.fireDate))
        let steps = (late / interval).addingSaturating(1)
        let (distance, overflow) = steps.multipliedReportingOverflow(by: interval)
        pointee.fireDate = overflow ? .max - 1 : Swift.min(.max - 1, pointee.fireDate.addingSaturating(distance))
        pointee.passedOver = Int32(clamping: Swift.max(0, steps - 1 - reported))
    }
}
