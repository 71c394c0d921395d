internal import CLinux
internal import Linux

extension SimulatedClock {
    /// A loop's membership in the clock's world. While the place exists and its loop does not sleep, the clock does not
    /// jump.
    public final class Place: Sendable {
        let clock: SimulatedClock
        /// Becomes readable when the loop must look at the clock again.
        let bell: Descriptor
        let number: Int

        init(_ clock: SimulatedClock, number: Int) throws(SystemError) {
            bell = try .event()
            self.clock = clock
            self.number = number
        }

        deinit { clock.leave(number) }

        /// Waits until it is the loop's turn. Call it on the loop's thread before the loop does anything.
        public func begin() { clock.begin(self) }
    }

    /// The clock's record of a loop.
    struct Sleeper: Sendable {
        enum Status: Sendable {
            /// The loop has not begun.
            case starting
            case running
            /// The loop's thread blocks in a system call or has worked for too long: the other loops do not wait for
            /// it.
            case away
            case sleeping
        }

        let number: Int
        let bell: Descriptor
        var status = Status.starting
        var epoll: CInt = -1
        var deadline = Int64.max
        /// The descriptors for which the loop waits, if they are known. `watchesDescriptors` is correct even if the
        /// list is not known.
        var watched: [CInt] = []
        var watchesDescriptors = false
        /// Whether this loop checks from time to time whether the loop that has the turn is blocked.
        var isWatching = false
        /// Whether the loop wakes when one of its descriptors becomes ready.
        var looks = false
        var thread: CInt = 0
        var runsSince: Int64 = 0
        /// The real time at which the clock first found the loop's thread in its present system call. `switches`: the
        /// thread's count of context switches at the last check.
        var restsSince: Int64?
        var switches = 0
        /// Set while the thread blocks in a read outside of its loop's wait: the thread's count of context switches at
        /// the last check.
        var blockedSwitches: Int?

        /// Whether an event should end the loop's sleep, but the loop has not woken yet.
        var isReady: Bool { status == .sleeping && linux_poll_now(epoll, Int16(POLLIN)) != 0 }

        mutating func fallAsleep(in epoll: CInt, until deadline: Int64, _ watched: [CInt], watches: Bool) {
            status = .sleeping
            self.epoll = epoll
            self.deadline = deadline
            self.watched = watched
            watchesDescriptors = watches
        }
    }

    /// The reasons for which simulated time has waited for the real world.
    public struct Reasons: OptionSet, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        /// Programs that work, or other processes of the family.
        public static let programs = Reasons(rawValue: 1)
        /// Descriptors that something outside can make ready.
        public static let descriptors = Reasons(rawValue: 2)
        /// Threads with the status `away`.
        public static let threads = Reasons(rawValue: 4)
        /// Listening sockets, signals and changes of files.
        public static let listeners = Reasons(rawValue: 8)
        /// Results of threads of this process that make blocking calls for its loops.
        public static let answers = Reasons(rawValue: 16)
    }
}
