import Glibc
import LineEditor
import Linux
import LuaRunLoops
import RunLoops

/// The prompt of `rlhost attach`: the line editor is here, Lua is in the process.
///
/// The client runs no Lua, so the terminal can send each key as it comes all the time: Control-C is one of them.
final class AttachPrompt: Prompt {
    private let connection: AttachConnection
    private let showsPrompt: Bool
    private var ports: [RunLoop.FDPort] = []
    private var input: RunLoop.FDPort?
    private var entryRuns = false
    private var hasFailed = false
    /// How often Control-C was pressed since the entry began.
    private var interrupts = 0
    private var inputHasEnded = false

    init(_ connection: AttachConnection) {
        self.connection = connection
        showsPrompt = isatty(0) != 0
        super.init(connection.loop)
    }

    // MARK: The session

    /// Returns the exit status.
    func run() -> Int32 {
        Self.current = self
        Terminal.atExit { AttachPrompt.current?.leave() }
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
        if terminalIsOpen { Terminal.setRaw(false) }
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
                if signal == SIGINT { interruptKey() } else { end(128 + signal) }
            }
            if let display {
                _ = try add(Terminal.watch()) { [unowned self] in
                    if Terminal.takeChange() { display.edit { $0.redraw() } }
                    resize(display)
                }
                resize(display)
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
        guard let display else { return takeLines() }
        var bytes = [UInt8](repeating: 0, count: 1 << 14)
        let count = bytes.withUnsafeMutableBytes { read(0, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR || errno == EAGAIN { return }
        guard count > 0 else { return end(isBusy ? 1 : 0) }  // the terminal is gone
        handle(display.edit { $0.feed(bytes[..<count]) })
    }

    override func inputEnded() {
        inputHasEnded = true
        if !incomplete.isEmpty {
            let rest = incomplete
            incomplete = ""
            evaluate(rest)
            if isBusy { return }
        }
        end(hasFailed && !showsPrompt ? 1 : 0)
    }

    override func isIncomplete(_ text: String) -> Bool {
        // Who does not answer gets the entry as it is, and says what is wrong with it.
        connection.question(.isIncomplete, text, seconds: 3) == "1"
    }

    override func candidates(_ before: String) -> LineEditor.Completion {
        var lines = (connection.question(.complete, before, seconds: 1) ?? "").split(separator: "\n").map(String.init)
        guard let start = lines.first.flatMap({ Int($0) }) else {
            return LineEditor.Completion(start: before.utf8.count, candidates: [])
        }
        lines.removeFirst()
        return LineEditor.Completion(start: start, candidates: lines)
    }

    override func prompt(with text: String = "") {
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

    override var isBusy: Bool { entryRuns }

    override func evaluate(_ text: String, deep: Bool = false) {
        let isBlank = text.utf8.allSatisfy { $0 == 0x20 }
        if isBlank { return prompt() }
        accepted.append(text)
        entryRuns = true
        interrupts = 0
        // Its input must wait for it.
        if display == nil, let input { loop.remove(input, from: .default) }
        let width = display.map { $0.edit(\.columns) } ?? 80
        connection.enter(text, width: width, usesColor: usesColor, isDeep: deep)
    }

    private func take(_ event: Attach.Event, _ bytes: [UInt8]) {
        switch event {
        case .output, .result: bytes.withUnsafeBytes { Descriptor.print($0, to: 1) }
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
        entryRuns = false
        if display == nil, let input, status == nil { loop.add(input, to: .default) }
        // Behind the other events that came with this one.
        loop.perform { [weak self] in
            guard let self else { return }
            if inputHasEnded { return inputEnded() }
            prompt()
            if display == nil, Terminal.bufferedInput > 0 { takeLines() }
        }
    }

    private func note(_ message: String) { Output.write("rlhost: \(message)\n", to: 2) }

    // MARK: Commands

    override var absentCommands: Set<String> { ["mode"] }

    override func answer(_ command: REPL.Command) {
        switch command.name {
        case "help": tell(.ask, "help \(command.argument)")
        case "why": tell(.ask, "why")
        case "timers": tell(.ask, "why", REPL.Command.timers(in:))
        default: report(".mode: the process runs its loop itself; this prompt is there in all common modes")
        }
    }

    private func tell(_ request: Attach.Request, _ text: String, _ change: (String) -> String = { $0 }) {
        if let answer = connection.question(request, text, seconds: 5) { return say(change(answer)) }
        if !connection.isLost { report("\(connection.target.text) is busy and has not answered for 5 s") }
    }

    // MARK: Control-C, Control-Z

    override var leavingHint: String { "; the process goes on" }

    /// One that sits in a C function, or in another program, does not notice; and this is no reason to stay.
    override func interruptBusy() {
        interrupts += 1
        connection.interrupt()
        if interrupts == 2 { note("it has not ended yet; a third Control-C leaves it to the process to end it") }
        if interrupts > 2 { end(130) }
    }

    override func suspendTerminal() { Terminal.setRaw(false) }
    override func resumeTerminal() { Terminal.setRaw(true) }
}
