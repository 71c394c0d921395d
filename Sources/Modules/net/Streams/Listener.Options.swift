extension Listener {
    public struct Options {
        /// How many connections may wait in the kernel.
        public var backlog = 4096
        /// With so many open none is accepted.
        public var maxConnections = Int.max
        /// Several listeners, as of several threads, share the port: the kernel deals connections out.
        public var reusePort = false
        /// Of a Unix socket's file.
        public var mode: UInt32 = 0o600
        public var settings = Stream.Settings.standard
        public init() {}
    }
}
