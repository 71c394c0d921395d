import CLinux
import Glibc
import LineEditor
import LuaRunLoops
import RunLoops

/// The prompt: standard input is one more source of the main loop, so timers fire and sockets answer while one types.
///
/// On a terminal there is a line editor; otherwise lines are read plainly. Each entry is a task, which may wait.
final class REPL {
    let host: LuaHost
    let script: PromptScript
    /// nil: no editor.
    let display: Display?
    /// With an editor: its keys.
    private lazy var keyboard = Keyboard { [unowned self] in takeKeys() }
    let usesColor: Bool
    private let terminalIsOpen: Bool
    private var mode = RunLoop.Mode(rawValue: "repl")
    /// Standard input: the keyboard's source, or a port.
    private var input: RunLoop.Item?
    private var observer: RunLoop.Observer?
    private var sizePort: RunLoop.FDPort?

    /// The entry that runs, or waits.
    private var task: MainTask?
    private var taskRuns = false
    private var events: [LineEditor.Event] = []
    private var isHandling = false
    /// What has been entered and is not complete, without an editor.
    private var incomplete = ""
    private var isInEditorMode = false
    /// When Control-C was pressed on an empty line.
    private var lastInterrupt: RunLoop.Instant?
    private var status: Int32?
    /// For `.save`.
    var accepted: [String] = []

    /// nil when there is not enough memory.
    ///
    /// - Parameter isPlain: without an editor, even on a terminal.
    init?(_ host: LuaHost, ignoresEnvironment: Bool) {
        self.host = host
        guard let script = PromptScript(host) else { return nil }
        self.script = script
        terminalIsOpen = isatty(1) != 0 && terminal_open() != 0
        guard terminalIsOpen else {
            display = nil
            usesColor = false
            return
        }
        let term = getenv("TERM").map { String(cString: $0) } ?? "dumb"
        usesColor = term != "dumb" && !(getenv("NO_COLOR").map { $0.pointee != 0 } ?? false)
        let editor = LineEditor()
        if let path = Self.historyPath(ignoresEnvironment) { editor.history = History(file: HistoryFile(path: path)) }
        editor.usesColor = usesColor
        editor.isDumb = term == "dumb"
        editor.reflows = getenv("XTERM_VERSION") == nil && term != "linux"
        let highlighter = LuaHighlighter()
        editor.highlight = { highlighter.highlight($0) }
        display = Display(editor)
        editor.isComplete = { [unowned self] text in isFinished(text) ? .complete : .incomplete }
        editor.complete = { [unowned self] text, cursor in complete(text, cursor) }
    }

    // MARK: The session

    /// Returns the exit status.
    func run(startUpFile: Bool) -> Int32 {
        Self.current = self
        host.onUncaught = { [unowned self] host, text in
            guard host.endingStatus == nil else { return status = host.endingStatus }
            // It has met a callback, but the entry that runs the loop is what the user sees.
            if taskRuns, text.prefix(while: { $0 != "\n" }).hasSuffix("interrupted!") { return interruptEntry() }
            report(text)
        }
        terminal_at_exit { REPL.current?.leave() }
        LuaHost.setLastWords(terminal_say_farewell)
        LuaHost.setAroundProgram { begins in
            guard linux_is_main_thread() != 0, let prompt = REPL.current else { return }
            prompt.lendTerminal(begins != 0)
        }
        host.loop.addCommonMode(mode)
        guard watch() else {
            Program.report("standard input cannot be watched")
            return 1
        }
        if startUpFile, display != nil { runStartUpFile() }
        prompt()
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
        terminal_lend(lends ? 1 : 0)
    }

