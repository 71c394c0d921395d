import Glibc
import LineEditor
import Linux
import RunLoops

/// What a prompt does wherever its Lua is: the line editor, or plain lines; entries of several lines; dot commands; the keys
/// that leave and suspend. Subclasses know how entries run.
class Prompt {
    final let loop: RunLoop
    /// nil: no editor.
    final let display: REPL.Display?
    final let usesColor: Bool
    final let terminalIsOpen: Bool
    /// What has been entered and is not complete, without an editor.
    final var incomplete = ""
    /// Set when the prompt is to end.
    final var status: Int32?
    /// For `.save`.
    final var accepted: [String] = []
    private var events: [LineEditor.Event] = []
    private var isHandling = false
    private var isInEditorMode = false
    /// When Control-C was pressed on an empty line.
    private var lastInterrupt: RunLoop.Instant?

    init(_ loop: RunLoop) {
        self.loop = loop
        terminalIsOpen = isatty(1) != 0 && Terminal.open()
        guard terminalIsOpen else {
            display = nil
            usesColor = false
            return
        }
        let term = getenv("TERM").map { String(cString: $0) } ?? "dumb"
        usesColor = term != "dumb" && !(getenv("NO_COLOR").map { $0.pointee != 0 } ?? false)
        let editor = LineEditor()
        if let path = REPL.historyPath() { editor.history = History(file: HistoryFile(path: path)) }
        editor.usesColor = usesColor
        editor.isDumb = term == "dumb"
        editor.reflows = getenv("XTERM_VERSION") == nil && term != "linux"
        let highlighter = LuaHighlighter()
        editor.highlight = { highlighter.highlight($0) }
        display = REPL.Display(editor)
        editor.isComplete = { [unowned self] text in isFinished(text) ? .complete : .incomplete }
        editor.complete = { [unowned self] text, cursor in
            let before = String(decoding: text.utf8.prefix(cursor), as: UTF8.self)
            return REPL.Command.complete(before) ?? candidates(before)
        }
    }

    // MARK: For the subclass

    /// An entry runs, or waits.
    var isBusy: Bool { fatalError("a prompt knows whether an entry runs") }
    /// What leaving does not end, for the hint.
    var leavingHint: String { "" }
    /// Whether Lua would take it as the beginning of something longer.
    func isIncomplete(_ text: String) -> Bool { fatalError("a prompt asks Lua") }
    /// What the end of a text may be completed to.
    func candidates(_ before: String) -> LineEditor.Completion { fatalError("a prompt asks Lua") }
    /// Shows the prompt; input goes on.
    func prompt(with text: String = "") { fatalError("a prompt shows itself") }
    /// Runs an entry; the prompt comes back when it has ended.
    func evaluate(_ text: String, deep: Bool = false) { fatalError("a prompt runs entries") }
    /// Whether the text asks to leave in words that are not Lua's; the user has been told how, then.
    func isFarewell(_ text: String) -> Bool { false }
    /// The commands whose answers depend on where Lua is: mode, timers, why, and help for a name.
    func answer(_ command: REPL.Command) { fatalError("a prompt answers commands") }
    /// The commands that make no sense here.
    var absentCommands: Set<String> { [] }
    /// Plain input is over.
    func inputEnded() { end(0) }
    /// Control-C while an entry runs or waits.
    func interruptBusy() { fatalError("a prompt interrupts entries") }
    /// Gives the terminal to whoever started this process, and takes it back.
    func suspendTerminal() { fatalError("a prompt has the terminal") }
    func resumeTerminal() { fatalError("a prompt has the terminal") }

    // MARK: Input

    final func resize(_ display: REPL.Display) {
        let size = Terminal.size
        if let columns = size.columns, let rows = size.rows { display.edit { $0.resize(columns: columns, rows: rows) } }
    }

    final func handle(_ new: [LineEditor.Event]) {
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

    /// Without an editor: a line at a time, and none while an entry runs or waits.
    final func takeLines() {
        repeat {
            guard let line = Terminal.readLine() else { return inputEnded() }
            let text = String(decoding: line, as: UTF8.self)
            let entry = incomplete.isEmpty ? text : incomplete + "\n" + text
            guard isFinished(entry) else {
                incomplete = entry
                prompt()
                continue
            }
            incomplete = ""
            enter(entry)
        } while !isBusy && status == nil && Terminal.bufferedInput > 0
    }

    private func isFinished(_ text: String) -> Bool {
        let lastLine = text.split(separator: "\n", omittingEmptySubsequences: false).last.map(String.init) ?? ""
        if lastLine.trimmed == ".break" { return true }
        if isInEditorMode { return lastLine.trimmed == "." }
        return REPL.Command(text) != nil || !isIncomplete(text)
    }

    private func enter(_ text: String) {
        if isInEditorMode {
            isInEditorMode = false
            var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            let last = lines.popLast()?.trimmed
            return last == ".break" ? prompt() : evaluate(lines.joined(separator: "\n"))
        }
        if text.split(separator: "\n").last?.trimmed == ".break" { return prompt() }
        guard let command = REPL.Command(text) else { return isFarewell(text) ? prompt() : evaluate(text) }
        perform(command)
        // A command that began an entry shows the prompt when that has ended.
        if !isBusy, display.map({ $0.edit { !$0.isActive } }) ?? true { prompt() }
    }

    private func perform(_ command: REPL.Command) {
        switch command.name {
        case "help" where command.argument.isEmpty: say(REPL.Command.list(without: absentCommands))
        case "help", "mode", "timers", "why": answer(command)
        case "load": if let text = REPL.Command.read(command.argument, report) { evaluate(text) }
        case "save": if let text = REPL.Command.save(accepted, to: command.argument, report) { say(text) }
        case "editor":
            isInEditorMode = true
            say("type the lines; a line with a single dot ends and runs them, .break drops them")
        case "break": break
        case "exit": end(0)
        case "inspect" where command.argument.isEmpty:
            report(".inspect: an expression is expected: .inspect package.loaded")
        case "inspect": evaluate("=" + command.argument, deep: true)
        default: report(REPL.Command.unknown(command.name))
        }
    }

    // MARK: Output

    final func say(_ text: String) { Output.write(text + "\n", to: 1) }

    /// Shows an error, as everything on standard error.
    final func report(_ message: String) {
        Terminal.flush()
        Output.write(usesColor ? "\u{1B}[31m\(message)\u{1B}[m\n" : message + "\n", to: 2)
    }

    // MARK: Control-C, Control-Z, the end

    final func interruptKey() {
        guard !isBusy else { return interruptBusy() }
        guard display != nil else { return end(130) }
        let now = loop.now
        if let lastInterrupt, now - lastInterrupt < .seconds(1) { return end(130) }
        lastInterrupt = now
        say("(press Control-C again to leave, or Control-D\(leavingHint))")
    }

    private func suspend() {
        guard let display else { return }
        suspendTerminal()
        kill(0, SIGTSTP)
        _ = Terminal.takeChange()
        resumeTerminal()
        resize(display)
        display.edit { $0.show() }
    }

    final func end(_ status: Int32) {
        if self.status == nil { self.status = status }
        loop.stopAll()
    }
}
