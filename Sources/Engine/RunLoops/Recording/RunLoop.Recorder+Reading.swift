internal import CLinux
internal import Linux

// Reading of records.

extension RunLoop.Recorder {
    /// Ticks per nanosecond, measured from `origin` to now.
    static func speed() -> Double {
        let (first, now) = (origin, Anchor.now())
        return Double(now.ticks &- first.ticks) / Double(max(1, now.date - first.date))
    }

    /// The first reading of both clocks. The longer ago that reading was, the more precise is the speed; so the first
    /// use waits 0.2 ms.
    private static let origin: Anchor = {
        let first = Anchor.now()
        while Anchor.now().date < first.date + 200_000 {}
        return first
    }()

    // A function that reads another thread's loop copies single fields only, and no references: retaining an object
    // there would be a race. If the other thread may be writing the field, the function copies it with `peek`.

    private static func peek<Value>(_ place: UnsafePointer<Value>) -> Value {
        withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { room in
            guard let copy = room.baseAddress else { return place.pointee }
            linux_peek(copy, place, MemoryLayout<Value>.size)
            return copy.pointee
        }
    }

    /// Returns the records that the ring still holds. Safe on any thread while the loop exists.
    ///
    /// - Returns: The records, in nanoseconds, with begin records for everything in progress; and the number of records
    ///   before them.
    package static func copy(_ recorder: UnsafeMutablePointer<Self>) -> (records: [Record], lost: Int) {
        guard let ring = recorder.pointee.ring else { return ([], 0) }
        let capacity = UInt64(capacity)
        let present = present(recorder, ring)
        let end = present.end
        var first = end > capacity ? end - capacity : 0
        var raw = (first..<end).map { peek(ring + Int(truncatingIfNeeded: $0 & (capacity - 1))) }
        var open = present.levels
        // Records that were written meanwhile have replaced the oldest.
        let now = linux_published(&recorder.pointee.next)
        if now + 1 > capacity, now + 1 - capacity > first {
            let gone = min(UInt64(raw.count), now + 1 - capacity - first)
            raw.removeFirst(Int(gone))
            first += gone
        }
        var translation = Translation(recorder, recorder.pointee.anchor, passes: [false])
        // Find the runs and callbacks that were in progress at the first record.
        for record in raw.reversed() {
            switch Kind(rawValue: record.kind) {
            case .runEnd, .end: open.append(Level(object: record.object, isRun: record.kind == Kind.runEnd.rawValue))
            case .run, .begin: _ = open.popLast()
            default: break
            }
        }
        if let first = raw.first { translation.add(open, at: first.time) }
        for record in raw { translation.add(record) }
        if present.pass != 0 { translation.add(Record(.pass, present.passBegin, object: present.pass >> 16)) }
        if let callback = present.callback {
            let (pass, begin, out) = opened(callback)
            if let pass { translation.add(pass) }
            translation.add(begin)
            if let out { translation.add(out) }
        }
        return (translation.records, Int(first))
    }

    /// The events in progress after the last record.
    private struct Present {
        var end: UInt64
        var levels: [Level]
        var pass: UInt32
        var passBegin: UInt64
        /// The record of a callback whose beginning has no separate record yet.
        var callback: Record?
    }

    /// Reads fields of a running loop that belong to the same moment: reads them again if a record was added in
    /// between.
    private static func present(
        _ recorder: UnsafeMutablePointer<Self>, _ ring: UnsafeMutablePointer<Record>
    ) -> Present {
        var attempts = 0
        while true {
            let end = linux_published(&recorder.pointee.next)
            // Read it only if it surely points to memory of the recorder: for a moment it points past the ring's last
            // record.
            let open = peek(&recorder.pointee.open)
            let isThere = open == recorder.pointee.told || (ring..<ring + capacity).contains(open)
            let present = Present(
                end: end, levels: levels(recorder), pass: peek(&recorder.pointee.pass),
                passBegin: peek(&recorder.pointee.passBegin),
                callback: isThere && peek(&recorder.pointee.state).isPending ? peek(open) : nil)
            attempts += 1
            // While a loop records without a pause, no two readings find the same count of records, so give up after
            // 100 attempts.
            if linux_published(&recorder.pointee.next) == end || attempts == 100 { return present }
        }
    }

