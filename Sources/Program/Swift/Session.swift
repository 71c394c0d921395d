import Glibc
import Linux
import Lua
import LuaPrompt
import LuaRunLoops
import LuaTesting
import LuaTracing
import RunLoops

/// Runs everything that the options ask for. The order is that of `lua`: the code of LUA_INIT; the options -e, -l and
/// -W in their order on the command line; the script. The main loop and the prompt follow.
final class Session {
    private let host: LuaHost
    private let options: Options
    private let arguments: [String]
    private var main: MainTask?
    /// Whether only the last steps of the session are left.
    private var hasEnded = false

    /// Exit statuses that `lua` does not have.
    private enum Status {
        static let mainNeverEnded: Int32 = 13
        static let unreadable: Int32 = 66
    }

    init(_ host: LuaHost, _ options: Options, _ arguments: [String]) {
        self.host = host
        self.options = options
        self.arguments = arguments
    }

    /// Returns the exit status.
    func run() -> Int32 {
        var status = perform()
        hasEnded = true
        if status == nil, host.endingStatus == nil { host.warnOfUnseen() }
        // All tasks are cancelled, the newest first. The main chunk is the oldest of them.
        if host.endingStatus != nil { host.cancelAllTasks() }
        if status == nil {
            status = stopThreads()
            if host.reportThreadFailures(), status == nil { status = 1 }
        } else if status == host.endingStatus {
            _ = LuaHost.stopThreads(within: 1, or: 1)
        }
        // A main chunk that will never continue must release its resources, as if it had been interrupted.
        main?.unwind()
        if signal == SIGTERM, host.endingStatus == 128 + SIGTERM {
            // A finalizer may wait forever, for example for the output of a program.
            Terminal.flush()
            LuaHost.limitClosing(by: SIGTERM)
        }
        host.endsWithProcess = true
        host.close()
        // Handle signals that arrived while finalizers ran.
        if status == nil, host.endingStatus == nil { handleEnd(host.takeSignals()) }
        if status == host.endingStatus || status == nil, let signal, host.endingStatus == 128 + signal {
            Ending.die(by: signal)
        }
        return status ?? host.endingStatus ?? 0
    }

    /// Returns an exit status, or nil on success.
    private func perform() -> Int32? {
        if options.showsLuaVersion, !isPrompting { Output.write(LuaHost.luaCopyright + "\n", to: 1) }
        if let message = host.openLibraries(ignoringEnvironment: options.ignoresEnvironment) { return fail(message) }
        if options.checksSyntax { return checkSyntax() }
        if let message = SharedTime.adopt(host) { return fail(message) }
        if let message = ProgramSeed.adopt(host) ?? WatchedProgram.begin(host) { return fail(message) }
        SharedCoverage.begin(host)
        host.onUncaught = { [unowned self] _, failure in uncaught(failure) }
        host.handleSignals { [unowned self] in handle($0) }
        LuaHost.setEnds(lastWords: Ending.doLastActs, end: { Ending.end($0) })
        guard host.setArguments(arguments, script: options.script ?? 0) else { return fail("not enough memory") }
        // Set this before there are other threads, since they read it.
        if let index = options.script, !options.scriptIsInput { LuaHost.script = arguments[index] }
        if let failure = beSandboxed() ?? beAttachable() ?? beRecorded() { return failure }
        if let failure = beLimited() { return failure }
        if !options.ignoresEnvironment, let chunk = Initialization()?.chunk, let status = complete(chunk) {
            return status
        }
        for step in options.steps {
            if let status = perform(step) { return status }
        }
        if let chunk = script {
            if let status = run(chunk) { return status }
            // The script's timers, streams and tasks continue while the user types.
            if isPrompting { return runPrompt(mode: .default) }
        } else if options.isInteractive || !options.hasWork {
            // A prompt without a terminal prints the banner of `lua`, as `lua` does, even after -e. -v has printed the
            // banner already.
            if !options.showsLuaVersion, !isPrompting { Output.write(LuaHost.luaCopyright + "\n", to: 1) }
            return runPrompt()
        }
        if let status = runMainLoop() { return status }
        return options.isInteractive ? runPrompt() : nil
    }

