internal import CLinux

// Records of callbacks: their beginning, the events in them, their end.

extension RunLoop.Recorder {
    /// The state of the record of the current callback.
    @usableFromInline enum State: UInt8, BitwiseCopyable {
        /// No callback is in progress.
        case none
        /// The record is at the end of the ring, and only its length is missing.
        case pending
        /// Like `pending`, for a callback that began within another.
        case pendingInside
        /// The ring has a separate record of the callback's beginning.
        case told

        @inline(__always) var isPending: Bool { self == .pending || self == .pendingInside }
    }

    // MARK: Begin and end

    /// Records the beginning of a callback. The callback begins when the previous event ended.
    @inline(__always)
    package mutating func begin(_ object: UInt32, flow: UInt32 = 0) {
        begin(.whole, object, a: 0, flow: flow)
    }

    /// Records the beginning of a timer's callback.
    @inline(__always)
    mutating func begin(_ object: UInt32, due: Int64) {
        begin(.due, object, a: UInt64(bitPattern: due), flow: 0)
    }

    @inline(__always)
    private mutating func begin(_ kind: Kind, _ object: UInt32, a: UInt64, flow: UInt32) {
        if state != .none { return beginInside(kind, object, a: a, flow: flow) }
        begin(kind, object, a: a, flow: flow, .pending)
    }

    @inline(__always)
    private mutating func begin(_ kind: Kind, _ object: UInt32, a: UInt64, flow: UInt32, _ state: State) {
        let now = freshMoment()
        open.pointee.begin(UInt32(kind.rawValue), now, object, a: a, flow: flow)
        self.state = state
        if pass != 0 { beginPassHere(kind, now) }
    }

    /// Records the beginning of a callback or task within another event, with a fresh reading of the clock.
    package mutating func beginNow(_ object: UInt32, task: UInt32 = 0) {
        moment = 0
        begin(object)
        open.pointee.task = task & Record.tasks
    }

    /// Lets the callback's record also stand for the beginning of the pass.
    @inline(__always)
    private mutating func beginPassHere(_ kind: Kind, _ now: UInt64) {
        guard passBegin == now else { return beginEarlierPass() }
        open.pointee.setWord(UInt32(kind.rawValue) | pass)
        pass = 0
    }

    @inline(never)
    private mutating func beginEarlierPass() {
        let earlier = open.pointee.time &- passBegin
        let begun = pass
        pass = 0
        guard earlier >> 32 == 0, open.pointee.kind == Kind.whole.rawValue else {
            return insert(Record(.pass, passBegin, object: begun >> 16))
        }
        open.pointee.setWord(UInt32(Kind.whole.rawValue) | begun)
        open.pointee.a = earlier << 32
    }

    @inline(never)
    private mutating func beginInside(_ kind: Kind, _ object: UInt32, a: UInt64, flow: UInt32) {
        if state.isPending { announce() }
        outer.append(suspended)
        isNested = true
        excused = 0
        openNext()
        begin(kind, object, a: a, flow: flow, .pendingInside)
    }

    @inline(__always)
    package mutating func end() { end(isDue: false) }

    @inline(__always)
    private mutating func end(isDue: Bool) {
        // If the recorder uses another clock, `notable` is 0, so that `complete` always fails.
        let now = linux_ticks()
        moment = now
        if !complete(now &- open.pointee.time, isDue: isDue) { endApart(now, 0) }
    }

    /// Records the end of a timer's callback.
    ///
    /// - Parameter missed: The number of intervals that were skipped.
    @inline(__always)
    mutating func end(missed: Int) {
        if missed == 0 { end(isDue: true) } else { endApart(linux_ticks(), missed) }
    }

    /// Ends a callback in the rare cases: it is the longest so far, lies within another, has a separate begin record,
    /// or is not measured in ticks.
    @inline(never)
    private mutating func endApart(_ ticks: UInt64, _ missed: Int) {
        let now = usesTicks ? ticks : stamp()
        moment = now
        guard state != .none else { return }
        let record = open.pointee
        let taken = now &- record.time
        if state.isPending, missed == 0, taken <= Self.longestWhole {
            open.pointee.setLength(UInt32(truncatingIfNeeded: taken), isDue: record.kind == Kind.due.rawValue)
            publish()
            note(taken, record)
        } else {
            endTold(now, missed)
        }
        if isNested { endNested() }
    }

    private mutating func endTold(_ now: UInt64, _ missed: Int) {
        if state.isPending { announce() }
        levelCount -= 1
        let record = told.pointee
        put(
            Record(
                .end, now, flags: record.flags, object: record.object, a: UInt64(max(0, missed)), task: record.task))
        state = .none
        openNext()
        let taken = now &- record.time
        note(taken - min(taken, excused), record)
        if !isNested { excused = 0 }
    }

