internal import CStreams
internal import Glibc
internal import Linux
internal import RunLoops

extension Stream {
    /// Options of a connection.
    public struct ConnectOptions {
        /// Limit for everything, name lookup included; nil: as long as the kernel tries.
        public var timeout: Duration?
        /// The local address.
        public var bind: Place?
        public var noDelay = true
        public var keepAlive = true
        /// TLS starts once the socket is connected, with `serverName` as the server's name. The stream opens when the
        /// handshake is done.
        public var tls: TLSContext?
        public var serverName: String?
        public init() {}
    }
}

extension Network {
    /// Returns a stream that begins to connect when it first enters a mode. Its owner's `opened` reports the result.
    ///
    /// Several addresses are tried side by side (RFC 8305): the next one after 250 ms, or at once if an attempt fails.
    /// The other attempts go on until one is connected.
    public func stream(
        to place: Place, _ options: Stream.ConnectOptions = .init(), name: String = "", order: Int = 0,
        owner: StreamOwner? = nil, settings: Stream.Settings = .standard
    ) -> Stream {
        var isTCP = false
        if case .host = place { isTCP = true }
        let stream = Stream(self, name: name, order: order, owner: owner, settings: settings, isTCP: isTCP)
        stream.connector = Connector(stream, place, options)
        return stream
    }

    /// Begins to connect a stream in the common modes at once, and calls a closure with the stream or the failure.
    public func connect(
        to place: Place, _ options: Stream.ConnectOptions = .init(),
        then: @escaping (Result<Stream, StreamFailure>) -> Void
    ) {
        let stream = stream(to: place, options)
        stream.madeHandlers.opened = { failure in
            if let failure { then(.failure(failure)) } else { then(.success(stream)) }
        }
        loop.add(stream, to: .common)
    }
}

extension Stream {
    func begin() {
        state = .connecting
        noteBeginning()
        updateActivity()
        connector?.begin()
    }

    func connected(
        _ descriptor: Int32, _ address: net_address, _ options: ConnectOptions, until deadline: RunLoop.Instant?
    ) {
        connector = nil
        remote = SmallAddress(address)
        attach(descriptor, .socket)
        if isTCP {
            if options.noDelay { net_set_no_delay(descriptor, 1) }
            if options.keepAlive { net_set_keep_alive(descriptor, 1, 15, 15, 9) }
        }
        if let context = options.tls {
            // Bytes written while the stream was connecting have to be encrypted, too.
            let written = output
            output = ByteQueue()
            do throws(StreamFailure) {
                defer { output = written }
                try startTLS(context, name: options.serverName)
                return beginGreeting(until: deadline)
            } catch {
                fail(input: error)
                failOutput(error)
            }
        }
        updateActivity()
        if delivers || isReading { signal() }
        if !output.isEmpty || outputEnded { signal() }
        teller._withUnsafeGuaranteedRef { $0.opened(self, nil) }
    }

    func didNotConnect(_ failure: StreamFailure) {
        rememberSubject()
        connector = nil
        inputFailure = failure
        outputFailure = failure
        state = .closed
        noteEnd()
        input.free()
        output.free()
        updateActivity()
        let owner = teller
        endWaitsLater(failure)
        if isReading { endRead(.failed(failure)) }
        owner._withUnsafeGuaranteedRef { $0.opened(self, failure) }
        invalidate()
    }
}

/// Connects a stream to the first of several addresses that answers.
final class Connector {
    private unowned(unsafe) let stream: Stream  // owns this connector
    private let place: Place
    private let options: Stream.ConnectOptions
    private var left: [net_address] = []
    private var attempts: [Attempt] = []
    private var timers: [RunLoop.Timer] = []
    private var nextTimer: RunLoop.Timer?
    private var question: Resolver.Question?
    private var failures: [(text: String, failure: StreamFailure)] = []
    private var isOver = false
    private var deadline: RunLoop.Instant?

    init(_ stream: Stream, _ place: Place, _ options: Stream.ConnectOptions) {
        self.stream = stream
        self.place = place
        self.options = options
    }

    var target: String { place.text }
    private var network: Network { stream.network }

    func begin() {
        if let timeout = options.timeout {
            deadline = network.loop.now + timeout
            after(timeout) { [unowned self] in fail(StreamFailure.timedOut) }
        }
        if let known = place.addresses { return start(known) }
        guard case .host(let host, let port) = place else { return start([]) }
        question = network.resolver.addresses(
            host, failed: { [unowned self] in fail($0) },
            then: { [unowned self] found in
                start(
                    found.map { address in
                        var address = address
                        net_set_port(&address, UInt16(truncatingIfNeeded: port))
                        return address
                    })
            })
    }

    /// Families take turns, beginning with that of the first address.
    private func start(_ found: [net_address]) {
        let first = found.first?.family
        var preferred = found.filter { $0.family == first }[...]
        var others = found.filter { $0.family != first }[...]
        while !preferred.isEmpty || !others.isEmpty {
            if let address = preferred.popFirst() { left.append(address) }
            if let address = others.popFirst() { left.append(address) }
        }
        if left.isEmpty { return later { $0.fail($0.place.refusal ?? $0.summary) } }
        tryNext()
    }

    /// Runs `body` in a later callback, never within the call that started the connector.
    private func later(_ body: @escaping (Connector) -> Void) {
        network.loop.perform(in: [.common]) { [weak self] in
            if let self, !isOver { body(self) }
        }
    }

