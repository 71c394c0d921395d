extension RunLoop {
    /// Calls back at a date, once or again and again. CFRunLoopTimer, NSTimer.
    ///
    /// It never fires early by the monotonic clock. A repeating timer stays on its grid, however late a fire is or however
    /// long a callback takes: with an interval of 10 ms and a first callback that takes 25 ms it fires at 10, 40, 50 ms;
    /// what was passed over is counted in `missed`. A timer may be in several modes of one loop, and fires once for each
    /// date, in whichever of them runs. A loop keeps the timers that are in its modes alive. Not thread-safe: use it on the
    /// thread of its loop.
    public final class Timer {
        let node: NodePointer
        public let name: String
        /// For its owner's use: what it is for.
        package var purpose = 0
        private let callback: (Timer, Int) -> Void

        /// - Parameters:
        ///   - fireDate: the first fire; a date that is past means at once.
        ///   - interval: nil or zero: it fires once and is then invalid.
        ///   - tolerance: how much later than its date it may fire so that the loop sleeps less often; at most half the
        ///     interval is used.
        ///   - order: of timers with the same date, lower ones fire first; then older ones.
        ///   - callback: gets the number of whole intervals passed over since the fire before.
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

        public var isValid: Bool { node.pointee.isValid }
        public var repeats: Bool { node.pointee.repeats }
        public var order: Int { node.pointee.order }
        public var interval: Duration { .nanoseconds(node.pointee.interval) }

        public var tolerance: Duration {
            get { .nanoseconds(node.pointee.tolerance) }
            set { node.pointee.setTolerance(newValue.wholeNanoseconds) }
        }

        /// Off: the loop fires it while it runs, but does not run for its sake.
        public var keepsAlive: Bool {
            get { node.pointee.keepsAlive }
            set { node.setKeepsAlive(newValue) }
        }

        /// When it fires next. Setting it moves the grid of a repeating timer too; it does nothing when the timer is
        /// invalid. CFRunLoopTimerSetNextFireDate.
        public var fireDate: Instant {
            get { Instant(nanoseconds: node.pointee.fireDate) }
            set { node.setFireDate(newValue.nanoseconds) }
        }

        /// Calls the callback now. A timer that fires once is then invalid; the dates of a repeating one stay as they are.
        /// `-[NSTimer fire]`.
        public func fire() { node.fire() }

        /// Takes it out of all modes. Its callback never runs afterwards. CFRunLoopTimerInvalidate.
        public func invalidate() { node.invalidate() }

        /// The timer that a node is the memory of; nil if its owner is another.
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
            override func title(of node: NodePointer) -> Recorder.Title? {
                .init("timer", name: timer(node)?.takeUnretainedValue().name ?? "")
            }
        }
    }

    /// Calls back once, in any of these modes.
    @discardableResult
    package func callBack(
        at date: Instant, order: Int = 0, in modes: [Mode] = [.common],
        _ callback: @escaping (Timer, _ missed: Int) -> Void
    ) -> Timer {
        let timer = Timer(fireDate: date, order: order, callback: callback)
        for mode in modes { add(timer, to: mode) }
        return timer
    }

    public func add(_ timer: Timer, to mode: Mode = .default) { add(timer.node, to: mode) }
    public func remove(_ timer: Timer, from mode: Mode = .default) { remove(timer.node, from: mode) }
    public func contains(_ timer: Timer, in mode: Mode = .default) -> Bool { contains(timer.node, in: mode) }
}
