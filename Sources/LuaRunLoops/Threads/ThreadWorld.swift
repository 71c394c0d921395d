internal import Linux
internal import RunLoops

/// The world that new threads live in: what their loops take for time, and what their states begin with.
struct ThreadWorld: Sendable {
    /// Called on the thread that starts a new one; what it returns is called on that, for its loop.
    var expectThread: @Sendable () throws(SystemError) -> @Sendable () -> Poller = { { EpollPoller() } }
    /// Prepares a new thread's state, whose libraries are open. Returns an error message, or nil.
    var prepare: @Sendable (LuaHost) -> String? = { _ in nil }
}
