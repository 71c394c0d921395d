extension RunLoop {
    // MARK: Modes

    /// The modes in which something has been, and the default mode. CFRunLoopCopyAllModes.
    public var modeNames: [Mode] { modes.map(\.name) }

    /// The modes that `.common` stands for.
    public var commonModeNames: [Mode] { commonModes }

    /// Makes a mode common, for good: it gets everything that was added to the common modes. CFRunLoopAddCommonMode.
    public func addCommonMode(_ mode: Mode) {
        precondition(mode != .common, "\".common\" is not a mode")
        guard !commonModes.contains(mode) else { return }
        commonModes.append(mode)
        existingState(of: mode)?.isCommon = true
        commonQueue = nil
        let items = commonItemsByAge
        let queues = timerQueues.filter { $0.isCommon && $0.count > 0 }
        guard !items.isEmpty || !queues.isEmpty else { return }
        let mode = state(of: mode)
        for item in items where isCommon(item) { enter(item, mode) }
        for queue in queues where !queue.serves(mode) {
            queue.modes.append(mode)
            mode.timers.append(queue)
            noteDueTimers(queue)
        }
        commonQueue = timerQueues.first { queue in
            queue.isCommon && queue.modes.count == commonModes.count && queue.modes.allSatisfy(\.isCommon)
        }.map(Unmanaged.passUnretained)
    }

    /// The date of the mode's next timer; nil without one. CFRunLoopGetNextTimerFireDate.
    ///
    /// While a timer fires, its date is still the one for which it fires. O(number of the loop's modes).
    public func nextFireDate(in mode: Mode) -> Instant? {
        guard mode != .common, let mode = existingState(of: mode) else { return nil }
        spillBatch()
        var date = Int64.max
        for queue in mode.timers { date = min(date, queue.heap.firstDate) }
        for node in firingTimers where node.pointee.queue?.takeUnretainedValue().serves(mode) ?? false {
            date = min(date, node.pointee.fireDate)
        }
        return date == .max ? nil : Instant(nanoseconds: date)
    }

    // By a loop over few modes rather than a dictionary: comparing short strings is faster than hashing them.
    func existingState(of name: Mode) -> ModeState? { modes.first { $0.name == name } }

    func state(of name: Mode) -> ModeState {
        if let state = existingState(of: name) { return state }
        let state = ModeState(name: name, loop: self)
        state.isCommon = commonModes.contains(name)
        modes.append(state)
        return state
    }

    /// Whether nothing can happen in the mode. Observers do not count; requests that would run in it do.
    func isEmpty(_ mode: ModeState) -> Bool {
        if mode.holdsItems { return false }
        if handle.mayHaveMail { takeMail() }
        return requestCount == 0
            || !requestQueues.elements.contains { $0._withUnsafeGuaranteedRef { $0.count > 0 && $0.serves(mode) } }
    }

    // MARK: Sources, ports and observers

    /// Adds an item to a mode; `.common` for all common modes, those to come included. Adding twice is adding once. An
    /// invalid item stays out. CFRunLoopAddSource, CFRunLoopAddObserver.
    ///
    /// An observer or a port can be in one loop only; adding it to a second is a programming error.
    public func add(_ item: Item, to mode: Mode = .default) {
        guard item.isValid else { return }
        precondition(!item.belongsElsewhere(than: self), "\(item) is in another run loop: remove it there first")
        guard mode == .common else { return enter(item, state(of: mode)) }
        if !isCommon(item) {
            lastAge += 1
            if let port = item as? PortBase {
                port.commonAge = lastAge
                hold(port)
            } else {
                commonItems[ObjectIdentifier(item)] = (item, lastAge)
            }
            if item.commonIn.isEmpty { item.commonIn = alone } else { item.commonIn += alone }
        }
        // Until a source, told that it enters, takes itself out again.
        for mode in commonModes where isCommon(item) { enter(item, state(of: mode)) }
    }

    /// Whether the item belongs to a loop other than this one, so that it cannot be added.
    public func isElsewhere(_ item: Item) -> Bool { item.belongsElsewhere(than: self) }

    /// Takes an item out of a mode. Out of `.common`: out of all common modes, if it was added to them.
    /// CFRunLoopRemoveSource, CFRunLoopRemoveObserver.
    public func remove(_ item: Item, from mode: Mode = .default) {
        guard mode == .common else {
            if let mode = existingState(of: mode) { remove(item, from: mode) }
            return
        }
        guard isCommon(item) else { return }
        for mode in modes where mode.isCommon { remove(item, from: mode) }
        forgetCommonItem(item)
    }

    /// Whether it is in a mode; for `.common`, whether it was added to the common modes. CFRunLoopContainsSource.
    public func contains(_ item: Item, in mode: Mode = .default) -> Bool {
        guard mode == .common else { return existingState(of: mode)?.contains(item) ?? false }
        return isCommon(item)
    }

    /// Whether what happens to the item is noticed now: it is in the mode that runs, or, while none does, in any.
    public func isServing(_ item: Item) -> Bool {
        guard let innermostRun else { return !item.modes.isEmpty }
        return innermostRun._withUnsafeGuaranteedRef { $0.mode.contains(item) }
    }

    private func enter(_ item: Item, _ mode: ModeState) {
        guard item.isValid, !mode.contains(item) else { return }
        if let port = item as? PortBase {
            noteDueTimers(before: mode)
            portCount += 1
            hold(port)
        }
        mode.insert(item)
        // A source tells its callback, which may do anything; so this comes last.
        if !(item is Source) {
            if item.modes.isEmpty { item.modes = mode.alone } else { item.modes.append(mode) }
        }
        item.didEnter(mode)
    }

    func remove(_ item: Item, from mode: ModeState) {
        guard mode.contains(item) else { return }
        mode.delete(item)
        if item is PortBase { portCount -= 1 }
        if !(item is Source) { item.modes.removeAll { $0 === mode } }
        item.didLeave(mode)
        letGoIfUnused(item)
    }

    func forgetCommonItem(_ item: Item) {
        guard isCommon(item) else { return }
        item.commonIn.removeAll { $0.takeUnretainedValue() === self }
        commonItems[ObjectIdentifier(item)] = nil
        letGoIfUnused(item)
    }

    private func isCommon(_ item: Item) -> Bool {
        // A source may be in several loops, each of which keeps its own books, on its own thread.
        guard item is PortBase else { return commonItems[ObjectIdentifier(item)] != nil }
        return item.commonIn.contains { $0.takeUnretainedValue() === self }
    }

    /// The items that were added to the common modes, in that order.
    var commonItemsByAge: [Item] {
        let common = ports.elements.map { $0.takeUnretainedValue() }.filter(isCommon).map { ($0, $0.commonAge) }
        return (commonItems.values + common).sorted { $0.age < $1.age }.map(\.item)
    }

    /// Keeps a port alive. In a table of the loop's, not in sets of its modes: most ports are in one mode, and few in a program
    /// that has many of them are ever asked for.
    private func hold(_ port: PortBase) {
        guard port.place < 0 else { return }
        port.place = Int32(ports.count)
        ports.append(.passRetained(port))
    }

    private func letGoIfUnused(_ item: Item) {
        guard item.modes.isEmpty, !isCommon(item) else { return }
        guard let port = item as? PortBase, port.place >= 0 else { return item.owner?.letGo(of: item) ?? () }
        let held = ports.base[Int(port.place)]
        ports.count -= 1
        let last = ports.base[ports.count]
        ports.base[Int(port.place)] = last
        last._withUnsafeGuaranteedRef { $0.place = port.place }
        port.place = -1
        item.owner?.letGo(of: item)
        held.release()
    }

    // MARK: Perform requests

    /// Queues a closure that runs once, in the next pass in one of the modes, and makes the coming wait return at once.
    /// All that are queued run in a pass, those with lower orders first, then in the order queued. CFRunLoopPerformBlock,
    /// performSelector:target:argument:order:modes:. An empty array of modes is no request.
    @discardableResult
    public func perform(in modes: [Mode] = [.common], order: Int = 0, _ body: @escaping () -> Void) -> RequestToken? {
        perform(ClosureRequest(body), 0, in: modes, order: order, retains: true)
    }

    /// The same for a host with requests of its own. `owner`, which is to outlive the loop, is told to perform or to drop
    /// `context`, once.
    @discardableResult
    public func perform(_ owner: RequestOwner, _ context: Int, in modes: [Mode], order: Int = 0) -> RequestToken? {
        perform(owner, context, in: modes, order: order, retains: false)
    }

    /// In the common modes, with order 0. Allocates nothing.
    @discardableResult
    public func perform(_ owner: RequestOwner, _ context: Int) -> RequestToken {
        let queue = commonRequests ?? requestQueue([.common], 0)
        commonRequests = queue
        return perform(owner, context, queue, retains: false)
    }

    private func perform(
        _ owner: RequestOwner, _ context: Int, in modes: [Mode], order: Int, retains: Bool
    ) -> RequestToken? {
        guard !modes.isEmpty else {
            owner.drop(context)
            return nil
        }
        return perform(owner, context, requestQueue(modes, order), retains: retains)
    }

    private func perform(
        _ owner: RequestOwner, _ context: Int, _ queue: Unmanaged<PerformQueue>, retains: Bool
    ) -> RequestToken {
        if handle.mayHaveMail { takeMail() }  // what other threads have sent was there first
        enqueue(owner, context, queue, retains: retains)
        if let run = innermostRun {
            run._withUnsafeGuaranteedRef { run in
                guard !run.ignoresWakeUps, !run.wakeIsPending else { return }
                if queue._withUnsafeGuaranteedRef({ $0.serves(run.mode) }) { run.wakeIsPending = true }
            }
        }
        return RequestToken(number: lastRequest)
    }

    private func enqueue(
        _ owner: RequestOwner, _ context: Int, _ queue: Unmanaged<PerformQueue>, retains: Bool
    ) {
        lastRequest += 1
        requestCount += 1
        let number = lastRequest
        queue._withUnsafeGuaranteedRef { $0.append(owner, context, number: number, retains: retains) }
    }

    /// Drops a request of this loop that has not run. Returns false if it has, or was cancelled before. O(log n), times the
    /// number of combinations of modes and orders that were ever asked for.
    @discardableResult
    public func cancel(_ request: RequestToken) -> Bool {
        // Its queue is looked for, since a token is part of every request's memory, and few are ever cancelled.
        for index in 0..<requestQueues.count
        where requestQueues.base[index].takeUnretainedValue().cancel(request.number) {
            requestCount -= 1
            return true
        }
        return false
    }

    /// The contexts of an owner's queued requests, in whatever modes.
    public func pendingRequests(of owner: RequestOwner) -> [Int] {
        requestQueues.elements.flatMap { $0.takeUnretainedValue().contexts(of: owner) }
    }

    /// How many requests are queued, in whatever modes.
    public var pendingRequests: Int { requestCount }

    private final class ClosureRequest: RequestOwner {
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
        override func perform(_ context: Int) { body() }
    }

    private func requestQueue(_ modes: [Mode], _ order: Int) -> Unmanaged<PerformQueue> {
        for queue in requestQueues.elements
        where queue._withUnsafeGuaranteedRef({ $0.order == order && $0.modes == modes }) { return queue }
        for mode in modes where mode != .common { _ = state(of: mode) }
        let queue = Unmanaged.passRetained(PerformQueue(modes: modes, order: order))
        requestQueues.append(queue)
        return queue
    }

    /// Runs the queued requests that are for this mode. Those that they queue wait for the next time, but nested runs find
    /// them. Returns whether there were any.
    @discardableResult
    func performRequests(_ mode: ModeState) -> Bool {
        if handle.mayHaveMail { takeMail() }
        guard requestCount > 0 else { return false }
        let limit = lastRequest
        var ran = false
        // One walk along the queue: what was passed over, because the mode was not yet a common one, waits for the next.
        var last = (order: Int.min, number: UInt64(0))
        while let (queue, order, number) = nextRequest(mode, limit, after: last),
            let request = queue._withUnsafeGuaranteedRef({ $0.take(number) })
        {
            last = (order, number)
            requestCount -= 1
            counters.pointee.requests += 1
            ran = true
            request.perform()
            dispatches += 1
        }
        return ran
    }

    private func nextRequest(
        _ mode: ModeState, _ limit: UInt64, after last: (order: Int, number: UInt64)
    ) -> (queue: Unmanaged<PerformQueue>, order: Int, number: UInt64)? {
        var best: (queue: Unmanaged<PerformQueue>, order: Int, number: UInt64)?
        for unmanaged in requestQueues.elements {
            unmanaged._withUnsafeGuaranteedRef { queue in
                guard queue.count > 0, queue.order >= last.order, queue.serves(mode) else { return }
                let number = queue.firstNumber(after: queue.order == last.order ? last.number : 0)
                guard number <= limit else { return }
                if let best, (best.order, best.number) < (queue.order, number) { return }
                best = (unmanaged, queue.order, number)
            }
        }
        return best
    }

    /// Takes over what other threads have sent.
    func takeMail() {
        let mail = handle.takeMail()
        for run in runs where mail.stops.contains(run.number) { run.isStopped = true }
        for port in mail.ports { port.queueUp() }
        for (modes, order, body) in mail.performs {
            // Its own queue does not outlive the loop. The sender has woken the loop, if that was worth remembering.
            let request = ClosureRequest { [unowned(unsafe) self] in body(self) }
            enqueue(request, 0, requestQueue(modes, order), retains: true)
        }
    }

    /// Everything in one mode, in no special order of kinds: sources, then ports, then observers.
    public func items(in mode: Mode) -> [Item] {
        existingState(of: mode)?.items.filter { ($0 as? PortBase)?.isInner != true } ?? []
    }

    /// Everything that is in a mode, or would be in those that become common.
    public var allItems: [Item] {
        var seen: Set<ObjectIdentifier> = []
        let items = modes.flatMap(\.items) + commonItemsByAge
        return items.filter { seen.insert(ObjectIdentifier($0)).inserted }
    }

    /// Whether the item is in a mode, or would be in those that become common.
    public func isHolding(_ item: Item) -> Bool {
        item.modes.contains { $0.loop === self } || isCommon(item)
    }

    /// Drops all requests of one owner.
    public func dropRequests(of owner: RequestOwner) {
        // By index: a dropped request's owner may queue another.
        for index in 0..<requestQueues.count {
            requestCount -= requestQueues.base[index].takeUnretainedValue().cancelAll(of: owner)
        }
    }

    // MARK: The end

    /// Empties the loop: sources are told that they leave, requests are dropped, nothing is invalidated. Called when its
    /// thread ends; `handle` does nothing from then on.
    public func close() {
        let mail = handle.close()
        withExtendedLifetime(mail) {}  // what it holds is dropped with no lock held
        for mode in modes {
            for item in mode.items { remove(item, from: mode) }
        }
        for item in commonItemsByAge { forgetCommonItem(item) }
        detachTimers()
        dropRequests()
    }

    func dropRequests() {
        for index in 0..<requestQueues.count {
            let queue = requestQueues.base[index].takeUnretainedValue()
            while let request = queue.take(queue.firstNumber(after: 0)) {
                requestCount -= 1
                request.drop()
            }
        }
    }
}