    private func watch() -> Bool {
        do throws(RunLoop.FDPort.Failure) {
            if let display {
                guard keyboard.start() else { return false }
                input = keyboard.source
                let sizePort = try RunLoop.FDPort(terminal_watch(), name: "changes of the terminal") {
                    [unowned self] _, _ in
                    if terminal_take_change() != 0 { display.edit { $0.redraw() } }
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
            terminal_flush()
            host.forgetInterrupt()
        }
        host.loop.add(observer, to: mode)
        self.observer = observer
        return true
    }

    private func resize(_ display: Display) {
        var columns: Int32 = 0
        var rows: Int32 = 0
        terminal_size(&columns, &rows)
        if columns > 0, rows > 0 { display.edit { $0.resize(columns: Int(columns), rows: Int(rows)) } }
    }

    // MARK: Input

    private func takeKeys() {
        // A run of the loop inside the entry: they wait for its end.
        guard !taskRuns, let display else { return }
        guard let keys = keyboard.take() else { return end(task == nil ? 0 : 1) }  // the terminal is gone
        handle(display.edit { $0.feed(keys) })
    }

    private func handle(_ new: [LineEditor.Event]) {
        events += new
        // What was typed ahead comes from a prompt that is shown while an event is handled: it takes its turn.
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        while !events.isEmpty {
            let event = events.removeFirst()
            if event != .interrupt { lastInterrupt = nil }
            switch event {
            case .line(let text): enter(text)
            case .endOfFile: end(0)
            case .interrupt: interruptKey()
            case .discarded: isInEditorMode = false
            case .suspend: suspend()
            case .bell: break
            }
        }
    }

    /// Without an editor: a line at a time, and none while an entry waits.
    private func takeLines() {
        repeat {
            var length = 0
            guard let line = terminal_read_line(&length) else { return end(0) }
            defer { free(line) }
            let text = String(decoding: UnsafeRawBufferPointer(start: line, count: length), as: UTF8.self)
            let entry = incomplete.isEmpty ? text : incomplete + "\n" + text
            guard isFinished(entry) else {
                incomplete = entry
                prompt()
                continue
            }
            incomplete = ""
            enter(entry)
        } while task == nil && status == nil && terminal_buffered_input() > 0
    }

    private func isFinished(_ text: String) -> Bool {
        let lastLine = text.split(separator: "\n", omittingEmptySubsequences: false).last.map(String.init) ?? ""
        if lastLine.trimmed == ".break" { return true }
        if isInEditorMode { return lastLine.trimmed == "." }
        return Command(text) != nil || !script.isIncomplete(text)
    }

    private func complete(_ text: String, _ cursor: Int) -> LineEditor.Completion {
        let before = String(decoding: text.utf8.prefix(cursor), as: UTF8.self)
        if let found = Command.complete(before) { return found }
        let (start, candidates) = script.complete(before)
        return LineEditor.Completion(start: start, candidates: candidates)
    }

    /// Shows the prompt; input goes on.
    func prompt(with text: String = "") {
        guard status == nil else { return }
        if task != nil { return }
        var first = script.text(ofGlobal: "_PROMPT")
        let further = script.text(ofGlobal: "_PROMPT2") ?? ">> "
        guard let display else {
            terminal_flush()
            return Output.write(incomplete.isEmpty ? first ?? "> " : further, to: 1)
        }
        if first == nil { first = usesColor ? "\u{1B}[1m>\u{1B}[m " : "> " }
        display.catchUp()
        keyboard.resume()
        let events = display.edit { editor in
            editor.prompt = first ?? "> "
            editor.continuationPrompt = further
            return editor.begin(with: text)
        }
        handle(events)
    }

    func useEditorMode() { isInEditorMode = true }

    // MARK: Entries

    private func enter(_ text: String) {
        if isInEditorMode {
            isInEditorMode = false
            var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            let last = lines.popLast()?.trimmed
            return last == ".break" ? prompt() : evaluate(lines.joined(separator: "\n"))
        }
        if text.split(separator: "\n").last?.trimmed == ".break" { return prompt() }
        if let command = Command(text) {
            perform(command)
            // A command that began an entry shows the prompt when that has ended.
            if task == nil, display.map({ $0.edit { !$0.isActive } }) ?? true { prompt() }
            return
        }
        if let word = Self.farewells.first(where: { text.trimmed == $0 || text.trimmed == "\($0)()" }),
            script.text(ofGlobal: word) == nil
        {
            Output.write(".exit or Control-D leaves\n", to: 1)
            return prompt()
        }
        evaluate(text)
    }

    // What one tries who knows other prompts.
    private static let farewells = ["exit", "quit"]

    /// Runs an entry; the prompt comes back when it has ended.
    func evaluate(_ text: String, deep: Bool = false) {
        if let message = script.compile(text) {
            report(message)
            return prompt()
        }
        if !text.utf8.allSatisfy({ $0 == 0x20 }) { accepted.append(text) }
        var hasEnded = false
        let task = host.start { task in
            task.onResults = { [unowned self] thread, count in
                let width = display.map { $0.edit(\.columns) } ?? 80
                if let text = script.show(thread, count, width: width, color: usesColor, deep: deep) {
                    Output.write(text + "\n", to: 1)
                }
                hasEnded = true
                ended()
            }
            task.onFailure = { [unowned self] message in
                report(message.hasPrefix("cancelled\n") || message == "cancelled" ? "interrupted!" : message)
                hasEnded = true
                ended()
            }
            task.onRunning = { [unowned self] runs in
                taskRuns = runs
                // What the entry runs, `io.read` or another program, finds the terminal as it was.
                guard display != nil else { return }
                guard runs else { return keyboard.resume() }
                if keyboard.pause() { host.interrupt() }
                host.handInterruptOver()
            }
        }
        if hasEnded { return prompt() }
        self.task = task
        if task == nil {
            report("not enough memory")
            prompt()
        } else if display == nil {
            // Its input must wait for it.
            input.map { host.loop.remove($0, from: mode) }
            host.loop.add(waiting, to: mode)
        }
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
            prompt()
            if display == nil, terminal_buffered_input() > 0 { takeLines() }
        }
    }

    /// Shows an error, as everything on standard error.
    func report(_ message: String) {
        let text = usesColor ? "\u{1B}[31m\(message)\u{1B}[m\n" : message + "\n"
        terminal_flush()
        Output.write(text, to: 2)
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

    private func interruptKey() {
        if let task {
            task.cancel()
            return
        }
        guard display != nil else { return end(130) }
        let now = host.loop.now
        if let lastInterrupt, now - lastInterrupt < .seconds(1) { return end(130) }
        lastInterrupt = now
        Output.write("(press Control-C again to leave, or Control-D)\n", to: 1)
    }

    private func suspend() {
        guard let display else { return }
        _ = keyboard.pause()
        kill(0, SIGTSTP)
        _ = terminal_take_change()
        keyboard.resume()
        resize(display)
        display.edit { $0.show() }
    }

    func end(_ status: Int32) {
        if self.status == nil { self.status = status }
        host.loop.stopAll()
    }

    /// The mode that the prompt runs the loop in.
    var currentMode: RunLoop.Mode {
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
