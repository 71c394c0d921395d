extension RunLoop.RemotePort {
    /// Why a message was not sent, or got no answer. kCFMessagePortSendTimeout and its kin.
    public enum Failure: Error, Equatable, Sendable, CustomStringConvertible {
        case sendTimedOut
        case replyTimedOut
        /// The port was invalid before the message was sent: it was not.
        case invalid
        /// It became invalid meanwhile: the message may or may not have been handled.
        case becameInvalid
        /// It could not be carried, or not be handled.
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
