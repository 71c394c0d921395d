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
    @usableFromInline
    package struct Recorder: ~Copyable {
        // What each callback needs lies together.
        @usableFromInline package internal(set) var isOn = false
        /// Times are ticks of the processor, not nanoseconds.
        var usesTicks = false
        /// Of the callback in progress.
        var state = State.none
        /// It began in the middle of another one, with no run in between.
        var isNested = false
        /// If it should turn out to wait, it is the first piece of this task.
        var fiber: UInt32 = 0
        /// The record of the callback in progress: in the ring, behind all others, as long as nothing else was recorded in it; then
        /// it is `told`, and says how it is going to end.
        var open: UnsafeMutablePointer<Record>
        /// Where in that its length goes.
        var length: UnsafeMutablePointer<UInt32>
        /// When somebody last looked at the clock; 0: something may have taken time since.
        var moment: UInt64 = 0
        var ring: UnsafeMutablePointer<Record>?
        /// How many records there ever were.
        var next: UInt64 = 0
        /// When there are so many, `reader` is called, on the loop's thread.
        var limit = UInt64.max
        /// A callback that takes longer is the longest yet, or to be told of, or too long for one record.
        private(set) var notable: UInt64 = 0
        /// The mode of a pass that has begun and has no record yet; 0: there is none. And when it has.
        var pass: UInt32 = 0
        var passBegin: UInt64 = 0
        /// When somebody had last looked at the clock before the kernel was last asked what is ready.
        var beforeLook: UInt64 = 0
        /// When `reader` is next called though nothing is about to be lost, as a stamp.
        var readBy = UInt64.max
        /// The last of the flow numbers, and of those records that may be extended.
        var lastFlow: UInt32 = 0
        /// What a request is called whose owner does not say what it is.
        var requestLabel: UInt32 = 0
        var lastRequestRecord = UInt64.max
        var lastBytesRecord = UInt64.max
        /// Records before this one are told, and remain as they are.
        var firstUntold: UInt64 = 0
        var waitNames = WaitNames()
        unowned(unsafe) private var poller: Poller
        /// Unlike that of any other in the process.
        package internal(set) var number: UInt16 = 0

        /// See `open`.
        let told: UnsafeMutablePointer<Record>
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
        var wakingLabels: [UInt32] = Array(repeating: 0, count: Handle.WakingCall.allCases.count)
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
            notable = min(longest, slow, Self.longestWhole)
        }
        /// The same in nanoseconds.
        var longestTime: Int64 {
            longest == 0 ? 0 : usesTicks ? Int64(Double(longest) / Self.speed()) : Int64(clamping: longest)
        }
        /// Callbacks that take longer are told of.
        var slow = UInt64.max { didSet { notable = min(longest, slow, Self.longestWhole) } }
        var slowHandler: ((_ label: UInt32, _ began: Int64, _ nanoseconds: Int64) -> Void)?

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
            told = .allocate(capacity: 1)
            told.initialize(to: Record(.whole, 0))
            open = told
            length = Self.lengthOfWhole(told)
            levels = .allocate(capacity: Self.deepest)
            levels.initialize(repeating: Level(object: 0, isRun: false), count: Self.deepest)
            levelsAtStart = .allocate(capacity: Self.deepest)
            levelsAtStart.initialize(repeating: Level(object: 0, isRun: false), count: Self.deepest)
        }

        func free() {
            if let ring { munmap(ring, Self.capacity * MemoryLayout<Record>.stride) }
            told.deallocate()
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

        /// It is there.
        @inline(__always)
        mutating func publish() {
            linux_publish(&next, next &+ 1)
            if next >= limit { full() }
        }

        @inline(__always)
        private mutating func write(_ record: Record) {
            guard let ring else { return }
            place(ring).pointee = record
            publish()
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

        /// Something that comes before the record of the callback in progress, which is in the ring.
        @inline(never)
        mutating func insert(_ record: Record) {
            guard let ring else { return }
            let callback = open.pointee
            open.pointee = record
            linux_publish(&next, next &+ 1)
            open = place(ring)
            open.pointee = callback
            length = Self.length(in: open)
            if next >= limit { full() }
        }

        private static func length(in record: UnsafeMutablePointer<Record>) -> UnsafeMutablePointer<UInt32> {
            record.pointee.kind == Kind.due.rawValue ? lengthOfDue(record) : lengthOfWhole(record)
        }

        /// The lower half of `a`.
        @inline(__always)
        static func lengthOfWhole(_ record: UnsafeMutablePointer<Record>) -> UnsafeMutablePointer<UInt32> {
            (UnsafeMutableRawPointer(record) + 16).assumingMemoryBound(to: UInt32.self)
        }

        /// `flow`.
        @inline(__always)
        static func lengthOfDue(_ record: UnsafeMutablePointer<Record>) -> UnsafeMutablePointer<UInt32> {
            (UnsafeMutableRawPointer(record) + 24).assumingMemoryBound(to: UInt32.self)
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
            if state == .pending {
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
    }
}
