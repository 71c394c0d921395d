extension RunLoop {
    /// A timer's memory.
    ///
    /// `RunLoop.Timer` is the timer for Swift. A host that has objects of its own can keep a node inside each, at an address
    /// that does not change, and save an object for each timer: this is what the Lua face does. The rules: initialize it
    /// in place; while the node is in a mode, or fires, its owner keeps the memory alive (`TimerOwner.retain` and
    /// `release` say when); all use is on the loop's thread.
    public struct TimerNode {
        /// Nanoseconds of the loop's clock.
        public internal(set) var fireDate: Int64
        /// Nanoseconds; 0 for a timer that fires once.
        public let interval: Int64
        public internal(set) var tolerance: Int64
        public let order: Int
        public internal(set) var isValid = true
        public internal(set) var isFiring = false
        /// Its date was set in its callback: that replaces the automatic next date.
        var dateWasSet = false
        /// See `RunLoop.Timer.keepsAlive`.
        public internal(set) var keepsAlive = true
        /// Fires passed over since the last one, while its callback ran.
        var passedOver: Int32 = 0
        /// Breaks ties between equal dates and orders.
        var age: UInt64 = 0
        /// The timers of the modes it is in; nil in no mode.
        var queue: Unmanaged<TimerQueue>?
        /// Its place in the queue's heap, or -1.
        var heapIndex: Int32 = -1
        /// Its latest place among the timers about to fire.
        var batchIndex: Int32 = 0
        /// For recordings: set by its owner, or while it fires; 0: none yet.
        package var label: UInt32 = 0
        /// How many times it is among the timers about to fire: once for each run, of those inside each other, that found
        /// it due.
        var batchPlaces: Int16 = 0
        /// Its owner found that its date has not come yet after all.
        var isPutOff = false
        /// While it fires: the timer in whose callback it does, if any.
        var outerFiring: NodePointer?
        let owner: Unmanaged<TimerOwner>
        /// For the owner's use.
        public var context: Int

        /// - Parameters:
        ///   - interval: nanoseconds; 0 or less: it fires once.
        ///   - owner: not retained.
        public init(
            fireDate: Int64, interval: Int64 = 0, tolerance: Int64 = 0, order: Int = 0, owner: borrowing TimerOwner,
            context: Int = 0
        ) {
            self.fireDate = fireDate
            self.interval = max(0, interval)
            self.order = order
            self.owner = Unmanaged.passUnretained(copy owner)
            self.context = context
            self.tolerance = 0
            setTolerance(tolerance)
        }

        public func owner(is other: TimerOwner) -> Bool {
            owner.toOpaque() == Unmanaged.passUnretained(other).toOpaque()
        }

        public var isScheduled: Bool { queue != nil }
        /// It is, or was, in a mode.
        public var wasScheduled: Bool { age != 0 }
        public var repeats: Bool { interval > 0 }

        /// At most half the interval, so that a repeating timer never falls behind its grid.
        public mutating func setTolerance(_ nanoseconds: Int64) {
            tolerance = max(0, interval > 0 ? min(nanoseconds, interval / 2) : nanoseconds)
        }
    }

    /// Who has the memory of timer nodes and knows their callbacks. All calls are made on the loop's thread.
    open class TimerOwner {
        public init() {}
        /// `title` says something.
        package final var hasTitles = false
        /// The timer is due. It may be invalidated meanwhile, but its memory stays until `release`.
        open func fire(_ node: UnsafeMutablePointer<TimerNode>, missed: Int) {}
        /// The node has entered its first mode.
        open func retain(_ node: UnsafeMutablePointer<TimerNode>) {}
        /// The node has left its last mode, and does not fire: the engine will not touch it again.
        open func release(_ node: UnsafeMutablePointer<TimerNode>) {}
        /// What recordings are to call the timer; nil if that is told when it fires.
        package func title(of node: UnsafeMutablePointer<TimerNode>) -> Recorder.Title? { nil }
    }
}

typealias NodePointer = UnsafeMutablePointer<RunLoop.TimerNode>
