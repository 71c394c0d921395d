internal import CLinux
internal import Glibc
internal import Linux
internal import Synchronization

extension RunLoop {
    /// A flight recorder: the latest events of one loop, in a ring of its own.
    ///
    /// While it is off, it costs the loop the check of a flag. While it is on, a callback costs one reading of the
    /// processor's tick counter and one record, which is begun in place in the ring and completed when the callback
    /// ends. The end of a callback is also the beginning of the next one and of the pass around it; see `Record`. The
    /// recorder allocates no memory and makes no system call. Only the loop's thread writes; `copy` reads on any
    /// thread.
    ///
    /// Rare cases are a simulated clock, a slow callback, nested callbacks, the end of the ring, and a reader. Every
    /// callback makes one comparison that fails in all of these cases. Only if it fails, the recorder finds out which
    /// case it is.
    @usableFromInline
    package struct Recorder: ~Copyable {
        // The fields that each callback needs are next to each other.
        @usableFromInline package internal(set) var isOn = false
        /// Whether times are ticks of the processor rather than nanoseconds.
        var usesTicks = false
        /// The state of the callback in progress.
        @usableFromInline var state = State.none
        /// Whether the callback began within another one, without a run in between.
        var isNested = false
        /// The pass that has begun and has no record yet, in the form of `word`; 0 if there is none. The record of the
        /// pass's first callback may include the pass.
        var pass: UInt32 = 0
        /// The record of the callback in progress. As long as nothing else was recorded in the callback, this record is
        /// the last one in the ring. Afterwards `open` points to `told`, outside of the ring, where the recorder
        /// prepares the record of the callback's end. Without a callback, `open` points to the place of the next
        /// record.
        @usableFromInline package internal(set) var open: UnsafeMutablePointer<Record>
        /// The coarse-clock time, in nanoseconds, at which the last callback ended while the recorder was off. No
        /// foreign code has run since that time, so it can be the start of the next callback, without reading the
        /// clock. 0 if unknown.
        var quietSince: Int64 = 0
        /// The last reading of the clock; 0 if something may have taken time since.
        var moment: UInt64 = 0
        /// The number of records written so far.
        var next: UInt64 = 0
        /// The count of records at which the ring ends or the reader is due; see `turnOver`.
        private var limit = UInt64.max
        /// A callback of at least this length is the longest so far, must be reported, or is too long for one record. 0
        /// if times are not ticks.
        private var notable: UInt64 = 0
        var passBegin: UInt64 = 0
        /// Labels for the owner's callbacks; nil while the recorder is off.
        package internal(set) var subjects: UnsafeMutablePointer<Subject>?
        var ring: UnsafeMutablePointer<Record>?
        /// The count of records at which `reader` is called, on the loop's thread.
        private var readLimit = UInt64.max
        /// The last reading of the clock before the loop last asked the kernel what is ready.
        var beforeLook: UInt64 = 0
        /// The time at which `reader` is called next even if no record is about to be overwritten, as a stamp.
        var readBy = UInt64.max { didSet { attendBy = min(readBy, checkBy, lookBy) } }
        /// The time at which the thread's delay is read next, as a stamp; `max` if delays are unknown.
        var checkBy = UInt64.max { didSet { attendBy = min(readBy, checkBy, lookBy) } }
        /// The time at which `lookHandler` is called next, as a stamp.
        var lookBy = UInt64.max { didSet { attendBy = min(readBy, checkBy, lookBy) } }
        var look = Look()
        var lookHandler: ((_ share: Double, _ nanoseconds: Int64) -> Void)?
        /// The minimum of `readBy`, `checkBy` and `lookBy`.
        private(set) var attendBy = UInt64.max
        /// The thread's delay at the last reading, in nanoseconds.
        var delayBefore: Int64 = 0
        /// The last flow number, and the common bits of the flows of requests.
        var lastFlow: UInt32 = 0
        var requestFlows: UInt32 = 0
        /// The label of a request whose owner reports none.
        var requestLabel: UInt32 = 0
        /// The count of records just after the last record that may be extended.
        var lastRequestRecord = UInt64.max
        var lastBytesRecord = UInt64.max
        /// Records before this one have been read and must not change.
        var firstUntold: UInt64 = 0
        var waitNames = WaitNames()
        unowned(unsafe) private var poller: Poller
        /// See `checkDelay`.
        let measuresDelays: Bool
        /// A number that no other recorder of the process has.
        package internal(set) var number: UInt16 = 0

        /// The record to which `open` points after a begin record was written.
        let told: UnsafeMutablePointer<Record>
        /// The memory of `subjects`.
        var subjectMemory: UnsafeMutablePointer<Subject>?
        /// The time within the current callback that does not count as holding up the loop: time of nested runs, and
        /// time that was already reported for inner callbacks.
        var excused: UInt64 = 0
        /// The enclosing callbacks, outermost first.
        var outer: [Call] = []
        /// The runs and callbacks in progress that have begin records, outermost first. In raw memory, so that other
        /// threads can copy it.
        let levels: UnsafeMutablePointer<Level>
        var levelCount = 0

        /// The name of the loop: "main", or the name of its thread.
        var name = ""
        /// The labels for waking other loops; see `wakes`.
        let wakingLabels: UnsafeMutablePointer<UInt32>
        /// Ticks spent asleep.
        var asleep: UInt64 = 0
        /// The stamp at which the sleep began; `max` if the loop is awake, or was asleep when the recorder was turned
        /// on.
        var sleepBegan = UInt64.max
        /// The time of the loop's coarse clock at which the recorder begins by itself; 0 until it is set.
        var beginsAt: Int64 = 0
        /// Returns whether the loop has been running for a second. The first call only sets `beginsAt`.
        @inline(never)
        mutating func lasts(_ now: Int64) -> Bool {
            guard beginsAt != 0 else {
                beginsAt = now.addingSaturating(1_000_000_000)
                return false
            }
            beginsAt = .max
            return true
        }
        var reader: (() -> Bool)?
        /// The time between two calls of `reader`: short at first, so that a program that is killed early leaves some
        /// records.
        private var readInterval = Self.shortestReadInterval
        private var nextWhenRead: UInt64 = 0
        private static let shortestReadInterval: Int64 = 100_000_000
        private static let longestReadInterval: Int64 = 1_000_000_000
        /// The first record since the recorder was last turned on. `levelsAtStart` has the runs that were in progress
        /// at that record.
        var start: UInt64 = 0
        /// Whether nothing was recorded since the recorder was turned on.
        var isEmpty: Bool { next == start && state == .none }
        let levelsAtStart: UnsafeMutablePointer<Level>
        var levelCountAtStart = 0
        /// The readings of both clocks at the same moment.
        var anchor = Anchor()

        struct Anchor {
            var ticks: UInt64 = 0
            var date: Int64 = 0
        }

        /// The date of the first record, by the monotonic clock, in nanoseconds. Records that were overwritten do not
        /// count.
        package var recordsSince: Int64 { anchor.date }

        /// The longest callback, in ticks if the recorder uses them.
        private(set) var longest: UInt64 = 0
        mutating func noteLength(_ length: UInt64) {
            longest = max(longest, length)
            setNotable()
        }
        mutating func setNotable() { notable = usesTicks ? min(longest, slow, Self.longestWhole, delayable) : 0 }
        /// The longest callback until `takeLongest` was last called, in nanoseconds.
        var longestBefore: Int64 = 0
        /// The longest callback since then, in nanoseconds.
        var longestTime: Int64 { time(longest) }
        /// Returns the longest callback since the last call, in nanoseconds.
        mutating func takeLongest() -> Int64 {
            let time = longestTime
            longest = 0
            setNotable()
            return time
        }
        /// Nanoseconds spent asleep while the recorder was on.
        var asleepTime: Int64 { time(asleep) }
        private func time(_ length: UInt64) -> Int64 {
            length == 0 ? 0 : usesTicks ? Int64(Double(length) / Self.speed()) : Int64(clamping: length)
        }
        /// A callback that takes longer than this is reported to `slowHandler`.
        var slow = UInt64.max { didSet { setNotable() } }
        var slowHandler: ((_ label: UInt32, _ began: Int64, _ nanoseconds: Int64, _ delay: Int64) -> Void)?

        /// The label of the owner's object with this key. A later key with the same index replaces the entry.
        package struct Subject: BitwiseCopyable {
            package var key = UInt32.max
            package var label: UInt32 = 0
        }

        struct Level: BitwiseCopyable {
            var object: UInt32
            var isRun: Bool
        }

        /// The number of records in a ring. A power of two.
        package static let capacity = 1 << 14
        static let deepest = 64

        /// The longest length that fits into a single record.
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
        //
        // Functions that are called for each record are mutating even if they change nothing: otherwise the compiler
        // copies the whole struct for the call.

        @inline(__always)
        mutating func stamp() -> UInt64 { usesTicks ? linux_ticks() : stampOfClock() }

        @inline(never)
        private mutating func stampOfClock() -> UInt64 { UInt64(bitPattern: poller.now()) }

        @inline(__always)
        mutating func freshMoment() -> UInt64 {
            if moment == 0 { moment = stamp() }
            return moment
        }

        /// Returns an upper limit of the loop's present date, without reading the loop's clock.
        ///
        /// - Parameters:
        ///   - date: The last reading of the loop's clock.
        ///   - ticks: A reading of the recorder's clock that was taken just before `date`.
        @inline(__always)
        mutating func latest(_ date: Int64, _ ticks: UInt64) -> Int64 {
            let passed = moment &- ticks
            guard moment != 0, passed >> 40 == 0 else { return .max }
            // No processor counts fewer than 250 million ticks in a second.
            return date.addingSaturating(Int64(passed) * 4)
        }

        /// The number of ticks in this many nanoseconds.
        func ticks(_ nanoseconds: Int64) -> UInt64 {
            guard usesTicks else { return UInt64(max(0, nanoseconds)) }
            return UInt64(max(0, Double(nanoseconds) * Self.speed()))
        }

        // MARK: Writing

        /// The place of the next record.
        @inline(__always)
        mutating func place(_ ring: UnsafeMutablePointer<Record>) -> UnsafeMutablePointer<Record> {
            ring + Int(truncatingIfNeeded: next & UInt64(Self.capacity - 1))
        }

        /// Publishes the record at `open`, which is complete: a callback has ended, or none is in progress.
        @inline(__always)
        mutating func publish() {
            state = .none
            open += 1
            linux_publish(&next, next &+ 1)
            if next >= limit { turnOver() }
        }

        /// Writes a record. Do not call this while the callback's record is pending at the end of the ring.
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

        /// Called at the end of the ring, and when the reader is due.
        @inline(never)
        private mutating func turnOver() {
            if state == .none, let ring { open = place(ring) }
            let isFull = next >= readLimit
            setLimit()
            if isFull { full() }
        }

        mutating func setLimit() { limit = min(readLimit, (next | UInt64(Self.capacity - 1)) &+ 1) }

        /// Points `open` at the next place. No callback may be in progress.
        mutating func openNext() {
            if let ring { open = place(ring) }
        }

        /// Writes a record of a kind that cannot share its record with the beginning of a pass.
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

        /// Inserts a record before the pending record of the callback in progress.
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

        /// Completes the record of a callback with its length. Returns false if more must be done at its end.
        @inline(__always)
        mutating func complete(_ taken: UInt64, isDue: Bool) -> Bool {
            guard taken < notable, state == .pending else { return false }
            open.pointee.setLength(UInt32(truncatingIfNeeded: taken), isDue: isDue)
            publish()
            return true
        }

        @inline(never)
        private mutating func full() {
            // The reader must not be called again for records of its own effects.
            (readLimit, readBy) = (.max, .max)
            setLimit()
            settle()
            hasBeenRead(wantsMore: reader?() ?? false)
        }

        /// Writes begin records for the callback and the pass in progress, and sets a new anchor. A reader then finds
        /// these records before the following ones.
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
            // Leaves room for records of the reader's own effects.
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

        /// Calls the reader for older records, since the process may be killed at any time.
        @inline(never)
        mutating func beSeen() {
            readInterval = min(readInterval * 2, Self.longestReadInterval)
            full()
        }

        /// Whether there is a reader that has not read all records.
        var isUnread: Bool { readBy != .max && next != nextWhenRead }

        /// Nanoseconds until the reader is due.
        mutating func timeUntilRead() -> Int64 {
            let now = stamp()
            guard readBy > now else { return 0 }
            return usesTicks ? Int64(Double(readBy - now) / Self.speed()) : Int64(clamping: readBy - now)
        }
    }
}
