internal import CLinux
internal import Linux
internal import Synchronization

// The loop's recorder: when it is on, and how what it records is named.

extension RunLoop {
    @inlinable package var isRecording: Bool { @inline(__always) get { recorder.pointee.isOn } }

    /// Begins to record, if it is not done already. Returns false when there is no memory.
    ///
    /// - Parameter name: what the loop is called: "main", or its thread's name.
    @discardableResult
    package func record(as name: String) -> Bool {
        guard !isRecording else { return true }
        let usesTicks = poller.isReal && Recorder.ticksAreSteady
        let anchor = usesTicks ? Recorder.Anchor.now() : Recorder.Anchor(ticks: 0, date: poller.now())
        guard recorder.pointee.turnOn(anchor, usesTicks: usesTicks, modes: runs.map { label(of: $0.mode) }) else {
            return false
        }
        recorder.pointee.name = name
        Recorder.all.withLock { all in
            if !all.contains(where: { $0.memory === recorderMemory }) {
                all.append(.init(memory: recorderMemory, name: name))
            }
        }
        return true
    }

    /// Ends it; what was recorded stays, until the loop ends. It does not begin again by itself.
    package func stopRecording() {
        recorder.pointee.turnOff()
        recorder.pointee.beginsAt = .max
    }

    /// Calls `body` for each loop that was ever recorded and has not ended, in the order in which that began. On any thread. A loop may
    /// end meanwhile; its recorder stays until `body` returns.
    package static func forEachRecorder(_ body: (UnsafeMutablePointer<Recorder>, _ name: String) -> Void) {
        for one in Recorder.all.withLock({ $0 }) {
            withExtendedLifetime(one.memory) { body(one.memory.recorder, one.name) }
        }
    }

    /// Whether anything has happened in a loop since it was first recorded. On any thread.
    package static var hasRecords: Bool {
        Recorder.all.withLock { all in all.contains { !$0.memory.recorder.pointee.isEmpty } }
    }

    /// What loops have recorded that have ended since `keepEnded`, in that order.
    package static var ended: [(number: UInt16, name: String, records: [Recorder.Record])] {
        Recorder.ended.withLock { $0.map { ($0.number, $0.name, $0.records) } }
    }

    /// Has what loops have recorded kept when they end, or forgets that.
    package static func keepEnded(_ keeps: Bool) {
        Recorder.keepsEnded.store(keeps, ordering: .relaxed)
        Recorder.ended.withLock { $0 = [] }
    }

    /// The loop ends. Its recorder is freed when nobody reads it any more.
    func forgetRecorder() {
        let isKept = Recorder.keepsEnded.load(ordering: .relaxed)
        if isKept { recorder.pointee.ends() }
        recorder.pointee.endWriting()
        guard recorder.pointee.ring != nil else { return }
        if isKept {
            let name = Recorder.all.withLock { $0.first { $0.memory === recorderMemory }?.name ?? "" }
            let records = Recorder.copy(recorder).records
            Recorder.ended.withLock { $0.append(.init(number: recorder.pointee.number, name: name, records: records)) }
        }
        Recorder.all.withLock { $0.removeAll { $0.memory === recorderMemory } }
    }

    /// The first second is over, and nobody has said whether to record.
    @inline(never)
    func considerRecording(_ now: Int64) {
        guard recorder.pointee.beginsAt != 0 else {
            recorder.pointee.beginsAt = now.addingSaturating(1_000_000_000)
            return
        }
        recorder.pointee.beginsAt = .max
        whenItLasts?(self)
    }

    /// Has `handler` called, on the loop's thread, after a callback that took longer. `delay`: for how much of it the thread waited for a
    /// processor.
    package func watchSlowCallbacks(
        _ limit: Duration,
        _ handler: @escaping (_ label: UInt32, _ began: Instant, _ took: Duration, _ delay: Duration) -> Void
    ) {
        recorder.pointee.watchSlow(limit.wholeNanoseconds) { label, began, nanoseconds, delay in
            handler(label, Instant(nanoseconds: began), .nanoseconds(nanoseconds), .nanoseconds(delay))
        }
    }

    /// How many timers, in whatever modes, have become due since a date and not fired. O(n).
    package func timersLate(since date: Instant) -> Int {
        let now = now.nanoseconds
        return allTimers.count {
            !$0.pointee.isFiring && $0.pointee.fireDate <= now && $0.pointee.fireDate >= date.nanoseconds
        }
    }

    // MARK: Labels

    @inline(__always)
    package func label(of item: Item) -> UInt32 { item.label != 0 ? item.label : makeLabel(item) }

    @inline(never)
    private func makeLabel(_ item: Item) -> UInt32 {
        item.label = labels.map { $0(item) } ?? Recorder.label(Recorder.Title(of: item))
        return item.label
    }

    @inline(__always)
    func label(of mode: ModeState) -> UInt32 {
        if mode.label == 0 { mode.label = Recorder.label(.init("other", mode.name.rawValue), isForeign: true) }
        return mode.label
    }

    /// 0 for a timer whose owner says what it is when it fires.
    @inline(__always)
    func label(of node: NodePointer) -> UInt32 {
        if node.pointee.label == 0, node.pointee.owner._withUnsafeGuaranteedRef({ $0.hasTitles }) { makeLabel(node) }
        return node.pointee.label
    }