    /// Call it before all code that starts a thread or opens a file for the script.
    private func beSandboxed() -> Int32? {
        guard let mode = options.sandbox else { return nil }
        let allowances = options.allowances ?? Sandbox.Description()
        if let name = options.attachName, allowances.ports.contains(name) {
            "port:\(Attach.portName(process: getpid(), name: name))".withCString { allowances.allow(.listen, $0) }
        }
        let script = options.scriptIsInput ? nil : options.script.map { arguments[$0] }
        do throws(Sandbox.Failure) {
            let missing = try host.enterSandbox(allowances, script: script, goesOn: mode == .bestEffort)
            if !missing.isEmpty { Program.report("--sandbox=best-effort: \(missing)") }
            return nil
        } catch {
            return fail("--sandbox: \(error.message)", error.status)
        }
    }

    private func beAttachable() -> Int32? {
        // The arguments from the script on; without a script, all arguments.
        host.words = Array(arguments.dropFirst(options.script ?? 1))
        let isOff = options.forbidsAttaching || Sandbox.isEntered || Self.isOff("RLHOST_ATTACH")
        host.setAttaching(isAllowed: !isOff)
        guard let name = options.attachName else { return nil }
        return host.beAttachable(name: name.isEmpty ? nil : name).map {
            fail("--attach: \($0.message)")
        }
    }

    private func beLimited() -> Int32? {
        guard options.memory != nil || options.processorTime != nil || options.callbackLimit != nil else { return nil }
        let limits = host.part(LuaLimits.self)
        if let bytes = options.memory { limits.limitMemory(to: bytes) }
        limits.onProcessorTime = { [unowned host] text in
            if host.endingStatus == nil {
                Program.report(text)
                host.endingStatus = 1
            }
            host.loop.stopAll()
        }
        do throws(SystemError) {
            if let seconds = options.processorTime { try limits.limitProcessorTime(to: seconds) }
            if let seconds = options.callbackLimit { try limits.limitCallbacks(to: seconds) }
            return nil
        } catch {
            return fail("\(error)")
        }
    }

    private func beRecorded() -> Int32? {
        var settings = options.trace
        settings.title = options.scriptIsInput ? nil : options.script.map { arguments[$0] }
        if Self.isOff("RLHOST_RECORDER") { settings.isOff = true }
        if Self.word("RLHOST_RECORDER") == "on" { settings.beginsAtOnce = true }
        do throws(SystemError) {
            try settings.apply(to: host)
            return nil
        } catch {
            return fail("--trace: \(error)")
        }
    }

    private static func word(_ variable: String) -> String? { getenv(variable).map { String(cString: $0) } }

    /// Returns whether the environment turns the feature off.
    private static func isOff(_ variable: String) -> Bool { word(variable).map(["off", "0", "no"].contains) ?? false }

    private var prompt: LocalPrompt?

    /// Whether a prompt will be shown on a terminal.
    private var isPrompting: Bool {
        (options.isInteractive || !options.hasWork && script == nil) && isatty(0) != 0 && isatty(1) != 0
    }

    private func runPrompt(mode: RunLoop.Mode = "repl") -> Int32? {
        guard let prompt = LocalPrompt(host, mode: mode) else {
            return fail("not enough memory")
        }
        if isPrompting {
            Output.write("rlhost \(Program.version), \(LuaHost.luaRelease) - .help for help\n", to: 1)
        }
        self.prompt = prompt
        let status = prompt.run(startUpFile: !options.ignoresEnvironment)
        if host.endingStatus == nil, status != 0 { host.endingStatus = status }
        return nil
    }

    /// The script: a file or standard input; nil if there is no script, or if a prompt is shown instead.
    private var script: LuaHost.Chunk? {
        if let index = options.script { return options.scriptIsInput ? .standardInput : .file(arguments[index]) }
        return options.isInteractive || options.hasWork || isatty(0) != 0 ? nil : .standardInput
    }

    // MARK: Steps

