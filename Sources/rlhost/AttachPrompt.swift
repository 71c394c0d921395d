import CLinux
import Glibc
import LineEditor
import LuaRunLoops
import RunLoops

/// The prompt of `rlhost attach`: the line editor is here, Lua is in the process.
///
/// The client runs no Lua, so the terminal can send each key as it comes all the time: Control-C is one of them.
final class AttachPrompt {
    private let connection: AttachConnection
    /// nil: no editor.
    private let display: REPL.Display?
    private let usesColor: Bool
    private let terminalIsOpen: Bool
    private let showsPrompt: Bool
    private var ports: [RunLoop.FDPort] = []
    private var input: RunLoop.FDPort?
    /// An entry runs, or waits.
    private var isBusy = false
    private var hasFailed = false
    private var events: [LineEditor.Event] = []
    private var isHandling = false
    private var incomplete = ""
    /// How often Control-C was pressed since the entry began.
    private var interrupts = 0
    private var inputHasEnded = false
    private var isInEditorMode = false
    private var lastInterrupt: RunLoop.Instant?
    private var status: Int32?
    private var accepted: [String] = []
    private var loop: RunLoop { connection.loop }

    init(_ connection: AttachConnection) {
        self.connection = connection
        showsPrompt = isatty(0) != 0
        terminalIsOpen = isatty(1) != 0 && terminal_open() != 0
        guard terminalIsOpen else {
            display = nil
            usesColor = false
            return
        }
        let term = getenv("TERM").map { String(cString: $0) } ?? "dumb"
        usesColor = term != "dumb" && !(getenv("NO_COLOR").map { $0.pointee != 0 } ?? false)
        let editor = LineEditor()
        if let path = REPL.historyPath(false) { editor.history = History(file: HistoryFile(path: path)) }
        editor.usesColor = usesColor
        editor.isDumb = term == "dumb"
        editor.reflows = getenv("XTERM_VERSION") == nil && term != "linux"
        let highlighter = LuaHighlighter()
        editor.highlight = { highlighter.highlight($0) }
        display = REPL.Display(editor)
        editor.isComplete = { [unowned self] text in isFinished(text) ? .complete : .incomplete }
        editor.complete = { [unowned self] text, cursor in complete(text, cursor) }
    }

    // MARK: The session

    /// Returns the exit status.
    func run() -> Int32 {
        Self.current = self
        terminal_at_exit { AttachPrompt.current?.leave() }
        connection.received = { [unowned self] event, bytes in take(event, bytes) }
        connection.waits = { [unowned self] in
            note("\(connection.target.text) is busy; the entry waits for its turn (Control-C takes it back)")
        }
        connection.lost = { [unowned self] in
            report("\(connection.target.text) has ended")
            end(AttachCommand.Status.unavailable)
        }
        guard watch() else {
            Program.report("standard input cannot be watched")
            return 1
        }
        if showsPrompt {
            let script = connection.script.isEmpty ? "" : ": \(connection.script)"
            Output.write(
                "rlhost \(Program.version), attached to \(connection.target.text)\(script) [\(connection.release)]\n"
                    + "Control-D leaves, and the process goes on\n", to: 1)
        }
        prompt()
        if connection.isLost { connection.lost() }
        while status == nil { loop.run() }
        connection.close()
        leave()
        return status ?? 0
    }

    // For the exit function, which gets no argument; used on the main thread only.
    nonisolated(unsafe) private static var current: AttachPrompt?

    private func leave() {
        Self.current = nil
        display?.close()
        if terminalIsOpen { terminal_set_mode(TERMINAL_OWN) }
    }

    private func end(_ status: Int32) {
        if self.status == nil { self.status = status }
        loop.stopAll()
    }

