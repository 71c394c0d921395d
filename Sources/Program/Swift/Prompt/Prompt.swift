import Glibc
import LineEditor
import Linux
import Lua
import RunLoops

/// The part of a prompt that is the same whether Lua code runs in this process or in another: the line editor or plain
/// lines, entries of several lines, dot commands, and the keys that leave and suspend. The owner of the prompt runs the
/// entries.
final class Prompt {
    private let loop: RunLoop
    private unowned let owner: any PromptOwner
    /// nil without an editor.
    let display: Display?
    let usesColor: Bool
    /// Without an editor: the lines of an incomplete entry.
    var incomplete = ""
    /// The exit status; set when the prompt must end.
    var status: Int32?
    /// The text that the next prompt begins with.
    private var nextText = ""
    /// The entries for `.save`.
    var accepted: [String] = []
    private var events: [LineEditor.Event] = []
    private var isHandling = false
    /// Whether the prompt is in editor mode, in which the same text may have another meaning.
    private var isInEditorMode = false { didSet { latest = nil } }
    /// The last text that was classified, and its kind. The editor asks whether a text is complete just before it
    /// returns the text, so this saves classifying it twice.
    private var latest: (text: String, input: Input)?
    /// The time at which Control-C was last pressed on an empty line.
    private var lastInterrupt: RunLoop.Instant?

    init(_ loop: RunLoop, owner: any PromptOwner) {
        self.loop = loop
        self.owner = owner
        let term = getenv("TERM").map { String(cString: $0) } ?? "dumb"
        // Do not use the line editor inside a program that has its own, such as Emacs.
        let isPlain = term == "dumb" && !Terminal.echoes
        guard isatty(1) != 0 && !isPlain && Terminal.open() else {
            display = nil
            usesColor = false
            return
        }
        usesColor = term != "dumb" && !(getenv("NO_COLOR").map { $0.pointee != 0 } ?? false)
        let editor = LineEditor()
        if let history = PromptFiles.history() { editor.history = history }
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
        display = Display(editor)
        editor.hint = { [unowned self] in self.owner.hint($0) }
        editor.isComplete = { [unowned self] text in
            if case .unfinished = read(text) { .incomplete } else { .complete }
        }
        editor.complete = { [unowned self] text, cursor in
            let before = String(decoding: text.utf8.prefix(cursor), as: UTF8.self)
            if let completion = Command.complete(before) { return completion }
            var completion = self.owner.candidates(before)
            // Lua counts bytes of the original text, which may contain bytes that are not UTF-8.
            completion.start = before.anyBytes.prefix(completion.start).withUnsafeBytes {
                String(anyBytes: $0).utf8.count
            }
            return completion
        }
    }

    // MARK: The session

    // The prompt. The C function that is called at exit has no argument, so it uses this variable; on the main thread
    // only.
    nonisolated(unsafe) private static var current: Prompt?

    /// From now on the terminal is restored however the process ends.
    func begin() {
        Self.current = self
        Ending.at(.leavePrompt) { Prompt.current?.leave() }
    }

    /// Reports problems with the history: at the start, and when an entry could not be stored. Reports each problem
    /// only once.
    func tellOfHistory() {
        guard let notice = display?.edit({ PromptFiles.notice(of: $0.history) }), notice != historyNotice else {
            return
        }
        historyNotice = notice
        report(notice)
    }

    private var historyNotice: String?

    /// Restores the terminal.
    func leave() {
        Self.current = nil
        guard let display else { return }
        display.close()
        owner.suspendTerminal()
    }

    func end(_ status: Int32) {
        if self.status == nil { self.status = status }
        loop.stopAll()
    }

    // MARK: Input

    /// Lua code to run, and how to show its results.
    struct Entry {
        var text: String
        /// Whether values are shown with everything inside them.
        var isDeep = false
        /// Whether the time that the entry takes is shown.
        var isTimed = false
        /// Whether the results are shown in the user's pager.
        var isPaged = false
        /// The file that the entry comes from.
        var file: String?
    }

    /// The meaning of an entered text.
    private enum Input {
        case unfinished
        case dropped
        case command(Command)
        case code(String)
    }

    private func read(_ text: String) -> Input {
        if let latest, latest.text == text { return latest.input }
        let input = understand(text)
        latest = (text, input)
        return input
    }

    private func understand(_ text: String) -> Input {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let lastLine = lines.popLast()?.trimmed
        if lastLine == ".break" { return .dropped }
        if isInEditorMode { return lastLine == "." ? .code(lines.joined(separator: "\n")) : .unfinished }
        if let command = Command(text) { return .command(command) }
        return owner.isIncomplete(text) ? .unfinished : .code(text)
    }

    private func enter(_ text: String) {
        tellOfHistory()
        let input = read(text)
        latest = nil
        let wasInEditorMode = isInEditorMode
        isInEditorMode = false
        switch input {
        case .command(let command): perform(command)
        case .dropped: break
        // Also run an unfinished text: the error names the missing part.
        case .unfinished: owner.evaluate(Entry(text: text))
        case .code(let code) where wasInEditorMode || !owner.isFarewell(code): owner.evaluate(Entry(text: code))
        case .code: break
        }
    }

