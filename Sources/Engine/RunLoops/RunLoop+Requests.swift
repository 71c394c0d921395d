// Perform requests: what is to be called once, in the next pass in one of its modes.

extension RunLoop {
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
        if handle.mayHaveMail { takeMail() }  // what other threads have sent was there first
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
        // Before its queue is looked for: mail may bring queues of its own, and empty ones are dropped then.
        if handle.mayHaveMail { takeMail() }
        return perform(owner, context, requestQueue(modes, order), retains: retains)
    }

    @inline(__always)
    private func perform(
        _ owner: RequestOwner, _ context: Int, _ queue: Unmanaged<RequestQueue>, retains: Bool
    ) -> RequestToken {
        enqueue(owner, context, queue, retains: retains)
        if recorder.pointee.isOn { recorder.pointee.queues(request: lastRequest) }
        if let run = innermostRun {
            run._withUnsafeGuaranteedRef { run in
                // Whatever its modes are: CFRunLoopWakeUp goes with it.
                if !run.ignoresWakeUps { run.wakeIsPending = true }
            }
        }
        return RequestToken(number: lastRequest)
    }

    @inline(__always)
    private func enqueue(
        _ owner: RequestOwner, _ context: Int, _ queue: Unmanaged<RequestQueue>, retains: Bool
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

    /// The contexts of an owner's queued requests with the modes in which they run, in the order of these.
    public func pendingRequests(of owner: RequestOwner) -> [(modes: [Mode], context: Int)] {
        requestQueues.elements.flatMap { queue in
            let queue = queue.takeUnretainedValue()
            return queue.contexts(of: owner).map { (queue.modes, $0) }
        }
    }

    /// Whether the coming wait is one, as far as requests and timers go: for observers of `.beforeWaiting`, who are told before a wait
    /// that a queued request or an overdue timer ends at once, too. O(number of queues).
    package var hasNothingToDo: Bool {
        guard let run = runs.last else { return true }
        if !run.mode.timersAreTaken, timersAreDue(run.mode) { return false }
        return !run.wakeIsPending || !holdsRequests(run.mode)
    }

    /// Whether a request that would run in the mode is queued.
    @inline(__always)
    func holdsRequests(_ mode: ModeState) -> Bool {
        if requestCount == 0 { return false }
        if mode.isCommon, let commonRequests, commonRequests._withUnsafeGuaranteedRef({ $0.count > 0 }) { return true }
        return requestQueues.elements.contains { $0._withUnsafeGuaranteedRef { $0.count > 0 && $0.serves(mode) } }
    }

    /// How many requests are queued, in whatever modes.
    public var pendingRequests: Int { requestCount }

    private final class ClosureRequest: RequestOwner {
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
        override func perform(_ context: Int) { body() }
    }

    private func requestQueue(_ modes: [Mode], _ order: Int) -> Unmanaged<RequestQueue> {
        var place = firstRequestQueue(from: order)
        while place < requestQueues.count {
            let queue = requestQueues.base[place]
            guard queue._withUnsafeGuaranteedRef({ $0.order == order }) else { break }
            if queue._withUnsafeGuaranteedRef({ $0.modes == modes }) { return queue }
            place += 1
        }
        makeStates(of: modes)
        // Also when nothing is ever performed, as when each is cancelled.
        if requestQueues.count > requestQueueLimit { dropEmptyRequestQueues() }
        let queue = Unmanaged.passRetained(RequestQueue(modes: modes, order: order))
        requestQueues.insert(queue, at: firstRequestQueue(from: order))
        return queue
    }

    /// The place of the first queue with this order, or a higher one. O(log n).
    private func firstRequestQueue(from order: Int) -> Int {
        var low = 0
        var high = requestQueues.count
        while low < high {
            let middle = (low + high) / 2
            let isBefore = requestQueues.base[middle]._withUnsafeGuaranteedRef { $0.order < order }
            if isBefore { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Modes and orders are made up freely: of many queues, those that are empty are given back.
    func dropEmptyRequestQueues() {
        let common = commonRequests?.toOpaque()
        requestQueues.removeAll { queue in
            guard queue.toOpaque() != common, queue._withUnsafeGuaranteedRef({ $0.count == 0 }) else { return false }
            queue.release()
            return true
        }
        requestQueueLimit = max(32, requestQueues.count * 2)
    }

    /// Runs the queued requests that are for this mode. Those that they queue wait for the next time, but nested runs find
    /// them. Returns whether there were any.
    @discardableResult
    @inline(__always)
    func performRequests(_ mode: ModeState) -> Bool {
        if handle.mayHaveMail { takeMail() }
        return requestCount > 0 && performQueued(mode)
    }

    private func performQueued(_ mode: ModeState) -> Bool {
        let limit = lastRequest
        var ran = false
        // One walk along the queue: what was passed over, because the mode was not yet a common one, waits for the next.
        var last = (order: Int.min, number: UInt64(0))
        // Nearly always there is one queue; those that are made meanwhile hold nothing that is this walk's.
        while requestQueues.count == 1 {
            let next = requestQueues.base[0]._withUnsafeGuaranteedRef { queue in
                last.order = queue.order
                return queue.serves(mode) ? queue.takeFirst(upTo: limit) : nil
            }
            guard let (request, number) = next else { return endPerforming(ran) }
            last.number = number
            ran = true
            perform(request, number)
        }
        while let (queue, order, number) = nextRequest(mode, limit, after: last),
            let request = queue._withUnsafeGuaranteedRef({ $0.take(number) })
        {
            last = (order, number)
            ran = true
            perform(request, number)
        }
        return endPerforming(ran)
    }

    private func endPerforming(_ ran: Bool) -> Bool {
        if ran { quietSince = 0 }
        if requestQueues.count > requestQueueLimit { dropEmptyRequestQueues() }
        return ran
    }

    @inline(__always)
    private func perform(_ request: RequestQueue.Request, _ number: UInt64) {
        requestCount -= 1
        counters.pointee.requests += 1
        recording(recorder.pointee.requestLabel, flow: recorder.pointee.flow(ofRequest: number)) { request.perform() }
        dispatches += 1
    }

    private func nextRequest(
        _ mode: ModeState, _ limit: UInt64, after last: (order: Int, number: UInt64)
    ) -> (queue: Unmanaged<RequestQueue>, order: Int, number: UInt64)? {
        var best: (queue: Unmanaged<RequestQueue>, order: Int, number: UInt64)?
        // They are in order.
        var place = requestQueues.count <= 4 ? 0 : firstRequestQueue(from: last.order)
        while place < requestQueues.count {
            let unmanaged = requestQueues.base[place]
            place += 1
            let isBehind = unmanaged._withUnsafeGuaranteedRef { queue in
                if let best, best.order < queue.order { return true }
                guard queue.count > 0, queue.order >= last.order, queue.serves(mode) else { return false }
                let number = queue.firstNumber(after: queue.order == last.order ? last.number : 0)
                guard number <= limit else { return false }
                if let best, best.number < number { return false }
                best = (unmanaged, queue.order, number)
                return false
            }
            if isBehind { break }
        }
        return best
    }

    /// Takes over what other threads have sent.
    func takeMail() {
        let mail = handle.takeMail()
        for run in runs where mail.stops.contains(run.number) { run.isStopped = true }
        for port in mail.ports { port.queueUp() }
        for (modes, order, flow, body) in mail.performs {
            // Its own queue does not outlive the loop. The sender has woken the loop, if that was worth remembering.
            let request = ClosureRequest { [unowned(unsafe) self] in
                noteCause(flow)
                body(self)
            }
            enqueue(request, 0, requestQueue(modes, order), retains: true)
        }
    }

    /// Drops all requests of one owner.
    public func dropRequests(of owner: RequestOwner) {
        // Of a copy: a dropped request's owner may queue another.
        for queue in requestQueues.elements.map({ $0.takeUnretainedValue() }) {
            requestCount -= queue.cancelAll(of: owner)
        }
    }

    func dropRequests() {
        for queue in requestQueues.elements.map({ $0.takeUnretainedValue() }) {
            while let request = queue.take(queue.firstNumber(after: 0)) {
                requestCount -= 1
                request.drop()
            }
        }
    }
}
