internal import CStreams
internal import Glibc
internal import RunLoops

extension Stream {
    /// From this number of bytes on, a write does not wait for the end of the turn.
    private static let enough = 65536

    /// The reason why nothing can be written; nil: writing is allowed.
    public var refusalToWrite: StreamFailure? {
        if let outputFailure { return outputFailure }
        if outputEnded { return StreamFailure("EPIPE", "the output was finished (\(subject))") }
        return isOpen ? nil : closedFailure
    }

    /// Takes all bytes for sending: at the end of the turn, or now if they are many.
    ///
    /// - Returns: a failure if writing is not allowed; then no byte was taken.
    @discardableResult
    public func enqueue(_ bytes: UnsafeRawBufferPointer) -> StreamFailure? {
        if let refusal = refusalToWrite { return refusal }
        var rest = bytes
        if bytes.count >= 16384, output.isEmpty, writable, state == .open, !isGreeting {
            // The kernel, or TLS, takes bytes directly, without a copy.
            let n = tls?.send(bytes, of: self) ?? give(bytes)
            if n > 0 { rest = UnsafeRawBufferPointer(rebasing: bytes[n...]) }
            if let outputFailure { return outputFailure }
            if rest.isEmpty { return nil }
        }
        network.prepare(&output, rest.count)
        guard output.append(rest) else {
            let failure = StreamFailure(errno: ENOMEM, subject)
            // The kernel has taken a part of the bytes: a later write would seem to continue this one.
            if rest.count < bytes.count { failOutput(failure) }
            return failure
        }
        guard state == .open else { return nil }
        if output.count >= Self.enough, writable { send() } else { becomeDirty() }
        if !isActive { updateActivity() }
        return nil
    }

    /// Queues several pieces as one write. The pieces are copied once, into the queue.
    @discardableResult
    public func enqueue(_ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>) -> StreamFailure? {
        if pieces.count == 1 { return enqueue(pieces[0]) }
        if let refusal = refusalToWrite { return refusal }
        var count = 0
        for piece in pieces { count += piece.count }
        guard var place = output.reserve(count) else { return StreamFailure(errno: ENOMEM, subject) }
        for piece in pieces {
            guard let start = piece.baseAddress, piece.count > 0 else { continue }
            memcpy(place, start, piece.count)
            place += piece.count
        }
        output.grow(count)
        guard state == .open else { return nil }
        if output.count >= Self.enough, writable { send() } else { becomeDirty() }
        if !isActive { updateActivity() }
        return nil
    }

    // Writes in two steps, for an owner that copies the bytes itself: `room`, and then `filled`.

    public var shortOfMemory: StreamFailure { StreamFailure(errno: ENOMEM, subject) }

    /// Returns memory for more bytes at the end of the queue; nil if writing is not allowed, or if there is no memory.
    public func room(for count: Int) -> UnsafeMutableRawPointer? {
        refusalToWrite == nil ? output.reserve(count) : nil
    }

    /// Notes that the bytes are in the memory that `room` has returned.
    public func filled(_ count: Int) {
        output.grow(count)
        guard state == .open else { return }
        if output.count >= Self.enough, writable { send() } else { becomeDirty() }
        if !isActive { updateActivity() }
    }

    /// Aborts the stream if more is left to send than a stream may queue. Returns the failure.
    public func abortIfOverfull() -> StreamFailure? {
        guard unsent > settings.maxQueue else { return nil }
        let failure = StreamFailure(
            "ENOBUFS", "more than \(settings.maxQueue) bytes wait for a peer that does not read (\(subject))")
        inputFailure = failure
        outputFailure = failure
        abort(failure)
        return failure
    }

    func becomeDirty() {
        guard !isDirty else { return }
        isDirty = true
        network.isDirty(self)
    }

    /// Sends as much as is possible now. Calls no callback.
    func send() {
        guard state == .open || state == .flushing, outputFailure == nil else { return }
        if let tls {
            if let failure = tls.send(self) { failOutput(failure) }
        } else {
            while writable, !output.isEmpty {
                let n = give(output.bytes)
                guard n > 0 else { break }
                output.removeFirst(n)
            }
        }
        if output.isEmpty {
            network.release(&output)
            endOutputIfDue()
        }
        updateActivity()
    }

    /// Sends without waiting for the end of the turn.
    public func sendNow() { if state == .open { send() } }

