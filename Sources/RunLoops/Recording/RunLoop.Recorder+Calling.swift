// Callbacks: they begin, what happens in them, and end.

extension RunLoop.Recorder {
    /// How far a callback has come.
    enum State: UInt8 {
        /// There is none.
        case none
        /// Its record is at the end of the ring, and only its length is missing.
        case pending
        /// Its beginning is recorded.
        case told
    }

    // MARK: Begin and end

    /// A callback begins, at the moment at which the last thing ended.
    @inline(__always)
    package mutating func begin(_ object: UInt32, due: Int64 = 0, flow: UInt32 = 0) {
        if state != .none { nest() }
        guard let ring else { return }
        let record = place(ring)
        record.pointee = Record(
            due == 0 ? .whole : .due, freshMoment(), object: object, a: UInt64(bitPattern: due), flow: flow)
        open = record
        length = due == 0 ? Self.lengthOfWhole(record) : Self.lengthOfDue(record)
        fiber = 0
        state = .pending
        if pass != 0 { beginPassHere() }
    }

    /// The same, of what begins in the middle of something.
    package mutating func beginNow(_ object: UInt32, task: UInt32 = 0) {
        moment = 0
        begin(object)
        open.pointee.task = task
    }

    /// The record of the callback tells of the pass as well.
    @inline(__always)
    private mutating func beginPassHere() {
        guard passBegin == open.pointee.time, pass >> 16 == 0 else { return beginEarlierPass() }
        open.pointee.flags = Flags.beginsPass
        open.pointee.thread = UInt16(truncatingIfNeeded: pass)
        pass = 0
    }

    @inline(never)
    private mutating func beginEarlierPass() {
        let earlier = open.pointee.time &- passBegin
        let mode = pass
        pass = 0
        guard mode >> 16 == 0, earlier >> 32 == 0, open.pointee.a == 0 else {
            return insert(Record(.pass, passBegin, object: mode))
        }
        open.pointee.flags = Flags.beginsPass
        open.pointee.thread = UInt16(truncatingIfNeeded: mode)
        open.pointee.a = earlier << 32
    }

    @inline(never)
    private mutating func nest() {
        if state == .pending { announce() }
        outer.append(suspended)
        isNested = true
        excused = 0
    }

    @inline(__always)
    package mutating func end() {
        let now = stamp()
        moment = now
        let taken = now &- open.pointee.time
        guard state == .pending, !isNested, taken <= notable else { return endApart(now, 0) }
        length.pointee = UInt32(truncatingIfNeeded: taken)
        state = .none
        publish()
    }

    /// - Parameter missed: how many intervals of the timer whose callback it was.
    @inline(__always)
    mutating func end(missed: Int) {
        if missed == 0 { end() } else { endMissing(missed) }
    }

    @inline(never)
    private mutating func endMissing(_ missed: Int) {
        moment = stamp()
        endApart(moment, missed)
    }

    /// What is the longest yet, or lies in another, or is told of by two records.
    @inline(never)
    private mutating func endApart(_ now: UInt64, _ missed: Int) {
        guard state != .none else { return }
        let record = open.pointee
        let taken = now &- record.time
        if state == .pending, missed == 0, taken <= Self.longestWhole {
            length.pointee = UInt32(truncatingIfNeeded: taken)
            state = .none
            publish()
            if taken > notable { note(taken, record) }
        } else {
            endTold(now, missed)
        }
        state = .none
        if isNested { endNested() }
    }

    private mutating func endTold(_ now: UInt64, _ missed: Int) {
        if state == .pending { announce() }
        levelCount -= 1
        let record = told.pointee
        put(
            Record(
                .end, now, flags: record.flags, object: record.object, a: UInt64(max(0, missed)), task: record.task))
        let taken = now &- record.time
        let own = taken - min(taken, excused)
        if own > notable { note(own, record) }
        if !isNested { excused = 0 }
    }