    @inline(never)
    private func makeLabel(_ node: NodePointer) {
        let title = node.pointee.owner._withUnsafeGuaranteedRef { $0.title(of: node) }
        if let title { node.pointee.label = Recorder.label(title) }
    }

    // MARK: Flows

    /// Something is sent by the calling thread, whose loop may be recorded. The number is for what it brings about; 0: none.
    ///
    /// - Parameter mode: it goes to the loop of this mode, and no other.
    @inline(__always)
    static func noteSend(to mode: Unmanaged<ModeState>? = nil) -> UInt32 {
        Recorder.someAreOn.load(ordering: .relaxed) == 0 ? 0 : sendOfThisThread(to: mode)
    }

    @inline(never)
    private static func sendOfThisThread(to mode: Unmanaged<ModeState>?) -> UInt32 {
        guard let (recorder, loop) = recorderOfThisThread else { return 0 }
        let isOwn = mode?._withUnsafeGuaranteedRef { $0.loopAddress == loop } ?? false
        if isOwn, let flow = recorder.pointee.sendsHere() { return flow }
        return recorder.pointee.isOn ? recorder.pointee.sends(isOwn: isOwn) : 0
    }

    /// Not retained: it lives as long as the thread.
    @inline(__always)
    private static var recorderOfThisThread: (UnsafeMutablePointer<Recorder>, loop: UnsafeMutableRawPointer)? {
        linux_thread_value().map { ($0, Unmanaged<RunLoop>.fromOpaque($0)) }.map { pointer, loop in
            (loop._withUnsafeGuaranteedRef { $0.recorder }, pointer)
        }
    }

    /// The calling thread wakes another loop. Answers a label that says who it is, and in the lower half the flow of a send.
    static func noteWaking(_ call: Handle.WakingCall) -> UInt64 {
        guard Recorder.someAreOn.load(ordering: .relaxed) != 0 else { return 0 }
        guard let (recorder, _) = recorderOfThisThread, recorder.pointee.isOn else {
            return UInt64(Recorder.label(.init("other", "another thread · \(call.word)"))) << 32
        }
        return recorder.pointee.wakes(call)
    }

    /// The same with a number that both sides can tell.
    static func noteSend(flow: @autoclosure () -> UInt32) {
        guard Recorder.someAreOn.load(ordering: .relaxed) != 0, let (recorder, _) = recorderOfThisThread,
            recorder.pointee.isOn
        else { return }
        recorder.pointee.sends(0, flow: flow())
    }

    /// What the callback that runs was brought about by.
    @inline(__always)
    package func noteCause(_ flow: UInt32) {
        if flow != 0, recorder.pointee.isOn { recorder.pointee.isCaused(by: flow) }
    }
}

// What lasts, and what goes through streams. On the loop's thread.
extension RunLoop {
    /// Something begins that lasts, and is called as this label says. Returns its number, for `noteEnd`; 0 while nothing is recorded.
    package func noteBeginning(_ label: UInt32) -> UInt32 {
        recorder.pointee.isOn ? recorder.pointee.opens(label) : 0
    }

    /// - Parameters:
    ///   - number: what `noteBeginning` has answered; 0: it was not recorded, nor is this.
    ///   - result: what it came to, such as a status.
    package func noteEnd(_ number: UInt32, _ label: UInt32, result: Int = 0, failed: Bool = false) {
        guard number != 0, recorder.pointee.isOn else { return }
        recorder.pointee.closes(number, label, UInt64(max(0, result)), failed: failed)
    }

    /// What `noteBeginning` has numbered is one of many that a label stands for, as a request is one of its route's.
    package func noteGroup(of number: UInt32, _ label: UInt32) {
        guard number != 0, recorder.pointee.isOn else { return }
        recorder.pointee.belongs(number, label)
    }

    /// Bytes went through an item.
    @inline(__always)
    package func noteBytes(_ item: Item, _ count: Int, out: Bool) {
        if recorder.pointee.isOn { recordBytes(item, count, out) }
    }

    @inline(never)
    private func recordBytes(_ item: Item, _ count: Int, _ out: Bool) {
        recorder.pointee.bytes(label(of: item), count, out: out, of: item.lasting)
    }
}

extension RunLoop.Recorder.Title {
    /// Of an item, by its kind and name alone.
    package init(of item: RunLoop.Item) {
        switch item {
        case is RunLoop.Source: self.init("source", name: item.name)
        case is RunLoop.Observer: self.init("observer", name: item.name)
        case is RunLoop.MessagePort: self.init("message", name: item.name)
        case let port as RunLoop.EdgePort: self.init("stream", port.title)
        default: self.init("port", name: item.name)
        }
    }
}

extension RunLoop.Recorder {
    struct Registered: Sendable {
        let memory: Memory
        let name: String
    }

    struct Ended: Sendable {
        let number: UInt16
        let name: String
        let records: [RunLoop.Recorder.Record]
    }

    static let keepsEnded = Atomic(false)
    static let ended = Lock<[Ended]>([])

    /// Those of the loops that have not ended.
    static let all = Lock<[Registered]>([])

    static let ticksAreSteady = linux_ticks_are_steady() != 0
}
