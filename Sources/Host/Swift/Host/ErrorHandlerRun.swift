internal import Lua

/// The function that `rl.on_error` has set runs for an error.
final class ErrorHandlerRun: FiberOwner {
    private unowned let host: LuaHost
    private let failure: Failure

    /// - Parameter failure: what the function is told of.
    init(_ host: LuaHost, _ failure: Failure) {
        self.host = host
        self.failure = failure
        super.init()
    }

    override func ended(_ fiber: Fiber, results: Int32) {
        guard results < 0 else { return }
        var own = host.failure(of: fiber)
        // Where the host has ended it, it may not have said anything; what it was told of must not be lost.
        guard own.cause == .raised else { return host.report(failure, of: nil, mayCallHandler: false) }
        host.closeVariables(of: fiber, after: &own)
        own.toldOf = [failure]
        host.report(own, of: fiber.stack, mayCallHandler: false)
    }
}