    private mutating func endNested() {
        let excused = excused
        goOn(with: outer.popLast() ?? Call())
        self.excused &+= excused
    }

    /// - Parameter own: without what is excused.
    private mutating func note(_ own: UInt64, _ record: Record) {
        noteLength(own)
        // A span is the script's own: its callback is told of.
        guard own > slow, Self.title(record.object)?.kind != "span" else { return }
        tellSlow(own, record)
        // What it lies in is not told of once more for that.
        if isNested { excused &+= own }
    }

    private func tellSlow(_ taken: UInt64, _ record: Record) {
        let scale = usesTicks ? 1 / Self.speed() : 1
        let began = usesTicks ? anchor.date(of: record.time, scale: scale) : Int64(bitPattern: record.time)
        slowHandler?(record.object, began, Int64(Double(taken) * scale))
    }

    // MARK: What happens in it

    /// Something that is not a leaf of its callback.
    @inline(__always)
    mutating func tell(_ record: Record) {
        if state == .pending { announce() }
        put(record)
    }

    /// Something is sent. The callback that does so need not be told of for that: its own record comes behind.
    @inline(__always)
    mutating func tellOut(_ record: Record) {
        guard state == .pending else { return put(record) }
        var record = record
        record.flags = Flags.inside
        insert(record)
    }

    /// There is room in the callback's record for one thing that it sends to its own loop.
    @inline(__always)
    mutating func sendsHere(_ flow: UInt32) -> Bool {
        guard state == .pending, open.pointee.a == 0 else { return false }
        open.pointee.a = UInt64(flow) << 32
        open.pointee.flags |= Flags.sends
        return true
    }

    /// Its beginning is recorded by itself, since there is more to tell of than fits.
    @inline(never)
    mutating func announce() {
        let record = open.pointee
        told.pointee = record
        open = told
        // Not by way of `told`: the compiler fails at that for ThreadSanitizer.
        open.pointee.flags &= Flags.waits | Flags.failed
        length = Self.lengthOfWhole(told)
        state = .told
        enter(Level(object: record.object, isRun: false))
        let (pass, begin, out) = Self.opened(record, fiber)
        if let pass { put(pass) }
        put(begin)
        if let out { put(out) }
    }

    // MARK: Callbacks around it

    /// A callback that another one, or a run, is in the middle of.
    struct Call: BitwiseCopyable {
        var record = Record(.whole, 0)
        var fiber: UInt32 = 0
        var excused: UInt64 = 0
        var state = State.none
        var isNested = false
    }

    /// The callback in progress, which is told of if there is any.
    private var suspended: Call {
        Call(record: told.pointee, fiber: fiber, excused: excused, state: state, isNested: isNested)
    }

    /// A run begins in the middle of it, at this moment: from now on there is none.
    mutating func suspend(_ moment: UInt64) {
        // It does not hold the loop meanwhile.
        if state != .none { excused &-= moment }
        outer.append(suspended)
        goOn(with: Call())
    }

    mutating func resume(_ moment: UInt64) {
        goOn(with: outer.popLast() ?? Call())
        if state != .none { excused &+= moment }
    }

    mutating func goOn(with call: Call) {
        (fiber, excused, state, isNested) = (call.fiber, call.excused, call.state, call.isNested)
        told.pointee = call.record
        open = told
        length = Self.lengthOfWhole(told)
    }

    /// What a callback's record says before it is known how long it takes.
    ///
    /// - Parameter fiber: the task that it is the first piece of, unless it says so itself.
    static func opened(_ record: Record, _ fiber: UInt32) -> (pass: Record?, begin: Record, out: Record?) {
        let isDue = record.kind == Kind.due.rawValue
        var begin = Record(
            .begin, record.time, object: record.object, a: isDue ? UInt64(max(0, Int64(bitPattern: record.a))) : 0,
            flow: record.flow, task: record.task == 0 ? fiber : record.task)
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
