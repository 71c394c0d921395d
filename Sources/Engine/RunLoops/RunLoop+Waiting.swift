internal import CLinux

// What is ready, whose turn it is, and how long to sleep: steps 5 and 7 of a pass.

extension RunLoop {
    /// In the documented sequence, a port that is ready is handled without a word about waiting. Without observers that
    /// would hear the word, both sequences are the same, and the kernel need not be asked once more.
    func portReadyAtOnce(_ mode: ModeState) -> Unmanaged<PortBase>? {
        guard sequence == .documented, !mode.observed.isDisjoint(with: [.beforeWaiting, .afterWaiting]),
            mode.portCount > 0
        else { return nil }
        dropStale(mode)
        if mode.ready.count == 0 { endTurn() }
        if mode.ready.count == 0 { look(mode) }
        // Behind what is queued already; but a port that is ready again at once must not keep them from their turn.
        queueDueTimers(mode)
        guard mode.ready.count > 0, let port = mode.ready.first else { return nil }
        mode.ready.removeFirst()
        return port.retain()
    }

    /// Takes the next event of the mode, waiting for one if need be.
    func nextEvent(_ run: Run, waits: Bool) -> Event {
        let mode = run.mode
        defer { run.wakeIsPending = false }
        // They take their turn behind what is queued already, however much of that there is.
        if mode.ready.count > 0 { queueDueTimers(mode) }
        if let event = takeReady(mode) {
            handle.clearWakeUp()
            if wantsTurnEnd {
                // There may always be something that is ready.
                turnLength += 1
                if turnLength >= 64 { endTurn() }
            }
            return event
        }
        if wantsTurnEnd {
            endTurn()
            if let event = takeReady(mode) { return event }
            // What was still to be done may have been all that kept the mode: nothing would end the sleep.
            if isEmpty(mode) { return .nothing }
        }
        let mayWait = waits && !run.wakeIsPending && !isStopped(run)
        while true {
            var timeout: Int64 = 0
            var deadline = Int64.max
            if mayWait {
                deadline = min(run.deadline, mode.timersAreTaken ? .max : wakingDate(mode))
                timeout = deadline == .max ? -1 : max(0, deadline.addingSaturating(-poller.now()))
                // -1 is the longest.
                if UInt64(bitPattern: timeout) > Self.longSleep {
                    guard let pause = rest(run) else { return .nothing }
                    if UInt64(pause) < UInt64(bitPattern: timeout) {
                        timeout = pause
                        deadline = poller.now().addingSaturating(pause)
                    }
                }
            }
            let woken = wait(mode, timeout: timeout, until: deadline)
            if handle.mayHaveMail { takeMail() }  // messages for ports are events, too
            queueDueTimers(mode)
            if let event = takeReady(mode) { return event }
            if woken || !mayWait || poller.now() >= run.deadline { return .nothing }
            // Neither an event nor the end: a signal, or a stale wake-up. Sleep on.
        }
    }

    /// When to wake up for the mode's timers: as late as their tolerances allow, but no later than the last timer that is
    /// due by then. So timers that are due close together share a wake-up, and one that is alone is on time.
    func wakingDate(_ mode: ModeState) -> Int64 {
        var first = Int64.max
        for queue in mode.timers.elements { first = min(first, queue._withUnsafeGuaranteedRef { $0.heap.firstDate }) }
        guard first != .max, !poller.ignoresTolerance else { return first }
        var limit = Int64.max
        for queue in mode.timers.elements {
            limit = min(limit, queue._withUnsafeGuaranteedRef { $0.heap.latestStart() })
        }
        guard limit > first else { return first }
        var date = first
        for queue in mode.timers.elements {
            date = max(date, queue._withUnsafeGuaranteedRef { $0.heap.latestDate(upTo: limit) })
        }
        return date
    }

    /// Queues what is ready, waiting for it as long as `timeout` says, which is until `date`. Returns whether another thread woke
    /// the loop, which is forgotten with that.
    func wait(_ mode: ModeState, timeout: Int64, until date: Int64) -> Bool {
        // Not retained: a mode that runs keeps the set that it has.
        mode.sleepsWith._withUnsafeGuaranteedRef { descriptors in
            guard timeout != 0, !descriptors.hasAlwaysReady, handle.beginSleep() else {
                look(mode)
                return handle.clearWakeUp()
            }
            // The recorder has a better clock, and looks at it.
            let start = isRecording ? -1 : poller.coarseNow()
            if !isRecording, start >= recorder.pointee.beginsAt { considerRecording(start) }
            if isRecording { recorder.pointee.sleep(until: timeout < 0 ? 0 : date) }
            if poller.wantsToKnowDescriptors { poller.watched = descriptors.ofInterest }
            let count =
                isRecording && recorder.pointee.isUnread && poller.isReal
                ? waitAndBeSeen(descriptors, timeout: timeout)
                : poller.wait(
                    descriptors.epoll, events, capacity: 64, timeout: timeout, watching: descriptors.watching)
            let woken = handle.endSleep()
            if isRecording {
                recorder.pointee.wake(reasonToWake(mode, woken, count, timeout, date), woken ? handle.takeWaker() : 0)
            }
            counters.pointee.sleeps += 1
            noteAwake(since: start)
            queueReady(mode, descriptors, count)
            return woken
        }
    }

    /// - Parameter start: by the coarse clock; -1: the recorder knows it.
    @inline(__always)
    private func noteAwake(since start: Int64) {
        quietSince = 0
        guard start >= 0 else { return }
        let end = poller.coarseNow()
        counters.pointee.asleep += end - start
        if poller.isReal { quietSince = end }
    }