    private func watch() -> Bool {
        func add(_ fd: Int32, _ body: @escaping () -> Void) throws(RunLoop.FDPort.Failure) -> RunLoop.FDPort {
            let port = try RunLoop.FDPort(fd) { _, _ in body() }
            loop.add(port, to: .default)
            ports.append(port)
            return port
        }
        do throws(RunLoop.FDPort.Failure) {
            let signals = linux_watch_signals()
            _ = try add(signals) { [unowned self] in
                let signal = linux_take_watched_signal(signals)
                if signal == SIGINT { interruptKey() } else if signal != 0 { end(128 + signal) }
            }
            if let display {
                _ = try add(terminal_watch()) { [unowned self] in
                    if terminal_take_change() != 0 { display.edit { $0.redraw() } }
                    resize(display)
                }
                resize(display)
                terminal_set_mode(TERMINAL_RAW)
            }
            input = try add(0) { [unowned self] in takeInput() }
        } catch {
            return false
        }
        return true
    }

    private func resize(_ display: REPL.Display) {
        var columns: Int32 = 0
        var rows: Int32 = 0
        terminal_size(&columns, &rows)
        if columns > 0, rows > 0 { display.edit { $0.resize(columns: Int(columns), rows: Int(rows)) } }
    }

    // MARK: Input

