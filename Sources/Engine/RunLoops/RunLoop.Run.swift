extension RunLoop {
    /// What one `run` knows.
    final class Run {
        let mode: ModeState
        let number: UInt64
        var deadline = Int64.max
        let returnsAfterSource: Bool
        /// Once it is over.
        var result = RunResult.finished
        /// It makes one pass that does not wait.
        let polls: Bool
        /// A stop that came before it began is for it.
        let heedsEarlyStop: Bool
        var isStopped = false
        /// Between the end of a wait and the next pass, which looks at everything anyway.
        var ignoresWakeUps = false
        /// Somebody on this thread asked to wake up, since when the run has not waited.
        var wakeIsPending = false

        init(mode: ModeState, number: UInt64, polls: Bool, returnsAfterSource: Bool, heedsEarlyStop: Bool) {
            self.mode = mode
            self.number = number
            self.polls = polls
            self.returnsAfterSource = returnsAfterSource
            self.heedsEarlyStop = heedsEarlyStop
        }
    }
}
