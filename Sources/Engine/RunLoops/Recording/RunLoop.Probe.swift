internal import CLinux

extension RunLoop {
    /// The interface between the steps of a loop and its recorder. The steps report what the loop does. If the loop is
    /// recorded, the probe passes the reports on, with times of the right clock.
    ///
    /// The probe is a struct of pointers, so that a report costs only a nil check while the recorder is off. A class
    /// would cost one more load; a stored closure or an existential would cost a call.
    @usableFromInline
    package struct Probe {
        /// The recorder while it is on.
        @usableFromInline package internal(set) var live: UnsafeMutablePointer<Recorder>?
        @usableFromInline package let recorder: UnsafeMutablePointer<Recorder>
        /// The memory of `recorder`. Other threads that read the recorder hold a reference, too.
        let memory: Unmanaged<Recorder.Memory>
        private let counters: UnsafeMutablePointer<Statistics>

        /// - Parameter counters: Where the probe writes the times that it measures while the recorder is off.
        init(_ poller: Poller, _ counters: UnsafeMutablePointer<Statistics>) {
            memory = .passRetained(Recorder.Memory(poller))
            recorder = memory._withUnsafeGuaranteedRef { $0.recorder }
            self.counters = counters
        }

        /// A callback in progress.
        struct Span {
            /// The recorder that has recorded its beginning.
            fileprivate var recorder: UnsafeMutablePointer<Recorder>?
            /// The time of the coarse clock at which the callback began; 0 if nobody measures it.
            fileprivate var start: Int64 = 0
        }

        /// A reading of the loop's clock, and a reading of the recorder's clock just before it.
        struct Reading {
            let date: Int64
            fileprivate let ticks: UInt64
        }

        // MARK: Passes

        /// Reports that a pass begins in a mode with this label. Returns whether the loop has lasted long enough to be
        /// recorded.
        @inline(__always)
        func pass(_ mode: @autoclosure () -> UInt32, _ poller: Poller) -> Bool {
            if let live {
                live.pointee.beginPass(mode())
                return false
            }
            // A loop that never sleeps does not call `sleep`, so check the duration here, in every 1024th pass.
            guard counters.pointee.passes & 1023 == 0, recorder.pointee.beginsAt != .max else { return false }
            let now = poller.coarseNow()
            return now >= recorder.pointee.beginsAt && recorder.pointee.lasts(now)
        }

        /// Reports that a pass calls the observers of a step.
        @inline(__always)
        func pass(reaches step: @autoclosure () -> Int) { if let live { live.pointee.reach(step: step()) } }

        // MARK: Runs and callbacks

        @inline(__always)
        func begin(run mode: @autoclosure () -> UInt32) {
            recorder.pointee.quietSince = 0
            if let live { live.pointee.beginRun(mode()) }
        }

        @inline(__always)
        func end(run mode: @autoclosure () -> UInt32, _ result: RunResult) {
            if let live { live.pointee.endRun(mode(), result) }
        }

        /// Reports that a callback begins.
        ///
        /// - Parameter counts: Whether the statistics compare this callback with the longest one. While the recorder
        ///   is on, it measures all callbacks, with a better clock.
        @inline(__always)
        func begin(
            _ label: @autoclosure () -> UInt32, flow: @autoclosure () -> UInt32 = 0, counts: Bool
        ) -> Span {
            guard let live else { return counts ? Span(start: start()) : Span() }
            live.pointee.begin(label(), flow: flow())
            return Span(recorder: live)
        }

        /// Reports that the callback of a timer that was due at `date` begins.
        @inline(__always)
        func begin(_ label: @autoclosure () -> UInt32, due date: Int64, counts: Bool) -> Span {
            guard let live else { return counts ? Span(start: start()) : Span() }
            live.pointee.begin(label(), due: date)
            return Span(recorder: live)
        }

        @inline(__always)
        func begin(request number: UInt64) -> Span {
            guard let live else { return Span() }
            live.pointee.begin(live.pointee.requestLabel, flow: live.pointee.flow(ofRequest: number))
            return Span(recorder: live)
        }

        /// The coarse-clock time at which a callback begins.
        @inline(__always)
        private func start() -> Int64 {
            recorder.pointee.quietSince != 0 ? recorder.pointee.quietSince : linux_monotonic_coarse()
        }

        /// Reports that a callback ends.
        @inline(__always)
        func end(_ span: Span) {
            if let recorder = span.recorder { recorder.pointee.end() } else { note(span.start) }
        }

        /// Reports that the callback of a timer ends.
        ///
        /// - Parameter missed: The number of intervals that were skipped.
        @inline(__always)
        func end(_ span: Span, missed: Int) {
            if let recorder = span.recorder { recorder.pointee.end(missed: missed) } else { note(span.start) }
        }

        @inline(__always)
        private func note(_ start: Int64) {
            recorder.pointee.quietSince = start != 0 ? counters.pointee.note(callbackSince: start) : 0
        }

        /// Reports that a request was queued.
        @inline(__always)
        func queued(request number: UInt64) { if let live { live.pointee.queues(request: number) } }

        // MARK: Sleep

        /// Reports that the loop is about to sleep until a date; 0 for no limit. Calls `whenItLasts` first if the loop
        /// has been running for long enough to be recorded. Returns an argument for `wake`.
        @inline(__always)
        func sleep(until date: @autoclosure () -> Int64, _ poller: Poller, whenItLasts: () -> Void) -> Int64 {
            if live == nil {
                let start = poller.coarseNow()
                guard start >= recorder.pointee.beginsAt, recorder.pointee.lasts(start) else { return start }
                whenItLasts()
                guard recorder.pointee.isOn else { return start }
            }
            recorder.pointee.sleep(until: date())
            return -1
        }

        /// Reports that the loop has woken.
        ///
        /// - Parameters:
        ///   - start: The result of `sleep`.
        ///   - reason: Returns the reason, and the label and flow of the thread that woke the loop.
        @inline(__always)
        func wake(since start: Int64, _ poller: Poller, _ reason: () -> (Recorder.Wake, waker: UInt64)) {
            recorder.pointee.quietSince = 0
            if start < 0 {
                guard recorder.pointee.isOn else { return }
                let (reason, waker) = reason()
                return recorder.pointee.wake(reason, waker)
            }
            let end = poller.coarseNow()
            counters.pointee.asleep += end - start
            if poller.isReal { recorder.pointee.quietSince = end }
        }

        /// Reports that the loop is about to poll the kernel without sleeping.
        @inline(__always)
        func looks() { recorder.pointee.looks() }

        // MARK: Clocks

        /// Notes that code other than a callback has run, which may have taken time.
        @inline(__always)
        func interrupted() {
            recorder.pointee.quietSince = 0
            recorder.pointee.moment = 0
        }

        /// Reads the clock of the loop.
        @inline(__always)
        func now(_ poller: Poller) -> Reading {
            // The recorder's clock is read first: the time since `ticks` is never less than the time since `date`.
            var ticks: UInt64 = 0
            if let live, live.pointee.usesTicks { ticks = live.pointee.freshMoment() }
            return Reading(date: poller.now(), ticks: ticks)
        }

        /// Returns whether a date is surely in the future, judging by the last reading of the recorder's clock. False
        /// if the recorder does not use ticks.
        @inline(__always)
        func provesAhead(_ date: @autoclosure () -> Int64, _ reading: Reading) -> Bool {
            guard reading.ticks != 0, let live else { return false }
            return date() > live.pointee.latest(reading.date, reading.ticks)
        }
    }

    /// Whether the loop records what it does.
    @inlinable package var isRecording: Bool { @inline(__always) get { probe.live != nil } }
    @inlinable package var recorder: UnsafeMutablePointer<Recorder> { @inline(__always) get { probe.recorder } }
    /// The memory of `recorder`, for other threads.
    package var recorderMemory: Recorder.Memory { probe.memory.takeUnretainedValue() }

    /// Counts and times since the loop was made.
    public var statistics: Statistics {
        var statistics = counters.pointee
        let recorder = recorder
        statistics.longest = max(statistics.longest, recorder.pointee.longestTime, recorder.pointee.longestBefore)
        statistics.asleep += recorder.pointee.asleepTime
        return statistics
    }

    /// Returns the longest callback since the last call, in nanoseconds.
    package func takeLongest() -> Int64 {
        let longest = max(counters.pointee.longest, recorder.pointee.takeLongest())
        counters.pointee.longest = 0
        recorder.pointee.longestBefore = max(recorder.pointee.longestBefore, longest)
        return longest
    }
}
