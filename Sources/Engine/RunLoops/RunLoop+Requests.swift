// Requests: callbacks that run once, in the next pass in one of their modes.

extension RunLoop {
    /// Queues a closure that runs once, in the next pass in one of the modes, and makes the next wait return at once.
    /// Each pass runs all queued requests of its mode, sorted by order, then by time of the call.
    /// CFRunLoopPerformBlock, performSelector:target:argument:order:modes:.
    ///
    /// - Returns: A token for `cancel`; nil if `modes` is empty, which queues nothing.
    @discardableResult
    public func perform(in modes: [Mode] = [.common], order: Int = 0, _ body: @escaping () -> Void) -> RequestToken? {
        perform(ClosureRequest(body), 0, in: modes, order: order, retains: true)
    }

    /// Queues a request of a host, which needs no closure. The loop calls `perform` or `drop` of `owner` with
    /// `context`, exactly once. `owner` is not retained: it must outlive the loop.
    @discardableResult
    public func perform(_ owner: RequestOwner, _ context: Int, in modes: [Mode], order: Int = 0) -> RequestToken? {
        perform(owner, context, in: modes, order: order, retains: false)
    }

    /// Queues a request in the common modes with order 0. Allocates no memory.
    @discardableResult
    public func perform(_ owner: RequestOwner, _ context: Int) -> RequestToken {
        if handle.mayHaveMail { takeMail() }  // other threads have queued their requests earlier
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
        // Take the mail before looking up the queue: this may add queues and drop empty ones.
        if handle.mayHaveMail { takeMail() }
        return perform(owner, context, requestQueue(modes, order), retains: retains)
    }

    @inline(__always)
    private func perform(
        _ owner: RequestOwner, _ context: Int, _ queue: Unmanaged<RequestQueue>, retains: Bool
    ) -> RequestToken {
        enqueue(owner, context, queue, retains: retains)
        probe.queued(request: lastRequest)
        if let run = innermostRun {
            run._withUnsafeGuaranteedRef { run in
                // The next wait ends whatever the modes of the request are, as after CFRunLoopWakeUp.
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

    /// Drops a request of this loop that has not run. Returns false if the request has run or was cancelled before.
    /// O(log n) in the length of a queue, for each combination of modes and order in use.
    @discardableResult
    public func cancel(_ request: RequestToken) -> Bool {
        // Search all queues: storing the queue in each token would cost memory for every request, and few are
        // cancelled.
        for index in 0..<requestQueues.count
        where requestQueues.base[index].takeUnretainedValue().cancel(request.number) {
            requestCount -= 1
            return true
        }
        return false
    }

    /// The contexts of an owner's queued requests, with the modes in which they run. Requests with the same order and
    /// modes are next to each other, in the order of the calls.
    public func pendingRequests(of owner: RequestOwner) -> [(modes: [Mode], context: Int)] {
        requestQueues.elements.flatMap { queue in
            let queue = queue.takeUnretainedValue()
            return queue.contexts(of: owner).map { (queue.modes, $0) }
        }
    }

    /// Whether no queued request and no overdue timer would end the next wait at once. Observers of `.beforeWaiting`
    /// need this, since the loop also calls them before a wait that ends at once. O(number of queues).
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

    /// The number of queued requests in all modes.
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
        // Empty queues are also dropped here: if each request is cancelled, `endPerforming` never drops any.
        if requestQueues.count > requestQueueLimit { dropEmptyRequestQueues() }
        let queue = Unmanaged.passRetained(RequestQueue(modes: modes, order: order))
        requestQueues.insert(queue, at: firstRequestQueue(from: order))
        return queue
    }

    /// The index of the first queue whose order is at least `order`. O(log n).
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

    /// Frees empty queues. A program may use many combinations of modes and orders.
    func dropEmptyRequestQueues() {
        let common = commonRequests?.toOpaque()
        requestQueues.removeAll { queue in
            guard queue.toOpaque() != common, queue._withUnsafeGuaranteedRef({ $0.count == 0 }) else { return false }
            queue.release()
            return true
        }
        requestQueueLimit = max(32, requestQueues.count * 2)
    }

    /// Runs the queued requests for this mode. Requests queued meanwhile wait for the next call, but nested runs find
    /// them. Returns whether any request ran.
    @discardableResult
    @inline(__always)
    func performRequests(_ mode: ModeState) -> Bool {
        if handle.mayHaveMail { takeMail() }
        return requestCount > 0 && performQueued(mode)
    }

    private func performQueued(_ mode: ModeState) -> Bool {
        let limit = lastRequest
        var ran = false
        // Visits each queue once. A request that was skipped because the mode was not common yet waits for the next
        // call.
        var last = (order: Int.min, number: UInt64(0))
        // Nearly always there is one queue. Queues that are created meanwhile contain only later requests, which run in
        // the next call.
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
        if requestQueues.count > requestQueueLimit { dropEmptyRequestQueues() }
        return ran
    }

    @inline(__always)
    private func perform(_ request: RequestQueue.Request, _ number: UInt64) {
        requestCount -= 1
        counters.pointee.requests += 1
        let span = probe.begin(request: number)
        request.perform()
        probe.end(span)
        dispatches += 1
    }

    private func nextRequest(
        _ mode: ModeState, _ limit: UInt64, after last: (order: Int, number: UInt64)
    ) -> (queue: Unmanaged<RequestQueue>, order: Int, number: UInt64)? {
        var best: (queue: Unmanaged<RequestQueue>, order: Int, number: UInt64)?
        // Queues are sorted by order.
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

    /// Queues the requests of other threads in this loop, and handles their messages and stops.
    func takeMail() {
        let mail = handle.takeMail()
        for run in runs where mail.stops.contains(run.number) { run.isStopped = true }
        for port in mail.ports { port.queueUp() }
        for (modes, order, flow, body) in mail.performs {
            // Unowned, since the queue does not outlive the loop. The sender has already woken the loop.
            let request = ClosureRequest { [unowned(unsafe) self] in
                noteCause(flow)
                body(self)
            }
            enqueue(request, 0, requestQueue(modes, order), retains: true)
        }
    }

    /// Drops all requests of an owner.
    public func dropRequests(of owner: RequestOwner) {
        // Iterate over a copy: the owner of a dropped request may queue another.
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
