internal import CStreams
internal import Glibc
internal import Linux
internal import RunLoops

extension Stream {
    /// A closed stream discards this number of input bytes at most, so that the peer can read all that was sent.
    private static let drainLimit = 262_144

    /// Closes the stream without waiting. In the background the loop sends what is left and ends the output, and for a
    /// while discards the peer's input. A read that waits ends with ECANCELED.
    public func close() {
        guard isOpen else { return }
        if state != .open { return abort() }
        endOperations(StreamFailure("ECANCELED", "the stream was closed (\(subject))"))
        outputEnded = true
        if hasNothingToLose { return endClosing() }
        input.free()
        state = .flushing
        drainPlace = -1
        uncount()
        send()
        drained = bytesWritten
        goOnClosing()
        guard state != .closed else { return }
        // The background is not bound to a mode; while output is left, the loop keeps running.
        if !network.loop.contains(self, in: .common) { network.loop.add(self, to: .common) }
        if state == .flushing {
            drainsUntil = network.loop.now.later(by: settings.linger)
            network.drain(self)
            signal()
        }
        updateActivity()
    }

    /// Closes the stream as `close` does, but sends the remaining bytes for at most this time, even if the peer takes
    /// bytes.
    public func close(within limit: Duration) {
        settings = Settings(
            highWater: settings.highWater, maxQueue: settings.maxQueue, linger: limit, isPatient: false)
        close()
    }

    /// Whether a reset would be harmless: no sent data is at risk, and no unread data would cause a reset. The end of
    /// the output reaches the peer if no other process has the descriptor.
    private var hasNothingToLose: Bool {
        transport == .socket && bytesWritten == 0 && unsent == 0 && tls == nil && !isShared && !isBorrowed
            && Descriptor.readable(fdToClose) == 0
    }

    /// Closes the stream at once. Unsent bytes are lost, and a reset informs the peer. A read that waits ends with
    /// ECANCELED.
    public func abort() { abort(nil) }

    func abort(_ reason: StreamFailure?) {
        guard state != .closed else { return }
        endOperations(reason ?? StreamFailure("ECANCELED", "the stream was aborted (\(subject))"))
        if transport == .socket, !isBorrowed, state != .idle, state != .connecting { _ = net_set_reset(fdToClose) }
        backing?.close(reset: true)
        release()
    }

    /// Called at the end of the process: sends what the kernel accepts, and closes the descriptor.
    public func closeAtOnce() {
        guard state != .closed else { return }
        if state == .open {
            outputEnded = !isBorrowed
            send()
            endOutputIfDue()
            // A write-only pipe is closed together with its output.
            guard state == .open else { return }
        }
        isReading = false
        rememberSubject()
        connector?.cancel()
        connector = nil
        backing?.close(reset: false)
        release()
    }

    /// The failure is computed only if an operation waits for it.
    private func endOperations(_ failure: @autoclosure () -> StreamFailure) {
        stopGreeting()
        guard connector != nil || isReading || hasWaits else { return }
        let failure = failure()
        if let connector {
            rememberSubject()
            self.connector = nil
            connector.cancel()
            guard state == .connecting else { return }
            let owner = teller
            network.loop.perform { [self] in owner._withUnsafeGuaranteedRef { $0.opened(self, failure) } }
        }
        if isReading { endReadLater(failure) }
        endWaitsLater(failure)
    }

    /// Calls the waiters for output, each in a separate turn. A waiter that is cancelled before its turn is not called:
    /// it may no longer exist.
    func endWaitsLater(_ failure: StreamFailure) {
        for waiter in waits?.all ?? [] {
            network.loop.perform { [self] in
                guard waits?.remove(waiter) ?? false else { return }
                teller._withUnsafeGuaranteedRef { $0.writeEnded(self, waiter, failure) }
            }
        }
    }

    /// The reader is called later: the caller of `close` may be in the middle of anything.
    private func endReadLater(_ failure: StreamFailure) {
        cancelledRead = failure
        network.loop.perform { [self] in
            guard isReading, let failure = cancelledRead else { return }
            endRead(.failed(failure))
        }
    }

    func goOnClosing() {
        if state == .flushing {
            send()
            // The drain timer enforces the time limit.
            guard unsent == 0 || outputFailure != nil else { return }
            endOutputIfDue()
            network.stopDraining(self)
            // Draining makes sense only for a socket, which alone can be reset, and only until the peer's end of input.
            guard transport == .socket, !isBorrowed, !inputEnded, inputFailure == nil, outputFailure == nil, unsent == 0
            else {
                return endClosing()
            }
            state = .draining
            // TLS has sent the end of its own output already. The socket's end follows: otherwise two peers that both
            // close would wait for each other, and a peer that never began TLS would not notice the end.
            if tls != nil { _ = network.system.shutdownOutput(fdToClose) }
            updateActivity()
            drainsUntil = network.loop.now.later(by: settings.drain)
            drained = 0
        }
        guard state == .draining else { return }
        // Both ends have received all data, and the connection is over: the kernel sends no reset even if data is
        // unread.
        if hungUp, isTCP, net_unacknowledged(fdToClose) == 0 { return endClosing() }
        while readable {
            let n = receive(network.scratch, Network.scratchSize)
            if n > 0 { drained += n }
            if n == -Int(EAGAIN) { break }
            if n <= 0 || drained > Self.drainLimit { return endClosing() }
        }
        if drainPlace < 0 { network.drain(self) }
    }

    /// The time limit for flushing or draining has expired.
    func timeToClose(isFinal: Bool = false) {
        network.stopDraining(self)
        if !isFinal, settings.isPatient, state == .flushing, outputFailure == nil, unsent > 0, drained != bytesWritten {
            // A slow reader that makes progress gets more time.
            drained = bytesWritten
            drainsUntil = network.loop.now.later(by: settings.linger)
            return network.drain(self)
        }
        if state == .flushing {
            outputFailure = outputFailure ?? StreamFailure("ETIMEDOUT", "the peer does not read (\(subject))")
        }
        endClosing()
    }

    /// Closes the descriptor.
    func endClosing() {
        let isCut = state == .flushing && unsent > 0
        if isCut, transport == .socket, !isBorrowed { _ = net_set_reset(fdToClose) }
        backing?.close(reset: isCut)
        release()
    }

    private func release() {
        rememberSubject()
        stopGreeting()
        network.stopDraining(self)
        if unsent > 0 { noteLoss(outputFailure) }
        state = .closed
        noteEnd()
        input.free()
        output.free()
        tls = nil
        backing = nil
        let descriptor = fdToClose
        watch(-1, isClosing: wasAccepted && !isShared)
        fdToClose = -1
        if descriptor >= 0 { _ = network.system.close(descriptor) }
        uncount()
        updateActivity()
        // A waiting reader has to be called before the stream is invalidated.
        if isReading { network.loop.perform { [self] in invalidate() } } else { invalidate() }
    }

    private func uncount() {
        guard let listener else { return }
        self.listener = nil
        listener.connectionEnded()
    }

    /// The index in the network's list of draining streams; -1: not in it. The value shares the field of a reader's
    /// limit, since a closed stream has no reader.
    var drainPlace: Int {
        get { state == .flushing || state == .draining ? limit : -1 }
        set { limit = newValue }
    }

    var drainsUntil: RunLoop.Instant {
        get { .init(nanoseconds: deadline) }
        set { deadline = newValue.nanoseconds }
    }
}
