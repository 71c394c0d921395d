import Glibc
import LineEditor
import Linux
import Lua
import LuaPrompt
import LuaRunLoops
import RunLoops

/// The prompt: standard input is one more source of the main loop, so timers fire and sockets answer while one types.
///
/// On a terminal there is a line editor; otherwise lines are read plainly. Each entry is a task, which may wait.
final class REPL: Prompt {
    let host: LuaHost
    private let script: PromptScript
    /// With an editor: its keys.
    private lazy var keyboard = Keyboard { [unowned self] in takeKeys() }
    private var mode: RunLoop.Mode
    /// Standard input: the keyboard's source, or a port.
    private var input: RunLoop.Item?
    private var observer: RunLoop.Observer?
    private var sizePort: RunLoop.FDPort?

    /// The entry that runs, or waits.
    private var task: MainTask?
    private var taskRuns = false
    /// How often Control-C was pressed while the entry waited.
    private var interrupts = 0

    /// nil when there is not enough memory.
    ///
    /// - Parameter mode: in which the loop runs while one types.
    init?(_ host: LuaHost, mode: RunLoop.Mode) {
        self.host = host
        self.mode = mode
        guard let script = PromptScript(host) else { return nil }
        self.script = script
        super.init(host.loop)
    }

    // MARK: The session

    /// Returns the exit status.
    func run(startUpFile: Bool) -> Int32 {
        Self.current = self
        host.onUncaught = { [unowned self] host, failure in
            guard host.endingStatus == nil else { return status = host.endingStatus }
            // It has met a callback, but the entry that runs the loop is what the user sees.
            if taskRuns, failure.cause == .interrupted { return interruptEntry() }
            let width = display.map { $0.edit(\.columns) } ?? 80
            report(script.failed(host.uncaughtValue, failure, width: width, color: colorsErrors))
        }
        Terminal.atExit { REPL.current?.leave() }
        LuaHost.setLastWords(Terminal.sayFarewell)
        LuaHost.setAroundProgram { begins in
            guard Linux.Thread.isMain, let prompt = REPL.current else { return }
            prompt.lendTerminal(begins != 0)
        }
        host.loop.addCommonMode("repl")
        guard watch() else {
            Program.report("standard input cannot be watched")
            return 1
        }
        if let notice = display?.edit({ Self.historyNotice($0.history) }) { report(notice) }
        if startUpFile, display != nil { runStartUpFile() }
        proceed()
        while status == nil {
            host.loop.run(in: mode)
            if let ending = host.endingStatus { status = ending }
        }
        task?.cancel()
        for message in script.close() { report(message) }
        leave()
        return status ?? 0
    }

    // For the exit function, which gets no argument; used on the main thread only.
    nonisolated(unsafe) private static var current: REPL?

    /// Gives the terminal back.
    private func leave() {
        Self.current = nil
        display?.close()
        if display != nil { _ = keyboard.pause() }
    }

    /// For a program that an entry runs. What a callback runs has to leave the line alone.
    private func lendTerminal(_ lends: Bool) {
        guard taskRuns, let display else { return }
        if lends { display.catchUp() }
        Terminal.lend(lends)
    }

    private func watch() -> Bool {
        do throws(SystemError) {
            if let display {
                guard keyboard.start() else { return false }
                input = keyboard.source
                let sizePort = try RunLoop.FDPort(Terminal.watch(), name: "changes of the terminal") {
                    [unowned self] _, _ in
                    if Terminal.takeChange() { display.edit { $0.redraw() } }
                    resize(display)
                }
                host.loop.add(sizePort, to: mode)
                self.sizePort = sizePort
                resize(display)
            } else {
                input = try RunLoop.FDPort(0, name: "prompt") { [unowned self] _, _ in takeLines() }
            }
        } catch {
            return false
        }
        if let input { host.loop.add(input, to: mode) }
        let observer = RunLoop.Observer(.beforeWaiting, order: .max) { [unowned self] _, _ in
            // Everything the callbacks of this pass have printed is on the screen before the next key is.
            Terminal.flush()
            host.forgetInterrupt()
        }
        host.loop.add(observer, to: mode)
        self.observer = observer
        return true
    }

    // MARK: Input

    private func takeKeys() {
        // A run of the loop inside the entry: they wait for its end.
        guard !taskRuns, let display else { return }
        guard let keys = keyboard.take() else { return end(task == nil ? 0 : 1) }  // the terminal is gone
        handle(display.edit { $0.feed(keys) })
    }

    override func isIncomplete(_ text: String) -> Bool { script.isIncomplete(text) }

    override func candidates(_ before: String) -> LineEditor.Completion {
        let (start, candidates) = script.complete(before)
        return LineEditor.Completion(start: start, candidates: candidates)
    }

    override func show() {
        var first = script.text(ofGlobal: "_PROMPT")
        let further = script.text(ofGlobal: "_PROMPT2") ?? ">> "
        guard let display else {
            Terminal.flush()
            return Output.write(incomplete.isEmpty ? first ?? "> " : further, to: 1)
        }
        if first == nil { first = usesColor ? "\u{1B}[1m>\u{1B}[m " : "> " }
        display.catchUp()
        keyboard.resume()
        let events = display.edit { editor in
            editor.prompt = first ?? "> "
            editor.continuationPrompt = further
            defer { nextText = "" }
            return editor.begin(with: nextText)
        }
        handle(events)
    }

