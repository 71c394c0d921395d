import Glibc
import LineEditor
import Linux
import Lua
import LuaPrompt
import LuaRunLoops
import RunLoops

/// The prompt of a program. Standard input is one more source of the main loop, so timers fire and sockets answer while
/// the user types.
///
/// On a terminal a line editor reads the keys; otherwise plain lines are read. Each entry is a task, which may wait.
final class LocalPrompt: PromptOwner {
    private let host: LuaHost
    private lazy var prompt = Prompt(host.loop, owner: self)
    private let script: PromptScript
    /// The source of keys if there is an editor.
    private lazy var keyboard = Keyboard { [unowned self] in takeKeys() }
    private var mode: RunLoop.Mode
    /// The item that serves standard input: the keyboard's source, or a descriptor port.
    private var input: RunLoop.Item?
    private var observer: RunLoop.Observer?
    private var sizePort: RunLoop.FDPort?

    /// The task of the entry that runs or waits.
    private var task: MainTask?
    private var taskRuns = false
    /// Whether the prompt is hidden while a program has the terminal.
    private var hasMadeWay = false
    /// The number of times that Control-C was pressed while the entry waited.
    private var interrupts = 0

    /// Returns nil if memory is exhausted.
    ///
    /// - Parameter mode: The mode in which the loop runs while the user types.
    init?(_ host: LuaHost, mode: RunLoop.Mode) {
        self.host = host
        self.mode = mode
        guard let script = PromptScript(host) else { return nil }
        self.script = script
    }

    // MARK: The session

    /// Returns the exit status.
    func run(startUpFile: Bool) -> Int32 {
        prompt.begin()
        Self.current = self
        host.onUncaught = { [unowned self] host, failure in
            if let status = host.endingStatus { return prompt.status = status }
            // The interruption has ended a callback. But the user wanted to interrupt the visible entry, which runs the
            // loop.
            if taskRuns, failure.cause == .interrupted { return interruptEntry() }
            report(host.uncaughtValue, failure)
        }
        LuaHost.setAroundProgram { begins in
            guard Linux.Thread.isMain, let prompt = LocalPrompt.current else { return }
            prompt.lendTerminal(begins != 0)
        }
        let isAnnounced =
            prompt.display == nil
            || host.announceReading(
                begin: { LocalPrompt.beginsReading() }, end: { LocalPrompt.current?.hasRead($0) })
        guard isAnnounced else {
            Program.report("not enough memory")
            return 1
        }
        host.loop.addCommonMode("repl")
        guard watch() else {
            Program.report("standard input cannot be watched")
            return 1
        }
        prompt.tellOfHistory()
        if startUpFile, prompt.display != nil { runStartUpFile() }
        prompt.proceed()
        while prompt.status == nil {
            host.loop.run(in: mode)
            if let ending = host.endingStatus { prompt.status = ending }
        }
        task?.cancel()
        for message in script.close() { prompt.report(message) }
        Self.current = nil
        prompt.leave()
        return prompt.status ?? 0
    }

    // The prompt. The C function that is called before and after programs has no argument, so it uses this variable; on
    // the main thread only.
    nonisolated(unsafe) private static var current: LocalPrompt?

    /// `init.lua` may wait. The prompt is then shown before the file has ended.
    private func runStartUpFile() {
        guard let path = PromptFiles.startUpFile() else { return }
        if let message = host.load(.file(path)) { return prompt.report(message) }
        _ = host.start { $0.onFailure = { [unowned self] in prompt.report($0.traceback) } }
    }

    /// Shows an error. The error value is on top of a coroutine's stack if there is one.
    private func report(_ value: Stack?, _ failure: Failure) {
        prompt.report(script.failed(value, failure, width: prompt.width, color: prompt.colorsErrors))
    }

    /// Lends the terminal to a program that an entry runs. A program that a callback runs does not get the terminal.
    private func lendTerminal(_ lends: Bool) {
        guard taskRuns, let display = prompt.display else { return }
        if lends { display.catchUp() }
        Terminal.lend(lends)
    }

    /// Called when a program is about to be started in the foreground. Returns whether the program may have the
    /// terminal; while there is a prompt, programs of other threads may not.
    private static func handsOver() -> Bool {
        guard Linux.Thread.isMain else { return current == nil }
        current?.handOver()
        return true
    }

    private func handOver() {
        if !keyboard.isPaused, let display = prompt.display {
            _ = keyboard.pause()
            display.catchUp()
            display.edit { $0.makeWay() }
            hasMadeWay = true
        }
        // If the program cannot be started, the prompt continues.
        keyboard.look()
    }

    // MARK: Readers of standard input

    private static func beginsReading() -> Int32 {
        guard Linux.Thread.isMain else { return current == nil ? 0 : EBUSY }
        return current?.makeWay() ?? 0
    }

