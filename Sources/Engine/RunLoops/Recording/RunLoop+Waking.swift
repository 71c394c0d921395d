// The loop's sleep, with the records of it while the loop is recorded.

extension RunLoop {
    /// Waits for events, for at most `timeout` nanoseconds; -1 for no limit. Returns their number.
    @inline(__always)
    func sleep(_ descriptors: DescriptorSet, timeout: Int64) -> Int {
        if isRecording, recorder.pointee.isUnread, poller.isReal {
            return waitAndBeSeen(descriptors, timeout: timeout)
        }
        return poller.wait(descriptors.epoll, events, capacity: 64, timeout: timeout, watching: descriptors.watching)
    }

    /// Waits. During a long wait, calls the reader for the latest records, since the process may be killed while it
    /// sleeps.
    @inline(never)
    private func waitAndBeSeen(_ descriptors: DescriptorSet, timeout: Int64) -> Int {
        func wait(_ timeout: Int64) -> Int {
            poller.wait(descriptors.epoll, events, capacity: 64, timeout: timeout, watching: descriptors.watching)
        }
        let first = recorder.pointee.timeUntilRead()
        guard timeout < 0 || timeout > first else { return wait(timeout) }
        let start = poller.now()
        if first > 0 {
            let count = wait(first)
            // A signal may have ended the wait early.
            guard count == 0, poller.now() >= start + first else { return count }
        }
        recorder.pointee.beSeen()
        return wait(timeout < 0 ? -1 : max(0, timeout - (poller.now() - start)))
    }

    func reasonToWake(
        _ mode: ModeState, _ woken: Bool, _ count: Int, _ timeout: Int64, _ date: Int64
    ) -> Recorder.Wake {
        if woken { return .wakeUp }
        if count > 0 { return .descriptor }
        // Queue timers that have become due, so that the code below finds them.
        queueDueTimers(mode)
        if mode.ready.holdsTimers { return .timer }
        return timeout > 0 && poller.now() >= date ? .timeOver : .signal
    }
}
