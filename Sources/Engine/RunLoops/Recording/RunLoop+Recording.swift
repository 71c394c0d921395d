internal import CLinux
internal import Linux
internal import Synchronization

// The recorder of a loop: turning it on and off, and naming what it records.

extension RunLoop {
    /// Begins to record, if the loop does not record yet. Returns false if there is no memory.
    ///
    /// - Parameter name: The name of the loop in recordings: "main", or the name of its thread.
    @discardableResult
    package func record(as name: String) -> Bool {
        guard !isRecording else { return true }
        let usesTicks = poller.isReal && Recorder.ticksAreSteady
        let anchor = usesTicks ? Recorder.Anchor.now() : Recorder.Anchor(ticks: 0, date: poller.now())
        guard recorder.pointee.turnOn(anchor, usesTicks: usesTicks, modes: runs.map { label(of: $0.mode) }) else {
            return false
        }
        probe.live = recorder
        recorder.pointee.name = name
        Recorder.all.withLock { all in
            if !all.contains(where: { $0.memory === recorderMemory }) {
                all.append(.init(memory: recorderMemory, name: name))
            }
        }
        return true
    }

    /// Ends recording. The records stay until the loop ends. The loop does not start to record again by itself.
    package func stopRecording() {
        probe.live = nil
        recorder.pointee.turnOff()
        recorder.pointee.beginsAt = .max
    }

    /// Calls `body` for each loop that was ever recorded and has not ended, in the order in which recording began. Safe
    /// on any thread. A loop may end meanwhile; its recorder stays until `body` returns.
    package static func forEachRecorder(_ body: (UnsafeMutablePointer<Recorder>, _ name: String) -> Void) {
        for one in Recorder.all.withLock({ $0 }) {
            withExtendedLifetime(one.memory) { body(one.memory.recorder, one.name) }
        }
    }

    /// Whether any loop is recorded at this moment. Safe on any thread.
    static var someAreRecorded: Bool { @inline(__always) get { Recorder.someAreOn.load(ordering: .relaxed) != 0 } }

    /// Whether any loop that was recorded has records. Safe on any thread.
    package static var hasRecords: Bool {
        Recorder.all.withLock { all in all.contains { !$0.memory.recorder.pointee.isEmpty } }
    }

    /// The records of loops that have ended since `keepEnded(true)`, in the order in which they ended.
    package static var ended: [(number: UInt16, name: String, records: [Recorder.Record])] {
        Recorder.ended.withLock { $0.map { ($0.number, $0.name, $0.records) } }
    }

    /// Sets whether loops keep their records when they end, and forgets those kept so far.
    package static func keepEnded(_ keeps: Bool) {
        Recorder.keepsEnded.store(keeps, ordering: .relaxed)
        Recorder.ended.withLock { $0 = [] }
    }

    /// Called when the loop ends. The recorder is freed when no thread reads it any more.
    func endRecording() {
        probe.live = nil
        recorder.pointee.endWriting()
        defer { probe.memory.release() }
        guard recorder.pointee.ring != nil else { return }
        if Recorder.keepsEnded.load(ordering: .relaxed) {
            let name = Recorder.all.withLock { $0.first { $0.memory === recorderMemory }?.name ?? "" }
            let records = Recorder.copy(recorder).records
            Recorder.ended.withLock { $0.append(.init(number: recorder.pointee.number, name: name, records: records)) }
        }
        Recorder.all.withLock { $0.removeAll { $0.memory === recorderMemory } }
    }

    /// Sets a handler that the loop calls on its thread after each callback that took longer than `limit`. `delay` is
    /// the part of that time for which the thread waited for a processor.
    package func watchSlowCallbacks(
        _ limit: Duration,
        _ handler: @escaping (_ label: UInt32, _ began: Instant, _ took: Duration, _ delay: Duration) -> Void
    ) {
        recorder.pointee.watchSlow(limit.wholeNanoseconds) { label, began, nanoseconds, delay in
            handler(label, Instant(nanoseconds: began), .nanoseconds(nanoseconds), .nanoseconds(delay))
        }
    }

    /// The number of timers, in all modes, that have become due since `date` and have not fired. O(n).
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

    /// 0 for a timer whose owner reports the label only when it fires.
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

    /// Records that the calling thread sends something, if its loop records. Returns the number of the flow, which the
    /// receiving callback records as its cause; 0 if nothing is recorded.
    ///
    /// - Parameter mode: The mode of the receiving items, if they are all in one mode.
    @inline(__always)
    static func noteSend(to mode: Unmanaged<ModeState>? = nil) -> UInt32 {
        someAreRecorded ? sendOfThisThread(to: mode) : 0
    }

