import Lua
import LuaRunLoops
import RunLoops

/// A Lua script that runs in simulated time, and the journal that it writes.
///
/// The script has `rl`, and `log(…)`, which adds a line to the journal.
struct TaskScript {
    /// The lines of `log`, and the messages of unhandled errors.
    private(set) var journal: [String] = []
    /// The result of the main loop's run.
    let result: RunLoop.RunResult
    /// Whether the script's main chunk has ended.
    let hasEnded: Bool
    /// The place where the script's main chunk waits.
    let place: String?
    /// The simulated time that has passed, in seconds.
    let seconds: Double

    init(_ text: String) throws {
        let loop = RunLoop(poller: SimulatedPoller())
        guard let host = LuaHost(loop: loop) else { throw Failure.noState }
        if let message = host.openLibraries() { throw Failure.message(message) }
        var errors: [String] = []
        host.onUncaught = { _, failure in errors.append(failure.text) }
        let start = loop.now
        let prologue = """
            local lines = {}
            journal = lines
            function log(...)
              local words = table.pack(...)
              for i = 1, words.n do words[i] = tostring(words[i]) end
              lines[#lines + 1] = table.concat(words, " ")
            end
            rl = require "runloop"

            """
        if let message = host.load(.text(prologue, name: "=prologue")) { throw Failure.message(message) }
        _ = host.start()
        if let message = host.load(.text(text, name: "=script")) { throw Failure.message(message) }
        guard let task = host.start() else { throw Failure.noState }
        result = loop.run()
        host.reportFailures()
        hasEnded = task.hasEnded
        place = task.whereItWaits
        seconds = Double((loop.now - start) / .milliseconds(1)) / 1000
        if let message = host.load(.text("return table.concat(journal, '\\n')", name: "=epilogue")) {
            throw Failure.message(message)
        }
        var logged = ""
        _ = host.start { task in
            task.onResults = { thread, _ in logged = thread.string(-1) ?? "" }
        }
        journal = logged.split(separator: "\n").map(String.init) + errors
        host.close()
    }

    enum Failure: Error {
        case noState
        case message(String)
    }
}
