internal import RunLoops

extension Stream {
    /// Begins TLS on the open stream: bytes are encrypted from now on. TLS also takes the bytes that have arrived but
    /// were not read. To wait for the handshake read `.handshake`; otherwise the first read or write makes it.
    ///
    /// - Parameter name: for a client: the server's name, which the certificate has to match.
    /// - Throws: EALREADY, or the failure that closed the stream.
    public func startTLS(_ context: TLSContext, name: String? = nil) throws(StreamFailure) {
        guard state == .open else { throw closedFailure }
        if let failure = outputFailure ?? inputFailure { throw failure }
        guard tls == nil else { throw StreamFailure("EALREADY", "TLS has begun already (\(subject))") }
        // Bytes written before this call go out unencrypted.
        send()
        guard output.isEmpty else {
            throw StreamFailure("EBUSY", "flush the written bytes before TLS begins (\(subject))")
        }
        let early = input
        input = ByteQueue()
        searched = 0
        let session = try TLSSession(context, name, early: early)
        tls = session
        readable = true
        // The client sends first.
        if !context.isServer { _ = session.handshake(self) }
    }

    /// Gives up the handshake and the stream. A handshake that has begun cannot be undone: reads and writes fail from
    /// now on, and the owner has to close the stream. Does nothing if the handshake is over or has failed.
    public func giveUpTLS() {
        guard state == .open, let tls, !tls.isAgreed, !tls.hasFailed else { return }
        let failure = StreamFailure("TLS", "the handshake was given up (\(subject))")
        fail(input: failure)
        failOutput(failure)
        updateActivity()
    }

    /// Continues a server's handshake that has stopped at a name: with other settings, or, with nil, with its present
    /// ones.
    public func continueTLS(_ context: TLSContext?) {
        tls?.choose(context)
        readable = true
    }

    /// Fails a server's handshake that has stopped at a name. The alert reports that no server has this name, or that
    /// the server cannot serve. Afterwards only `close` makes sense. Returns false if the handshake has not stopped at
    /// a name.
    @discardableResult
    public func refuseTLS(nameIsUnknown: Bool) -> Bool {
        guard let tls, tls.waitsForChoice else { return false }
        tls.refuse(isUnknown: nameIsUnknown, self)
        return true
    }

    /// Continues without TLS if the handshake has failed because the client has sent text. Nothing was sent to the
    /// client, and its text can be read. Otherwise returns false and does nothing.
    public func leaveTLS() -> Bool {
        guard state == .open, let text = tls?.text else { return false }
        var bytes = ByteQueue()
        guard bytes.append(text) else { return false }
        input = bytes
        inputFailure = nil
        outputFailure = nil
        tls = nil
        readable = true
        return true
    }

    /// The name at which the handshake has stopped; nil without TLS.
    public var requestedName: String? { tls?.requestedName }

    /// nil without TLS, or before the handshake is done.
    public var tlsInfo: TLSInfo? { tls.flatMap { $0.isAgreed ? $0.info : nil } }

    // MARK: Connecting streams, which open when the TLS handshake is done

    /// - Parameter deadline: the handshake has to be over by then.
    func beginGreeting(until deadline: RunLoop.Instant?) {
        isGreeting = true
        updateActivity()
        signal()
        guard let deadline else { return }
        let patience = network.loop.callBack(at: deadline, in: modeNames) { [weak self] _, _ in
            if let self, isGreeting { endGreeting(.timedOut) }
        }
        patience.keepsAlive = false  // the stream does
        self.patience = patience
    }

    func greet() {
        switch attemptHandshake() {
        case nil: return
        case .failed(let failure): endGreeting(failure)
        default: endGreeting(nil)
        }
    }

    func stopGreeting() {
        guard isGreeting else { return }
        isGreeting = false
        patience?.invalidate()
        patience = nil
    }

    private func endGreeting(_ failure: StreamFailure?) {
        stopGreeting()
        // Readers, writers and deliveries have waited for the handshake.
        signal()
        guard let failure else {
            updateActivity()
            return teller._withUnsafeGuaranteedRef { $0.opened(self, nil) }
        }
        fail(input: failure)
        failOutput(failure)
        let owner = teller
        endWaitsLater(failure)
        if isReading { endRead(.failed(failure)) }
        owner._withUnsafeGuaranteedRef { $0.opened(self, failure) }
        close()
    }

    /// Tries `.handshake`: returns no bytes when it is done, and the end if it stops at a name.
    func attemptHandshake() -> Outcome? {
        guard let session = tls else {
            return .failed(StreamFailure("EINVAL", "TLS has not begun (\(subject))"))
        }
        if let inputFailure { return .failed(inputFailure) }
        switch session.handshake(self) {
        case .wait: return nil
        case .failed(let failure):
            fail(input: failure)
            failOutput(failure)
            return .failed(failure)
        case .done:
            readable = true
            return .bytes(UnsafeRawBufferPointer(start: nil, count: 0))
        case .named: return .end
        }
    }
}
