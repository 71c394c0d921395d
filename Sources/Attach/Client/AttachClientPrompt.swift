import Glibc
import LineEditor
import Linux
import LuaPrompt
import LuaRunLoops
import RunLoops

/// The prompt of `rlhost attach`: the line editor runs here, and Lua runs in the other process.
///
/// The client itself runs no code of the user, so the terminal always delivers each key at once, Control-C included.
final class AttachClientPrompt: PromptOwner {
    private let loop: RunLoop
    private lazy var prompt = Prompt(loop, owner: self)
    private let connection: AttachClientConnection
    private let showsPrompt: Bool
    private var ports: [RunLoop.FDPort] = []
    private var input: RunLoop.FDPort?
    /// The entries that have not ended, in the order in which they will end.
    private var entries: [Prompt.Entry] = []
    /// The number of commands that wait for their answers.
    private var questions = 0
    /// Whether the process is busy. Entries then wait in the process, and the user can go on typing here.
    private var isInBackground = false
    private var hasFailed = false
    /// A Lua state in this process, which decides whether an entry is complete. It lives until this process ends.
    private lazy var grammar: PromptScript? = {
        guard let host = LuaHost(loop: loop), host.openLibraries(ignoringEnvironment: true) == nil,
            let script = PromptScript(host)
        else { return nil }
        _ = Unmanaged.passRetained(host)
        return Unmanaged.passRetained(script).takeUnretainedValue()
    }()
    /// The number of times that Control-C was pressed since the entry began.
    private var interrupts = 0
    private var inputHasEnded = false

    init(_ connection: AttachClientConnection) {
        self.connection = connection
        showsPrompt = isatty(0) != 0
        loop = connection.loop
    }

    // MARK: The session

