extension RunLoop {
    /// The name of a set of things a loop watches together. CFRunLoopMode, NSRunLoopMode.
    ///
    /// Any string is a mode. A mode comes into being when something is added to it. It is forgotten when it holds nothing and does
    /// not run, unless it is a common one.
    public struct Mode: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral value: String) { rawValue = value }
        public var description: String { rawValue }

        /// Where things go unless told otherwise. kCFRunLoopDefaultMode.
        public static let `default`: Mode = "default"
        /// Not a mode but a way to say "every mode in the common set"; a loop cannot run in it. kCFRunLoopCommonModes.
        public static let common: Mode = "common"
        /// NSEventTrackingRunLoopMode.
        public static let eventTracking: Mode = "event_tracking"
        /// NSModalPanelRunLoopMode.
        public static let modal: Mode = "modal"
        /// NSConnectionReplyMode.
        public static let connectionReply: Mode = "connection_reply"
    }

    /// The points of a pass at which observers are told. CFRunLoopActivity, with its bits.
    public struct Activity: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let entry = Activity(rawValue: 1)
        public static let beforeTimers = Activity(rawValue: 2)
        public static let beforeSources = Activity(rawValue: 4)
        public static let beforeWaiting = Activity(rawValue: 32)
        public static let afterWaiting = Activity(rawValue: 64)
        public static let exit = Activity(rawValue: 128)
        public static let all = Activity(rawValue: 0x0FFF_FFFF)

        /// Which of Apple's ten steps of a pass it is the word of, for one activity.
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

    /// Why a run ended. CFRunLoopRunResult, with its numbers.
    public enum RunResult: Int, Sendable {
        /// The mode holds nothing that could ever happen.
        case finished = 1
        /// Somebody called `stop`.
        case stopped = 2
        /// The time is over.
        case timedOut = 3
        /// A source was handled, and the run was to return after the first.
        case handledSource = 4
    }

    /// Which order of events observers see.
    public enum Sequence: Sendable {
        /// The documented one: a port-based source that is ready is handled at once, without before- and after-waiting.
        case documented
        /// CoreFoundation's: before- and after-waiting are sent in every pass that handled no custom source.
        case coreFoundation
    }
}