    // MARK: Entries

    override var isBusy: Bool { task != nil }

    override func isFarewell(_ text: String) -> Bool {
        guard let word = Self.farewells.first(where: { text.trimmed == $0 || text.trimmed == "\($0)()" }),
            script.text(ofGlobal: word) == nil
        else { return false }
        say(".exit or Control-D leaves")
        return true
    }

    // What one tries who knows other prompts.
    private static let farewells = ["exit", "quit"]

    /// One for each entry on a terminal; lines of a file are "stdin", as for lua.
    private func chunkName(_ entry: Entry) -> PromptScript.ChunkName {
        if let file = entry.file { return .file(file) }
        return display == nil ? .input : .numbered
    }

    override func evaluate(_ entry: Entry) {
        if let message = script.compile(entry.text, name: chunkName(entry)) {
            return report(message)
        }
        if !entry.text.utf8.allSatisfy({ $0 == 0x20 }) { accepted.append(entry.text) }
        var hasEnded = false
        let width = display.map { $0.edit(\.columns) } ?? 80
        let begin = host.loop.now
        var computed = Duration.zero
        var goesOnSince = begin
        interrupts = 0
        let task = host.start { task in
            task.onResults = { [unowned self] thread, count in
                if let text = script.show(thread, count, width: width, color: usesColor, deep: entry.isDeep) {
                    Output.write(text + "\n", to: 1)
                }
                if entry.isTimed { tell(host.loop.now - begin, computed) }
                hasEnded = true
                ended()
            }
            task.onError = { [unowned self] stack, failure in
                report(script.failed(stack, failure, width: width, color: colorsErrors))
                if entry.isTimed { tell(host.loop.now - begin, computed) }
                hasEnded = true
                ended()
            }
            task.onRunning = { [unowned self] runs in
                taskRuns = runs
                let now = host.loop.now
                if runs { goesOnSince = now } else { computed += now - goesOnSince }
                // What the entry runs, `io.read` or another program, finds the terminal as it was.
                guard display != nil else { return }
                guard runs else { return keyboard.resume() }
                if keyboard.pause() { host.interrupt() }
                host.handInterruptOver()
            }
        }
        if hasEnded { return }
        self.task = task
        if task == nil {
            report("not enough memory")
        } else if display == nil {
            // Its input must wait for it.
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
        say("took \(text(total)); the loop stood still for \(text(computed))")
    }

    /// Keeps the loop running while an entry waits and nothing is read.
    private lazy var waiting = RunLoop.Source(name: "entry", perform: { _ in })

    private func ended() {
        guard task != nil else { return }
        task = nil
        if display == nil, let input {
            host.loop.remove(waiting, from: mode)
            host.loop.add(input, to: mode)
        }
        // Not from inside the task: it has not been put away yet.
        host.loop.perform(in: [mode]) { [weak self] in
            guard let self else { return }
            proceed()
            if display == nil, Terminal.bufferedInput > 0 { takeLines() }
        }
    }

    override var absentCommands: Set<String> { ["where", "interrupt"] }

    override func answer(_ command: Command) {
        switch command.name {
        case "help": say(script.help(command.argument, width: display.map { $0.edit(\.columns) } ?? 80))
        case "why": say(host.why())
        case "timers": say(host.timersText())
        case "tasks": say(host.tasksText())
        case "traceback": say(script.traceback())
        default: changeMode(command.argument)
        }
    }

    private func changeMode(_ name: String) {
        if name == "common" {
            report("\"common\" is not a mode one can run in: it stands for all common modes")
        } else if !name.isEmpty {
            let mode = RunLoop.Mode(rawValue: name)
            guard host.loop.modeNames.contains(mode) || mode == .default else {
                let names = host.loop.modeNames.map { "\"\($0)\"" }.sorted().joined(separator: ", ")
                return report("the loop has no mode \"\(name)\"; there are: \(names)")
            }
            currentMode = mode
        }
        say("the prompt runs the loop in mode \"\(currentMode)\"")
    }

    // MARK: Control-C, Control-D, Control-Z

    /// Signals that the host has noted.
    func handle(_ signals: [Int32]) -> Bool {
        guard signals.contains(SIGINT), !signals.contains(SIGTERM) else { return false }
        if taskRuns {
            interruptEntry()
        } else if task != nil || display == nil {
            interruptKey()
        } else if let display {
            handle(display.edit { $0.feed([3]) })
        }
        return true
    }

    /// One that runs the loop itself: those runs end, and then it is interrupted.
    private func interruptEntry() {
        host.interrupt()
        host.loop.stopAll()
    }

    /// The first one cancels the entry where it waits. One that goes on all the same is ended for good by the second.
    override func interruptBusy() {
        guard let task else { return }
        interrupts += 1
        if interrupts > 1 {
            task.abandon()
            report("interrupted!")
            return ended()
        }
        task.cancel()
        if self.task === task, !task.hasEnded, display != nil {
            say("(the entry goes on; press Control-C again to end it for good)")
        }
    }

    override func explain() {
        Terminal.flush()
        Output.write(host.why() + "\n", to: 2)
    }

    override func suspendTerminal() { _ = keyboard.pause() }
    override func resumeTerminal() { keyboard.resume() }

    /// The mode that the prompt runs the loop in.
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