    private func perform(_ step: Options.Step) -> Int32? {
        switch step {
        case .warnings:
            host.turnWarningsOn()
            return nil
        case .execute(let text):
            return provideGlobal(for: text) ?? complete(.text(text, name: Self.chunkName))
        case .print(let text):
            // First compile the text alone: with `return` and parentheses around it, text with unbalanced parentheses
            // could become a valid expression. The line break ends a comment; without it the message would name the
            // wrong line.
            if let message = host.load(.text("return \(text)\n", name: Self.chunkName)) {
                return fail(host.load(.text("return \(text)", name: Self.chunkName)) ?? message)
            }
            host.dropChunk()
            return provideGlobal(for: text) ?? complete(.text("print(\(text)\n)", name: Self.chunkName))
        case .require(let name, let global):
            var failure: String?
            let status = complete(.requiring, [name]) { [host] task in
                task.onResults = { failure = host.setGlobal(global, to: $0, -$1) }
            }
            return status ?? failure.map { fail($0) }
        }
    }

    private static let chunkName = "=(command line)"

    /// Sets the global `rl`, which -e and -p promise. If no script follows, and the text does not contain "rl", the
    /// library is not loaded.
    private func provideGlobal(for text: String) -> Int32? {
        guard options.script != nil || text.withCString({ strstr($0, "rl") != nil }) else { return nil }
        return complete(.text("rl = rl or require 'runloop'", name: "=rlhost"))
    }

    /// Runs a chunk. If the chunk waits, runs the main loop until it has ended. Returns an exit status, or nil to
    /// continue.
    private func complete(
        _ chunk: LuaHost.Chunk, _ arguments: [String] = [], configure: (MainTask) -> Void = { _ in }
    ) -> Int32? {
        if let message = host.load(chunk) { return fail(message) }
        guard let task = host.start(arguments: arguments, configure: configure) else {
            return fail("not enough memory")
        }
        if let status = ending { return status }
        main = task
        defer { if task.hasEnded { main = nil } }
        task.onEnd = { [host] in host.loop.stop() }
        while !task.hasEnded {
            var result = host.loop.runUnlessStopped()
            while result == .finished, !task.hasEnded, LuaHost.hasThreads, ending == nil {
                if !host.runUntilThreadsEnd() { result = .stopped }
            }
            // Delivers the messages that the last threads sent before they ended.
            if result == .finished, !task.hasEnded, LuaHost.hadThreads, ending == nil { result = host.loop.run() }
            if let status = ending { return status }
            if !task.hasEnded { return neverEnded(task, result) }
        }
        return nil
    }

    /// Starts the script. If it waits, the main loop continues it.
    private func run(_ chunk: LuaHost.Chunk) -> Int32? {
        if let message = host.load(chunk) { return fail(message, host.chunkIsUnreadable ? Status.unreadable : 1) }
        if options.script == nil {
            // The script is called without arguments.
            guard let task = host.start() else { return fail("not enough memory") }
            main = task
            return ending
        }
        switch host.startScript() {
        case .failure(let failure): return fail(failure.message)
        case .success(let task): main = task
        }
        return ending
    }

    private func runMainLoop() -> Int32? {
        host.isInLastRun = true
        var result = host.loop.runUnlessStopped()
        // Exit observers may have added items, so run the loop again.
        while result == .finished, ending == nil, !host.loop.isEmpty(in: .default) {
            result = host.loop.runUnlessStopped()
        }
        if let status = ending { return status }
        if host.isShuttingDown {
            // Run the loop again, to handle a signal that came just when the loop became empty.
            result = host.loop.run()
            if host.isShuttingDown { host.endShutdown() }
            if let status = ending { return status }
        }
        // Wait for the threads. But if the loop was stopped while the main chunk waits, the process ends as on an
        // error, even if there are threads.
        while LuaHost.hasThreads, main?.hasEnded ?? true || result == .finished {
            host.reportFailures()
            // A loop that was stopped runs only until its threads have ended.
            if !host.runUntilThreadsEnd(stopping: result == .stopped) { result = .stopped }
            if let status = ending { return status }
        }
        if LuaHost.hadThreads, result == .finished {
            // Delivers the messages that the last threads sent before they ended.
            result = host.loop.run()
            if let status = ending { return status }
        }
        if result == .finished, host.cancelBackgroundTasks() {
            // Cancelled tasks may have started work when they closed their variables, such as sending bytes.
            result = host.loop.run()
            if let status = ending { return status }
        }
        host.reportFailures()
        if let main, !main.hasEnded { return neverEnded(main, result) }
        return nil
    }