    private func takeInput() {
        guard let display else { return takeLines() }
        var bytes = [UInt8](repeating: 0, count: 1 << 14)
        let count = bytes.withUnsafeMutableBytes { read(0, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR || errno == EAGAIN { return }
        guard count > 0 else { return end(isBusy ? 1 : 0) }  // the terminal is gone
        handle(display.edit { $0.feed(bytes[..<count]) })
    }

    private func handle(_ new: [LineEditor.Event]) {
        events += new
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

    /// Without an editor: a line at a time, and none while an entry runs.
    private func takeLines() {
        repeat {
            var length = 0
            guard let line = terminal_read_line(&length) else { return finish() }
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
        } while !isBusy && status == nil && terminal_buffered_input() > 0
    }

    /// The end of an input that is read plainly.
    private func finish() {
        inputHasEnded = true
        if !incomplete.isEmpty {
            let rest = incomplete
            incomplete = ""
            evaluate(rest)
            if isBusy { return }
        }
        end(hasFailed && !showsPrompt ? 1 : 0)
    }

    private func isFinished(_ text: String) -> Bool {
        let lastLine = text.split(separator: "\n", omittingEmptySubsequences: false).last.map(String.init) ?? ""
        if lastLine.trimmed == ".break" { return true }
        if isInEditorMode { return lastLine.trimmed == "." }
        // Who does not answer gets the entry as it is, and says what is wrong with it.
        return REPL.Command(text) != nil || connection.question(.isIncomplete, text, seconds: 3) != "1"
    }

    private func complete(_ text: String, _ cursor: Int) -> LineEditor.Completion {
        let before = String(decoding: text.utf8.prefix(cursor), as: UTF8.self)
        if let found = REPL.Command.complete(before) { return found }
        var lines = (connection.question(.complete, before, seconds: 1) ?? "").split(separator: "\n").map(String.init)
        guard let start = lines.first.flatMap({ Int($0) }) else {
            return LineEditor.Completion(start: before.utf8.count, candidates: [])
        }
        lines.removeFirst()
        return LineEditor.Completion(start: start, candidates: lines)
    }

    /// Shows the prompt; input goes on.
    private func prompt(with text: String = "") {
        guard status == nil, !isBusy else { return }
        let name = connection.target.name ?? "\(connection.target.process)"
        guard let display else {
            if showsPrompt { Output.write(incomplete.isEmpty ? "\(name)> " : ">> ", to: 1) }
            return
        }
        display.catchUp()
        let events = display.edit { editor in
            editor.prompt = usesColor ? "\u{1B}[1m\(name)>\u{1B}[m " : "\(name)> "
            editor.continuationPrompt = ">> "
            return editor.begin(with: text)
        }
        handle(events)
    }

    // MARK: Entries

    private func enter(_ text: String) {
        let lastLine = text.split(separator: "\n").last?.trimmed
        if isInEditorMode {
            isInEditorMode = false
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            return lastLine == ".break" ? prompt() : evaluate(lines.joined(separator: "\n"))
        }
        if lastLine == ".break" { return prompt() }
        guard let command = REPL.Command(text) else { return evaluate(text) }
        perform(command)
        if !isBusy, display.map({ $0.edit { !$0.isActive } }) ?? true { prompt() }
    }

    /// Runs an entry in the process; the prompt comes back when it has ended.
    private func evaluate(_ text: String, deep: Bool = false) {
        let isBlank = text.utf8.allSatisfy { $0 == 0x20 }
        if isBlank { return prompt() }
        accepted.append(text)
        isBusy = true
        interrupts = 0
        // Its input must wait for it.
        if display == nil, let input { loop.remove(input, from: .default) }
        let width = display.map { $0.edit(\.columns) } ?? 80
        connection.enter(text, width: width, usesColor: usesColor, isDeep: deep)
    }

    private func take(_ event: Attach.Event, _ bytes: [UInt8]) {
        switch event {
        case .output, .result: linux_print(1, bytes, bytes.count)
        case .error:
            hasFailed = true
            report(String(decoding: bytes.last == 10 ? bytes.dropLast() : bytes[...], as: UTF8.self))
        case .notice: note(String(decoding: bytes, as: UTF8.self))
        case .ended: ended()
        case .started, .end: break
        }
    }

    private func ended() {
        guard isBusy else { return }
        isBusy = false
        if display == nil, let input, status == nil { loop.add(input, to: .default) }
        // Behind the other events that came with this one.
        loop.perform { [weak self] in
            guard let self else { return }
            if inputHasEnded { return finish() }
            prompt()
            if display == nil, terminal_buffered_input() > 0 { takeLines() }
        }
    }

    private func report(_ message: String) {
        terminal_flush()
        Output.write(usesColor ? "\u{1B}[31m\(message)\u{1B}[m\n" : message + "\n", to: 2)
    }

    private func note(_ message: String) { Output.write("rlhost: \(message)\n", to: 2) }

    // MARK: Commands

    private func perform(_ command: REPL.Command) {
        switch command.name {
        case "help" where command.argument.isEmpty: say(REPL.Command.list(without: ["mode"]))
        case "help": tell(.ask, "help \(command.argument)")
        case "why": tell(.ask, "why")
        case "timers": tell(.ask, "why", REPL.Command.timers(in:))
        case "load": load(command.argument)
        case "save": if let text = REPL.Command.save(accepted, to: command.argument, report) { say(text) }
        case "editor":
            isInEditorMode = true
            say("type the lines; a line with a single dot ends and runs them, .break drops them")
        case "exit": end(0)
        case "mode": report(".mode: the process runs its loop itself; this prompt is there in all common modes")
        case "inspect" where command.argument.isEmpty:
            report(".inspect: an expression is expected: .inspect package.loaded")
        case "inspect": evaluate("=" + command.argument, deep: true)
        default: report(REPL.Command.unknown(command.name))
        }
    }

    private func say(_ text: String) { Output.write(text + "\n", to: 1) }

    private func tell(_ request: Attach.Request, _ text: String, _ change: (String) -> String = { $0 }) {
        if let answer = connection.question(request, text, seconds: 5) { return say(change(answer)) }
        if !connection.isLost { report("\(connection.target.text) is busy and has not answered for 5 s") }
    }

    private func load(_ path: String) {
        if let text = REPL.Command.read(path, report) { evaluate(text) }
    }

    // MARK: Control-C, Control-Z

    private func interruptKey() {
        guard !isBusy else { return interruptEntry() }
        guard display != nil else { return end(130) }
        let now = loop.now
        if let lastInterrupt, now - lastInterrupt < .seconds(1) { return end(130) }
        lastInterrupt = now
        say("(press Control-C again to leave, or Control-D; the process goes on)")
    }

    /// One that sits in a C function, or in another program, does not notice; and this is no reason to stay.
    private func interruptEntry() {
        interrupts += 1
        connection.interrupt()
        if interrupts == 2 { note("it has not ended yet; a third Control-C leaves it to the process to end it") }
        if interrupts > 2 { end(130) }
    }

    private func suspend() {
        guard let display else { return }
        terminal_set_mode(TERMINAL_OWN)
        kill(0, SIGTSTP)
        _ = terminal_take_change()
        terminal_set_mode(TERMINAL_RAW)
        resize(display)
        display.edit { $0.show() }
    }
}
