internal import RunLoops

extension Stream {
    /// Begins TLS on the open stream: from now on its bytes are encrypted. What arrived before and was not read belongs to TLS.
    /// Then read `.handshake`; without that, the first read or write does it.
    ///
    /// - Parameter name: of a client, the server's name: its certificate has to be for that.
    /// - Throws: EALREADY, or what closed it.
    public func startTLS(_ context: TLSContext, name: String? = nil) throws(StreamFailure) {
        guard state == .open else { throw closedFailure }
        if let failure = outputFailure ?? inputFailure { throw failure }
        guard tls == nil else { throw StreamFailure("EALREADY", "TLS has begun already (\(subject))") }
        // What was written before is no business of TLS's.
        send()
        guard output.isEmpty else {
            throw StreamFailure("EBUSY", "flush what was written before TLS begins (\(subject))")
        }
        let early = input
        input = ByteQueue()
        searched = 0
        let session = try TLSSession(context, name, early: early)
        tls = session
        readable = true
        // The client speaks first.
        if !context.isServer { _ = session.handshake(self) }
    }

    /// Nobody waits for the handshake any more. What of it is under way can neither be taken back nor be somebody else's: nothing goes
    /// through the stream from now on, which is to be closed. Without effect on one whose handshake is over, or has failed.
    public func giveUpTLS() {
        guard state == .open, let tls, !tls.isAgreed, !tls.hasFailed else { return }
        let failure = StreamFailure("TLS", "the handshake was given up (\(subject))")
        fail(input: failure)
        failOutput(failure)
        updateActivity()
    }

    /// A server's answer to the name that the handshake has stopped at: with other settings, or with those it has.
    public func continueTLS(_ context: TLSContext?) {
        tls?.choose(context)
        readable = true
    }

    /// A server's other answer: the handshake fails, and the client is told that there is no server of this name, or that it
    /// cannot be served. Nothing but `close` makes sense afterwards. Returns false where the handshake has stopped at no name.
    @discardableResult
    public func refuseTLS(nameIsUnknown: Bool) -> Bool {
        guard let tls, tls.waitsForChoice else { return false }
        tls.refuse(isUnknown: nameIsUnknown, self)
        return true
    }

    /// Goes on without TLS if the handshake has failed because the client has sent text: nothing was sent to it, and
    /// its text can be read. Returns false, without effect, in any other case.
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

    /// The name at which the handshake has stopped.
    public var requestedName: String? { tls?.requestedName }

    /// nil before the handshake is over, and without TLS.
    public var tlsInfo: TLSInfo? { tls.flatMap { $0.isAgreed ? $0.info : nil } }

    // MARK: Streams that connect, and are not open before TLS is agreed on

    /// - Parameter deadline: it is to be over by then.
    func beginGreeting(until deadline: RunLoop.Instant?) {
        isGreeting = true
        updateActivity()
        signal()
        guard let deadline else { return }
        patience = network.loop.callBack(at: deadline, in: modeNames) { [weak self] _, _ in
            if let self, isGreeting { endGreeting(.timedOut) }
        }
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
        // Whoever reads, writes, or has input delivered, has waited for this.
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

    /// `.handshake`: no bytes when it is done; the end where it stops at a name.
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