    /// Makes one system call, or calls the backing. Returns the number of bytes that were taken. If that is 0, it has
    /// noted the reason.
    func give(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard let start = bytes.baseAddress, writable else { return 0 }
        let system = network.system
        let n: Int
        switch transport {
        case .socket:
            var piece = iovec(iov_base: UnsafeMutableRawPointer(mutating: start), iov_len: bytes.count)
            n = system.send(fdToClose, &piece, 1)
            if n >= 0, n < bytes.count, system.partsAreAll { writable = false }
        case .pipe: n = system.write(fdToClose, start, bytes.count, isNonblocking: true)
        case .polled: n = system.write(fdToClose, start, bytes.count, isNonblocking: false)
        case .backed: n = backing?.send(bytes) ?? -Int(EPIPE)
        case .none: return 0
        }
        if n > 0 {
            didWrite(n)
            return n
        }
        if n == -Int(EINTR) { return give(bytes) }
        if transport == .backed, let refusal = backing?.takeRefusal() {
            failOutput(refusal)
        } else if n == -Int(EAGAIN) || n == 0 {
            writable = false
        } else if n == -Int(ENOBUFS) || n == -Int(ENOMEM) {
            // The system is short of memory, but the stream is intact: tries again later.
            writable = false
            signalSoon()
        } else {
            failOutput(StreamFailure(errno: Int32(clamping: -n), subject))
        }
        return 0
    }

    /// Tries again after 10 ms: the kernel reports no event for this.
    private func signalSoon() {
        network.loop.callBack(at: network.loop.now + .milliseconds(10)) { [weak self] _, _ in
            guard let self else { return }
            writable = true
            if unsent > 0 { signal() }
        }
    }

    func failOutput(_ failure: StreamFailure) {
        guard outputFailure == nil else { return }
        outputFailure = failure
        noteLoss(failure)
        output.free()
        tls?.dropOutput()
        if hasWaits || state == .flushing { signal() }
    }

    // MARK: Waiting

    /// Waits until less than `limit` bytes are left to send. The owner's `writeEnded` reports the end of the wait.
    ///
    /// - Parameter keepsAlive: Whether this wait keeps the loop running.
    public func waitForOutput(below limit: Int, waiter: Int, keepsAlive: Bool = true) {
        let waits = waits ?? OutputWaits()
        self.waits = waits
        waits.append(waiter, below: limit, keepsAlive: keepsAlive)
        outputStaysIdle = !keepsAlive
        if !keepsAlive { hasIdleWaits = true }
        updateActivity()
        // Queued bytes go out at the end of the turn, which may already satisfy the wait.
        if unsent < limit || outputFailure != nil { signal() }
    }

    /// Cancels a wait. The bytes that were written are still sent.
    public func cancelWrite(_ waiter: Int) {
        if waits?.remove(waiter) ?? false { updateActivity() }
    }

    /// Calls one waiter for the output whose wait is over. Returns false if there is none.
    func endWaits() -> Bool {
        guard let waits, let waiter = waits.next(above: outputFailure == nil ? unsent : .min) else { return false }
        waits.remove(waiter)
        updateActivity()
        // Reads and the other waiters have their turns next.
        signal()
        teller._withUnsafeGuaranteedRef { $0.writeEnded(self, waiter, outputFailure) }
        return true
    }

    // MARK: The end of output

    /// Ends the output when all is sent. Input goes on. Corresponds to CFWriteStreamClose.
    public func finish() {
        guard !outputEnded else { return }
        outputEnded = true
        if state == .open { send() }
        endOutputIfDue()
    }

    func endOutputIfDue() {
        guard outputEnded, !endIsSent, state == .open || state == .flushing, outputFailure == nil, output.isEmpty else {
            return
        }
        if let tls {
            guard tls.finish(self) else { return }
        }
        endIsSent = true
        switch transport {
        case .socket where isBorrowed && state == .flushing: break
        case .socket:
            // With TLS, its alert is the end: peers treat a half-closed socket as a truncated connection. Closing ends
            // the socket's output as well: see `goOnClosing`.
            if tls == nil { _ = network.system.shutdownOutput(fdToClose) }
        case .backed: backing?.finish()
        case .pipe, .polled:
            // A write-only pipe can only be closed; its reader then gets the end of the input.
            guard state == .open, net_is_write_only(fdToClose) != 0 else { return }
            closeAtOnce()
        case .none: break
        }
    }
}
