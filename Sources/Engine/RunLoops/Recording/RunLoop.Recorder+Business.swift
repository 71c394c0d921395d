// Measures the share of time in which a loop is awake, about once a second while the loop makes passes.

extension RunLoop.Recorder {
    /// The beginning of the present second.
    struct Look: BitwiseCopyable {
        var began: UInt64 = 0
        /// `asleep` at that time.
        var asleep: UInt64 = 0
    }

    mutating func watchBusiness(_ handler: @escaping (_ share: Double, _ nanoseconds: Int64) -> Void) {
        lookHandler = handler
        beginLook()
    }

    private mutating func beginLook() {
        look = Look(began: stamp(), asleep: asleep)
        lookBy = look.began + ticks(1_000_000_000)
    }

    /// Calls the handler with the share of the time in which the loop was awake since the last call.
    @inline(never)
    mutating func lookAround() {
        let now = stamp()
        let span = now > look.began ? now - look.began : 1
        let slept = min(span, asleep &- look.asleep)
        let length = usesTicks ? Int64(Double(span) / Self.speed()) : Int64(clamping: span)
        lookBy = .max
        lookHandler?(1 - Double(slept) / Double(span), length)
        beginLook()
    }
}

extension RunLoop {
    /// Sets a handler that the loop calls on its thread about once a second while it makes passes and is recorded. The
    /// argument is the share of the time in which the loop was awake since the last call. In simulated time the loop
    /// never calls the handler.
    package func watchBusiness(_ handler: @escaping (_ share: Double, _ length: Duration) -> Void) {
        guard poller.isReal else { return }
        recorder.pointee.watchBusiness { handler($0, .nanoseconds($1)) }
    }
}
