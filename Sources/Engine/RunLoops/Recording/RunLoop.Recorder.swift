internal import CLinux
internal import Glibc
internal import Linux
internal import Synchronization

extension RunLoop {
    /// A flight recorder: the last things that happened in one loop, in a ring of its own.
    ///
    /// While it is off, the loop looks at one flag. While it is on, a callback costs one look at the processor's count of ticks and one
    /// record, which is begun where it lies in the ring, and completed when the callback ends: where one callback follows the other,
    /// the end of the first is the beginning of the second, and of the pass that it is in; see `Record`. No memory is allocated, and
    /// the operating system is not called. Written on the loop's thread; read on any, see `copy`.
    ///
    /// What is rare costs nothing where it is not: a virtual clock, a slow callback, one inside another, the end of the ring and a reader
    /// all fail one of the comparisons that there are anyway, and are told apart behind it.
    @usableFromInline
    package struct Recorder: ~Copyable {
        // What each callback needs lies together.
        @usableFromInline package internal(set) var isOn = false
        /// Times are ticks of the processor, not nanoseconds.
        var usesTicks = false
        /// Of the callback in progress.
        @usableFromInline var state = State.none
        /// It began in the middle of another one, with no run in between.
        var isNested = false
        /// A pass that has begun and has no record yet, as the record of a callback tells of it: see `word`; 0: there is none.
        var pass: UInt32 = 0
        /// The record of the callback in progress: in the ring, behind all others, as long as nothing else was recorded in it; then
        /// it is `told`, and says how it is going to end. Without a callback, where the next record goes.
        @usableFromInline package internal(set) var open: UnsafeMutablePointer<Record>
        /// When somebody last looked at the clock; 0: something may have taken time since.
        var moment: UInt64 = 0
        /// How many records there ever were.
        var next: UInt64 = 0
        /// When there are so many, the ring is at its end, or somebody is to read: see `turnOver`.
        private var limit = UInt64.max
        /// A callback that takes as long is the longest yet, or to be told of, or too long for one record; 0: the clock is not that of
        /// the processor.
        private var notable: UInt64 = 0
        var passBegin: UInt64 = 0
        /// What callbacks of the owner are called; nil while the recorder is off.
        package internal(set) var subjects: UnsafeMutablePointer<Subject>?
        var ring: UnsafeMutablePointer<Record>?
        /// When there are so many records, `reader` is called, on the loop's thread.
        private var readLimit = UInt64.max
        /// When somebody had last looked at the clock before the kernel was last asked what is ready.
        var beforeLook: UInt64 = 0
        /// When `reader` is next called though nothing is about to be lost, as a stamp.
        var readBy = UInt64.max { didSet { attendBy = min(readBy, checkBy) } }
        /// When the time that the thread has waited for a processor is next looked at, as a stamp; `max`: it is not known.
        var checkBy = UInt64.max { didSet { attendBy = min(readBy, checkBy) } }
        /// The earlier of both.
        private(set) var attendBy = UInt64.max
        /// That time when it was last looked at, in nanoseconds.
        var delayBefore: Int64 = 0
        /// The last of the flow numbers, and what those of requests have in common.
        var lastFlow: UInt32 = 0
        var requestFlows: UInt32 = 0
        /// What a request is called whose owner does not say what it is.
        var requestLabel: UInt32 = 0
        /// The number of the record behind the last of those that may be extended.
        var lastRequestRecord = UInt64.max
        var lastBytesRecord = UInt64.max
        /// Records before this one are told, and remain as they are.
        var firstUntold: UInt64 = 0
        var waitNames = WaitNames()
        unowned(unsafe) private var poller: Poller
        /// See `checkDelay`.
        let measuresDelays: Bool
        /// Unlike that of any other in the process.
        package internal(set) var number: UInt16 = 0

        /// See `open`.
        let told: UnsafeMutablePointer<Record>
        /// See `subjects`.
        var subjectMemory: UnsafeMutablePointer<Subject>?
        /// So much of the callback in progress does not count as holding the loop: the loop ran in it, or somebody was told already.
        var excused: UInt64 = 0
        /// Those around it, outermost first.
        var outer: [Call] = []
        /// The runs and the callbacks in progress that were told of, outermost first. In raw memory, for other threads to copy.
        let levels: UnsafeMutablePointer<Level>
        var levelCount = 0

        /// What its loop is called: "main", or its thread's name.
        var name = ""
        /// How it wakes others: see `wakes`.
        let wakingLabels: UnsafeMutablePointer<UInt32>
        /// So many ticks it has slept.
        var asleep: UInt64 = 0
        /// `max`: it does not sleep, or did already when it was turned on.
        var sleepBegan = UInt64.max
        /// When to begin by itself, by the loop's coarse clock; 0: not known yet.
        var beginsAt: Int64 = 0
        var reader: (() -> Bool)?
        /// How long after the last time it is called again: soon at first, so that a program that is killed early leaves something.
        private var readInterval = Self.shortestReadInterval
        private var nextWhenRead: UInt64 = 0
        private static let shortestReadInterval: Int64 = 100_000_000
        private static let longestReadInterval: Int64 = 1_000_000_000
        /// The first record since it was last turned on, and the runs that were in progress then.
        var start: UInt64 = 0
        /// Nothing has happened since then.
        var isEmpty: Bool { next == start && state == .none }
        let levelsAtStart: UnsafeMutablePointer<Level>
        var levelCountAtStart = 0
        /// A moment, by both clocks.
        var anchor = Anchor()

        struct Anchor {
            var ticks: UInt64 = 0
            var date: Int64 = 0
        }

        /// Since when there are records, by the monotonic clock: what the ring has lost is not counted.
        package var recordsSince: Int64 { anchor.date }

        /// The longest callback, in ticks.
        private(set) var longest: UInt64 = 0
        mutating func noteLength(_ length: UInt64) {
            longest = max(longest, length)
            setNotable()
        }
        mutating func setNotable() { notable = usesTicks ? min(longest, slow, Self.longestWhole, delayable) : 0 }
        /// The same in nanoseconds.
        var longestTime: Int64 { time(longest) }
        /// Nanoseconds asleep, while it was on.
        var asleepTime: Int64 { time(asleep) }
        private func time(_ length: UInt64) -> Int64 {
            length == 0 ? 0 : usesTicks ? Int64(Double(length) / Self.speed()) : Int64(clamping: length)
        }
        /// Callbacks that take longer are told of.
        var slow = UInt64.max { didSet { setNotable() } }
        var slowHandler: ((_ label: UInt32, _ began: Int64, _ nanoseconds: Int64, _ delay: Int64) -> Void)?

        /// The label of what callbacks are of, under the owner's key for it. The latest of a place stays.
        package struct Subject: BitwiseCopyable {
            package var key = UInt32.max
            package var label: UInt32 = 0
        }

        struct Level: BitwiseCopyable {
            var object: UInt32
            var isRun: Bool
        }

        /// Records of a ring. A power of two.
        package static let capacity = 1 << 14
        static let deepest = 64

        /// A record has room for a length of so much.
        static let longestWhole = UInt64(UInt32.max)

        init(_ poller: Poller) {
            self.poller = poller
            measuresDelays = poller.isReal
            told = .allocate(capacity: 1)
            told.initialize(to: Record(.whole, 0))
            open = told
            wakingLabels = .allocate(capacity: Handle.WakingCall.allCases.count)
            wakingLabels.initialize(repeating: 0, count: Handle.WakingCall.allCases.count)
            levels = .allocate(capacity: Self.deepest)
            levels.initialize(repeating: Level(object: 0, isRun: false), count: Self.deepest)
            levelsAtStart = .allocate(capacity: Self.deepest)
            levelsAtStart.initialize(repeating: Level(object: 0, isRun: false), count: Self.deepest)
        }

        func free() {
            if let ring { munmap(ring, Self.capacity * MemoryLayout<Record>.stride) }
            told.deallocate()
            subjectMemory?.deallocate()
            wakingLabels.deallocate()
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

        /// A date that is not before the present moment, by the loop's clock, without a look at that: so much cannot have passed.
        ///
        /// - Parameters:
        ///   - date: when the loop's clock was last read.
        ///   - ticks: the recorder's, before that.
        @inline(__always)
        mutating func latest(_ date: Int64, _ ticks: UInt64) -> Int64 {
            let passed = moment &- ticks
            guard moment != 0, passed >> 40 == 0 else { return .max }
            // No processor counts slower than 250 million in a second.
            return date.addingSaturating(Int64(passed) * 4)
        }

        /// So many nanoseconds, in ticks.
        func ticks(_ nanoseconds: Int64) -> UInt64 {
            guard usesTicks else { return UInt64(max(0, nanoseconds)) }
            return UInt64(max(0, Double(nanoseconds) * Self.speed()))
        }

        // MARK: Writing

        /// Where the next record goes.
        @inline(__always)
        mutating func place(_ ring: UnsafeMutablePointer<Record>) -> UnsafeMutablePointer<Record> {
            ring + Int(truncatingIfNeeded: next & UInt64(Self.capacity - 1))
        }

        /// The callback that is in progress is over, or there is none: the record that `open` has is there.
        @inline(__always)
        mutating func publish() {
            state = .none
            open += 1
            linux_publish(&next, next &+ 1)
            if next >= limit { turnOver() }
        }

        /// Not where a callback's record is at the end of the ring.
        @inline(__always)
        private mutating func write(_ record: Record) {
            if state != .none { return writeBesideTold(record) }
            guard ring != nil else { return }
            open.pointee = record
            publish()
        }

        @inline(never)
        private mutating func writeBesideTold(_ record: Record) {
            guard let ring else { return }
            place(ring).pointee = record
            linux_publish(&next, next &+ 1)
            if next >= limit { turnOver() }
        }

        /// The ring begins anew, or somebody is to read what it has.
        @inline(never)
        private mutating func turnOver() {
            if state == .none, let ring { open = place(ring) }
            let isFull = next >= readLimit
            setLimit()
            if isFull { full() }
        }

        mutating func setLimit() { limit = min(readLimit, (next | UInt64(Self.capacity - 1)) &+ 1) }

        /// No callback is in progress.
        mutating func openNext() {
            if let ring { open = place(ring) }
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
            write(Record(.pass, passBegin, object: mode >> 16))
        }

        /// Something that comes before the record of the callback in progress, which is in the ring.
        @inline(__always)
        mutating func insert(_ record: Record) {
            guard let ring else { return }
            let callback = open.pointee
            open.pointee = record
            linux_publish(&next, next &+ 1)
            open = place(ring)
            open.pointee = callback
            if next >= limit { turnOver() }
        }

        /// A callback that took so long, of whose record nothing else is missing, is over, unless there is more to it.
        @inline(__always)
        mutating func complete(_ taken: UInt64, isDue: Bool) -> Bool {
            guard taken < notable, state == .pending else { return false }
            open.pointee.setLength(UInt32(truncatingIfNeeded: taken), isDue: isDue)
            publish()
            return true
        }

        @inline(never)
        private mutating func full() {
            // What the reader itself brings about waits until it is done.
            (readLimit, readBy) = (.max, .max)
            setLimit()
            settle()
            hasBeenRead(wantsMore: reader?() ?? false)
        }

        /// What has begun and has no record yet gets one, so that it comes before what somebody reads from now on, whose clock is
        /// compared anew.
        mutating func settle() {
            if state.isPending {
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
            readLimit = wantsMore ? next + UInt64(Self.capacity - 256) : .max
            setLimit()
        }

        mutating func readNoMore() {
            reader = nil
            (readLimit, readBy) = (.max, .max)
            setLimit()
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
    }
}
