extension Listener {
    public struct Options {
        /// Connections that may wait in the kernel.
        public var backlog = 4096
        /// The listener accepts no connection while this number is open.
        public var maxConnections = Int.max
        /// Several listeners, for instance one in each thread, share the port. The kernel distributes connections among
        /// them.
        public var reusePort = false
        /// Permissions of a Unix socket's file.
        public var mode: UInt32 = 0o600
        public var settings = Stream.Settings.standard
        public init() {}
    }
}
