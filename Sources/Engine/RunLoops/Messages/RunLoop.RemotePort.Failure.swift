extension RunLoop.RemotePort {
    /// The reason why a message was not sent or got no answer. kCFMessagePortSendTimeout and the other CFMessagePort
    /// errors.
    public enum Failure: Error, Equatable, Sendable, CustomStringConvertible {
        case sendTimedOut
        case replyTimedOut
        /// The port was invalid before the message was sent. The message was not sent.
        case invalid
        /// The port became invalid meanwhile. The message may or may not have been handled.
        case becameInvalid
        /// The message could not be transmitted or handled.
        case transport(String)

        public var description: String {
            switch self {
            case .sendTimedOut: "send timed out"
            case .replyTimedOut: "reply timed out"
            case .invalid: "invalid"
            case .becameInvalid: "became invalid"
            case .transport(let reason): "transport error: \(reason)"
            }
        }
    }
}
