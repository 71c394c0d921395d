package import Linux
package import RunLoops

/// The world of new threads: the clock of their loops, and the initial contents of their states.
package struct ThreadWorld: Sendable {
    /// The reason why no more threads may begin.
    package typealias Refusal = SystemError
    /// Called on the thread that starts a new thread. Returns a function that makes the poller of the new thread's
    /// loop, on the new thread.
    package var expectThread: @Sendable () throws(Refusal) -> @Sendable () -> Poller = { { EpollPoller() } }
    /// Prepares the state of a new thread, whose libraries are open. Returns an error message, or nil.
    package var prepare: @Sendable (LuaHost) -> String? = { _ in nil }
}
