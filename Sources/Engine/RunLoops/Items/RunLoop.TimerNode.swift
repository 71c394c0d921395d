extension RunLoop {
    /// The memory of a timer.
    ///
    /// `RunLoop.Timer` is the timer for Swift programs. A host that has its own timer objects, such as Lua userdata,
    /// can store a node in each of them, at a fixed address. This saves one object for each timer. The rules:
    /// initialize the node in place. While the node is in a mode or fires, its owner keeps the memory alive: from the
    /// call of `TimerOwner.retain` to that of `release`. Use a node only on the thread of its loop.
    public struct TimerNode {
        /// The date of the next fire, in nanoseconds of the loop's clock.
        public internal(set) var fireDate: Int64
        /// Nanoseconds; 0 for a timer that does not repeat.
        public let interval: Int64
        public internal(set) var tolerance: Int64
        /// Among timers with the same date, lower orders fire first.
        public let order: Int
        public internal(set) var isValid = true
        public internal(set) var isFiring = false
        /// Whether the callback has set the next date, which then replaces the computed one.
        var dateWasSet = false
        /// See `RunLoop.Timer.keepsAlive`.
        public internal(set) var keepsAlive = true
        /// See `RunLoop.Item.mayAnswer`.
        var mayAnswer = false
        /// The number of dates that were skipped since the last fire because its callback took long.
        var passedOver: Int32 = 0
        /// Breaks ties between equal dates and orders.
        var age: UInt64 = 0
        /// The queue for exactly those modes that the timer is in; nil if the timer is in no mode.
        var queue: Unmanaged<TimerQueue>?
        /// The timer's index in the queue's heap; -1 if not there.
        var heapIndex: Int32 = -1
        /// The timer's latest index in the batch of timers about to fire.
        var batchIndex: Int32 = 0
        /// The timer's label in recordings, set by its owner or when it fires; 0 until then.
        package var label: UInt32 = 0
        /// How many entries of the batch of timers about to fire are this timer: one for each nested run that found it
        /// due.
        var batchPlaces: Int16 = 0
        /// Whether the timer's owner has put off the fire to a later date.
        var isPutOff = false
        /// The timer in whose callback this timer fires; nil if it fires outside of timer callbacks.
        var outerFiring: NodePointer?
        let owner: Unmanaged<TimerOwner>
        /// A value for the owner's use.
        public var context: Int

        /// - Parameters:
        ///   - fireDate: The date of the first fire, in nanoseconds of the loop's clock.
        ///   - interval: Nanoseconds between fires. With 0 or less the timer fires once.
        ///   - tolerance: Nanoseconds by which the timer may fire late, limited to half the interval.
        ///   - order: Among timers with the same date, lower orders fire first.
        ///   - owner: Not retained; it must outlive the node.
        ///   - context: A value for the owner's use.
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

        /// Whether `other` owns the node.
        public func owner(is other: TimerOwner) -> Bool {
            owner.toOpaque() == Unmanaged.passUnretained(other).toOpaque()
        }

        /// Whether the timer is in a mode, or was added to the common modes.
        public var isScheduled: Bool { queue != nil }
        /// Whether the timer is or was in a mode.
        public var wasScheduled: Bool { age != 0 }
        /// Whether the timer has an interval.
        public var repeats: Bool { interval > 0 }

        /// Sets the tolerance, limited to half the interval, so that a repeating timer never falls behind its
        /// grid.
        public mutating func setTolerance(_ nanoseconds: Int64) {
            tolerance = max(0, interval > 0 ? min(nanoseconds, interval / 2) : nanoseconds)
        }
    }

    /// The owner of the memory and the callbacks of timer nodes. The loop calls the owner on its own thread.
    open class TimerOwner {
        public init() {}
        /// Whether `title` can return a title.
        package final var hasTitles = false
        /// Called when the timer is due. The timer may be invalidated meanwhile, but its memory must stay until
        /// `release`.
        open func fire(_ node: UnsafeMutablePointer<TimerNode>, missed: Int) {}
        /// Called when the node enters its first mode.
        open func retain(_ node: UnsafeMutablePointer<TimerNode>) {}
        /// Called when the node has left its last mode and does not fire. The loop does not touch it again.
        open func release(_ node: UnsafeMutablePointer<TimerNode>) {}
        /// The title of the timer in recordings; nil if the owner reports it when the timer fires.
        package func title(of node: UnsafeMutablePointer<TimerNode>) -> Title? { nil }
    }
}

typealias NodePointer = UnsafeMutablePointer<RunLoop.TimerNode>