    @inline(never)
    private static func sendOfThisThread(to mode: Unmanaged<ModeState>?) -> UInt32 {
        guard let (recorder, loop) = recorderOfThisThread else { return 0 }
        let isOwn = mode?._withUnsafeGuaranteedRef { $0.loopAddress == loop } ?? false
        if isOwn, let flow = recorder.pointee.sendsHere() { return flow }
        return recorder.pointee.isOn ? recorder.pointee.sends(isOwn: isOwn) : 0
    }

    /// Not retained: the loop lives as long as its thread.
    @inline(__always)
    private static var recorderOfThisThread: (UnsafeMutablePointer<Recorder>, loop: UnsafeMutableRawPointer)? {
        linux_thread_value().map { ($0, Unmanaged<RunLoop>.fromOpaque($0)) }.map { pointer, loop in
            (loop._withUnsafeGuaranteedRef { $0.recorder }, pointer)
        }
    }

    /// The labels for threads without a recorder, made once: making such a title takes longer than the wake-up itself.
    private static let foreignWakingLabels = Handle.WakingCall.allCases.map {
        Recorder.label(.init("other", "another thread · \($0.word)"))
    }

    /// Records that the calling thread wakes another loop. Returns two numbers: in the upper half a label that names
    /// the thread, in the lower half the flow of the send.
    static func noteWaking(_ call: Handle.WakingCall) -> UInt64 {
        guard someAreRecorded else { return 0 }
        guard let (recorder, _) = recorderOfThisThread, recorder.pointee.isOn else {
            return UInt64(foreignWakingLabels[call.rawValue]) << 32
        }
        return recorder.pointee.wakes(call)
    }

    /// Records a send with a flow number that both sides can compute.
    static func noteSend(flow: @autoclosure () -> UInt32) {
        guard someAreRecorded, let (recorder, _) = recorderOfThisThread,
            recorder.pointee.isOn
        else { return }
        recorder.pointee.sends(0, flow: flow())
    }

    /// Records the flow that caused the current callback.
    @inline(__always)
    package func noteCause(_ flow: UInt32) {
        if flow != 0, let live = probe.live { live.pointee.isCaused(by: flow) }
    }
}

// Records of long operations and of bytes through streams. Only on the loop's thread.
extension RunLoop {
    /// Records the beginning of an operation with this label. Returns the operation's number, for `noteEnd`; 0 if the
    /// loop does not record.
    package func noteBeginning(_ label: UInt32) -> UInt32 {
        probe.live.map { $0.pointee.opens(label) } ?? 0
    }

    /// Records the end of an operation.
    ///
    /// - Parameters:
    ///   - number: The result of `noteBeginning`. If this is 0, nothing is recorded.
    ///   - result: The outcome, such as a status.
    package func noteEnd(_ number: UInt32, _ label: UInt32, result: Int = 0, failed: Bool = false) {
        guard number != 0, isRecording else { return }
        recorder.pointee.closes(number, label, UInt64(max(0, result)), failed: failed)
    }

    /// Records the end of a database call. `waited` is how many microseconds the call waited for a connection.
    /// `operation` has the label in its upper half, and the result of `noteBeginning` in the lower half.
    package func noteAnswer(_ operation: UInt64, rows: Int, waited: Int64, failed: Bool) {
        let answer = Recorder.Record.answer(rows: UInt64(max(0, rows)), waited: UInt64(max(0, waited)))
        noteEnd(
            UInt32(truncatingIfNeeded: operation), UInt32(truncatingIfNeeded: operation >> 32), result: Int(answer),
            failed: failed)
    }

    /// Records that the operation with this number belongs to a group with this label, as a request belongs to its
    /// route.
    package func noteGroup(of number: UInt32, _ label: UInt32) {
        guard number != 0, isRecording else { return }
        recorder.pointee.belongs(number, label)
    }

    /// Records that bytes went through an item.
    @inline(__always)
    package func noteBytes(_ item: Item, _ count: Int, out: Bool) {
        if isRecording { recordBytes(item, count, out) }
    }

    @inline(never)
    private func recordBytes(_ item: Item, _ count: Int, _ out: Bool) {
        recorder.pointee.bytes(label(of: item), count, out: out, of: item.lasting)
    }
}

extension RunLoop.Recorder.Title {
    /// Makes a title from the kind and name of an item.
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

    /// The recorders of all loops that were ever recorded and have not ended.
    static let all = Lock<[Registered]>([])

    static let ticksAreSteady = linux_ticks_are_steady() != 0
}
