extension RunLoop {
    /// Calls back at a date, once or repeatedly. CFRunLoopTimer, NSTimer.
    ///
    /// A timer never fires early by the monotonic clock. A repeating timer stays on its grid, however late it fires and
    /// however long its callback takes. With an interval of 10 ms and a first callback of 25 ms, it fires at 10, 40 and
    /// 50 ms, and `missed` counts the skipped dates. A timer may be in several modes of one loop; it fires once for
    /// each date, when the loop runs in any of these modes. A loop retains the timers in its modes. Not thread-safe:
    /// use a timer on the thread of its loop.
    public final class Timer {
        let node: NodePointer
        /// The name in descriptions and recordings.
        public let name: String
        /// A number for the owner's use: the purpose of the timer.
        package var purpose = 0
        private let callback: (Timer, Int) -> Void

        /// - Parameters:
        ///   - fireDate: The date of the first fire. A timer whose date has passed fires at once.
        ///   - interval: The time between fires. Nil or zero: the timer fires once and is then invalid.
        ///   - tolerance: How much later than its date the timer may fire, so that the loop wakes less often. At most
        ///     half the interval is used.
        ///   - order: Among timers with the same date, lower orders fire first, then older timers.
        ///   - name: The name in descriptions and recordings.
        ///   - callback: Called on the loop's thread, with the number of whole intervals that were skipped since the
        ///     last fire.
        public init(
            fireDate: Instant, interval: Duration? = nil, tolerance: Duration = .zero, order: Int = 0,
            name: String = "",
            callback: @escaping (Timer, _ missed: Int) -> Void
        ) {
            self.name = name
            self.callback = callback
            node = .allocate(capacity: 1)
            node.initialize(
                to: TimerNode(
                    fireDate: fireDate.nanoseconds, interval: interval?.wholeNanoseconds ?? 0,
                    tolerance: tolerance.wholeNanoseconds, order: order, owner: SwiftTimers.owner))
            node.pointee.context = Int(bitPattern: Unmanaged.passUnretained(self).toOpaque())
        }

        deinit { node.deallocate() }

        /// Whether the timer can still fire. CFRunLoopTimerIsValid.
        public var isValid: Bool { node.pointee.isValid }
        /// Whether the timer has an interval. CFRunLoopTimerDoesRepeat.
        public var repeats: Bool { node.pointee.repeats }
        /// Among timers with the same date, lower orders fire first. CFRunLoopTimerGetOrder.
        public var order: Int { node.pointee.order }
        /// The time between fires; zero if the timer does not repeat. CFRunLoopTimerGetInterval.
        public var interval: Duration { .nanoseconds(node.pointee.interval) }

        /// How much later than its date the timer may fire, limited to half the interval. CFRunLoopTimerSetTolerance.
        public var tolerance: Duration {
            get { .nanoseconds(node.pointee.tolerance) }
            set { node.pointee.setTolerance(newValue.wholeNanoseconds) }
        }

        /// Whether the timer keeps a run going. If false, a running loop fires the timer but does not run for it alone.
        public var keepsAlive: Bool {
            get { node.pointee.keepsAlive }
            set { node.setKeepsAlive(newValue) }
        }

        /// The date of the next fire. Setting it also moves the grid of a repeating timer. Setting it does nothing if
        /// the timer is invalid. CFRunLoopTimerGetNextFireDate, CFRunLoopTimerSetNextFireDate.
        public var fireDate: Instant {
            get { Instant(nanoseconds: node.pointee.fireDate) }
            set { node.setFireDate(newValue.nanoseconds) }
        }

        /// Calls the callback now. A timer that does not repeat is then invalid; a repeating timer keeps its dates.
        /// `-[NSTimer fire]`.
        public func fire() { node.fire() }

        /// Takes the timer out of all modes, for good: its callback never runs again. CFRunLoopTimerInvalidate.
        public func invalidate() { node.invalidate() }

        /// Returns the timer whose memory a node is; nil if the node has another owner.
        package static func of(_ node: UnsafeMutablePointer<TimerNode>) -> Timer? { SwiftTimers.timer(of: node) }

        private final class SwiftTimers: TimerOwner {
            // Shared by all threads; it has no state.
            nonisolated(unsafe) static let owner: TimerOwner = SwiftTimers()

            override init() {
                super.init()
                hasTitles = true
            }

            private func timer(_ node: NodePointer) -> Unmanaged<Timer>? {
                UnsafeRawPointer(bitPattern: node.pointee.context).map(Unmanaged.fromOpaque)
            }
            override func fire(_ node: NodePointer, missed: Int) {
                guard let timer = timer(node)?.takeUnretainedValue() else { return }
                timer.callback(timer, missed)
            }
            fileprivate static func timer(of node: NodePointer) -> Timer? {
                guard node.pointee.owner(is: owner) else { return nil }
                return UnsafeRawPointer(bitPattern: node.pointee.context)
                    .map { Unmanaged<Timer>.fromOpaque($0).takeUnretainedValue() }
            }
            override func retain(_ node: NodePointer) { _ = timer(node)?.retain() }
            override func release(_ node: NodePointer) { timer(node)?.release() }
            override func title(of node: NodePointer) -> Title? {
                .init("timer", name: timer(node)?.takeUnretainedValue().name ?? "")
            }
        }
    }

    /// Adds a timer that calls back once, in one of these modes.
    @discardableResult
    package func callBack(
        at date: Instant, order: Int = 0, in modes: [Mode] = [.common],
        _ callback: @escaping (Timer, _ missed: Int) -> Void
    ) -> Timer {
        let timer = Timer(fireDate: date, order: order, callback: callback)
        for mode in modes { add(timer, to: mode) }
        return timer
    }

    /// Adds a timer to a mode; with `.common`, to all present and future common modes. An invalid timer is not added.
    /// Adding a timer that is in another loop traps. O(log n). CFRunLoopAddTimer.
    public func add(_ timer: Timer, to mode: Mode = .default) { add(timer.node, to: mode) }
    /// Removes a timer from a mode; with `.common`, from all common modes if it was added to them.
    /// CFRunLoopRemoveTimer.
    public func remove(_ timer: Timer, from mode: Mode = .default) { remove(timer.node, from: mode) }
    /// Whether a timer is in a mode; with `.common`, whether it was added to the common modes. CFRunLoopContainsTimer.
    public func contains(_ timer: Timer, in mode: Mode = .default) -> Bool { contains(timer.node, in: mode) }
}
