internal import RunLoops

extension Stream {
    /// The closures of a stream that Swift code uses.
    final class Handlers {
        var read: ((Outcome) -> Void)?
        var arrived: ((Stream, Outcome) -> Void)?
        var opened: ((StreamFailure?) -> Void)?
        var writes: [Int: (StreamFailure?) -> Void] = [:]
        var lastWrite = 0
        private var timer: RunLoop.Timer?

        func start(_ timer: RunLoop.Timer, _ stream: Stream) {
            stopTimer()
            self.timer = timer
            stream.network.loop.add(timer, to: .common)
        }

        func stopTimer() {
            timer?.invalidate()
            timer = nil
        }
    }

    var madeHandlers: Handlers {
        if let handlers { return handlers }
        let new = Handlers()
        handlers = new
        return new
    }

    // MARK: With closures

    /// Reads one unit. Calls `then` once: immediately if the unit has arrived, otherwise later. With `.timedOut`, no
    /// byte was taken.
    ///
    /// - Parameters:
    /// - limit: bytes at most: see `Unit`.
    /// - timeout: nil: no limit.
    public func read(
        _ unit: Unit, limit: Int = 1 << 20, timeout: Duration? = nil, then: @escaping (Outcome) -> Void
    ) {
        precondition(!isReading, "a stream has one reader at a time")
        if let outcome = attempt(unit, limit: limit) { return then(outcome) }
        madeHandlers.read = then
        wait(unit, limit: limit, waiter: 0)
        guard let timeout else { return }
        let timer = RunLoop.Timer(fireDate: network.loop.now + timeout) { [unowned self] _, _ in
            guard cancelRead() else { return }
            let then = handlers?.read
            handlers?.read = nil
            then?(.timedOut)
        }
        madeHandlers.start(timer, self)
    }

    /// Delivers input as it arrives, and its end or failure once. From now on the loop retains the stream.
    public func deliver(to arrived: @escaping (Stream, Outcome) -> Void) {
        madeHandlers.arrived = arrived
        delivers = true
    }

    /// Writes all bytes as one write. Calls `then` when less than `highWater` bytes are left to send, or with the
    /// failure that prevents it.
    public func write(_ bytes: [UInt8], then: ((StreamFailure?) -> Void)? = nil) {
        let failure = bytes.withUnsafeBytes { enqueue($0) }
        guard let then else { return }
        if let failure { return then(failure) }
        guard unsent >= settings.highWater else { return then(nil) }
        waitForOutput(below: settings.highWater, then)
    }

    /// Calls `then` when the kernel has all bytes.
    public func flush(then: @escaping (StreamFailure?) -> Void) {
        if let failure = outputFailure { return then(failure) }
        guard unsent > 0 else { return then(nil) }
        waitForOutput(below: 1, then)
    }

    private func waitForOutput(below limit: Int, _ then: @escaping (StreamFailure?) -> Void) {
        let handlers = madeHandlers
        handlers.lastWrite += 1
        handlers.writes[handlers.lastWrite] = then
        waitForOutput(below: limit, waiter: handlers.lastWrite)
    }
}
