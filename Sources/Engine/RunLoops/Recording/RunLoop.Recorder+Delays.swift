internal import CLinux

// How long the thread was ready to run and did not, because the processors were busy with others: that is nothing to blame a callback for.
// The kernel counts it for each thread. It is looked at now and then, and when a callback has taken notably long.

extension RunLoop.Recorder {
    /// How often it is looked at, at most: asking takes 3 microseconds. About 10 milliseconds.
    private var checkInterval: UInt64 { usesTicks ? 1 << 25 : 10_000_000 }
    /// Of callbacks that take as long it is told: about 10 milliseconds.
    var delayable: UInt64 { checkBy == .max ? .max : checkInterval }
    /// Less is not worth mentioning, in nanoseconds.
    private static let leastDelay: Int64 = 1_000_000

    /// The time of a simulated world says nothing about the processors.
    mutating func beginCheckingDelays() {
        checkBy = .max
        if measuresDelays { checkDelay() }
    }

    mutating func checkDelay() {
        delayBefore = linux_run_delay()
        checkBy = delayBefore < 0 ? .max : stamp() &+ checkInterval
    }

    /// A callback has ended that took `own` ticks. Returns for how many nanoseconds of them its thread waited for a processor.
    mutating func noteDelay(_ own: UInt64, _ record: Record) -> Int64 {
        let before = delayBefore
        checkDelay()
        guard checkBy != .max else { return 0 }
        let scale = usesTicks ? 1 / Self.speed() : 1
        // Some of it may have come before the callback.
        let delay = min(delayBefore - before, Int64(Double(own) * scale))
        guard delay >= Self.leastDelay else { return 0 }
        put(Record(.delayed, moment, object: record.object, a: UInt64(delay)))
        return delay
    }

    /// Something is to be done now and then.
    @inline(never)
    mutating func attend(_ now: UInt64) {
        if now >= checkBy { checkDelay() }
        if now >= readBy { beSeen() }
    }
}