    /// Gives the terminal to a callback that reads standard input. The prompt comes back when the callback has ended or
    /// waits.
    private func makeWay() -> Int32 {
        guard let display = prompt.display else { return 0 }
        let hadTerminal = !keyboard.isPaused
        let isInterrupted = hadTerminal && keyboard.pause()
        // The question must be visible before the answer is read.
        display.catchUp()
        guard hadTerminal else { return 0 }
        display.edit { $0.makeWay() }
        host.loop.perform(in: [mode]) { [weak self] in
            guard let self else { return }
            keyboard.resume()
            display.edit { $0.show() }
        }
        guard isInterrupted else { return 0 }
        host.interrupt()
        return EINTR
    }

    private func hasRead(_ end: Int32) {
        // At the end of input the terminal has echoed nothing.
        guard end != 0 else { return }
        prompt.display?.edit { $0.followEcho(end == 10 ? .line : end < 0 ? .cutOff : .somewhere) }
    }

    private func watch() -> Bool {
        do throws(SystemError) {
            if let display = prompt.display {
                guard keyboard.start() else { return false }
                RawTerminal.willLend = { Self.handsOver() }
                RawTerminal.hasReturned = { [keyboard] in keyboard.look() }
                input = keyboard.source
                let sizePort = try RunLoop.FDPort(Terminal.watch(), name: "changes of the terminal") {
                    [unowned self] _, _ in
                    if Terminal.takeChange() { display.edit { $0.redraw() } }
                    prompt.resize(display)
                }
                host.loop.add(sizePort, to: mode)
                self.sizePort = sizePort
                prompt.resize(display)
            } else {
                input = try RunLoop.FDPort(0, name: "prompt") { [unowned self] _, _ in prompt.takeLines() }
            }
        } catch {
            return false
        }
        if let input { host.loop.add(input, to: mode) }
        let observer = RunLoop.Observer(.beforeWaiting, order: .max) { [unowned self] _, _ in
            // Flush, so that everything that the callbacks of this pass have printed reaches the screen before the next
            // key is handled.
            Terminal.flush()
            host.forgetInterrupt()
        }
        host.loop.add(observer, to: mode)
        self.observer = observer
        return true
    }

    // MARK: Input

    private func takeKeys() {
        // The loop runs inside the entry: new lines wait until the entry has ended.
        guard !taskRuns, !RawTerminal.isLent else { return }
        keyboard.resume()
        if hasMadeWay {
            hasMadeWay = false
            prompt.display?.edit { $0.show() }
        }
        guard let keys = keyboard.take() else { return prompt.end(task == nil ? 0 : 1) }  // The terminal is gone.
        if !keys.isEmpty { prompt.feed(keys) }
    }

    func inputEnded() {
        let rest = prompt.incomplete
        prompt.incomplete = ""
        // Evaluate the unfinished entry: Lua's error names the missing part.
        if !rest.isEmpty { evaluate(Prompt.Entry(text: rest)) }
        if !isBusy { prompt.end(0) }
    }

    func isIncomplete(_ text: String) -> Bool { script.isIncomplete(text) }

    func statement(_ text: String) -> String { script.statement(text) }

    func hint(_ before: String) -> String? { script.hint(before) }

    func candidates(_ before: String) -> LineEditor.Completion {
        let (start, candidates) = script.complete(before)
        return LineEditor.Completion(start: start, candidates: candidates)
    }

    func texts() -> (first: String, further: String)? {
        let further = script.text(ofGlobal: "_PROMPT2") ?? ">> "
        return (script.text(ofGlobal: "_PROMPT") ?? prompt.emphasized(">"), further)
    }

    func willShow() { keyboard.resume() }

    // MARK: Entries

    var isBusy: Bool { task != nil }

    func isFarewell(_ text: String) -> Bool {
        guard let word = Self.farewells.first(where: { text.trimmed == $0 || text.trimmed == "\($0)()" }),
            script.text(ofGlobal: word) == nil
        else { return false }
        prompt.say(".exit or Control-D leaves")
        return true
    }

    // Words with which users of other prompts try to leave.
    private static let farewells = ["exit", "quit"]

    /// Returns the chunk's name: a number for each entry on a terminal; "stdin" for lines of a file, as in `lua`.
    private func chunkName(_ entry: Prompt.Entry) -> PromptScript.ChunkName {
        if let file = entry.file { return .file(file) }
        return prompt.display == nil ? .input : .numbered
    }

    func evaluate(_ entry: Prompt.Entry) {
        if let message = script.compile(entry.text, name: chunkName(entry)) {
            return prompt.report(message)
        }
        if !entry.text.utf8.allSatisfy({ $0 == 0x20 }) { prompt.accepted.append(entry.text) }
        var hasEnded = false
        let width = prompt.width
        let begin = host.loop.now
        var computed = Duration.zero
        var goesOnSince = begin
        interrupts = 0
        let task = host.start { task in
            task.title = "the entry"
            task.onResults = { [unowned self] thread, count in
                if let text = script.show(thread, count, width: width, color: prompt.usesColor, deep: entry.isDeep) {
                    if entry.isPaged { prompt.page(text) } else { Output.write(text + "\n", to: 1) }
                }
                if entry.isTimed { tell(host.loop.now - begin, computed) }
                hasEnded = true
                ended()
            }
            task.onError = { [unowned self] stack, failure in
                report(stack, failure)
                if entry.isTimed { tell(host.loop.now - begin, computed) }
                hasEnded = true
                ended()
            }
            task.onRunning = { [unowned self] runs in
                taskRuns = runs
                let now = host.loop.now
                if runs { goesOnSince = now } else { computed += now - goesOnSince }
                // Code of the entry, such as `io.read` or another program, gets the terminal with its original
                // settings.
                guard prompt.display != nil else { return }
                guard runs else { return keyboard.resume() }
                if keyboard.pause() { host.interrupt() }
                host.handInterruptOver()
            }
        }
        if hasEnded { return }
        self.task = task
        if task == nil {
            prompt.report("not enough memory")
        } else if prompt.display == nil {
            // The next lines must wait until the entry has ended.
            input.map { host.loop.remove($0, from: mode) }
            host.loop.add(waiting, to: mode)
        }
    }

