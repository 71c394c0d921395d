internal import Lua
internal import RunLoops

/// The end of a program that has something to do before it: `rl.on_shutdown`.
final class LuaShutdown: HostPart {
    /// The anchored function that begins it, or 0.
    private var function: UInt32 = 0
    /// The functions run.
    private(set) var isRunning = false
    /// The exit status when they have.
    var status: Int32 = 0

    /// - Parameter function: an anchored one, which gets the reason.
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

    /// They run. A second signal is for the code that runs.
    func begins() {
        host.release(function)
        function = 0
        isRunning = true
        System.deferSignals(false)
    }

    /// All tasks are cancelled, newest first, and the loop ends.
    func end() {
        // Those of the functions.
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
    /// Has the script's shutdown functions run, if there are any and they do not run already.
    ///
    /// - Parameters:
    ///   - reason: "SIGTERM", for example.
    ///   - status: the exit status when they have.
    /// - Returns: whether they do now.
    public func beginShutdown(_ reason: String, status: Int32) -> Bool {
        guard let shutdown = existingPart(LuaShutdown.self) else { return false }
        shutdown.status = status
        return shutdown.begin(reason)
    }

    /// The script's shutdown functions run.
    public var isShuttingDown: Bool { existingPart(LuaShutdown.self)?.isRunning ?? false }

    /// The loop has nothing left that could let them go on.
    public func endShutdown() { part(LuaShutdown.self).end() }

    /// One of them has failed.
    public func shutdownFails() { part(LuaShutdown.self).status = 1 }
}