    private static func levels(_ recorder: UnsafeMutablePointer<Self>) -> [Level] {
        let levels = recorder.pointee.levels
        return (0..<max(0, min(peek(&recorder.pointee.levelCount), deepest))).map { peek(levels + $0) }
    }

    /// The position of a reader.
    package struct Position {
        fileprivate var next: UInt64
        fileprivate var anchor: Anchor
        /// For each run in progress at that point: whether a pass was in progress. Nil before anything was read.
        fileprivate var passes: [Bool]?
        /// The sends in a callback whose record is not written yet.
        fileprivate var inside: [Record] = []
        fileprivate var latest: UInt64 = 0
        /// The runs and callbacks that were in progress at that point.
        fileprivate let open: [Level]

        /// A position at the start of the recording.
        package init(start recorder: UnsafeMutablePointer<RunLoop.Recorder>) {
            next = recorder.pointee.start
            anchor = recorder.pointee.anchor
            open = (0..<recorder.pointee.levelCountAtStart).map { recorder.pointee.levelsAtStart[$0] }
        }

        /// A position after the newest record. Only on the loop's thread.
        package init(now recorder: UnsafeMutablePointer<RunLoop.Recorder>) {
            recorder.pointee.settle()
            next = recorder.pointee.next
            anchor = recorder.pointee.anchor
            if recorder.pointee.usesTicks { anchor = .now() }
            open = RunLoop.Recorder.levels(recorder)
        }
    }

    /// Reads all records since a position, and moves the position on. Only on the loop's thread, or on another thread
    /// while the loop cannot overwrite these records.
    package static func read(_ recorder: UnsafeMutablePointer<Self>, _ position: inout Position) -> [Record] {
        guard let ring = recorder.pointee.ring else { return [] }
        let end = linux_published(&recorder.pointee.next)
        var translation = Translation(recorder, position.anchor, passes: position.passes ?? [false])
        translation.inside = position.inside
        translation.latest = position.latest
        if position.passes == nil {
            let usesTicks = recorder.pointee.usesTicks
            let start = usesTicks ? position.anchor.ticks : UInt64(bitPattern: position.anchor.date)
            translation.add(position.open, at: start)
        }
        while position.next < end {
            translation.add(ring[Int(truncatingIfNeeded: position.next & UInt64(capacity - 1))])
            position.next += 1
        }
        position.passes = translation.passes
        position.inside = translation.inside
        position.latest = translation.latest
        // A close anchor makes dates precise.
        if recorder.pointee.usesTicks { position.anchor = translation.now }
        return translation.records
    }

    /// Translates the ring's records into records for readers, which have times in nanoseconds and one event each.
    private struct Translation {
        var records: [Record] = []
        private let number: UInt16
        private let waitNames: WaitNames
        private let anchor: Anchor
        private let usesTicks: Bool
        let now: Anchor
        private let scale: Double
        /// For each run in progress: whether a pass is in progress.
        private(set) var passes: [Bool]
        /// The sends in a callback whose record follows.
        var inside: [Record] = []
        /// The end of the last record. The next record never begins earlier, although each reading compares the clocks
        /// again.
        var latest: UInt64 = 0

        init(_ recorder: UnsafeMutablePointer<RunLoop.Recorder>, _ anchor: Anchor, passes: [Bool]) {
            self.anchor = anchor
            usesTicks = recorder.pointee.usesTicks
            number = recorder.pointee.number
            waitNames = peek(&recorder.pointee.waitNames)
            self.passes = passes
            now = Anchor.now()
            // Measure the scale between two readings of both clocks, if these are far enough apart.
            let (ticks, time) = (now.ticks &- anchor.ticks, now.date - anchor.date)
            scale = time > 50_000_000 ? Double(time) / Double(max(1, ticks)) : 1 / RunLoop.Recorder.speed()
        }

        private func date(_ moment: UInt64) -> UInt64 {
            UInt64(max(0, usesTicks ? anchor.date(of: moment, scale: scale) : Int64(bitPattern: moment)))
        }

        mutating func add(_ levels: [Level], at time: UInt64) {
            for level in levels { add(Record(level.isRun ? .run : .begin, time, object: level.object)) }
        }

