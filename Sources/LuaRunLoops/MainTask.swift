internal import CLuaSupport
public import Lua
internal import RunLoops

/// A chunk that the host itself runs: the script, a `-e` text, a line at the prompt.
public final class MainTask: FiberAttachment {
    private unowned let host: LuaHost
    public private(set) var hasEnded = false
    public private(set) var hasFailed = false
    /// What it waits in, while it does.
    private var fiber: Fiber?
    /// Called with its error's message and traceback; by default as for any error that nobody handles.
    public var onFailure: ((String) -> Void)?
    /// Called when it has ended well, with the number of results on top of the coroutine's stack.
    public var onResults: ((LuaThread, Int32) -> Void)?

    init(_ host: LuaHost) {
        self.host = host
        super.init()
    }

    func begins(_ fiber: Fiber) { self.fiber = fiber }

    public override func ended(_ fiber: Fiber, results: Int32) -> Bool {
        hasEnded = true
        hasFailed = results < 0
        self.fiber = nil
        if results >= 0 {
            onResults?(fiber.thread, results)
        } else if let onFailure {
            onFailure(host.explanation(of: fiber.thread))
        } else {
            host.uncaught(fiber)
        }
        return true
    }

    /// Ends it where it waits, or as soon as it wants to. Returns false if it has ended.
    @discardableResult
    public func cancel() -> Bool { fiber.map { host.cancel($0) } ?? false }

    /// Where it waits: "rl.sleep" and the traceback.
    public var whereItWaits: String? {
        guard let fiber, fiber.state == .waiting else { return nil }
        let text = "\(fiber.waitsIn)"
        guard lua_checkstack(fiber.thread, 2) != 0 else { return text }
        host.setScratch("it still waits in \(text)")
        guard cl_push_text(fiber.thread, host.host.pointee.scratch, host.host.pointee.length) == LUA_OK else { return text }
        defer { cl_pop(fiber.thread, 1) }
        return host.explanation(of: fiber.thread)
    }
}
