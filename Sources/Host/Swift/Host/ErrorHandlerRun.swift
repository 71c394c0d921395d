internal import Lua

/// One run of the function that `rl.on_error` has set.
final class ErrorHandlerRun: FiberOwner {
    private unowned let host: LuaHost
    private let failure: Failure

    /// - Parameter failure: the failure that the function gets.
    init(_ host: LuaHost, _ failure: Failure) {
        self.host = host
        self.failure = failure
        super.init()
    }

    override func ended(_ fiber: Fiber, results: Int32) {
        guard results < 0 else { return }
        var own = host.failure(of: fiber)
        // If the host has ended the function, the function may not have reported the failure that it got, so report
        // that failure.
        guard own.cause == .raised else { return host.report(failure, of: nil, mayCallHandler: false) }
        host.closeVariables(of: fiber, after: &own)
        own.toldOf = [failure]
        host.report(own, of: fiber.stack, mayCallHandler: false)
    }
}
