import Glibc
import Linux
import LuaPrompt
import LuaRunLoops
import RunLoops

/// `rlhost attach PID -e code`: runs entries one after the other, and reports how they ended. If standard input is not
/// a terminal, also runs its lines.
final class AttachClientRunner {
    private let connection: AttachClientConnection
    private var entries: [String] = []
    private var ended: String?
    private var status: Int32 = 0
    private var port: RunLoop.FDPort?
    private var hasInterrupted = false
    private var isFollowing = false
    private let usesColor: Bool
    private let width: Int

    init(_ connection: AttachClientConnection) {
        self.connection = connection
        let term = getenv("TERM").map { String(cString: $0) } ?? "dumb"
        usesColor = isatty(1) != 0 && term != "dumb" && !(getenv("NO_COLOR").map { $0.pointee != 0 } ?? false)
        width = (isatty(1) != 0 ? Terminal.size.columns : nil) ?? 80
    }

    /// Runs entries up to the first that fails. Returns the exit status.
    func run(_ codes: [String]) -> Int32 {
        watch()
        for code in codes {
            evaluate(code)
            if status != 0 { break }
        }
        connection.close()
        return status
    }

    private func watch() {
        connection.received = { [unowned self] event, bytes in take(event, bytes) }
        connection.waits = { [unowned self] in
            Program.report("attach: \(connection.target.text) is busy; the code waits for its turn")
        }
        connection.lost = { [unowned self] in
            Program.report("attach: \(connection.target.text) has ended")
            status = Program.Refusal.unavailable
            ended = "lost"
            connection.loop.stopAll()
        }
        if connection.isLost { return connection.lost() }
        guard let signals = try? Signals.watch(),
            let port = try? RunLoop.FDPort(
                signals.number, callback: { [unowned self] _, _ in takeSignal(signals.number) })
        else { return }
        self.port = port
        connection.loop.add(port, to: .common)
    }

    private func takeSignal(_ fd: Int32) {
        guard let signal = Signals.take(fd) else { return }
        guard signal == SIGINT, !hasInterrupted, !isFollowing else {
            // The process ends the code when this client disconnects.
            status = 128 + signal
            ended = "gone"
            return connection.loop.stopAll()
        }
        hasInterrupted = true
        connection.interrupt()
    }

    private func evaluate(_ text: String) {
        ended = connection.isLost ? "lost" : nil
        guard ended == nil else { return }
        if let command = Command(text) {
            perform(command)
        } else {
            enter(text)
        }
        while ended == nil {
            if connection.loop.run() == .finished, ended == nil { ended = "lost" }
        }
        switch ended {
        case "failed": status = 1
        case "interrupted" where status == 0: status = hasInterrupted ? 130 : 1
        default: break
        }
    }

    private func enter(_ text: String, isDeep: Bool = false) {
        connection.enter(
            Attach.Entry(
                number: 0, text: text, width: width, usesColor: usesColor, isDeep: isDeep, isWhole: true,
                isPlain: isatty(1) == 0))
    }

    /// Performs a dot command of the prompt, if the command is useful in a script.
    private func perform(_ command: Command) {
        func fail(_ message: String) {
            Program.report(message)
            ended = "failed"
        }
        func ask(_ request: Attach.Request, _ text: String = "") {
            connection.ask(request, text) { [unowned self] answer in
                // The answer to a command that has failed begins with the command's name.
                let hasFailed = answer.hasPrefix(".")
                Output.write(answer + "\n", to: hasFailed ? 2 : 1)
                ended = hasFailed ? "failed" : "ok"
                connection.loop.stop()
            }
        }
        switch command.name {
        case .help where command.argument.isEmpty: fail(".help: a name is expected: .help rl.sleep")
        case .help: ask(.ask, "help \(command.argument)")
        case .reload where command.argument.isEmpty: fail(".reload: the name of a module is expected")
        case .reload: ask(.ask, "reload \(command.argument)")
        case .follow:
            // Continues until Control-C or the end of the process.
            isFollowing = true
            connection.ask(.ask, "follow") { Program.report("attach: \($0)") }
        case .why, .timers, .tasks, .traceback: ask(.ask, command.word)
        case .where: ask(.whereabouts)
        case .interrupt: ask(.interruptCallback)
        case .inspect where command.argument.isEmpty:
            fail(".inspect: an expression is expected: .inspect package.loaded")
        case .inspect:
            enter("=" + command.argument, isDeep: true)
        case .load:
            do throws(PromptFiles.Failure) {
                enter(try PromptFiles.entry(inFile: command.argument))
            } catch {
                fail(error.message)
            }
        default: fail(command.isUnknown)
        }
    }

    private func take(_ event: Attach.Event, _ bytes: [UInt8]) {
        switch event {
        case .output, .result: bytes.withUnsafeBytes { StandardStreams.print($0, to: 1) }
        case .error:
            Output.write("rlhost: ", to: 2)
            bytes.withUnsafeBytes { StandardStreams.print($0, to: 2) }
        case .notice: Program.report("attach: \(String(decoding: bytes, as: UTF8.self))")
        case .ended:
            ended = String(decoding: bytes.drop { $0 != 0x20 }.dropFirst(), as: UTF8.self)
            connection.loop.stop()
        case .started, .end: break
        }
    }
}
