package import Linux
package import RunLoops

/// The world that new threads live in: what their loops take for time, and what their states begin with.
package struct ThreadWorld: Sendable {
    /// Why there may be no more threads.
    package typealias Refusal = SystemError
    /// Called on the thread that starts a new one; what it returns is called on that, for its loop.
    package var expectThread: @Sendable () throws(Refusal) -> @Sendable () -> Poller = { { EpollPoller() } }
    /// Prepares a new thread's state, whose libraries are open. Returns an error message, or nil.
    package var prepare: @Sendable (LuaHost) -> String? = { _ in nil }
}