    /// Returns the exit status.
    func run() -> Int32 {
        prompt.begin()
        connection.received = { [unowned self] event, bytes in take(event, bytes) }
        connection.waits = { [unowned self] in
            note(
                "\(connection.target.text) is busy; the entry runs in its turn (Control-C withdraws it, .where "
                    + "shows where it is)"
            )
            guard prompt.display != nil else { return }
            isInBackground = true
            prompt.proceed()
        }
        connection.lost = { [unowned self] in
            // Do this first, so that no further request is sent to the process.
            prompt.end(Program.Refusal.unavailable)
            questions = 0
            prompt.report("\(connection.target.text) has ended")
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
        prompt.tellOfHistory()
        prompt.proceed()
        if connection.isLost { connection.lost() }
        while prompt.status == nil { loop.run() }
        connection.close()
        prompt.leave()
        return prompt.status ?? 0
    }

    private func watch() -> Bool {
        func add(_ fd: Int32, _ body: @escaping () -> Void) throws(SystemError) -> RunLoop.FDPort {
            let port = try RunLoop.FDPort(fd) { _, _ in body() }
            loop.add(port, to: .default)
            ports.append(port)
            return port
        }
        do throws(SystemError) {
            let signals = try Signals.watch()
            _ = try add(signals.number) { [unowned self] in
                guard let signal = Signals.take(signals.number) else { return }
                if signal == SIGINT { prompt.interruptKey() } else { prompt.end(128 + signal) }
            }
            if let display = prompt.display {
                _ = try add(Terminal.watch()) { [unowned self] in
                    if Terminal.takeChange() { display.edit { $0.redraw() } }
                    prompt.resize(display)
                }
                prompt.resize(display)
                Terminal.setRaw(true)
            }
            input = try add(0) { [unowned self] in takeInput() }
        } catch {
            return false
        }
        return true
    }

    // MARK: Input

    private func takeInput() {
        guard prompt.display != nil else { return prompt.takeLines() }
        var bytes = [UInt8](repeating: 0, count: 1 << 14)
        let count = bytes.withUnsafeMutableBytes { read(0, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR || errno == EAGAIN { return }
        guard count > 0 else { return prompt.end(hasWork ? 1 : 0) }  // The terminal is gone.
        prompt.feed(bytes[..<count])
    }

    func inputEnded() {
        inputHasEnded = true
        if !prompt.incomplete.isEmpty {
            let rest = prompt.incomplete
            prompt.incomplete = ""
            evaluate(Prompt.Entry(text: rest))
            if isBusy { return }
        }
        prompt.end(hasFailed && !showsPrompt ? 1 : 0)
    }

    func isIncomplete(_ text: String) -> Bool {
        // Decide this here, since the process may be busy.
        grammar?.isIncomplete(text) ?? false
    }

    func statement(_ text: String) -> String { grammar?.statement(text) ?? text }

    /// Asks the process for a hint. The process may be busy, so the hint is shown when its answer comes, unless the
    /// text has changed by then.
    func hint(_ before: String) -> String? {
        connection.glance(.ask, "hint \(before)") { [weak self] answer in
            guard let self, !answer.isEmpty, answer != "?" else { return }
            prompt.display?.edit { $0.show(hint: answer, for: before) }
        }
        return nil
    }

    func candidates(_ before: String) -> LineEditor.Completion {
        var lines = (connection.question(.complete, before, seconds: 0.25) ?? "").split(separator: "\n").map(
            String.init)
        guard let start = lines.first.flatMap({ Int($0) }) else {
            return LineEditor.Completion(start: before.utf8.count, candidates: [])
        }
        lines.removeFirst()
        return LineEditor.Completion(start: start, candidates: lines)
    }

    func texts() -> (first: String, further: String)? {
        guard showsPrompt || prompt.display != nil else { return nil }
        return (prompt.emphasized("\(connection.target.name ?? "\(connection.target.process)")>"), ">> ")
    }

    func willShow() {}

    // MARK: Entries

    private var hasWork: Bool { !entries.isEmpty || questions > 0 }
    var isBusy: Bool { hasWork && !isInBackground }

    func evaluate(_ entry: Prompt.Entry) {
        let text = entry.text
        let isBlank = text.utf8.allSatisfy { $0 == 0x20 }
        if isBlank { return }
        prompt.accepted.append(text)
        entries.append(entry)
        interrupts = 0
        // Standard input must wait until the entry has ended.
        if prompt.display == nil, let input { loop.remove(input, from: .default) }
        connection.enter(
            Attach.Entry(
                number: 0, text: text, width: prompt.width, usesColor: prompt.usesColor, isDeep: entry.isDeep))
    }

    private func take(_ event: Attach.Event, _ bytes: [UInt8]) {
        switch event {
        case .result where entries.first?.isPaged ?? false && !isInBackground:
            prompt.page(String(decoding: bytes, as: UTF8.self))
        case .output, .result: bytes.withUnsafeBytes { StandardStreams.print($0, to: 1) }
        case .error:
            hasFailed = true
            prompt.report(String(decoding: bytes.last == 10 ? bytes.dropLast() : bytes[...], as: UTF8.self))
        case .notice: note(String(decoding: bytes, as: UTF8.self))
        case .ended: ended()
        case .started, .end: break
        }
    }

    private func ended() {
        guard !entries.isEmpty else { return }
        entries.removeFirst()
        goesOn()
    }

    /// Called when an entry or a command has ended: continues with the next line.
    private func goesOn() {
        guard !hasWork else { return }
        isInBackground = false
        if prompt.display == nil, let input, prompt.status == nil { loop.add(input, to: .default) }
        // Deferred, so that the other events of this message are handled first.
        loop.perform { [weak self] in
            guard let self, !isBusy else { return }
            if inputHasEnded { return inputEnded() }
            prompt.proceed()
            if prompt.display == nil, Terminal.bufferedInput > 0 { prompt.takeLines() }
        }
    }

    private func note(_ message: String) { Output.write("rlhost: \(message)\n", to: 2) }

    // MARK: Commands

    let absentCommands: Set<Command.Name> = [.mode]

    func answer(_ command: Command) {
        switch command.name {
        case .help, .reload: ask(.ask, "\(command.word) \(command.argument)")
        case .where: explain()
        case .interrupt: ask(.interruptCallback)
        default: ask(.ask, command.word)
        }
    }

    private func ask(_ request: Attach.Request, _ text: String = "") {
        questions += 1
        // Standard input must wait until the command was answered.
        if prompt.display == nil, let input { loop.remove(input, from: .default) }
        connection.ask(request, text) { [weak self] answer in
            guard let self else { return }
            prompt.say(answer)
            questions -= 1
            goesOn()
        }
        if connection.isLost { questions = 0 }
    }

    // MARK: Control-C, Control-Z

    let leavingHint = "; the process goes on"

    /// Interrupts the entry. If the entry is inside a C function or waits for a program, it does not notice the
    /// interruption; the prompt then returns without waiting for the entry.
    func interruptWork() -> Bool {
        guard hasWork else { return false }
        if questions > 0 {
            connection.withdraw()
            questions = 0
            prompt.report("interrupted!")
            if entries.isEmpty {
                goesOn()
                return true
            }
        }
        interrupts += 1
        connection.interrupt()
        if interrupts == 2 { note("the entry has not ended yet; a third Control-C stops waiting for it") }
        if interrupts > 2 { prompt.end(130) }
        return true
    }

    func isFarewell(_ text: String) -> Bool { false }

    /// Shows what the process does. The port's thread answers this, even if the loop is busy and entries wait.
    func explain() {
        if hasWork {
            connection.glance(.whereabouts) { [weak self] in self?.prompt.say($0) }
        } else {
            ask(.whereabouts)
        }
    }

    func suspendTerminal() { Terminal.setRaw(false) }
    func resumeTerminal() { Terminal.setRaw(true) }
}
