internal import CLinux

extension RunLoop {
    /// Fires the timers of the mode that are due now, sorted by date, order and age. Timers that become due meanwhile
    /// wait for the next pass.
    func fireDueTimers(_ mode: ModeState) {
        let reading = probe.now(poller)
        let now = reading.date
        let start = batch.count
        if mode.timers.count == 1 {
            mode.timers.base[0]._withUnsafeGuaranteedRef { queue in
                while queue.heap.firstDate <= now, let node = queue.heap.popFirst() { batch.append(node) }
            }
        } else {
            while let queue = queueOfNextTimer(mode), queue.heap.firstDate <= now, let node = queue.heap.popFirst() {
                batch.append(node)
            }
        }
        let end = batch.count
        // Queue the timers' next turn now: in a nested run, the rest of the batch must come before ports that become
        // ready from now on.
        if end - start > 1 { queueTimersBehindPorts(mode) }
        for index in start..<end {
            batch.prefetch(index + 2)
            // Nil if an earlier callback has removed or invalidated the timer.
            guard let node = batch[index] else { continue }
            batch[index] = nil
            // An earlier callback may have moved the timer, or a nested run may have fired it. The timer fires only if
            // it is still due.
            guard let queue = node.pointee.queue, !node.pointee.isFiring else { continue }
            let isDue = queue._withUnsafeGuaranteedRef { queue in
                let isDue = node.pointee.fireDate <= now && queue.serves(mode)
                if isDue, node.pointee.heapIndex >= 0 { queue.heap.remove(node) }
                if !isDue, node.pointee.heapIndex < 0 { queue.heap.insert(node) }
                return isDue
            }
            guard isDue else { continue }
            counters.pointee.timers += 1
            fire(node, at: reading)
        }
        batch.truncate(to: start)
        if mode.ready.holdsTimers, !timersAreDue(mode) { mode.ready.removeTimers() }
    }

    private func queueOfNextTimer(_ mode: ModeState) -> TimerQueue? {
        var best: TimerQueue?
        for queue in mode.timerQueues where queue.heap.count > 0 {
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

    /// Fires a timer that is in neither the heap nor the batch.
    ///
    /// - Parameter now: The time at which the batch began.
    private func fire(_ node: NodePointer, at now: Probe.Reading) {
        let interval = node.pointee.interval
        let late = now.date.subtractingSaturating(node.pointee.fireDate)
        let skipped = interval > 0 ? max(0, late) / interval : 0
        let missed = Int(skipped.addingSaturating(Int64(node.pointee.passedOver)))
        node.pointee.passedOver = 0
        node.pointee.dateWasSet = false
        call(node, missed: missed, (now, skipped))
    }

    /// Sets the next date, unless the callback has set one.
    private func reschedule(_ node: NodePointer, _ now: Probe.Reading, skipped: Int64) {
        guard !node.pointee.dateWasSet else { return }
        // The end of the callback nearly always proves that the next date is still ahead. The loop's clock is read only
        // if there is no such proof.
        let isAhead = probe.provesAhead(node.pointee.fireDate.addingSaturating(node.pointee.interval), now)
        if isAhead { latestNow = max(latestNow, now.date) }
        node.setNextDate(after: isAhead ? now.date : self.now.nanoseconds, reported: skipped)
    }

    /// Fires a scheduled timer at once, whatever its date. `-[NSTimer fire]`.
    func fireByHand(_ node: NodePointer, in queue: TimerQueue) {
        leaveBatch(node)
        if node.pointee.heapIndex >= 0 { queue.heap.remove(node) }
        call(node, missed: 0, nil)
    }

    /// Calls the callback. Meanwhile `isFiring` keeps the timer from firing again and its memory from being freed.
    ///
    /// - Parameter turn: The arguments for `reschedule`; nil if `fire` was called, after which the timer keeps its
    ///   date.
    @inline(__always)
    private func call(_ node: NodePointer, missed: Int, _ turn: (now: Probe.Reading, skipped: Int64)?) {
        let outer = innermostFiring
        node.pointee.isFiring = true
        node.pointee.outerFiring = outer
        innermostFiring = node
        let span = probe.begin(label(of: node), due: node.pointee.fireDate, counts: turn != nil)
        node.pointee.owner._withUnsafeGuaranteedRef { $0.fire(node, missed: missed) }
        probe.end(span, missed: missed)
        innermostFiring = outer
        if node.pointee.isValid, node.pointee.repeats || node.pointee.isPutOff {
            node.pointee.isPutOff = false
            // Also reschedules a timer that the callback has removed from its modes, since it may be added again.
            if let turn { reschedule(node, turn.now, skipped: turn.skipped) }
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

    /// Takes a timer out of all modes. A faster `move(node, to: nil)`, since most timers end here.
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

    /// Puts the timers of the batch back into their queues, so that a nested run or a query finds them. They keep their
    /// places in the batch: the outer run fires them if they are still due then.
    func spillBatch() {
        for index in 0..<batch.count {
            guard let node = batch[index], node.pointee.heapIndex < 0, !node.pointee.isFiring else { continue }
            guard let queue = node.pointee.queue?.takeUnretainedValue() else { continue }
            queue.heap.insert(node)
        }
    }

    /// Takes all timers out of the loop, which is ending. These timers can then be added to another loop.
    func detachTimers() {
        spillBatch()
        for queue in timerQueues {
            while let node = queue.heap.first { move(node, to: nil) }
        }
        for node in firingTimers { move(node, to: nil) }
    }
}
