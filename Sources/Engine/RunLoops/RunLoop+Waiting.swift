internal import CLinux

// Finding events: which items are ready, whose turn it is, and how long to sleep. Steps 5 and 7 of a pass.

extension RunLoop {
    /// Step 5: returns a port that is ready, to be handled without before- and after-waiting. Only the documented
    /// sequence has this step, and only observers of waiting can notice it. Without such observers the loop skips this
    /// system call.
    func portReadyAtOnce(_ mode: ModeState) -> Unmanaged<PortBase>? {
        guard sequence == .documented, !mode.observed.isDisjoint(with: [.beforeWaiting, .afterWaiting]),
            mode.portCount > 0
        else { return nil }
        dropStale(mode)
        if mode.ready.count == 0 { endTurn() }
        if mode.ready.count == 0 { look(mode) }
        // Timers come after the ports that are queued already. Queue them now, since a port that is always ready must
        // not starve them.
        queueDueTimers(mode)
        guard mode.ready.count > 0, let port = mode.ready.first else { return nil }
        mode.ready.removeFirst()
        return port.retain()
    }

    /// Takes the next event of the mode. If `waits` is true and nothing is ready, waits for one.
    func nextEvent(_ run: Run, waits: Bool) -> Event {
        let mode = run.mode
        defer { run.wakeIsPending = false }
        // Due timers are queued after everything that is queued already.
        if mode.ready.count > 0 { queueDueTimers(mode) }
        if let event = takeReady(mode) {
            handle.clearWakeUp()
            if wantsTurnEnd {
                // Ports may always be ready, so end the turn after 64 events at the latest.
                turnLength += 1
                if turnLength >= 64 { endTurn() }
            }
            return event
        }
        if wantsTurnEnd {
            endTurn()
            if mode.ready.count > 0 {
                // At each end of a turn, ports may make each other ready again. So ask the kernel for other events
                // after 64 such turns.
                busyTurns += 1
                if busyTurns >= 64 {
                    busyTurns = 0
                    look(mode)
                    queueDueTimers(mode)
                }
            }
            if let event = takeReady(mode) { return event }
            // The end of the turn may have removed the last item of the mode: no event would end the sleep.
            if isEmpty(mode) { return .nothing }
        }
        busyTurns = 0
        let mayWait = waits && !run.wakeIsPending && !isStopped(run)
        var hasSlept = false
        while true {
            var timeout: Int64 = 0
            var deadline = Int64.max
            if mayWait {
                deadline = min(run.deadline, mode.timersAreTaken ? .max : wakingDate(mode))
                timeout = deadline == .max ? -1 : max(0, deadline.addingSaturating(-poller.now()))
                // A timeout of -1 means no limit; as an unsigned number it is the largest.
                if UInt64(bitPattern: timeout) > Self.longSleep {
                    let putsOff = !hasSlept && hasRested(timeout, until: deadline)
                    guard let pause = putsOff ? Self.restDelay : rest(run) else { return .nothing }
                    if UInt64(pause) < UInt64(bitPattern: timeout) {
                        timeout = pause
                        deadline = poller.now().addingSaturating(pause)
                    }
                }
            }
            let woken = wait(mode, timeout: timeout, until: deadline)
            hasSlept = true
            if handle.mayHaveMail { takeMail() }  // messages for ports are events, too
            queueDueTimers(mode)
            if let event = takeReady(mode) { return event }
            if woken || !mayWait || poller.now() >= run.deadline { return .nothing }
            // A signal or a stale wake-up has ended the wait, not an event or the timeout. Continue to sleep.
        }
    }

    /// Returns the date at which to wake for the mode's timers: the date of the last timer that is due before any
    /// tolerance ends. So timers with close dates share a wake-up, and a timer with no other timer within its tolerance
    /// fires on time.
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

    /// Waits for events and queues them. Returns whether another thread woke the loop; this clears the wake-up.
    ///
    /// - Parameters:
    ///   - timeout: The longest wait, in nanoseconds; -1 for no limit.
    ///   - date: The date at which the timeout ends.
    func wait(_ mode: ModeState, timeout: Int64, until date: Int64) -> Bool {
        // The descriptor set need not be retained, since a running mode keeps it.
        mode.sleepsWith._withUnsafeGuaranteedRef { descriptors in
            guard timeout != 0, !descriptors.hasAlwaysReady, handle.beginSleep() else {
                look(mode)
                return handle.clearWakeUp()
            }
            let start = probe.sleep(until: timeout < 0 ? 0 : date, poller) { whenItLasts?(self) }
            if poller.wantsToKnowDescriptors { poller.watched = descriptors.ofInterest }
            let count = sleep(descriptors, timeout: timeout)
            let woken = handle.endSleep()
            counters.pointee.sleeps += 1
            if wantsTurnEnd { wakeHandler?() }
            probe.wake(since: start, poller) {
                (reasonToWake(mode, woken, count, timeout, date), woken ? handle.takeWaker() : 0)
            }
            queueReady(mode, descriptors, count)
            return woken
        }
    }

    /// Queues ports that are ready now. Does not clear wake-ups, since a later wait needs them.
    func look(_ mode: ModeState) {
        guard mode.portCount > 0 else { return }
        mode.sleepsWith._withUnsafeGuaranteedRef { descriptors in
            guard descriptors.watching > 0 else { return }
            probe.looks()
            let count = poller.wait(
                descriptors.epoll, events, capacity: 64, timeout: 0, watching: descriptors.watching)
            queueReady(mode, descriptors, count)
        }
    }

    func queueReady(_ mode: ModeState, _ descriptors: DescriptorSet, _ count: Int) {
        // The kernel's count is not trusted beyond the capacity of `events`.
        descriptors.forEachReady(events, min(count, 64)) { port, found in
            // The kernel reports a change of an edge-triggered descriptor only once, so report it to the port also
            // while the port is queued.
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

    /// Queues the timers of the mode if they are due.
    func queueDueTimers(_ mode: ModeState) {
        if !mode.ready.holdsTimers, !mode.timersAreTaken, timersAreDue(mode) { mode.ready.appendTimers() }
    }

    /// Removes the timers from the queue of a mode if they are no longer due, after a timer was moved or removed.
    func dropTimersEntry(_ queue: TimerQueue) {
        for mode in queue.modes where mode.ready.holdsTimers && !timersAreDue(mode) { mode.ready.removeTimers() }
    }

    func timersAreDue(_ mode: ModeState) -> Bool {
        var date = Int64.max
        for queue in mode.timers.elements { date = min(date, queue._withUnsafeGuaranteedRef { $0.heap.firstDate }) }
        return date != .max && date <= poller.now()
    }

    /// Queues timers that are due because they were added or moved, not because time has passed. They come after all
    /// ports that are ready now.
    func noteDueTimers(_ queue: TimerQueue) {
        for mode in queue.modes where timersAreDue(mode) { queueTimersBehindPorts(mode) }
    }

    /// Queues the timers after all ports that are ready now. Without ports, timers are queued when the loop next
    /// looks.
    func queueTimersBehindPorts(_ mode: ModeState) {
        guard mode.portCount > 0, !mode.ready.holdsTimers else { return }
        if handle.mayHaveMail { takeMail() }  // messages sent earlier come first
        look(mode)
        mode.ready.appendTimers()
    }

    /// Queues the due timers before the loop begins to watch a port, so that they come before that port.
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

    /// Checks whether another descriptor is ready, if that is worth a system call. As long as further descriptors are
    /// found, this check replaces the check that the last port would make. If the check finds none, the loop is about
    /// to sleep and polls anyway, so the next 15 calls skip the check.
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
