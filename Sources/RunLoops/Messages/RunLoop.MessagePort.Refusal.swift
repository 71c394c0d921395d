extension RunLoop.MessagePort {
    /// Why a name cannot be had, or found.
    public struct Refusal: Error, Equatable {
        public let errno: Int32
        /// What, in words, with its subject.
        public let message: String

        public init(errno: Int32, message: String) {
            self.errno = errno
            self.message = message
        }
    }
}
