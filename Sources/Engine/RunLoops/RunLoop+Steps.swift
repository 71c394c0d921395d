internal import CLinux
internal import Synchronization

// The steps of a pass that run callbacks: observers, custom sources, and the event that woke the loop.

extension RunLoop {
    @inline(__always)
    func endTurn() {
        guard wantsTurnEnd else { return }
        wantsTurnEnd = false
        turnLength = 0
        turnEndHandler?()
        probe.interrupted()
    }

    func heed() {
        attentionHandler?(self)
        probe.interrupted()
        dispatches += 1
    }

    func begin(_ run: Run) {
        dispatches += 1  // foreign code may have run since the last run
        if runs.isEmpty { handle.clearWakeUp() }
        spillBatch()
        runs.append(run)
        run.mode.hasRun = true
        innermostRun = .passUnretained(run)
        if handle.beginRun(run.number, heedsEarlyStop: run.heedsEarlyStop) { run.isStopped = true }
        probe.begin(run: label(of: run.mode))
    }

    func end(_ run: Run) {
        endTurn()
        probe.end(run: label(of: run.mode), run.result)
        handle.endRun()
        runs.removeLast()
        innermostRun = runs.last.map { .passUnretained($0) }
    }

    @inline(__always)
    func notify(_ activity: Activity, _ mode: ModeState) {
        if mode.observed.contains(activity) { tell(activity, mode) }
    }

    func tell(_ activity: Activity, _ mode: ModeState) {
        defer { dispatches += 1 }
        probe.pass(reaches: activity.step)
        // Iterate over a snapshot: an observer may add and remove observers, also itself.
        for observer in mode.observers where observer.activities.contains(activity) && !observer.isFiring {
            guard observer.isValid, mode.contains(observer) else { continue }
            counters.pointee.observers += 1
            let span = probe.begin(label(of: observer), counts: false)
            observer.tell(activity)
            probe.end(span)
        }
    }

    /// Performs the signalled custom sources of the mode, sorted by order, then by time of signal. Performs only the
    /// first if the run must return after one. Returns whether a source was performed.
    func performSources(_ run: Run) -> Bool {
        let mode = run.mode
        guard mode.hasSignals.load(ordering: .relaxed), mode.hasSignals.exchange(false, ordering: .acquiring) else {
            return false
        }
        var first: Unmanaged<Source>?
        var areMore = false
        for source in mode.sources.elements where source._withUnsafeGuaranteedRef({ $0.isSignalled }) {
            if first == nil { first = source } else { areMore = true }
        }
        guard let first else { return false }
        if areMore { return performSeveral(run) }
        // The callback may remove the source from everything that retains it.
        _ = first.retain()
        defer { first.release() }
        return first._withUnsafeGuaranteedRef { perform($0, in: mode, since: mode.departures) }
    }

    @inline(never)
    private func performSeveral(_ run: Run) -> Bool {
        let mode = run.mode
        let departures = mode.departures
        var signalled = mode.sources.elements.compactMap { source in
            let source = source.takeUnretainedValue()
            return source.signalNumber.map { (source: source, number: $0) }
        }
        // This pass may leave some signalled sources to later passes, because the run returns after one source or a
        // nested run comes first.
        mode.hasSignals.store(true, ordering: .releasing)
        signalled.sort { ($0.source.order, $0.number) < ($1.source.order, $1.number) }
        var handled = false
        for (source, _) in signalled {
            if handled, run.returnsAfterSource { break }
            if perform(source, in: mode, since: departures) { handled = true }
        }
        return handled
    }

    /// Performs a source. Returns false if an earlier callback has removed or invalidated the source, or has performed
    /// it in a nested run.
    func perform(_ source: Source, in mode: ModeState, since departures: Int) -> Bool {
        guard source.isSignalled, source.isValid, mode.departures == departures || source.isIn(mode) else {
            return false
        }
        counters.pointee.sources += 1
        let span = probe.begin(label(of: source), flow: source.takeFlow(), counts: true)
        source.perform()
        probe.end(span)
        dispatches += 1
        return true
    }

    /// Handles the event that woke the loop. Returns whether the event was one of a port.
    func dispatch(_ event: Event, _ mode: ModeState) -> Bool {
        switch event {
        case .nothing:
            return false
        case .timers:
            mode.timersAreTaken = false
            fireDueTimers(mode)
            dispatches += 1
            return false
        case .port(let port):
            defer { port.release() }
            return port._withUnsafeGuaranteedRef { dispatch($0, mode) }
        }
    }

    func dispatch(_ port: PortBase, _ mode: ModeState) -> Bool {
        // An observer of the end of the wait may have removed the port.
        guard port.isValid, mode.contains(port) else { return false }
        counters.pointee.ports += 1
        // The port is delivered in this mode. Remove its event from the other modes: they would deliver it again, or
        // keep the port's old place in their queues.
        if port.modes.count > 1, !port.isEdgeTriggered {
            for other in port.modes where other !== mode {
                look(other)
                other.ready.remove(port)
            }
        }
        let span = probe.begin(label(of: port), counts: true)
        port.deliver()
        probe.end(span)
        dispatches += 1
        guard port.isValid else { return !port.isInner }
        if port.asksKernel, port.modes.count == 1, findsMore(mode) {
            // Another port is next. The loop checks at this port's turn whether it is still ready.
            if !mode.ready.contains(port) { mode.ready.append(port) }
            return !port.isInner
        }
        guard port.isStillReady(inFrontOf: mode.ready, dispatches) else { return !port.isInner }
        // The port is still ready, so it goes to the end of the queue, after ports that became ready meanwhile. Due
        // timers go before it: `look` may also list this port, if its callback has made it ready again.
        for mode in port.modes {
            queueDueTimers(mode)
            look(mode)
            if !mode.ready.contains(port) { mode.ready.append(port) }
        }
        return !port.isInner
    }
}
