internal import CLinux

// What a loop does with timer nodes. `RunLoop.Timer` and hosts' timers both come here.

extension RunLoop {
    /// Adds a timer to a mode; `.common` for all common modes, those to come included. CFRunLoopAddTimer.
    ///
    /// An invalid timer stays out. A timer can be in one loop only; adding it to a second is a programming error. O(log n).
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

    /// `add(_:to: .common)`, by far the most frequent case, for a timer that is valid and in no mode.
    public func addToCommonModes(_ node: UnsafeMutablePointer<TimerNode>) {
        guard let queue = commonQueue else { return add(node, to: .common) }
        queue._withUnsafeGuaranteedRef { insert(node, $0) }
    }

    /// Takes a timer out of a mode. Out of `.common`: out of all common modes, if it was added to them. CFRunLoopRemoveTimer.
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

    /// Whether it is in a mode; for `.common`, whether it was added to the common modes. CFRunLoopContainsTimer.
    public func contains(_ node: UnsafeMutablePointer<TimerNode>, in mode: Mode) -> Bool {
        guard let queue = node.pointee.queue?.takeUnretainedValue(), queue.isOf(self) else { return false }
        return mode == .common ? queue.isCommon : queue.modes.contains { $0.name == mode }
    }

    /// The timers in a mode, in no special order. O(n).
    public func timers(in mode: Mode) -> [UnsafeMutablePointer<TimerNode>] {
        guard let mode = existingState(of: mode) else { return [] }
        spillBatch()
        var nodes = firingTimers.filter { $0.pointee.queue?.takeUnretainedValue().serves(mode) ?? false }
        for queue in mode.timers {
            for index in 0..<queue.heap.count { nodes.append(queue.heap[index]) }
        }
        return nodes
    }

    /// The timers that are in a mode, or would be in those that become common.
    public var allTimers: [UnsafeMutablePointer<TimerNode>] {
        spillBatch()
        var nodes = firingTimers.filter { $0.pointee.isScheduled }
        for queue in timerQueues {
            for index in 0..<queue.heap.count { nodes.append(queue.heap[index]) }
        }
        return nodes
    }

    // MARK: Queues

    /// A timer that was in no mode. `move` without its detours.
    private func insert(_ node: NodePointer, _ queue: TimerQueue) {
        node.pointee.queue = Unmanaged.passUnretained(queue)
        queue.enter(node)
        lastAge += 1
        node.pointee.age = lastAge
        if !node.pointee.isFiring {
            node.pointee.owner._withUnsafeGuaranteedRef { $0.retain(node) }
            queue.heap.insert(node)
        }
        // Without a look at the clock: a timer that is made for now has cost one already.
        if portCount > 0, node.pointee.fireDate <= latestNow { noteDueTimers(queue) }
    }

    private func queue(_ modes: [ModeState], isCommon: Bool) -> TimerQueue {
        for queue in timerQueues where queue.isCommon == isCommon && queue.modes.count == modes.count {
            if modes.allSatisfy(queue.serves) { return queue }
        }
        let queue = TimerQueue(loop: .passUnretained(self), modes: modes, isCommon: isCommon)
        timerQueues.append(queue)
        if isCommon, modes.count == commonModes.count, modes.allSatisfy(\.isCommon) {
            commonQueue = Unmanaged.passUnretained(queue)
        }
        for mode in modes { mode.timers.append(queue) }
        return queue
    }

    private func move(_ node: NodePointer, toModes modes: [ModeState], isCommon: Bool) {
        // A common timer that is in no mode at the moment still enters those that become common.
        move(node, to: modes.isEmpty && !isCommon ? nil : queue(modes, isCommon: isCommon))
    }

