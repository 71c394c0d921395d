extension RunLoop {
    /// An object that performs queued requests, and distinguishes them by their contexts. The loop calls the owner on
    /// its own thread.
    open class RequestOwner {
        public init() {}
        /// Performs the request, which is no longer queued.
        open func perform(_ context: Int) {}
        /// Called when the request is dropped without being performed: it was cancelled, or its loop has ended.
        open func drop(_ context: Int) {}
    }

    /// Identifies a queued request of a loop, for `cancel`.
    public struct RequestToken {
        /// The number of the request. A loop numbers its requests from 1.
        public let number: UInt64

        public init(number: UInt64) { self.number = number }
    }
}
