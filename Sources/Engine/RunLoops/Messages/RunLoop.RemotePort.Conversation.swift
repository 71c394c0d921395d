extension RunLoop.RemotePort {
    /// A message, and the answer to it.
    public final class Conversation {
        enum Kind { case request, send, flush }

        let kind: Kind
        let id: Int32
        private(set) var data: [UInt8]
        let sendTimeout: Duration?
        let replyTimeout: Duration?
        /// The modes in which the port must be for this conversation.
        let modes: [RunLoop.Mode]
        var number: UInt64 = 0
        /// Whether the conversation has entered the port's queue, so that the port counts its modes as used.
        var isQueued = false
        var isSent = false
        /// The depth of the run that waits for the answer, if one does.
        var run: Int?
        weak var port: RunLoop.RemotePort?
        private(set) var deadline: RunLoop.Instant?
        private var timer: RunLoop.Timer?
        private var onTimeout = Failure.replyTimedOut

        /// The answer, or the reason why there is none; nil while the message is unanswered.
        public private(set) var result: Result<[UInt8], Failure>?
        /// Called once with the result, on the loop's thread. Not called if the result already exists when this
        /// property is set.
        public var completion: ((Result<[UInt8], Failure>) -> Void)?

        init(
            _ kind: Kind, _ id: Int32, _ data: [UInt8], _ sendTimeout: Duration?, _ replyTimeout: Duration?,
            _ modes: [RunLoop.Mode]
        ) {
            self.kind = kind
            self.id = id
            self.data = data
            self.sendTimeout = sendTimeout
            self.replyTimeout = replyTimeout
            self.modes = modes
        }

        /// Cancels the conversation. If its message was not sent yet, it is never sent. A later answer is ignored.
        public func cancel() { settle(.failure(.becameInvalid), telling: false) }

        func takeData() -> [UInt8] {
            defer { data = [] }
            return data
        }

        /// Starts the timeout of the next step. At the timeout, the conversation fails with `failure`.
        func startWaiting(_ timeout: Duration?, else failure: Failure) {
            guard result == nil else { return }
            timer?.invalidate()
            timer = nil
            deadline = nil
            // A timeout of more than ten days means no limit, as in CoreFoundation.
            guard let timeout, timeout <= .seconds(864_000), let port else { return }
            onTimeout = failure
            let now = port.loop.now
            if timeout < .milliseconds(1), failure == .sendTimedOut { return settle(.failure(failure)) }
            let date = timeout < .milliseconds(1) ? now : now + timeout
            deadline = date
            let timer = RunLoop.Timer(fireDate: date, name: port.name) { [weak self] _, _ in
                self?.settle(.failure(failure))
            }
            self.timer = timer
            for mode in modes { port.loop.add(timer, to: mode) }
        }

        /// Fails the conversation if its time is over.
        func expire() {
            if let deadline, let port, port.loop.now >= deadline { settle(.failure(onTimeout)) }
        }

        func settle(_ new: Result<[UInt8], Failure>, telling: Bool = true) {
            guard result == nil else { return }
            result = new
            timer?.invalidate()
            timer = nil
            deadline = nil
            data = []
            port?.didSettle(self)
            // The result may have come in a run nested in the waiting run, so stop the waiting run by its depth.
            if let run { port?.loop.stop(runAt: run) }
            let completion = completion
            self.completion = nil
            if telling { completion?(new) }
        }
    }
}
