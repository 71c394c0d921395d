extension Stream {
    /// Begins TLS on the open stream: from now on its bytes are encrypted. What arrived before and was not read belongs to TLS.
    /// Then read `.handshake`; without that, the first read or write does it.
    ///
    /// - Parameter name: of a client, the server's name: its certificate has to be for that.
    /// - Throws: EALREADY, or what closed it.
    public func startTLS(_ context: TLSContext, name: String? = nil) throws(StreamFailure) {
        guard state == .open else { throw closedFailure }
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

    /// A server's answer to the name that the handshake has stopped at: with other settings, or with those it has.
    public func continueTLS(_ context: TLSContext?) {
        (tls as? TLSSession)?.choose(context)
        readable = true
    }

    /// The name at which the handshake has stopped.
    public var requestedName: String? { tlsName }

    /// nil before the handshake, and without TLS.
    public var tlsInfo: TLSInfo? { (tls as? TLSSession)?.info }

    /// `.handshake`: no bytes when it is done; the end where it stops at a name.
    func attemptHandshake() -> Outcome? {
        guard let session = tls as? TLSSession else {
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
            tlsName = nil
            readable = true
            return .bytes(UnsafeRawBufferPointer(start: nil, count: 0))
        case .named(let name):
            tlsName = name
            return .end
        }
    }
}
