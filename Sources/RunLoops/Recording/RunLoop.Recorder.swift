internal import CLinux
internal import Glibc
internal import Linux
internal import Synchronization

extension RunLoop {
    /// A flight recorder: the last things that happened in one loop, in a ring of its own.
    ///
    /// While it is off, the loop looks at one flag. While it is on, a callback costs one look at the processor's count of ticks and one
    /// record: where one callback follows the other, the end of the first is the beginning of the second, and of the pass that it is
    /// in; see `Record`. No memory is allocated, and the operating system is not called. Written on the loop's thread; read on any,
    /// see `copy`.
    @usableFromInline
    package struct Recorder: ~Copyable {
        @usableFromInline package internal(set) var isOn = false
        /// Unlike that of any other in the process.
        package internal(set) var number: UInt16 = 0
        /// What its loop is called: "main", or its thread's name.
        var name = ""
        var wakingLabels: [Handle.WakingCall: UInt32] = [:]
        var waitNames = WaitNames()
        /// When to begin by itself, by the loop's coarse clock; 0: not known yet.
        var beginsAt: Int64 = 0
        /// Times are ticks of the processor, not nanoseconds.
        var usesTicks = false
        unowned(unsafe) private var poller: Poller
        /// When somebody last looked at the clock; 0: something may have taken time since.
        var moment: UInt64 = 0
        /// The same before the kernel was last asked what is ready.
        var beforeLook: UInt64 = 0
        /// The mode of a pass that has begun and has no record yet; 0: there is none. And when it has.
        var pass: UInt32 = 0
        var passBegin: UInt64 = 0

        var ring: UnsafeMutablePointer<Record>?
        /// How many records there ever were.
        var next: UInt64 = 0
        /// When there are so many, `reader` is called, on the loop's thread.
        var limit = UInt64.max
        var reader: (() -> Bool)?
        /// When it is next called though nothing is about to be lost, as a stamp.
        var readBy = UInt64.max
        /// How long after the last time that is: soon at first, so that a program that is killed early leaves something.
        private var readInterval = Self.shortestReadInterval
        private var nextWhenRead: UInt64 = 0
        private static let shortestReadInterval: Int64 = 100_000_000
        private static let longestReadInterval: Int64 = 1_000_000_000
        /// The first record since it was last turned on, and the runs that were in progress then.
        var start: UInt64 = 0
        let levelsAtStart: UnsafeMutablePointer<Level>
        var levelCountAtStart = 0
        /// What a request is called whose owner does not say what it is.
        var requestLabel: UInt32 = 0
        /// A moment, by both clocks.
        var anchor = Anchor()

        struct Anchor {
            var ticks: UInt64 = 0
            var date: Int64 = 0
        }

        /// Since when there are records, by the monotonic clock: what the ring has lost is not counted.
        package var recordsSince: Int64 { anchor.date }

        /// The callback in progress.
        var call = Call()
        var outer: [Call] = []
        /// The runs and the callbacks in progress that were told of, outermost first. In raw memory, for other threads to copy.
        let levels: UnsafeMutablePointer<Level>
        var levelCount = 0

        /// The last of the flow numbers, and of those records that may be extended.
        var lastFlow: UInt32 = 0
        var lastRequestRecord = UInt64.max
        var lastBytesRecord = UInt64.max
        /// Records before this one are told, and remain as they are.
        var firstUntold: UInt64 = 0

        /// A callback that takes longer is the longest yet, or to be told of.
        private var notable: UInt64 = 0
        /// The longest callback, in ticks.
        private(set) var longest: UInt64 = 0
        /// The same in nanoseconds.
        var longestTime: Int64 {
            longest == 0 ? 0 : usesTicks ? Int64(Double(longest) / Self.speed()) : Int64(clamping: longest)
        }
        /// Callbacks that take longer are told of.
        var slow = UInt64.max { didSet { notable = min(longest, slow) } }
        var slowHandler: ((_ label: UInt32, _ began: Int64, _ nanoseconds: Int64) -> Void)?

        struct Level: BitwiseCopyable {
            var object: UInt32
            var isRun: Bool
        }

        /// Records of a ring. A power of two.
        package static let capacity = 1 << 14
        static let deepest = 64

        init(_ poller: Poller) {
            self.poller = poller
            levels = .allocate(capacity: Self.deepest)
            levels.initialize(repeating: Level(object: 0, isRun: false), count: Self.deepest)
            levelsAtStart = .allocate(capacity: Self.deepest)
            levelsAtStart.initialize(repeating: Level(object: 0, isRun: false), count: Self.deepest)
        }

        func free() {
            if let ring { munmap(ring, Self.capacity * MemoryLayout<Record>.stride) }
            levels.deallocate()
            levelsAtStart.deallocate()
            waitNames.free()
        }

        // MARK: Time
        // What is called for each record is mutating, whether it changes anything or not: else the compiler copies the whole for it.

        @inline(__always)
        mutating func stamp() -> UInt64 { usesTicks ? linux_ticks() : stampOfClock() }

        @inline(never)
        private mutating func stampOfClock() -> UInt64 { UInt64(bitPattern: poller.now()) }

        @inline(__always)
        mutating func freshMoment() -> UInt64 {
            if moment == 0 { moment = stamp() }
            return moment
        }

        /// So many nanoseconds, in ticks.
        func ticks(_ nanoseconds: Int64) -> UInt64 {
            guard usesTicks else { return UInt64(max(0, nanoseconds)) }
            return UInt64(max(0, Double(nanoseconds) * Self.speed()))
        }

        // MARK: Writing

        @inline(__always)
        private mutating func write(_ record: Record) {
            guard let ring else { return }
            ring[Int(truncatingIfNeeded: next & UInt64(Self.capacity - 1))] = record
            linux_publish(&next, next &+ 1)
            if next >= limit { full() }
        }

        /// The same of what does not tell of the pass that it is the first in.
        @inline(__always)
        mutating func put(_ record: Record) {
            if pass != 0 { putPass() }
            write(record)
        }

        @inline(never)
        mutating func putPass() {
            let mode = pass
            pass = 0
            write(Record(.pass, passBegin, object: mode))
        }

        @inline(never)
        private mutating func full() {
            // What the reader itself brings about waits until it is done.
            (limit, readBy) = (.max, .max)
            settle()
            hasBeenRead(wantsMore: reader?() ?? false)
        }

        /// What has begun and has no record yet gets one, so that it comes before what somebody reads from now on, whose clock is
        /// compared anew.
        mutating func settle() {
            if call.state == .pending {
                announce()
            } else if pass != 0 {
                putPass()
            }
        }

        mutating func hasBeenRead(wantsMore: Bool) {
            if !wantsMore { reader = nil }
            firstUntold = next
            nextWhenRead = next
            readBy = wantsMore ? stamp() &+ ticks(readInterval) : .max
            // What the reader itself brings about finds room, too.
            limit = wantsMore ? next + UInt64(Self.capacity - 256) : .max
        }

        mutating func beginReading() {
            readInterval = Self.shortestReadInterval
            hasBeenRead(wantsMore: true)
        }

        /// What was recorded a while ago is read now, whoever may end the process in the meantime.
        @inline(never)
        mutating func beSeen() {
            readInterval = min(readInterval * 2, Self.longestReadInterval)
            full()
        }

        /// Somebody reads, and there is something that is not read.
        var isUnread: Bool { readBy != .max && next != nextWhenRead }

        /// Nanoseconds until that is to be read.
        mutating func timeUntilRead() -> Int64 {
            let now = stamp()
            guard readBy > now else { return 0 }
            return usesTicks ? Int64(Double(readBy - now) / Self.speed()) : Int64(clamping: readBy - now)
        }

        /// Something that is not a leaf of its callback.
        @inline(__always)
        mutating func tell(_ record: Record) {
            if call.state == .pending { announce() }
            put(record)
        }

        /// Something is sent. The callback that does so need not be told of for that: its own record comes behind.
        @inline(__always)
        mutating func tellOut(_ record: Record) {
            guard call.state == .pending else { return put(record) }
            var record = record
            record.flags = Flags.inside
            write(record)
        }

        @inline(never)
        private mutating func announce() {
            call.state = .told
            enter(Level(object: call.record.object, isRun: false))
            var record = call.record
            record.kind = Kind.begin.rawValue
            record.flags = 0
            record.a = UInt64(max(0, call.due))
            if record.task == 0 { record.task = call.fiber }
            put(record)
            guard call.ownFlow != 0 else { return }
            put(Record(.out, record.time, a: 1, flow: call.ownFlow))
            call.ownFlow = 0
        }

        mutating func enter(_ level: Level) {
            if levelCount < Self.deepest { levels[levelCount] = level }
            levelCount += 1
        }

        // MARK: Callbacks

        /// A callback begins, at the moment at which the last thing ended.
        @inline(__always)
        package mutating func begin(_ object: UInt32, due: Int64 = 0, flow: UInt32 = 0) {
            if call.state != .none { nest() }
            call.record = Record(.whole, freshMoment(), object: object, flow: flow)
            call.due = due
            call.ownFlow = 0
            call.fiber = 0
            call.state = .pending
        }

        /// The same, of what begins in the middle of something.
        package mutating func beginNow(_ object: UInt32, task: UInt32 = 0) {
            moment = 0
            begin(object)
            call.record.task = task
        }

        @inline(never)
        private mutating func nest() {
            if call.state == .pending { announce() }
            outer.append(call)
            call = Call()
            call.isNested = true
        }

        package mutating func end(missed: Int = 0) {
            guard call.state != .none else { return }
            let now = stamp()
            moment = now
            let taken = now &- call.record.time
            // What takes longer is told of by two records.
            if call.state == .pending, missed == 0, taken >> 32 == 0, call.due == 0 || call.record.flow == 0 {
                putWhole(taken)
                if taken > notable { note(taken) }
            } else {
                endTold(now, missed)
            }
            call.state = .none
            if call.isNested { endNested() }
        }

        /// Field by field into the ring: a record that was put together in memory would be copied in pieces larger than those in which
        /// it was written, and the processor would wait for these.
        @inline(__always)
        private mutating func putWhole(_ taken: UInt64) {
            let due = call.due
            var record = Record(
                due == 0 ? .whole : .due, call.record.time, flags: call.record.flags, object: call.record.object,
                a: due == 0 ? taken : UInt64(bitPattern: due),
                flow: due == 0 ? call.record.flow : UInt32(truncatingIfNeeded: taken), task: call.record.task)
            call.state = .none
            var upper: UInt64 = 0
            if pass != 0 {
                upper = record.time &- passBegin
                if pass >> 16 == 0, upper >> (due == 0 ? 32 : 0) == 0 {
                    record.flags |= Flags.beginsPass
                    record.thread = UInt16(truncatingIfNeeded: pass)
                    pass = 0
                } else {
                    upper = 0
                    putPass()
                }
            }
            if call.ownFlow != 0 {
                if upper == 0, due == 0 {
                    record.flags |= Flags.sends
                    upper = UInt64(call.ownFlow)
                } else {
                    putOwnFlow()
                }
            }
            record.a |= upper << 32
            write(record)
        }

        @inline(never)
        mutating func putOwnFlow(count: UInt64 = 1) {
            write(Record(.out, call.record.time, flags: Flags.inside, a: count, flow: call.ownFlow))
            call.ownFlow = 0
        }

        @inline(never)
        private mutating func endTold(_ now: UInt64, _ missed: Int) {
            if call.state == .pending { announce() }
            levelCount -= 1
            put(
                Record(
                    .end, now, flags: call.record.flags, object: call.record.object, a: UInt64(max(0, missed)),
                    task: call.record.task))
            let taken = now &- call.record.time
            let own = taken - min(taken, call.excused)
            if own > notable { note(own) }
            if !call.isNested { call.excused = 0 }
        }

        @inline(never)
        private mutating func endNested() {
            let excused = call.excused
            call = outer.popLast() ?? Call()
            call.excused &+= excused
        }

        /// - Parameter own: without what is excused.
        @inline(never)
        private mutating func note(_ own: UInt64) {
            longest = max(longest, own)
            notable = min(longest, slow)
            // A span is the script's own: its callback is told of.
            guard own > slow, Self.title(call.record.object)?.kind != "span" else { return }
            tellSlow(own)
            // What it lies in is not told of once more for that.
            if call.isNested { call.excused &+= own }
        }

        private func tellSlow(_ taken: UInt64) {
            let scale = usesTicks ? 1 / Self.speed() : 1
            let begin = call.record.time
            let began = usesTicks ? anchor.date(of: begin, scale: scale) : Int64(bitPattern: begin)
            slowHandler?(call.record.object, began, Int64(Double(taken) * scale))
        }
    }
}
