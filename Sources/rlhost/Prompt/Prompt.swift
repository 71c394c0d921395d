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
    /// What the next prompt has in it.
    final var nextText = ""
    /// For `.save`.
    final var accepted: [String] = []
    private var events: [LineEditor.Event] = []
    private var isHandling = false
    private var isInEditorMode = false
    /// When Control-C was pressed on an empty line.
    private var lastInterrupt: RunLoop.Instant?

    init(_ loop: RunLoop) {
        self.loop = loop
        let term = getenv("TERM").map { String(cString: $0) } ?? "dumb"
        // A program that shows lines and edits them itself, as Emacs does, wants no editor.
        let isPlain = term == "dumb" && !Terminal.echoes
        terminalIsOpen = isatty(1) != 0 && !isPlain && Terminal.open()
        guard terminalIsOpen else {
            display = nil
            usesColor = false
            return
        }
        usesColor = term != "dumb" && !(getenv("NO_COLOR").map { $0.pointee != 0 } ?? false)
        let editor = LineEditor()
        if let path = REPL.historyPath() {
            editor.history = History(file: HistoryFile(path: path), limit: REPL.historyLimit)
        }
        editor.usesColor = usesColor
        editor.isDumb = term == "dumb"
        editor.reflows = getenv("XTERM_VERSION") == nil && term != "linux"
        let highlighter = LuaHighlighter()
        editor.highlight = { highlighter.highlight($0) }
        editor.suggests = true
        let structure = LuaStructure()
        editor.indent = { structure.indentation(of: $0) }
        editor.brackets = { structure.brackets($0, cursor: $1) }
        editor.lastArgument = { structure.lastArgument(of: $0) }
        display = REPL.Display(editor)
        editor.isComplete = { [unowned self] text in isFinished(text) ? .complete : .incomplete }
        editor.complete = { [unowned self] text, cursor in
            let before = String(decoding: text.utf8.prefix(cursor), as: UTF8.self)
            return REPL.Command.complete(before) ?? candidates(before)
        }
    }

    /// What is to be run.
    struct Entry {
        var text: String
        /// Its values are shown with all that is in them.
        var isDeep = false
        /// How long it takes is told.
        var isTimed = false
        /// The file that it comes from.
        var file: String?
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
    /// Draws the prompt. Called by `proceed` alone.
    func show() { fatalError("a prompt shows itself") }
    /// Runs an entry. If it does not end at once, the prompt is busy until it has.
    func evaluate(_ entry: Entry) { fatalError("a prompt runs entries") }
    /// Whether the text asks to leave in words that are not Lua's; the user has been told how, then.
    func isFarewell(_ text: String) -> Bool { false }
    /// The commands whose answers depend on where Lua is: mode, timers, why, and help for a name.
    func answer(_ command: REPL.Command) { fatalError("a prompt answers commands") }
    /// The commands that make no sense here.
    var absentCommands: Set<String> { [] }
    /// Control-\\: says what keeps the process busy, or alive.
    func explain() { fatalError("a prompt knows whom to ask") }
    /// Plain input is over.
    func inputEnded() { end(0) }
    /// Control-C while an entry runs or waits.
    func interruptBusy() { fatalError("a prompt interrupts entries") }
    /// Gives the terminal to whoever started this process, and takes it back.
    func suspendTerminal() { fatalError("a prompt has the terminal") }
    func resumeTerminal() { fatalError("a prompt has the terminal") }

    // MARK: Input

    /// Shows the prompt where it is time for it, and it is not there already: it may be called at any time, as often as one
    /// likes. Nothing else shows it, so that no two can, whatever was typed ahead.
    final func proceed() {
        guard status == nil, !isBusy, !isShown else { return }
        if display == nil { isWaitingForLine = true }
        show()
    }

    private var isShown: Bool { display.map { $0.edit(\.isActive) } ?? isWaitingForLine }
    /// Without an editor: the prompt is there, and no line has come.
    private var isWaitingForLine = false

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
            case .explain: explain()
            case .edit(let text): edit(text)
            case .bell: break
            }
            proceed()
        }
    }

    /// Without an editor: a line at a time, and none while an entry runs or waits.
    final func takeLines() {
        repeat {
            guard let line = Terminal.readLine() else { return inputEnded() }
            isWaitingForLine = false
            let text = String(decoding: line, as: UTF8.self)
            let entry = incomplete.isEmpty ? text : incomplete + "\n" + text
            if isFinished(entry) {
                incomplete = ""
                enter(entry)
            } else {
                incomplete = entry
            }
            proceed()
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
            return last == ".break" ? () : evaluate(Entry(text: lines.joined(separator: "\n")))
        }
        if text.split(separator: "\n").last?.trimmed == ".break" { return }
        guard let command = REPL.Command(text) else { return isFarewell(text) ? () : evaluate(Entry(text: text)) }
        perform(command)
    }

    private func perform(_ command: REPL.Command) {
        switch command.name {
        case "help" where command.argument.isEmpty: say(REPL.Command.list(without: absentCommands))
        case _ where absentCommands.contains(command.name): report(REPL.Command.unknown(command.name))
        case "help", "mode", "timers", "tasks", "traceback", "why", "where", "interrupt": answer(command)
        case "load":
            if let text = REPL.Command.read(command.argument, { report($0) }) {
                evaluate(Entry(text: text, file: command.argument))
            }
        case "save": if let text = REPL.Command.save(accepted, to: command.argument, { report($0) }) { say(text) }
        case "editor":
            isInEditorMode = true
            say("type the lines; a line with a single dot ends and runs them, .break drops them")
        case "break": break
        case "exit": end(0)
        case "edit":
            guard display != nil else { return report(".edit: there is no editor without a terminal") }
            nextText = edited(accepted.last ?? "") ?? ""
        case "inspect" where command.argument.isEmpty:
            report(".inspect: an expression is expected: .inspect package.loaded")
        case "inspect": evaluate(Entry(text: "=" + command.argument, isDeep: true))
        case "time" where command.argument.isEmpty: report(".time: code is expected: .time rl.sleep(1)")
        case "time": evaluate(Entry(text: command.argument, isTimed: true))
        default: report(REPL.Command.unknown(command.name))
        }
    }

    // MARK: Output

    final func say(_ text: String) { Output.write(text + "\n", to: 1) }

    /// Standard error may be a file while standard output is the terminal.
    final var colorsErrors: Bool { usesColor && isatty(2) != 0 }

    /// Shows an error, as everything on standard error.
    final func report(_ message: String) {
        Terminal.flush()
        Output.write(colorsErrors ? "\u{1B}[31m\(message)\u{1B}[m\n" : message + "\n", to: 2)
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

    /// Has a text edited by the user's editor, which gets the terminal; nil, and told why, if that failed.
    private func edited(_ text: String) -> String? {
        suspendTerminal()
        defer { resumeTerminal() }
        do throws(Editor.Failure) {
            return try Editor.edit(text, terminal: Terminal.output)
        } catch {
            report(error.message)
            return nil
        }
    }

    private func edit(_ text: String) {
        let text = edited(text) ?? text
        guard let display else { return }
        resize(display)
        display.edit { $0.show(with: text) }
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
