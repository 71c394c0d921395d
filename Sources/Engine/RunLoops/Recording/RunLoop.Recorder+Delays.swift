internal import CLinux

// Delays: time in which a thread was ready to run but waited for a processor. No callback is to blame for it. The
// kernel counts this time for each thread. The recorder reads the count at intervals, and when a callback has taken
// long.

extension RunLoop.Recorder {
    /// The shortest interval between two readings, about 10 milliseconds. A reading takes 3 microseconds.
    private var checkInterval: UInt64 { usesTicks ? 1 << 25 : 10_000_000 }
    /// The shortest callback whose delay is recorded: about 10 milliseconds.
    var delayable: UInt64 { checkBy == .max ? .max : checkInterval }
    /// The shortest delay that is recorded, in nanoseconds.
    private static let leastDelay: Int64 = 1_000_000

    /// Does nothing in simulated time, which says nothing about processors.
    mutating func beginCheckingDelays() {
        checkBy = .max
        if measuresDelays { checkDelay() }
    }

    mutating func checkDelay() {
        delayBefore = linux_run_delay()
        checkBy = delayBefore < 0 ? .max : stamp() &+ checkInterval
    }

    /// Called at the end of a callback that took `own` ticks. Returns the part of this time, in nanoseconds, for which
    /// the loop's thread waited for a processor.
    mutating func noteDelay(_ own: UInt64, _ record: Record) -> Int64 {
        let before = delayBefore
        checkDelay()
        guard checkBy != .max else { return 0 }
        let scale = usesTicks ? 1 / Self.speed() : 1
        // A part of the delay may have occurred before the callback.
        let delay = min(delayBefore - before, Int64(Double(own) * scale))
        guard delay >= Self.leastDelay else { return 0 }
        put(Record(.delayed, moment, object: record.object, a: UInt64(delay)))
        return delay
    }

    /// Calls the reader of records if that is due, and reads the thread's scheduling delay if that is due.
    @inline(never)
    mutating func attend(_ now: UInt64) {
        if now >= checkBy { checkDelay() }
        if now >= readBy { beSeen() }
        if now >= lookBy { lookAround() }
    }
}
