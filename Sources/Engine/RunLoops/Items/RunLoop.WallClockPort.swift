public import Linux
internal import Synchronization

extension RunLoop {
    /// Reports jumps of the wall clock. The wall clock jumps when it is set, and when the machine was suspended, since
    /// the loop's own clock stands still meanwhile. CFRunLoopTimer needs no such port, since its dates are dates of the
    /// wall clock.
    ///
    /// To call back at a time of the wall clock, compute the date of a timer again after each jump. The port is in the
    /// loop's modes as any port is, does not keep the loop alive, and is not listed. In simulated time it reports
    /// `SimulatedClock.setWallClock`. Not thread-safe: use it on the thread of its loop.
    public final class WallClockPort: EdgePort {
        private let jumped: () -> Void
        private var clock: Descriptor?
        private let wasSet = WasSet()

        /// A flag that another thread may set.
        private final class WasSet: Sendable {
            let flag = Atomic<Bool>(false)
        }

        /// - Parameters:
        ///   - loop: The loop whose world has the wall clock. The port must be added to this loop.
        ///   - jumped: Called on the loop's thread after a jump, when `RunLoop.wallClock` has the new time.
        /// - Throws: EMFILE, ENFILE or ENOMEM.
        public init(_ loop: RunLoop, jumped: @escaping () -> Void) throws(SystemError) {
            self.jumped = jumped
            super.init(serves: true, name: "wall clock")
            let handle = loop.handle
            let wasSet = wasSet
            let port = Weak(self)
            clock = try loop.poller.watchWallClock {
                guard !wasSet.flag.exchange(true, ordering: .acquiringAndReleasing) else { return }
                _ = handle.perform(in: [.common]) { _ in port.object?.signal() }
            }
            if let clock { watch(clock.number) }
        }

        /// A reference that another thread passes on, and that only the loop's thread reads.
        private final class Weak: @unchecked Sendable {
            weak var object: WallClockPort?
            init(_ object: WallClockPort) { self.object = object }
        }

        public override func takeTurn() {
            wasSet.flag.store(false, ordering: .releasing)
            // Rearm before reading the clock, since the clock may be set again in between.
            clock?.rearm()
            jumped()
        }

        public override func wasInvalidated() { clock = nil }
    }
}
