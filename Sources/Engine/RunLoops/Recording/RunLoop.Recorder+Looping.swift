// Records of the loop itself: runs, passes and sleep.

extension RunLoop.Recorder {
    mutating func beginRun(_ mode: UInt32) {
        moment = 0
        tell(Record(.run, freshMoment(), object: mode))
        enter(Level(object: mode, isRun: true))
        // Callbacks of the new run do not count as nested in the callback that started the run.
        suspend(moment)
    }

    mutating func enter(_ level: Level) {
        if levelCount < Self.deepest { levels[levelCount] = level }
        levelCount += 1
    }

    mutating func endRun(_ mode: UInt32, _ result: RunLoop.RunResult) {
        moment = 0
        levelCount -= 1
        put(Record(.runEnd, freshMoment(), object: mode, a: UInt64(result.rawValue)))
        resume(moment)
    }

    /// Notes that the loop is about to poll the kernel, which takes time.
    @inline(__always)
    mutating func looks() { if moment != 0 { (beforeLook, moment) = (moment, 0) } }

    /// Begins a pass. The recorder writes no record yet: the record of the pass's first event may also stand for the
    /// pass.
    @inline(__always)
    mutating func beginPass(_ mode: UInt32) {
        if pass != 0 { putPass() }
        // If the loop has polled the kernel since the last event, the time of that call belongs to the pass.
        passBegin = moment != 0 ? moment : beforeLook != 0 ? beforeLook : freshMoment()
        guard mode >> 16 == 0 else { return put(Record(.pass, passBegin, object: mode)) }
        pass = Record.word(passIn: mode)
        // A loop that never sleeps does not reach the check at the end of a sleep, so check here.
        if passBegin >= attendBy { attend(passBegin) }
    }

    mutating func reach(step: Int) { put(Record(.step, freshMoment(), a: UInt64(step))) }

    mutating func sleep(until date: Int64) {
        var record = Record(.sleep, freshMoment(), a: UInt64(max(0, date)))
        let sincePass = record.time &- passBegin
        if pass != 0, sincePass >> 32 == 0 {
            record.flags = Flags.beginsPass
            record.object = pass >> 16
            record.flow = UInt32(truncatingIfNeeded: sincePass)
            pass = 0
        }
        sleepBegan = record.time
        put(record)
    }

    mutating func wake(_ reason: Wake, _ waker: UInt64) {
        beforeLook = 0
        moment = stamp()
        if sleepBegan != .max { asleep &+= moment &- sleepBegan }
        sleepBegan = .max
        if moment >= checkBy { checkDelay() }
        put(
            Record(
                .wake, moment, object: UInt32(truncatingIfNeeded: waker >> 32), a: reason.rawValue,
                flow: UInt32(truncatingIfNeeded: waker)))
    }
}
