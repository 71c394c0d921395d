package import Lua
internal import RunLoops

// What observers of a run's end may do: not what only a further run could bring to its end.

extension LuaHost {
    /// Calls an observer of the end of the innermost run.
    func whileLeaving(_ body: () -> Void) {
        let outer = depthLeft
        depthLeft = loop.depth
        body()
        depthLeft = outer
    }

    /// Whether the caller is told of the end of a run after which nothing runs this loop any more.
    var isLeavingForGood: Bool {
        guard depthLeft > 0, depthLeft == loop.depth else { return false }
        if endingStatus != nil { return true }
        return isInLastRun && loop.depth == 1 && !isShuttingDown && !LuaHost.hasThreads
    }

    static let tooLate =
        "the loop's last run is over, and nobody brings this to its end; what takes time before the program ends belongs into "
        + "a function of rl.on_shutdown"

    /// The same for whoever wants to wait.
    package func reason(notToWaitIn stack: Stack) -> String? {
        reasonNotToWait(stack) ?? (isLeavingForGood ? Self.tooLate : nil)
    }
}
