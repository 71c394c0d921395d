extension RunLoop {
    /// The state of one call of `run`.
    final class Run {
        let mode: ModeState
        let number: UInt64
        var deadline = Int64.max
        let returnsAfterSource: Bool
        /// The reason why the run ended; valid when the run is over.
        var result = RunResult.finished
        /// Whether the run makes one pass that does not wait.
        let polls: Bool
        /// Whether a stop that came before the run applies to it.
        let heedsEarlyStop: Bool
        var isStopped = false
        /// Whether the run is between the end of a wait and the next pass, which checks everything anyway.
        var ignoresWakeUps = false
        /// Whether this thread has called `wakeUp` since the run last waited.
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
