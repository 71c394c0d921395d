import Glibc
import LuaRunLoops
import RunLoops

/// Runs what the options ask for, in order.
final class Session {
    private let host: LuaHost
    private let options: Options
    private let arguments: [String]

    /// Exit statuses beyond lua's.
    private enum Status {
        static let mainNeverEnded: Int32 = 13
        static let unreadable: Int32 = 66
    }

    init(_ host: LuaHost, _ options: Options, _ arguments: [String]) {
        self.host = host
        self.options = options
        self.arguments = arguments
    }

    func run() -> Int32 {
        if let message = host.openLibraries(ignoringEnvironment: options.ignoresEnvironment) {
            Program.report(message)
            return 1
        }
        host.onUncaught = { [unowned self] host, text in
            if host.endingStatus == nil { Program.report(text) }
            end(host.endingStatus ?? 1)
        }
        host.handleSignals { [unowned self] signals in handle(signals) }
        let script = options.script
        guard host.setArguments(arguments, script: script ?? 0) else { return fail("not enough memory") }
        if options.version { Output.write(Program.banner + "\n", to: 1) }
        if !options.ignoresEnvironment, !runInitialization() { return 1 }
        for step in options.steps {
            if let status = perform(step) { return status }
        }
        if let script {
            if let status = runScript(arguments[script], Array(arguments[(script + 1)...])) { return status }
        } else if options.interactive || !hasWork {
            if options.interactive || isatty(0) != 0 {
                if !options.version { Output.write(Program.banner + "\n", to: 1) }
                return PlainPrompt(host).run()
            }
            if let status = runScript("-", []) { return status }
        }
        if let status = runMainLoop() { return status }
        if options.interactive, script != nil { return PlainPrompt(host).run() }
        return finish()
    }

    private var hasWork: Bool {
        options.version || options.steps.contains { if case .warnings = $0 { false } else { true } }
    }

    // MARK: Steps

    /// LUA_INIT, or its versioned form: a text, or @ and a file's name.
    private func runInitialization() -> Bool {
        for name in ["LUA_INIT_5_4", "LUA_INIT"] {
            guard let value = getenv(name) else { continue }
            let text = String(cString: value)
            let chunk: LuaHost.Chunk =
                text.hasPrefix("@") ? .file(String(text.dropFirst())) : .text(text, name: "=\(name)")
            return runToEnd(chunk) == nil
        }
        return true
    }

    private func perform(_ step: Options.Step) -> Int32? {
        switch step {
        case .warnings:
            host.turnWarningsOn()
            return nil
        case .execute(let text):
            return runToEnd(.text(Self.global, name: "=rlhost")) ?? runToEnd(.text(text, name: "=(command line)"))
        case .print(let text):
            return runToEnd(.text(Self.global, name: "=rlhost"))
                ?? runToEnd(.text("print(\(text)\n)", name: "=(command line)"))
        case .require(let name, let global):
            return runToEnd(
                .text("local name, global = ... _G[global] = require(name)", name: "=rlhost"), [name, global])
        }
    }

    private static let global = "rl = rl or require 'runloop'"

    /// Runs a chunk; if it waits, the main loop runs until it has ended. Returns an exit status, or nil to go on.
    private func runToEnd(_ chunk: LuaHost.Chunk, _ arguments: [String] = []) -> Int32? {
        if let message = host.load(chunk) { return fail(message) }
        guard let task = host.start(arguments: arguments) else { return fail("not enough memory") }
        while !task.hasEnded {
            // Any request makes the coming wait return, so that the end of the task is noticed.
            task.onResults = { [host] _, _ in host.loop.stop() }
            let result = host.loop.run()
            if let status = host.endingStatus { end(status) }
            if !task.hasEnded, result == .finished { return neverEnded(task) }
        }
        return nil
    }

    private func runScript(_ path: String, _ arguments: [String]) -> Int32? {
        if path != "-", access(path, R_OK) != 0 {
            let reason = String(cString: strerror(errno))
            Program.report("cannot open \(path): \(reason)")
            return Status.unreadable
        }
        if let message = host.load(path == "-" ? .standardInput : .file(path)) { return fail(message) }
        guard !options.checksSyntax else { return 0 }
        guard let task = host.start(arguments: arguments) else { return fail("not enough memory") }
        main = task
        return nil
    }

    private var main: MainTask?

    private func runMainLoop() -> Int32? {
        let result = host.loop.run()
        if let status = host.endingStatus { end(status) }
        host.reportFailures()
        if let main, !main.hasEnded, result == .finished { return neverEnded(main) }
        return nil
    }

    // MARK: Ends

    /// The normal end: threads are asked to stop, and those that do not are named.
    private func finish() -> Int32 {
        let hung = LuaHost.stopThreads(within: 2)
        guard hung.isEmpty else {
            Program.report("these threads did not stop within 2 s: \(hung.joined(separator: ", "))")
            return 1
        }
        host.close()
        return host.endingStatus ?? 0
    }

    private func neverEnded(_ task: MainTask) -> Int32 {
        Program.report(
            "the main chunk never ended: nothing is left that could wake it\n" + (task.whereItWaits ?? "it was stopped")
        )
        return Status.mainNeverEnded
    }

    private func fail(_ message: String) -> Int32 {
        Program.report(message)
        return 1
    }

    private func end(_ status: Int32) -> Never {
        host.close()
        exit(status)
    }

    private func handle(_ signals: [Int32]) {
        if signals.contains(SIGQUIT) { Output.write(host.why() + "\n", to: 2) }
        guard let signal = signals.first(where: { $0 != SIGQUIT }) else { return }
        host.endingStatus = 128 + signal
        host.loop.stopAll()
    }
}

/// A prompt for input that is not a terminal.
struct PlainPrompt {
    let host: LuaHost

    init(_ host: LuaHost) { self.host = host }

    func run() -> Int32 {
        while true {
            Output.write("> ", to: 1)
            guard let line = readLine() else { break }
            if host.load(.text("return \(line)", name: "=stdin")) != nil {
                if let message = host.load(.text(line, name: "=stdin")) {
                    Output.write(message + "\n", to: 2)
                    continue
                }
            }
            _ = host.start { $0.onFailure = { Output.write($0 + "\n", to: 2) } }
        }
        return 0
    }
}
