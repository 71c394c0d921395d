import CLinux
import Glibc
import LineEditor
import LuaRunLoops
import RunLoops

extension REPL {
    /// `.name argument`: what is asked of the prompt, not of Lua. No statement begins with a dot and a letter.
    struct Command {
        let name: String
        let argument: String

        init?(_ text: String) {
            let text = text.trimmed
            guard text.hasPrefix("."), let letter = text.dropFirst().utf8.first, letter >= 0x61, letter <= 0x7A,
                !text.contains("\n")
            else { return nil }
            let parts = text.dropFirst().split(separator: " ", maxSplits: 1)
            name = String(parts[0])
            argument = parts.count > 1 ? parts[1].trimmed : ""
        }

        static let all: [(name: String, argument: String, meaning: String)] = [
            ("help", "[name]", "this list, or what the reference says about a call: .help rl.sleep"),
            ("load", "file", "run a file as if it had been typed"),
            ("save", "file", "write what was entered in this session to a file"),
            ("editor", "", "type several lines; a line with a single dot runs them"),
            ("break", "", "as a line's end: drop the unfinished entry"),
            ("mode", "[name]", "show or set the mode in which the prompt runs the loop"),
            ("timers", "", "list the timers of the loop"),
            ("why", "", "list what keeps the loop alive"),
            ("inspect", "expression", "show a value with all that is in it"),
            ("exit", "", "leave; so does Control-D on an empty line"),
        ]

        /// Completes a command's name; nil if the text is none.
        static func complete(_ text: String) -> LineEditor.Completion? {
            guard text.hasPrefix("."), !text.contains(" "), !text.dropFirst().contains(".") else { return nil }
            let names = all.map { ".\($0.name)" }.filter { $0.hasPrefix(text) }.sorted()
            return names.isEmpty ? nil : LineEditor.Completion(start: 0, candidates: names)
        }
    }

    func perform(_ command: Command) {
        switch command.name {
        case "help" where command.argument.isEmpty:
            for (name, argument, meaning) in Command.all {
                let call = ".\(name) \(argument)"
                say(call + String(repeating: " ", count: max(1, 22 - call.utf8.count)) + meaning)
            }
        case "help": say(script.help(command.argument))
        case "load": load(command.argument)
        case "save": save(command.argument)
        case "editor":
            useEditorMode()
            say("type the lines; a line with a single dot ends and runs them, .break drops them")
        case "break": break
        case "exit": end(0)
        case "mode":
            if command.argument == "common" {
                report("\"common\" is not a mode one can run in: it stands for all common modes")
            } else if !command.argument.isEmpty {
                currentMode = RunLoop.Mode(rawValue: command.argument)
            }
            say("the prompt runs the loop in mode \"\(currentMode)\"")
        case "timers":
            var seen: Set<String> = []
            let timers = host.why().split(separator: "\n").map(String.init).filter { line in
                let text = line.trimmed
                return (text.hasPrefix("timer") || text.hasPrefix("task") || text.hasPrefix("request"))
                    && seen.insert(text).inserted
            }
            say(timers.isEmpty ? "no timers" : timers.map(\.trimmed).joined(separator: "\n"))
        case "why": say(host.why())
        case "inspect" where command.argument.isEmpty:
            report(".inspect: an expression is expected: .inspect package.loaded")
        case "inspect": evaluate("=" + command.argument, deep: true)
        default:
            let near = Command.all.map(\.name).first { $0.hasPrefix(command.name) || command.name.hasPrefix($0) }
            report(
                "unknown command '.\(command.name)'"
                    + (near.map { " (did you mean '.\($0)'?)" } ?? "; .help lists them"))
        }
    }

    private func say(_ text: String) { Output.write(text + "\n", to: 1) }

    private func load(_ path: String) {
        guard !path.isEmpty else { return report(".load: the name of a file is expected") }
        guard let file = fopen(path, "r") else {
            return report(".load: cannot open \(path): \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        var text = String(decoding: bytes, as: UTF8.self)
        // As for a script: a first line for the shell is none for Lua. The line stays, so that the numbers are right.
        if text.hasPrefix("#") { text = "--" + text }
        evaluate(text)
    }

    private func save(_ path: String) {
        guard !path.isEmpty else { return report(".save: the name of a file is expected") }
        guard let file = fopen(path, "w") else {
            return report(".save: cannot write \(path): \(String(cString: strerror(errno)))")
        }
        var text = accepted.map { $0 + "\n" }.joined()
        let isWritten = text.withUTF8 { fwrite($0.baseAddress, 1, $0.count, file) } == text.utf8.count
        guard fclose(file) == 0, isWritten else {
            return report(".save: cannot write \(path): \(String(cString: strerror(errno)))")
        }
        say("\(accepted.count) entries written to \(path)")
    }
}
