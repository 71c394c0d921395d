package import Lua
internal import RunLoops

// Restricts observers of a run's end: they must not begin a wait that only a further run could end.

extension LuaHost {
    /// Calls an observer of the end of the innermost run.
    func whileLeaving(_ body: () -> Void) {
        let outer = depthLeft
        depthLeft = loop.depth
        body()
        depthLeft = outer
    }

    /// Whether the caller observes the end of the last run of this loop.
    var isLeavingForGood: Bool {
        guard depthLeft > 0, depthLeft == loop.depth else { return false }
        if endingStatus != nil { return true }
        return isInLastRun && loop.depth == 1 && !isShuttingDown && !LuaHost.hasThreads
    }

    static let tooLate =
        "the loop's last run is over, so this wait would never end; move work that waits at the end of the program "
        + "into a function given to rl.on_shutdown"

    /// Returns why the calling code may not wait, or nil if it may.
    package func reason(notToWaitIn stack: Stack) -> String? {
        reasonNotToWait(stack) ?? (isLeavingForGood ? Self.tooLate : nil)
    }
}
