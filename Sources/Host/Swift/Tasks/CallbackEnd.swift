public import Lua

/// Calls a function when a callback has ended, after all its waits. If the callback fails, its error is reported as an
/// unhandled error.
public final class CallbackEnd: FiberOwner {
    private unowned let host: LuaHost
    private let then: () -> Void

    public init(_ host: LuaHost, _ then: @escaping () -> Void) {
        self.host = host
        self.then = then
        super.init()
    }

    public override func ended(_ fiber: Fiber, results: Int32) {
        if results < 0 { host.uncaught(fiber) }
        then()
    }
}
