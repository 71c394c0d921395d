public import Lua
internal import RunLoops

/// A chunk that the host itself runs: the script, a `-e` text, a line at the prompt.
public final class MainTask: FiberOwner {
    private unowned let host: LuaHost
    /// The chunk's description for reports of the running code.
    public var title = "the main chunk"
    /// For a chunk other than the script: its kind in recordings, and the name of the chunk.
    public var recordedAs: (word: String, place: String)?
    public override var recorded: (word: String, place: String)? { recordedAs }
    public private(set) var hasEnded = false
    public private(set) var hasFailed = false
    /// The task's fiber, until the task ends.
    private var fiber: Fiber?
    /// Called with the task's error. By default the error counts as an unhandled error.
    public var onFailure: ((Failure) -> Void)?
    /// Called with the coroutine, its error value on top, and the error.
    public var onError: ((Stack, Failure) -> Void)?
    /// Called when the task has ended well, with the number of results on top of the coroutine's stack.
    public var onResults: ((Stack, Int32) -> Void)?
    /// Called last, in every case.
    public var onEnd: (() -> Void)?

    /// Called with true when the task begins or goes on, and with false when it waits or has ended.
    public var onRunning: ((Bool) -> Void)? { didSet { watchesRunning = onRunning != nil } }

    init(_ host: LuaHost) {
        self.host = host
        super.init()
    }

    func begins(_ fiber: Fiber) { self.fiber = fiber }

    public override func runs(_ isRunning: Bool) { onRunning?(isRunning) }

    public override func ended(_ fiber: Fiber, results: Int32) {
        hasEnded = true
        self.fiber = nil
        host.mains.removeAll { $0 == fiber }
        defer { onEnd?() }
        guard let failure = host.failure(of: fiber, results: results) else {
            onResults?(fiber.stack, results)
            return
        }
        hasFailed = true
        if let onError {
            onError(fiber.stack, failure)
        } else if let onFailure {
            onFailure(failure)
        } else if !host.isEnd(failure) {
            host.report(failure, of: fiber.stack)
        }
    }

    /// Ends the task where it waits; if it runs, at its next wait. Returns false if the task has ended.
    @discardableResult
    public func cancel() -> Bool { fiber.map { host.cancel($0) } ?? false }

    /// The place of the task's wait: "rl.sleep" and the traceback.
    public var whereItWaits: String? {
        guard let fiber, fiber.state == .waiting else { return nil }
        let origin = host.origin(ofWait: fiber).map { ", \($0)" } ?? ""
        return Failure("it still waits in \(fiber.waitsIn)\(origin)", frames: host.frames(of: fiber)).text
    }

    /// Ends the task where it waits, without running its error handlers. Nothing is reported.
    public func abandon() {
        guard let fiber, fiber.state == .waiting else { return }
        fiber.cancelWait?(fiber)
        self.fiber = nil
        host.mains.removeAll { $0 == fiber }
        hasEnded = true
        fiber.owner = nil
        host.discard(fiber)
    }

    /// Closes the pending to-be-closed variables of the waiting task, which is never resumed. For the end of the
    /// process.
    public func unwind() {
        guard let fiber, fiber.state == .waiting else { return }
        fiber.cancelWait?(fiber)
        self.fiber = nil
        host.mains.removeAll { $0 == fiber }
        host.unwind(fiber)
    }
}