    private func checkSyntax() -> Int32? {
        for step in options.steps {
            let chunk: LuaHost.Chunk
            switch step {
            case .execute(let text): chunk = .text(text, name: Self.chunkName)
            case .print(let text): chunk = .text("return \(text)", name: Self.chunkName)
            case .require, .warnings: continue
            }
            if let message = host.load(chunk) { return fail(message) }
            host.dropChunk()
        }
        guard let script else { return nil }
        if let message = host.load(script) { return fail(message, host.chunkIsUnreadable ? Status.unreadable : 1) }
        host.dropChunk()
        return nil
    }

    // MARK: Ends

    /// The exit status of a process that ends because of a signal.
    private var ending: Int32? {
        let signals = host.takeSignals()
        if !signals.isEmpty { handle(signals) }
        return host.endingStatus
    }

    private func handle(_ signals: [Int32]) {
        if signals.contains(SIGQUIT) { Output.write(host.why() + "\n", to: 2) }
        if let prompt, prompt.handle(signals) { return }
        guard let signal = signals.first(where: { $0 != SIGQUIT }) else { return }
        self.signal = signal
        ServiceManager.notifyOfEnd()
        if host.beginShutdown(signal == SIGTERM ? "SIGTERM" : "SIGINT", status: 128 + signal) { return }
        host.endingStatus = 128 + signal
        host.loop.stopAll()
    }

    /// The signal that ends the process.
    private var signal: Int32?

    private func handleEnd(_ signals: [Int32]) {
        guard let signal = signals.first(where: { $0 != SIGQUIT }) else { return }
        self.signal = signal
        ServiceManager.notifyOfEnd()
        host.endingStatus = 128 + signal
    }

    /// Handles an error that no code has handled: ends the process. If a signal is already ending the process, an error
    /// only ends the run in which it occurs, so that observers are notified of the exit of each run. Such an error is
    /// not reported.
    private func uncaught(_ failure: Failure) {
        // The error occurred in one of the last steps; continue with the next step.
        if host.isShuttingDown || hasEnded {
            guard failure.cause == .raised else { return }
            Program.report(failure.text)
            if host.isShuttingDown { host.shutdownFails() }
            return
        }
        guard ending == nil else {
            if failure.cause == .raised {
                Program.report(failure.text)
                if host.endingStatus == 0 { host.endingStatus = 1 }
            }
            host.loop.stopAll()
            return
        }
        RawTerminal.endAll()
        Program.report(failure.text)
        TraceSettings.noteError(host)
        host.endsWithProcess = true
        host.close()
        // Control-C has ended running code. End by the signal, so that `rlhost --watch`, the parent, ends as well.
        if failure.cause == .interrupted, WatchedProgram.isWatched { Ending.die(by: SIGINT) }
        Ending.end(1)
    }

    /// Stops the threads, and names those that do not stop in time.
    private func stopThreads() -> Int32? {
        let start = RunLoop.Instant.now
        let hung = LuaHost.stopThreads(within: 2, or: 10)
        guard !hung.isEmpty else { return nil }
        let seconds = start + .seconds(10) <= .now ? 10 : 2
        Program.report("these threads did not stop within \(seconds) s: \(hung.joined(separator: ", "))")
        return 1
    }

    private func neverEnded(_ task: MainTask, _ result: RunLoop.RunResult) -> Int32 {
        let reason =
            host.loop.handle.earlyStop.map { "the loop was stopped before it ran: \($0)" }
            ?? (result == .finished ? "nothing is left that could wake it" : "the loop was stopped while it waited")
        var text = "the main chunk never ended: \(reason)\n\(task.whereItWaits ?? "it was stopped")"
        let others = host.waitsForOthers(besides: task)
        if !others.isEmpty { text += "\nother tasks wait, too:\n  " + others.joined(separator: "\n  ") }
        return fail(text, Status.mainNeverEnded)
    }

    /// Reports a failure. Restores the terminal first: a message on the alternate screen would disappear with that
    /// screen.
    private func fail(_ message: String, _ status: Int32 = 1) -> Int32 {
        // A signal has interrupted the code; the code itself has not failed.
        if let ending { return ending }
        RawTerminal.endAll()
        Program.report(message)
        return status
    }

}