    private mutating func endNested() {
        let excused = excused
        goOn(with: outer.popLast() ?? Call())
        self.excused &+= excused
    }

    /// Notes the length of a callback, and reports it if it was slow.
    ///
    /// - Parameter own: The callback's length, without the time that does not count as holding up the loop; see
    ///   `excused`.
    private mutating func note(_ own: UInt64, _ record: Record) {
        let delay = own >= delayable ? noteDelay(own, record) : 0
        noteLength(own)
        // Do not report a slow span, which the script has begun itself. The callback around the span is reported
        // instead.
        guard own > slow, Self.title(record.object)?.kind != "span" else { return }
        tellSlow(own, record, delay)
        // The callback around this one is not reported for the same time again.
        if isNested { excused &+= own }
    }

    private func tellSlow(_ taken: UInt64, _ record: Record, _ delay: Int64) {
        let scale = usesTicks ? 1 / Self.speed() : 1
        let began = usesTicks ? anchor.date(of: record.time, scale: scale) : Int64(bitPattern: record.time)
        slowHandler?(record.object, began, Int64(Double(taken) * scale), delay)
    }

    // MARK: Events during a callback

    /// Records an event within a callback that needs a begin record before it.
    @inline(__always)
    mutating func tell(_ record: Record) {
        if state.isPending { announce() }
        put(record)
    }

    /// Records a send. The callback needs no begin record before the send: the callback's own record follows in the
    /// ring.
    @inline(__always)
    mutating func tellOut(_ record: Record) {
        guard state.isPending else { return put(record) }
        var record = record
        record.flags = Flags.inside
        insert(record)
    }

    /// Whether the callback's record has room for one send to its own loop.
    var hasRoom: Bool { @inline(__always) mutating get { state == .pending && open.pointee.a == 0 } }

    @inline(__always)
    mutating func sendsHere(_ flow: UInt32) -> Bool {
        guard hasRoom else { return false }
        open.pointee.setSends(flow)
        return true
    }

    /// Writes a separate begin record for the callback. Most callbacks have a single record, which has no room for
    /// further events.
    @inline(never)
    mutating func announce() {
        let record = open.pointee
        told.pointee = record
        open = told
        // Do not use `told` here: the compiler then crashes when it builds with ThreadSanitizer.
        open.pointee.flags &= Flags.waits | Flags.failed
        state = .told
        enter(Level(object: record.object, isRun: false))
        let (pass, begin, out) = Self.opened(record)
        if let pass { put(pass) }
        put(begin)
        if let out { put(out) }
    }

    // MARK: Enclosing callbacks

    /// A callback that was interrupted by another one or by a nested run.
    struct Call: BitwiseCopyable {
        var record = Record(.whole, 0)
        var excused: UInt64 = 0
        var state = State.none
        var isNested = false
    }

    /// The callback in progress, to be resumed later. The begin record of such a callback is in the ring already.
    private var suspended: Call {
        Call(record: told.pointee, excused: excused, state: state, isNested: isNested)
    }

    /// Begins a nested run at this moment: from now on no callback is in progress.
    mutating func suspend(_ moment: UInt64) {
        // The callback does not hold up the loop during a nested run.
        if state != .none { excused &-= moment }
        outer.append(suspended)
        goOn(with: Call())
    }

    mutating func resume(_ moment: UInt64) {
        goOn(with: outer.popLast() ?? Call())
        if state != .none { excused &+= moment }
    }

    mutating func goOn(with call: Call) {
        (excused, state, isNested) = (call.excused, call.state, call.isNested)
        told.pointee = call.record
        open = told
        if state == .none { openNext() }
    }

    /// Returns the separate records for which the single record of an unfinished callback stands.
    static func opened(_ record: Record) -> (pass: Record?, begin: Record, out: Record?) {
        let isDue = record.kind == Kind.due.rawValue
        var begin = Record(
            .begin, record.time, object: record.object, a: isDue ? UInt64(max(0, Int64(bitPattern: record.a))) : 0,
            flow: record.flow, task: record.task & Record.tasks)
        if record.flags & Flags.beginsPass != 0 {
            guard isDue || record.a == 0 || record.flags & Flags.sends != 0 else {
                return (Record(.pass, record.time &- record.a >> 32, object: UInt32(record.thread)), begin, nil)
            }
            (begin.flags, begin.thread) = (Flags.beginsPass, record.thread)
        }
        guard record.flags & Flags.sends != 0 else { return (nil, begin, nil) }
        return (nil, begin, Record(.out, record.time, a: 1, flow: UInt32(truncatingIfNeeded: record.a >> 32)))
    }
}