    private func perform(_ command: Command) {
        let argument = command.argument
        guard let name = command.name, !owner.absentCommands.contains(name) else { return report(command.isUnknown) }
        switch name {
        case .help where argument.isEmpty: say(Command.list(without: owner.absentCommands))
        case .reload where argument.isEmpty: report(".reload: the name of a module is expected")
        case .help, .mode, .timers, .tasks, .traceback, .why, .where, .interrupt, .follow, .reload:
            owner.answer(command)
        case .load, .save:
            do throws(PromptFiles.Failure) {
                if name == .load {
                    return owner.evaluate(Entry(text: try PromptFiles.entry(inFile: argument), file: argument))
                }
                try PromptFiles.save(accepted.map { owner.statement($0) }, to: argument)
                say("\(accepted.count) entries written to \(argument)")
            } catch {
                report(error.message)
            }
        case .editor:
            isInEditorMode = true
            say("type the lines; a line with a single dot ends and runs them, .break drops them")
        case .break: break
        case .exit: end(0)
        case .edit:
            guard display != nil else { return report(".edit: there is no editor without a terminal") }
            nextText = edited(accepted.last ?? "") ?? ""
        case .inspect where argument.isEmpty:
            report(".inspect: an expression is expected: .inspect package.loaded")
        case .inspect: owner.evaluate(Entry(text: "=" + argument, isDeep: true))
        case .page where argument.isEmpty: report(".page: an expression is expected: .page package.loaded")
        case .page: owner.evaluate(Entry(text: "=" + argument, isDeep: true, isPaged: display != nil))
        case .time where argument.isEmpty: report(".time: code is expected: .time rl.sleep(1)")
        case .time: owner.evaluate(Entry(text: argument, isTimed: true))
        }
    }

    /// Shows the prompt if it is time for it and it is not shown already. May be called at any time, any number of
    /// times. No other function shows the prompt, so it cannot appear twice if keys were typed ahead.
    func proceed() {
        guard status == nil, !owner.isBusy, !isShown else { return }
        let texts = owner.texts()
        guard let display else {
            isWaitingForLine = true
            Terminal.flush()
            if let texts { Output.write(incomplete.isEmpty ? texts.first : texts.further, to: 1) }
            return
        }
        display.catchUp()
        owner.willShow()
        let events = display.edit { editor in
            editor.prompt = texts?.first ?? ""
            editor.continuationPrompt = texts?.further ?? ""
            defer { nextText = "" }
            return editor.begin(with: nextText)
        }
        handle(events)
    }

    private var isShown: Bool { display.map { $0.edit(\.isActive) } ?? isWaitingForLine }
    /// Without an editor: whether the prompt is shown and no line has been read.
    private var isWaitingForLine = false

    func resize(_ display: Display) {
        let size = Terminal.size
        if let columns = size.columns, let rows = size.rows { display.edit { $0.resize(columns: columns, rows: rows) } }
    }

    /// The width of the terminal in columns.
    var width: Int { display.map { $0.edit(\.columns) } ?? 80 }

    private var typedBytes = TypedBytes()

    /// Passes bytes of the terminal to the editor.
    func feed(_ keys: some Collection<UInt8>) {
        let typed = typedBytes.take(keys)
        if let display { handle(display.edit { $0.feed(typed) }) }
    }

    private func handle(_ new: [LineEditor.Event]) {
        events += new
        // Handling an event may show the next prompt, which returns events for keys typed ahead. These are handled in
        // order, by the outer call of this function.
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
            case .explain: owner.explain()
            case .edit(let text): edit(text)
            case .bell: break
            }
            proceed()
        }
    }

    /// Without an editor: handles one line at a time, and no line while an entry runs or waits.
    func takeLines() {
        repeat {
            guard let line = Terminal.readLine() else { return owner.inputEnded() }
            isWaitingForLine = false
            let text = line.withUnsafeBytes { String(anyBytes: $0) }
            let entry = incomplete.isEmpty ? text : incomplete + "\n" + text
            if case .unfinished = read(entry) {
                incomplete = entry
            } else {
                incomplete = ""
                enter(entry)
            }
            proceed()
        } while !owner.isBusy && status == nil && Terminal.bufferedInput > 0
    }

    // MARK: Output

    func say(_ text: String) { Output.write(text + "\n", to: 1) }

    /// Standard error may be a file while standard output is a terminal.
    var colorsErrors: Bool { usesColor && isatty(2) != 0 }

    /// Writes an error to standard error.
    func report(_ message: String) {
        Terminal.flush()
        Output.write(colorsErrors ? "\u{1B}[31m\(message)\u{1B}[m\n" : message + "\n", to: 2)
    }

    /// Returns the text before an entry, emphasized if the terminal shows colours.
    func emphasized(_ text: String) -> String { usesColor ? "\u{1B}[1m\(text)\u{1B}[m " : "\(text) " }

    // MARK: Control-C, Control-Z, the user's editor

    func interruptKey() {
        if owner.interruptWork() { return }
        guard display != nil else { return end(130) }
        let now = loop.now
        if let lastInterrupt, now - lastInterrupt < .seconds(1) { return end(130) }
        lastInterrupt = now
        say("(press Control-C again to leave, or Control-D\(owner.leavingHint))")
    }

    /// Opens a text in the user's editor, which gets the terminal. Returns nil after reporting a failure.
    private func edited(_ text: String) -> String? {
        lendTerminal { () throws(PromptFiles.Failure) in try Editor.edit(text, terminal: Terminal.output) }
    }

    /// Shows a text in the user's pager, and waits until the pager ends.
    func page(_ text: String) {
        lendTerminal { () throws(PromptFiles.Failure) in try Editor.page(text, terminal: Terminal.output) }
    }

    @discardableResult
    private func lendTerminal<Result>(_ body: () throws(PromptFiles.Failure) -> Result) -> Result? {
        owner.suspendTerminal()
        defer { owner.resumeTerminal() }
        do throws(PromptFiles.Failure) { return try body() } catch {
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
        owner.suspendTerminal()
        kill(0, SIGTSTP)
        _ = Terminal.takeChange()
        owner.resumeTerminal()
        resize(display)
        display.edit { $0.show() }
    }
}