    private func move(_ node: NodePointer, to new: TimerQueue?) {
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

    // MARK: Firing

    /// Fires the timers of the mode that are due now, by date, then order, then age. What becomes due meanwhile waits for
    /// the next pass.
    func fireDueTimers(_ mode: ModeState) {
        let now = poller.now()
        let start = batch.count
        if mode.timers.count == 1 {
            let queue = mode.timers[0]
            while queue.heap.firstDate <= now, let node = queue.heap.popFirst() { batch.append(node) }
        } else {
            while let queue = queueOfNextTimer(mode), queue.heap.firstDate <= now, let node = queue.heap.popFirst() {
                batch.append(node)
            }
        }
        let end = batch.count
        // For a nested run, those left are due before whatever becomes ready from now on.
        if end - start > 1 { queueTimersBehindPorts(mode) }
        var moment = linux_monotonic_coarse()
        for index in start..<end {
            batch.prefetch(index + 2)
            // Empty when a callback before has removed or invalidated the timer.
            guard let node = batch[index] else { continue }
            batch[index] = nil
            // A callback may have moved it meanwhile, or a nested run fired it; then it fires only if it is due again.
            guard let queue = node.pointee.queue, !node.pointee.isFiring else { continue }
            let isDue = queue._withUnsafeGuaranteedRef { queue in
                let isDue = node.pointee.fireDate <= now && queue.serves(mode)
                if isDue, node.pointee.heapIndex >= 0 { queue.heap.remove(node) }
                if !isDue, node.pointee.heapIndex < 0 { queue.heap.insert(node) }
                return isDue
            }
            guard isDue else { continue }
            counters.pointee.timers += 1
            fire(node, late: now.subtractingSaturating(node.pointee.fireDate))
            moment = counters.pointee.note(callbackSince: moment)
        }
        batch.truncate(to: start)
        if mode.ready.holdsTimers, !timersAreDue(mode) { mode.ready.removeTimers() }
    }

    private func queueOfNextTimer(_ mode: ModeState) -> TimerQueue? {
        var best: TimerQueue?
        for queue in mode.timers where queue.heap.count > 0 {
            guard let other = best else {
                best = queue
                continue
            }
            let date = queue.heap.firstDate
            if date < other.heap.firstDate {
                best = queue
            } else if date == other.heap.firstDate, let a = queue.heap.first, let b = other.heap.first,
                TimerHeap.winsTie(a, over: b)
            {
                best = queue
            }
        }
        return best
    }

    /// The node is in neither the heap nor the batch.
    private func fire(_ node: NodePointer, late: Int64) {
        let interval = node.pointee.interval
        let skipped = interval > 0 ? max(0, late) / interval : 0
        let missed = Int(skipped.addingSaturating(Int64(node.pointee.passedOver)))
        node.pointee.passedOver = 0
        node.pointee.dateWasSet = false
        call(node, missed: missed) {
            if !node.pointee.dateWasSet { node.setNextDate(after: now.nanoseconds, reported: skipped) }
        }
    }

    /// Fires a scheduled timer out of turn.
    func fireByHand(_ node: NodePointer, in queue: TimerQueue) {
        leaveBatch(node)
        if node.pointee.heapIndex >= 0 { queue.heap.remove(node) }
        call(node, missed: 0) {}
    }

    /// Calls the callback. Meanwhile the timer counts as firing: it does not fire again, and its memory stays.
    private func call(_ node: NodePointer, missed: Int, reschedule: () -> Void) {
        let outer = innermostFiring
        node.pointee.isFiring = true
        node.pointee.outerFiring = outer
        innermostFiring = node
        node.pointee.owner._withUnsafeGuaranteedRef { $0.fire(node, missed: missed) }
        innermostFiring = outer
        if node.pointee.isValid, node.pointee.repeats {
            // Also when its callback has taken it out of its modes: it may come back.
            reschedule()
            node.pointee.queue?._withUnsafeGuaranteedRef { queue in
                queue.heap.insert(node)
                if portCount > 0, node.pointee.fireDate <= latestNow { noteDueTimers(queue) }
            }
        } else {
            node.invalidate()
        }
        node.pointee.isFiring = false
        if node.pointee.queue == nil { node.pointee.owner._withUnsafeGuaranteedRef { $0.release(node) } }
    }

    func leaveBatch(_ node: NodePointer) {
        batch.remove(node)
    }

    var firingTimers: [NodePointer] {
        var nodes: [NodePointer] = []
        var next = innermostFiring
        while let node = next {
            nodes.append(node)
            next = node.pointee.outerFiring
        }
        return nodes
    }

    /// Takes a timer out of all modes. `move(node, to: nil)` without its detours: this is most timers' end.
    func forget(_ node: NodePointer) {
        guard let queue = node.pointee.queue else { return }
        node.pointee.queue = nil
        queue._withUnsafeGuaranteedRef { queue in
            if node.pointee.heapIndex >= 0 { queue.heap.remove(node) }
            queue.leave(node)
            if portCount > 0 { dropTimersEntry(queue) }
        }
        leaveBatch(node)
        if !node.pointee.isFiring { node.pointee.owner._withUnsafeGuaranteedRef { $0.release(node) } }
    }

    /// Puts those that are about to fire back into their queues, where a nested run, or a question, finds them. They keep
    /// their places in the batch: the outer run fires them if they are still due then.
    func spillBatch() {
        for index in 0..<batch.count {
            guard let node = batch[index], node.pointee.heapIndex < 0, !node.pointee.isFiring else { continue }
            guard let queue = node.pointee.queue?.takeUnretainedValue() else { continue }
            queue.heap.insert(node)
        }
    }

    /// The loop is gone: its timers are in no mode, and can be added to another loop.
    func detachTimers() {
        spillBatch()
        for queue in timerQueues {
            while let node = queue.heap.first { move(node, to: nil) }
        }
        for node in firingTimers { move(node, to: nil) }
    }
}

extension NodePointer {
    var owner: RunLoop.TimerOwner { pointee.owner.takeUnretainedValue() }