    private func tell(_ total: Duration, _ computed: Duration) {
        func text(_ time: Duration) -> String {
            let (seconds, attoseconds) = time.components
            let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
            let digits = "\(microseconds % 1_000_000)"
            return "\(microseconds / 1_000_000)." + String(repeating: "0", count: 6 - digits.utf8.count) + digits + " s"
        }
        prompt.say("took \(text(total)); the loop stood still for \(text(computed))")
    }

    /// Keeps the loop running while an entry waits and no input is read.
    private lazy var waiting = RunLoop.Source(name: "entry", perform: { _ in })

    private func ended() {
        guard task != nil else { return }
        task = nil
        if prompt.display == nil, let input {
            host.loop.remove(waiting, from: mode)
            host.loop.add(input, to: mode)
        }
        // Do this later, because the task that has just ended still uses its stack.
        host.loop.perform(in: [mode]) { [weak self] in
            guard let self else { return }
            prompt.proceed()
            if prompt.display == nil, Terminal.bufferedInput > 0 { prompt.takeLines() }
        }
    }

    let absentCommands: Set<Command.Name> = [.where, .interrupt, .follow]
    let leavingHint = ""

    func answer(_ command: Command) {
        switch command.name {
        case .help: prompt.say(script.help(command.argument, width: prompt.width))
        case .why: prompt.say(host.why())
        case .reload: prompt.say(script.reload(command.argument))
        case .timers: prompt.say(host.timersText())
        case .tasks: prompt.say(host.tasksText())
        case .traceback: prompt.say(script.traceback())
        default: changeMode(command.argument)
        }
    }

    /// The modes that `rl.modes` always contains, even if they are empty.
    private static let predefined: Set<RunLoop.Mode> = [.default, "event_tracking", "modal", "connection_reply"]

    private func changeMode(_ name: String) {
        if name == "common" {
            prompt.report("\"common\" is not a mode one can run in: it stands for all common modes")
        } else if !name.isEmpty {
            let mode = RunLoop.Mode(rawValue: name)
            let all = Set(host.loop.modeNames).union(Self.predefined)
            guard all.contains(mode) else {
                let names = all.map { "\"\($0)\"" }.sorted().joined(separator: ", ")
                return prompt.report("the loop has no mode \"\(name)\"; there are: \(names)")
            }
            currentMode = mode
        }
        prompt.say("the prompt runs the loop in mode \"\(currentMode)\"")
    }

    // MARK: Control-C, Control-D, Control-Z

    /// Handles signals that the host has received.
    func handle(_ signals: [Int32]) -> Bool {
        guard signals.contains(SIGINT), !signals.contains(SIGTERM) else { return false }
        if taskRuns {
            interruptEntry()
        } else if task != nil || prompt.display == nil {
            prompt.interruptKey()
        } else {
            prompt.feed([3])
        }
        return true
    }

    /// Interrupts the entry. If the entry runs the loop, first ends these runs.
    private func interruptEntry() {
        host.interrupt()
        host.loop.stopAll()
    }

    /// The first Control-C cancels the entry where it waits. If the entry continues nevertheless, the second Control-C
    /// ends the entry.
    func interruptWork() -> Bool {
        guard let task else { return false }
        interrupts += 1
        if interrupts > 1 {
            task.abandon()
            prompt.report("interrupted!")
            ended()
            return true
        }
        task.cancel()
        if self.task === task, !task.hasEnded, prompt.display != nil {
            prompt.say("(the entry goes on; press Control-C again to end it for good)")
        }
        return true
    }

    func explain() {
        Terminal.flush()
        Output.write(host.why() + "\n", to: 2)
    }

    func suspendTerminal() { _ = keyboard.pause() }
    func resumeTerminal() { keyboard.resume() }

    /// The mode in which the prompt runs the loop.
    private var currentMode: RunLoop.Mode {
        get { mode }
        set {
            guard newValue != mode, newValue != .common else { return }
            for item in [input, sizePort, observer] as [RunLoop.Item?] {
                guard let item else { continue }
                host.loop.remove(item, from: mode)
                host.loop.add(item, to: newValue)
            }
            mode = newValue
            host.loop.stop()
        }
    }
}
