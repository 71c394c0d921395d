public import Linux
internal import Synchronization

extension RunLoop {
    /// Says when the wall clock jumps: somebody has set it, or the machine has slept, during which the loop's own clock stands still.
    ///
    /// What is to happen at a moment of the wall clock is a timer whose date is computed anew then. It is in the loop's modes as
    /// any port is, does not keep the loop alive, and is not listed. In a simulated world it hears of `SimulatedClock.setWallClock`.
    /// Not thread-safe: use it on the thread of its loop. CFRunLoopTimer, whose dates are the wall clock's.
    public final class WallClockPort: EdgePort {
        private let jumped: () -> Void
        private var clock: Descriptor?
        private let wasSet = WasSet()

        /// What another thread may say.
        private final class WasSet: Sendable {
            let flag = Atomic<Bool>(false)
        }

        /// - Parameter jumped: called on the loop's thread; `RunLoop.wallClock` is the new time then.
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

        /// Crosses threads, and is looked into on the loop's only.
        private final class Weak: @unchecked Sendable {
            weak var object: WallClockPort?
            init(_ object: WallClockPort) { self.object = object }
        }

        public override func takeTurn() {
            wasSet.flag.store(false, ordering: .releasing)
            // First this, then a look at the clock: it may be set again in between.
            clock?.rearm()
            jumped()
        }

        public override func wasInvalidated() { clock = nil }
    }
}