        private mutating func append(_ record: Record) {
            var record = record
            record.thread = number
            record.time = max(record.time, latest)
            latest = record.time
            if record.kind == Kind.whole.rawValue { latest += record.a }
            if record.task != 0, record.kind != Kind.arrives.rawValue {
                record.task = UInt32(number & 1023) << Record.taskBits | record.task & Record.tasks
            }
            records.append(record)
        }

        mutating func add(_ raw: Record) {
            var record = raw
            record.time = date(raw.time)
            record.flags &= ~(Flags.inside | Flags.sends | Flags.beginsPass)
            if raw.task >= Record.unlessItWaits, raw.kind != Kind.arrives.rawValue { record.task = 0 }
            let sends = raw.flags & Flags.sends != 0
            if raw.flags & Flags.beginsPass != 0 {
                switch Kind(rawValue: raw.kind) {
                case .sleep:
                    add(Record(.pass, raw.time &- UInt64(raw.flow), object: raw.object))
                    (record.object, record.flow) = (0, 0)
                case .whole where !sends: add(Record(.pass, raw.time &- raw.a >> 32, object: UInt32(raw.thread)))
                default: add(Record(.pass, raw.time, object: UInt32(raw.thread)))
                }
            }
            switch Kind(rawValue: raw.kind) {
            case .pass:
                endPass(record.time)
                passes[passes.count - 1] = true
            case .run: passes.append(false)
            case .runEnd:
                endPass(record.time)
                if passes.count > 1 { passes.removeLast() }
            case .begin:
                append(record)
                return appendInside()
            case .end: record.flow = waitsIn(record)
            case .whole:
                let end = raw.time &+ raw.a & 0xFFFF_FFFF
                if sends {
                    // The send has the time of the beginning of the callback, so it comes first.
                    inside.insert(
                        Record(.out, record.time, a: 1, flow: UInt32(truncatingIfNeeded: raw.a >> 32)), at: 0)
                }
                guard record.flags == 0, inside.isEmpty else {
                    return addCallback(record, due: 0, raw.flow, until: end)
                }
                record.a = date(end) - record.time
            case .due: return addCallback(record, due: raw.a, 0, until: raw.time &+ UInt64(raw.flow))
            case .out where raw.flags & Flags.inside != 0:
                inside.append(record)
                return
            case .out: return addSent(record)
            default: break
            }
            append(record)
        }

        /// Adds a callback that has a single record in the ring.
        private mutating func addCallback(_ record: Record, due: UInt64, _ flow: UInt32, until end: UInt64) {
            var begin = record
            begin.kind = Kind.begin.rawValue
            (begin.flags, begin.a, begin.flow) = (0, due, flow)
            append(begin)
            appendInside()
            append(
                Record(
                    .end, date(end), flags: record.flags, object: record.object, flow: waitsIn(record),
                    task: record.task))
        }

        private func waitsIn(_ raw: Record) -> UInt32 {
            raw.flags & Flags.waits == 0 ? 0 : waitNames.label(raw.task >> Record.taskBits)
        }

        private mutating func appendInside() {
            guard !inside.isEmpty else { return }
            let sent = inside
            inside = []
            for record in sent { addSent(record) }
        }

        /// Adds one record for each of several sends in a row.
        private mutating func addSent(_ record: Record) {
            for index in 0..<UInt32(truncatingIfNeeded: record.a) {
                var one = record
                one.a = 0
                one.flow =
                    record.flow & ~(RunLoop.Recorder.counted - 1)
                    | (record.flow &+ index) & (RunLoop.Recorder.counted - 1)
                append(one)
            }
        }

        private mutating func endPass(_ time: UInt64) {
            guard passes[passes.count - 1] else { return }
            append(Record(.passEnd, time))
            passes[passes.count - 1] = false
        }
    }
}

extension RunLoop.Recorder.Anchor {
    /// The date of a moment in ticks.
    ///
    /// - Parameter scale: Nanoseconds per tick.
    func date(of moment: UInt64, scale: Double) -> Int64 {
        date + Int64(Double(Int64(bitPattern: moment &- ticks)) * scale)
    }

    /// The present time in ticks and in nanoseconds of the monotonic clock.
    static func now() -> Self { Self(ticks: linux_ticks(), date: linux_monotonic_now()) }
}
