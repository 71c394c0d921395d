internal import Lua
internal import RunLoops

/// The end of a program with shutdown functions: `rl.on_shutdown`.
final class LuaShutdown: HostPart {
    /// The anchored function that begins the shutdown, or 0.
    private var function: UInt32 = 0
    /// Whether the shutdown functions are running.
    private(set) var isRunning = false
    /// The exit status after the shutdown functions have ended.
    var status: Int32 = 0

    /// - Parameter function: an anchored function, which gets the reason.
    func prepare(_ function: UInt32) {
        host.release(self.function)
        self.function = function
        System.deferSignals(true)
    }

    /// Returns whether the functions run now.
    func begin(_ reason: String) -> Bool {
        guard function != 0, !host.isClosed, let fiber = host.takeFiber() else { return false }
        fiber.stack.pushAnchored(function)
        host.push(text: reason, onto: fiber.stack)
        host.resume(fiber, arguments: 1)
        return true
    }

    /// Called when the shutdown functions begin. From then on, a second signal interrupts the functions.
    func begins() {
        host.release(function)
        function = 0
        isRunning = true
        System.deferSignals(false)
    }

    /// Ends the loop, and cancels all tasks, newest first.
    func end() {
        // Report the failures of the shutdown functions.
        host.reportFailures()
        isRunning = false
        if host.endingStatus == nil { host.endingStatus = status }
        host.cancelAllTasks()
        host.loop.stopAll()
    }

    override func reset() {
        host.release(function)
        function = 0
        isRunning = false
        status = 0
        System.deferSignals(false)
    }
}

extension LuaHost {
    /// Runs the script's shutdown functions, if there are any and they do not run already.
    ///
    /// - Parameters:
    ///   - reason: for example "SIGTERM".
    ///   - status: the exit status after the functions have ended.
    /// - Returns: whether the functions run now.
    public func beginShutdown(_ reason: String, status: Int32) -> Bool {
        guard let shutdown = existingPart(LuaShutdown.self) else { return false }
        shutdown.status = status
        return shutdown.begin(reason)
    }

    /// Whether the script's shutdown functions are running.
    public var isShuttingDown: Bool { existingPart(LuaShutdown.self)?.isRunning ?? false }

    /// Ends the shutdown because nothing in the loop could make the functions go on.
    public func endShutdown() { part(LuaShutdown.self).end() }

    /// Called when one of the shutdown functions has failed.
    public func shutdownFails() { part(LuaShutdown.self).status = 1 }
}
