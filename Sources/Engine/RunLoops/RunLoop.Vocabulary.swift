extension RunLoop {
    /// The name of a set of items that a loop serves together. CFRunLoopMode, NSRunLoopMode.
    ///
    /// Any string can be a mode. A mode is created when something is added to it. A loop may drop a mode that has no
    /// items, unless the mode is common or the loop runs in it.
    public struct Mode: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral value: String) { rawValue = value }
        public var description: String { rawValue }

        /// The mode for items that were added without naming a mode. kCFRunLoopDefaultMode.
        public static let `default`: Mode = "default"
        /// Stands for all modes in the common set. This set is not a mode itself: a loop cannot run in it.
        /// kCFRunLoopCommonModes.
        public static let common: Mode = "common"
        /// NSEventTrackingRunLoopMode.
        public static let eventTracking: Mode = "event_tracking"
        /// NSModalPanelRunLoopMode.
        public static let modal: Mode = "modal"
        /// NSConnectionReplyMode.
        public static let connectionReply: Mode = "connection_reply"
    }

    /// The points of a pass at which a loop calls observers. CFRunLoopActivity, with its bits.
    public struct Activity: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// A run has begun. kCFRunLoopEntry.
        public static let entry = Activity(rawValue: 1)
        /// A pass is about to fire timers. kCFRunLoopBeforeTimers.
        public static let beforeTimers = Activity(rawValue: 2)
        /// A pass is about to perform custom sources. kCFRunLoopBeforeSources.
        public static let beforeSources = Activity(rawValue: 4)
        /// The loop is about to sleep. kCFRunLoopBeforeWaiting.
        public static let beforeWaiting = Activity(rawValue: 32)
        /// The loop has woken, and has not handled the event yet. kCFRunLoopAfterWaiting.
        public static let afterWaiting = Activity(rawValue: 64)
        /// A run is about to return. kCFRunLoopExit.
        public static let exit = Activity(rawValue: 128)
        /// All activities. kCFRunLoopAllActivities.
        public static let all = Activity(rawValue: 0x0FFF_FFFF)

        /// The number of a single activity in Apple's list of the ten steps of a pass.
        var step: Int {
            switch self {
            case .entry: 1
            case .beforeTimers: 2
            case .beforeSources: 3
            case .beforeWaiting: 6
            case .afterWaiting: 8
            default: 10
            }
        }
    }

    /// The reason why a run ended. CFRunLoopRunResult, with its numbers.
    public enum RunResult: Int, Sendable {
        /// The mode holds nothing that could still call back.
        case finished = 1
        /// The run was stopped.
        case stopped = 2
        /// The time limit has passed.
        case timedOut = 3
        /// A source or port was handled, and `returnAfterSource` was true.
        case handledSource = 4
    }

    /// The order of the activities that observers see.
    public enum Sequence: Sendable {
        /// Apple's documented order: if a port is ready, the loop handles it at once, without before- and
        /// after-waiting.
        case documented
        /// CoreFoundation's order: each pass that handled no custom source sends before- and after-waiting.
        case coreFoundation
    }
}
