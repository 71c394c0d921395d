internal import CStreams
internal import Glibc
internal import RunLoops

extension Stream {
    /// How much of the input a closed stream throws away, so that the peer can read to the end what was sent.
    private static let drainLimit = 262_144

    /// Closes it, without waiting: what is left to send is sent, the output is ended, and what the peer still sends is thrown
    /// away for a while, all in the background. A read that waits ends with ECANCELED.
    public func close() {
        guard isOpen else { return }
        if state != .open { return abort() }
        endOperations(StreamFailure("ECANCELED", "the stream was closed (\(subject))"))
        input.free()
        state = .flushing
        drainPlace = -1
        outputEnded = true
        drainsUntil = network.loop.now + .nanoseconds(settings.linger)
        uncount()
        send()
        drained = bytesWritten
        goOnClosing()
        guard state != .closed else { return }
        // In the background is in whatever mode; and while there is something to send, the loop runs for it.
        if !network.loop.contains(self, in: .common) { network.loop.add(self, to: .common) }
        if state == .flushing { network.drain(self) }
        updateActivity()
        signal()
    }

    /// Closes it at once: what is left to send is lost, and the peer is told so by a reset. A read that waits ends with
    /// ECANCELED.
    public func abort() { abort(nil) }

    func abort(_ reason: StreamFailure?) {
        guard state != .closed else { return }
        endOperations(reason ?? StreamFailure("ECANCELED", "the stream was aborted (\(subject))"))
        if transport == .socket, !isBorrowed, state != .idle, state != .connecting { _ = net_set_reset(fdToClose) }
        backing?.close(reset: true)
        release()
    }

    /// Sends what the kernel takes, and closes the descriptor: for the end of the process.
    public func closeAtOnce() {
        guard state != .closed else { return }
        if state == .open {
            outputEnded = !isBorrowed
            send()
            endOutputIfDue()
            // A pipe to a program closes itself with its output.
            guard state == .open else { return }
        }
        isReading = false
        rememberSubject()
        connector?.cancel()
        connector = nil
        backing?.close(reset: false)
        release()
    }

    /// What it says is put together only if there is somebody to hear it.
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

    /// Tells those that wait for the output, each in a turn of its own. Who is cancelled before that is not told: it may be gone.
    func endWaitsLater(_ failure: StreamFailure) {
        for waiter in waits?.all ?? [] {
            network.loop.perform { [self] in
                guard waits?.remove(waiter) ?? false else { return }
                teller._withUnsafeGuaranteedRef { $0.writeEnded(self, waiter, failure) }
            }
        }
    }

    /// Whoever closes it may be in the middle of anything: the reader is told later.
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
            // The time that it has is the timer's business.
            guard unsent == 0 || outputFailure != nil else { return }
            endOutputIfDue()
            network.stopDraining(self)
            // With the peer's end read there is nothing that could come any more; and without a socket no reset.
            guard transport == .socket, !isBorrowed, !inputEnded, inputFailure == nil, outputFailure == nil, unsent == 0
            else {
                return endClosing()
            }
            state = .draining
            // Behind the end that TLS has: with that alone, two ends that both close would wait for each other's; and a peer that never
            // began with TLS learns it in no other way.
            if tls != nil { _ = network.system.shutdownOutput(fdToClose) }
            updateActivity()
            drainsUntil = network.loop.now + .nanoseconds(settings.drain)
            drained = 0
        }
        guard state == .draining else { return }
        while readable {
            let n = receive(network.scratch, Network.scratchSize)
            if n > 0 { drained += n }
            if n == -Int(EAGAIN) { break }
            if n <= 0 || drained > Self.drainLimit { return endClosing() }
        }
        if drainPlace < 0 { network.drain(self) }
    }

    /// The time for what it is at is over.
    func timeToClose(isFinal: Bool = false) {
        network.stopDraining(self)
        if !isFinal, state == .flushing, outputFailure == nil, unsent > 0, drained != bytesWritten {
            // A peer that reads slowly has all the time that it needs.
            drained = bytesWritten
            drainsUntil = network.loop.now + .nanoseconds(settings.linger)
            return network.drain(self)
        }
        if state == .flushing {
            outputFailure = outputFailure ?? StreamFailure("ETIMEDOUT", "the peer does not read (\(subject))")
        }
        endClosing()
    }

    /// The descriptor is closed.
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
        // Not before a reader was told.
        if isReading { network.loop.perform { [self] in invalidate() } } else { invalidate() }
    }

    private func uncount() {
        guard let listener else { return }
        self.listener = nil
        listener.connectionEnded()
    }

    /// Where it is in its network's list of those that drain; -1: it is not. In the place of a reader's limit: nobody reads it any more.
    var drainPlace: Int {
        get { state == .flushing || state == .draining ? limit : -1 }
        set { limit = newValue }
    }

    var drainsUntil: RunLoop.Instant {
        get { .init(nanoseconds: deadline) }
        set { deadline = newValue.nanoseconds }
    }
}
