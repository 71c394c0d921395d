import Testing

@testable import Lua
@testable import LuaRunLoops
@testable import RunLoops

/// A Lua state with a loop in simulated time, in this process.
final class LuaWorld {
    let poller = SimulatedPoller()
    let loop: RunLoop
    let host: LuaHost
    /// Messages of errors that nobody handled.
    private(set) var uncaught: [String] = []

    init() throws {
        loop = RunLoop(poller: poller)
        host = try #require(LuaHost(loop: loop))
        host.onUncaught = { [unowned self] _, failure in uncaught.append(failure.text) }
        try #require(host.openLibraries(ignoringEnvironment: true) == nil)
    }

    deinit {
        host.close()
        loop.close()
    }

    /// Runs a script to its end, and then the loop until nothing keeps it running.
    ///
    /// - Returns: the script's result, one string.
    @discardableResult
    func run(_ script: String, for limit: Duration = .seconds(3600)) throws -> String {
        var result = "nothing"
        if let message = host.load(.text("local rl = require 'runloop' " + script, name: "=test")) {
            Issue.record("the script does not load: \(message)")
            return ""
        }
        let task = try #require(
            host.start { task in
                task.onFailure = { result = "failed: \($0.traceback)" }
                task.onResults = { thread, count in
                    result = ""
                    if count > 0 { result = thread.string(-1) ?? thread.describe(-1) }
                }
            })
        loop.run(in: .default, for: limit)
        if !task.hasEnded { result = "still waiting" }
        return result
    }
}