    /// The loop it is in.
    public var loop: RunLoop? { pointee.queue?._withUnsafeGuaranteedRef { $0.loop.takeUnretainedValue() } }

    /// The modes it is in.
    public var modeNames: [RunLoop.Mode] { pointee.queue?.takeUnretainedValue().modes.map(\.name) ?? [] }

    /// See `RunLoop.Timer.fireDate`. Nanoseconds of the loop's clock. O(log n).
    public func setFireDate(_ date: Int64) {
        guard pointee.isValid else { return }
        pointee.fireDate = date
        pointee.dateWasSet = true
        pointee.passedOver = 0
        guard !pointee.isFiring else { return }
        pointee.queue?._withUnsafeGuaranteedRef { queue in
            // If it is about to fire it stays so, in case the new date is past, too.
            if pointee.heapIndex >= 0 { queue.heap.move(self) } else { queue.heap.insert(self) }
            queue.loop._withUnsafeGuaranteedRef { loop in
                guard loop.portCount > 0 else { return }
                loop.dropTimersEntry(queue)
                if date <= loop.latestNow { loop.noteDueTimers(queue) }
            }
        }
    }

    /// See `RunLoop.Timer.keepsAlive`. O(1).
    public func setKeepsAlive(_ keeps: Bool) {
        guard keeps != pointee.keepsAlive else { return }
        pointee.keepsAlive = keeps
        pointee.queue?._withUnsafeGuaranteedRef { $0.idle += keeps ? -1 : 1 }
    }

    /// See `RunLoop.Timer.invalidate`. O(log n).
    public func invalidate() {
        guard pointee.isValid else { return }
        pointee.isValid = false
        pointee.queue?._withUnsafeGuaranteedRef { queue in
            queue.loop._withUnsafeGuaranteedRef { $0.forget(self) }
        }
    }

    /// See `RunLoop.Timer.fire`. Does nothing while its callback runs.
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
        // Its callback may have added it to a loop, which then holds it.
        guard let queue = pointee.queue?.takeUnretainedValue() else { return owner.release(self) }
        queue.heap.insert(self)
        queue.loop.takeUnretainedValue().noteDueTimers(queue)
    }

    /// The next date of its grid after `now`.
    func setNextDate(after now: Int64, reported: Int64) {
        let interval = pointee.interval
        let late = Swift.max(0, now.subtractingSaturating(pointee.fireDate))
        let steps = (late / interval).addingSaturating(1)
        let (distance, overflow) = steps.multipliedReportingOverflow(by: interval)
        pointee.fireDate = overflow ? .max - 1 : Swift.min(.max - 1, pointee.fireDate.addingSaturating(distance))
        pointee.passedOver = Int32(clamping: Swift.max(0, steps - 1 - reported))
    }
}

/// Timers about to fire, of all runs in progress: each run has a stretch at the end.
struct TimerBatch: ~Copyable {
    private let places = RawBuffer<NodePointer?>(capacity: 64)

    deinit { places.free() }

    var count: Int { places.count }

    subscript(index: Int) -> NodePointer? {
        get { places.base[index] }
        nonmutating set {
            if let node = places.base[index] { node.pointee.batchPlaces -= 1 }
            places.base[index] = newValue
            guard let newValue else { return }
            newValue.pointee.batchPlaces += 1
            newValue.pointee.batchIndex = Int32(truncatingIfNeeded: index)
        }
    }

    func append(_ node: NodePointer) {
        places.makeRoom()
        places.base[places.count] = nil
        self[places.count] = node
        places.count += 1
    }

    /// Of a hundred thousand timers none is in the cache. Their callbacks need the object that the node is in, too: what lies
    /// before it.
    func prefetch(_ index: Int) {
        guard index < count, let node = places.base[index] else { return }
        linux_prefetch(node, -96)
        linux_prefetch(node, -32)
        linux_prefetch(node, 32)
    }

    /// O(1) for a timer that one run is about to fire; O(length) in the rare case of several.
    func remove(_ node: NodePointer) {
        guard node.pointee.batchPlaces > 0 else { return }
        let latest = Int(node.pointee.batchIndex)
        if places.base[latest] == node { self[latest] = nil }
        guard node.pointee.batchPlaces > 0 else { return }
        for index in 0..<count where places.base[index] == node { self[index] = nil }
    }

    func truncate(to count: Int) { places.count = count }
}
