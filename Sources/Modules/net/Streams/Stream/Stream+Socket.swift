internal import CStreams

// Calls for sockets only.
extension Stream {
    /// The process at the other end of a Unix socket.
    public func credentials() throws(StreamFailure) -> (process: Int32, user: UInt32, group: UInt32) {
        guard transport == .socket, state != .closed else {
            throw StreamFailure("ENOTSOCK", "not a Unix socket (\(subject))")
        }
        var process: Int32 = 0
        var user: UInt32 = 0
        var group: UInt32 = 0
        let failure = net_credentials(fdToClose, &process, &user, &group)
        guard failure == 0 else { throw StreamFailure(errno: -failure, subject) }
        guard process > 0 else { throw StreamFailure("EOPNOTSUPP", "only Unix sockets have this (\(subject))") }
        return (process, user, group)
    }

    /// Sends small writes at once, without waiting for the acknowledgement of the last one. On by default.
    public func setNoDelay(_ on: Bool) throws(StreamFailure) { try set { net_set_no_delay($0, on ? 1 : 0) } }

    /// Lets the kernel check now and then whether a silent peer is still there. In seconds; 0 keeps the system's value.
    /// If all three are set, unacknowledged bytes end the connection after the same time. Otherwise this may take a
    /// quarter of an hour: the kernel does not probe the peer while it sends such bytes again.
    public func setKeepAlive(_ on: Bool, idle: Int32 = 0, interval: Int32 = 0, count: Int32 = 0) throws(StreamFailure) {
        try set { net_set_keep_alive($0, on ? 1 : 0, idle, interval, count) }
        guard on, idle > 0, interval > 0, count > 0 else { return }
        let seconds = Int(idle) + Int(interval) * Int(count)
        try set { net_set_user_timeout($0, Int32(min(seconds * 1000, Int(Int32.max)))) }
    }

    private func set(_ body: (Int32) -> Int32) throws(StreamFailure) {
        guard state != .closed else { throw closedFailure }
        let failure = isTCP && fdToClose >= 0 ? body(fdToClose) : -95  // EOPNOTSUPP
        guard failure == 0 else { throw StreamFailure(errno: -failure, subject) }
    }
}