    /// Waits, and if that lasts has what was recorded before read meanwhile: the process may be killed in its sleep.
    @inline(never)
    private func waitAndBeSeen(_ descriptors: DescriptorSet, timeout: Int64) -> Int {
        func wait(_ timeout: Int64) -> Int {
            poller.wait(descriptors.epoll, events, capacity: 64, timeout: timeout, watching: descriptors.watching)
        }
        let first = recorder.pointee.timeUntilRead()
        guard timeout < 0 || timeout > first else { return wait(timeout) }
        let start = poller.now()
        if first > 0 {
            let count = wait(first)
            // It may have been a signal.
            guard count == 0, poller.now() >= start + first else { return count }
        }
        recorder.pointee.beSeen()
        return wait(timeout < 0 ? -1 : max(0, timeout - (poller.now() - start)))
    }

    private func reasonToWake(
        _ mode: ModeState, _ woken: Bool, _ count: Int, _ timeout: Int64, _ date: Int64
    ) -> Recorder.Wake {
        if woken { return .wakeUp }
        if count > 0 { return .descriptor }
        // It is looked at once, here.
        queueDueTimers(mode)
        if mode.ready.holdsTimers { return .timer }
        return timeout > 0 && poller.now() >= date ? .timeOver : .signal
    }

    /// Queues what is ready now. It leaves wake-ups alone: they are for the wait, which may be still to come.
    func look(_ mode: ModeState) {
        guard mode.portCount > 0 else { return }
        mode.sleepsWith._withUnsafeGuaranteedRef { descriptors in
            guard descriptors.watching > 0 else { return }
            recorder.pointee.looks()
            let count = poller.wait(
                descriptors.epoll, events, capacity: 64, timeout: 0, watching: descriptors.watching)
            queueReady(mode, descriptors, count)
        }
    }

    func queueReady(_ mode: ModeState, _ descriptors: DescriptorSet, _ count: Int) {
        // No more than there is room for, whatever the kernel says.
        descriptors.forEachReady(events, min(count, 64)) { port, found in
            // One that keeps its own books is told while it waits for its turn, too: the kernel says each change once.
            if mode.ready.contains(port) {
                if port.isEdgeTriggered { _ = port.find(found) }
                return
            }
            guard port.find(found) else { return }
            port.foundAt = dispatches
            mode.ready.append(port)
            linux_prefetch(UnsafeRawPointer(bitPattern: port.context), -64)
            linux_prefetch(UnsafeRawPointer(bitPattern: port.context), 0)
        }
    }

    /// The timers that are due take their place in the mode's queue.
    func queueDueTimers(_ mode: ModeState) {
        if !mode.ready.holdsTimers, !mode.timersAreTaken, timersAreDue(mode) { mode.ready.appendTimers() }
    }

    /// Timers are no longer due because they were moved or are gone: they lose their place, too.
    func dropTimersEntry(_ queue: TimerQueue) {
        for mode in queue.modes where mode.ready.holdsTimers && !timersAreDue(mode) { mode.ready.removeTimers() }
    }

    func timersAreDue(_ mode: ModeState) -> Bool {
        var date = Int64.max
        for queue in mode.timers.elements { date = min(date, queue._withUnsafeGuaranteedRef { $0.heap.firstDate }) }
        return date != .max && date <= poller.now()
    }

    /// A timer has become due by being added or moved, not by the passing of time: it comes after whatever is ready now,
    /// and before what will be.
    func noteDueTimers(_ queue: TimerQueue) {
        for mode in queue.modes where timersAreDue(mode) { queueTimersBehindPorts(mode) }
    }

    /// Without ports there is nothing to be behind: the timers take their place when somebody looks.
    func queueTimersBehindPorts(_ mode: ModeState) {
        guard mode.portCount > 0, !mode.ready.holdsTimers else { return }
        if handle.mayHaveMail { takeMail() }  // messages were sent before
        look(mode)
        mode.ready.appendTimers()
    }

    /// Called before a port starts to watch: timers that are due already come first.
    func noteDueTimers(before mode: ModeState) { queueDueTimers(mode) }

    func dropStale(_ mode: ModeState) {
        while mode.ready.count > 0 {
            if let port = mode.ready.first {
                let isReady = port._withUnsafeGuaranteedRef { $0.foundAt == dispatches || $0.isStillReady() }
                if isReady { return }
            } else if timersAreDue(mode) {
                return
            }
            mode.ready.removeFirst()
        }
    }

    func takeReady(_ mode: ModeState) -> Event? {
        dropStale(mode)
        guard mode.ready.count > 0 else { return nil }
        let port = mode.ready.first
        mode.ready.removeFirst()
        if let port { return .port(port.retain()) }
        mode.timersAreTaken = true
        return .timers
    }

    /// Looks whether another descriptor is ready, if that is worth a system call: while there is always more, it saves the
    /// one that asks about the last; when there is not, the loop is about to sleep, and will look anyway.
    func findsMore(_ mode: ModeState) -> Bool {
        guard mode.ready.count == 0 else { return false }
        guard looksInVain == 0 else {
            looksInVain -= 1
            return false
        }
        guard !timersAreDue(mode) else { return false }
        endTurn()
        if mode.ready.count == 0 { look(mode) }
        if mode.ready.count > 0 { return true }
        looksInVain = 15
        return false
    }

    func isStopped(_ run: Run) -> Bool {
        if handle.mayHaveMail { takeMail() }
        return run.isStopped
    }
}