    private func tryNext() {
        guard !isOver else { return }
        nextTimer?.invalidate()
        nextTimer = nil
        guard !left.isEmpty else {
            if attempts.isEmpty { later { if $0.attempts.isEmpty, $0.left.isEmpty { $0.fail($0.summary) } } }
            return
        }
        let address = left.removeFirst()
        attempt(address)
        guard !isOver, !left.isEmpty, nextTimer == nil else { return }
        nextTimer = after(.milliseconds(250)) { [unowned self] in tryNext() }
    }

    private func attempt(_ address: net_address) {
        var address = address
        let system = network.system
        let text = SmallAddress.text(&address)
        func refused(_ errno: Int32) {
            failures.append((text, StreamFailure(errno: -errno, text, refusedAs: .connect)))
            tryNext()
        }
        let fd = system.socket(address.family, Int32(SOCK_STREAM.rawValue))
        guard fd >= 0 else { return refused(fd) }
        if let failure = bind(fd, address.family) {
            _ = system.close(fd)
            failures.append((text, failure))
            return tryNext()
        }
        let result = system.connect(fd, &address)
        switch -result {
        case 0, EINPROGRESS, EINTR:
            let attempt = Attempt(self, fd, address, text)
            attempts.append(attempt)
            if result == 0 {
                later { if $0.attempts.contains(where: { $0 === attempt }) { $0.ended(attempt) } }
            } else {
                attempt.watch(fd)
                for mode in stream.modeNames { network.loop.add(attempt, to: mode) }
            }
        case EAGAIN:
            // The backlog of the Unix socket is full. The kernel does not report when the backlog has room again.
            _ = system.close(fd)
            after(.milliseconds(20)) { [unowned self] in attempt(address) }
        default:
            _ = system.close(fd)
            refused(result)
        }
    }

    private func bind(_ fd: Int32, _ family: Int32) -> StreamFailure? {
        guard let place = options.bind else { return nil }
        guard var address = place.addresses?.first(where: { $0.family == family })
        else { return StreamFailure("EADDRNOTAVAIL", "the local address is of another family (\(place.text))") }
        net_set_reuse_address(fd)
        let result = network.system.bind(fd, &address)
        return result < 0 ? StreamFailure(errno: -result, place.text) : nil
    }

    fileprivate func ended(_ attempt: Attempt) {
        attempts.removeAll { $0 === attempt }
        let fd = attempt.taken
        attempt.watch(-1)
        attempt.invalidate()
        let error = network.system.socketError(fd)
        guard error == 0 else {
            _ = network.system.close(fd)
            failures.append((attempt.text, StreamFailure(errno: -error, attempt.text)))
            return tryNext()
        }
        cancel()
        stream.connected(fd, attempt.address, options, until: deadline)
    }

    private func fail(_ failure: StreamFailure) {
        guard !isOver else { return }
        cancel()
        // In a sandbox, names that are not allowed are not found.
        let isSuspicious = ["ENOTFOUND", "EAI_AGAIN", "EACCES"].contains(failure.code)
        let refusal = isSuspicious ? Sandbox.refusal(.connect, place.text) : nil
        stream.didNotConnect(refusal.map { StreamFailure("EACCES", "\($0) (\(place.text))") } ?? failure)
    }

    /// The addresses with the error of each.
    private var summary: StreamFailure {
        guard let first = failures.first?.failure else {
            return StreamFailure("ENOTFOUND", "no address (\(place.text))")
        }
        return StreamFailure(first.code, failures.map(\.failure.message).joined(separator: ", "))
    }

    func cancel() {
        isOver = true
        question?.cancel()
        question = nil
        for timer in timers { timer.invalidate() }
        timers = []
        for attempt in attempts {
            let fd = attempt.taken
            attempt.watch(-1)
            attempt.invalidate()
            _ = network.system.close(fd)
        }
        attempts = []
    }

    @discardableResult
    private func after(_ delay: Duration, _ body: @escaping () -> Void) -> RunLoop.Timer {
        let timer = network.loop.callBack(at: network.loop.now + delay, in: stream.modeNames) { _, _ in body() }
        timer.keepsAlive = false  // the stream does
        timers.removeAll { !$0.isValid }
        timers.append(timer)
        return timer
    }

    // Timers and attempts are in the same modes as the stream.
    func entered(_ mode: RunLoop.Mode) {
        for timer in timers { network.loop.add(timer, to: mode) }
        for attempt in attempts { network.loop.add(attempt, to: mode) }
    }

    func left(_ mode: RunLoop.Mode) {
        for timer in timers { network.loop.remove(timer, from: mode) }
        for attempt in attempts { network.loop.remove(attempt, from: mode) }
    }

    /// An attempt to connect to one address.
    fileprivate final class Attempt: RunLoop.EdgePort {
        private unowned(unsafe) let connector: Connector
        let taken: Int32
        let address: net_address
        let text: String

        init(_ connector: Connector, _ fd: Int32, _ address: net_address, _ text: String) {
            self.connector = connector
            taken = fd
            self.address = address
            self.text = text
            super.init(serves: true, name: text)
        }

        override func note(_ events: RunLoop.FDPort.Events) -> Bool {
            !events.isDisjoint(with: [.write, .error, .hangUp])
        }
        override func takeTurn() { connector.ended(self) }
    }
}
