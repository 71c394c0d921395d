extension RunLoop {
    /// Who knows what a queued perform request is. Calls are made on the loop's thread.
    open class RequestOwner {
        public init() {}
        /// Do it. The request is no longer queued.
        open func perform(_ context: Int) {}
        /// It was dropped without being performed: cancelled, or its loop is gone.
        open func drop(_ context: Int) {}
    }

    /// Names a queued request of a loop, to cancel it.
    public struct RequestToken {
        /// Counts up from 1 with the loop's requests.
        public let number: UInt64

        public init(number: UInt64) { self.number = number }
    }
}
