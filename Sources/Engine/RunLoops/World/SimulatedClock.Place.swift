internal import CLinux
internal import Linux

extension SimulatedClock {
    /// One loop, as the clock sees it: as long as it exists and does not sleep, the clock does not jump.
    public final class Place: Sendable {
        let clock: SimulatedClock
        /// Becomes readable when the loop is to look at the clock again.
        let bell: Descriptor
        let number: Int

        init(_ clock: SimulatedClock, number: Int) throws(SystemError) {
            bell = try .event()
            self.clock = clock
            self.number = number
        }

        deinit { clock.leave(number) }

        /// On the loop's own thread, before the loop does anything: returns when it is its turn.
        public func begin() { clock.begin(self) }
    }

    /// What the clock knows of a loop.
    struct Sleeper: Sendable {
        enum Status: Sendable {
            /// It has not begun.
            case starting
            case running
            /// It is in a call that blocks, or works for so long that the others do not wait for it.
            case away
            case sleeping
        }

        let number: Int
        let bell: Descriptor
        var status = Status.starting
        var epoll: CInt = -1
        var deadline = Int64.max
        /// The descriptors that it waits for, if they are known; else only whether there are any.
        var watched: [CInt] = []
        var watchesDescriptors = false
        /// It looks, now and then, whether the one whose turn it is blocks.
        var isWatching = false
        /// It wakes when one of its descriptors becomes ready.
        var looks = false
        var thread: CInt = 0
        var runsSince: Int64 = 0
        /// When it was last seen in the same system call, for the first time; and how often it has waited until then.
        var restsSince: Int64?
        var switches = 0
        /// Of one that is away and sleeps in reading a descriptor: how often it has waited until it was last seen there.
        var blockedSwitches: Int?

        /// Whether anything woke it, which it has not noticed yet.
        var isReady: Bool { status == .sleeping && linux_poll_now(epoll, Int16(POLLIN)) != 0 }
    }

    /// What of the real world time has waited for.
    public struct Reasons: OptionSet, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        public static let programs = Reasons(rawValue: 1)
        public static let descriptors = Reasons(rawValue: 2)
        public static let threads = Reasons(rawValue: 4)
        public static let listeners = Reasons(rawValue: 8)
        /// Of calls that threads of this process make for its loops.
        public static let answers = Reasons(rawValue: 16)
    }
}
