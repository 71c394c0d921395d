import CLinux
import Glibc
import LineEditor
import LuaRunLoops
import RunLoops

extension REPL {
    func perform(_ command: Command) {
        switch command.name {
        case "help" where command.argument.isEmpty: say(Command.list())
        case "help": say(script.help(command.argument))
        case "load": load(command.argument)
        case "save": if let text = Command.save(accepted, to: command.argument, report) { say(text) }
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
        case "timers": say(Command.timers(in: host.why()))
        case "why": say(host.why())
        case "inspect" where command.argument.isEmpty:
            report(".inspect: an expression is expected: .inspect package.loaded")
        case "inspect": evaluate("=" + command.argument, deep: true)
        default: report(Command.unknown(command.name))
        }
    }

    private func say(_ text: String) { Output.write(text + "\n", to: 1) }

    private func load(_ path: String) {
        if let text = Command.read(path, report) { evaluate(text) }
    }
}
