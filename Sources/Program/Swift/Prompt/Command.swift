import LineEditor

/// `.name argument`: a command to the prompt, not to Lua.
struct Command {
    enum Name: String, CaseIterable {
        case help, load, reload, save, editor, `break`, mode, timers, tasks, why, `where`, interrupt, follow, inspect,
            page,
            time, traceback, edit, exit
    }

    let word: String
    /// nil if there is no command of this name.
    let name: Name?
    let argument: String

    /// Returns nil if the text does not have the form of a command: a dot and a letter at the beginning. No Lua
    /// statement begins in this way.
    init?(_ text: String) {
        let text = text.trimmed
        guard text.hasPrefix("."), let letter = text.dropFirst().utf8.first, letter >= 0x61, letter <= 0x7A,
            !text.contains("\n")
        else { return nil }
        let parts = text.dropFirst().split(separator: " ", maxSplits: 1)
        word = String(parts[0])
        name = Name(rawValue: word)
        argument = parts.count > 1 ? parts[1].trimmed : ""
    }

    /// Completes the name of a command. Returns nil if the text is not a command.
    static func complete(_ text: String) -> LineEditor.Completion? {
        guard text.hasPrefix("."), !text.contains(" "), !text.dropFirst().contains(".") else { return nil }
        let names = Name.allCases.map { ".\($0.rawValue)" }.filter { $0.hasPrefix(text) }.sorted()
        return names.isEmpty ? nil : LineEditor.Completion(start: 0, candidates: names)
    }

    /// Returns a line for each command.
    static func list(without left: Set<Name>) -> String {
        Name.allCases.filter { !left.contains($0) }.map { name in
            let (argument, meaning) = name.explanation
            let call = ".\(name.rawValue) \(argument)"
            return call + String(repeating: " ", count: max(1, 22 - call.utf8.count)) + meaning
        }.joined(separator: "\n")
    }

    /// The message about an unknown command.
    var isUnknown: String {
        let near = Name.allCases.map(\.rawValue).first { $0.hasPrefix(word) || word.hasPrefix($0) }
        return "unknown command '.\(word)'" + (near.map { " (did you mean '.\($0)'?)" } ?? "; .help lists them")
    }
}

extension Command.Name {
    /// The text that `.help` shows.
    fileprivate var explanation: (argument: String, meaning: String) {
        switch self {
        case .help: ("[name]", "show this list, or the reference of a call: .help rl.sleep")
        case .load: ("file", "run a file as if it had been typed")
        case .reload: ("module", "load a module again: its functions change, its other values stay")
        case .save: ("file", "write what was entered in this session to a file")
        case .editor: ("", "type several lines; a line with a single dot runs them")
        case .break: ("", "at the end of a line: drop the unfinished entry")
        case .mode: ("[name]", "show or set the mode in which the prompt runs the loop")
        case .timers: ("", "list the timers of the loop")
        case .tasks: ("", "list the tasks that wait: in what, where, since when")
        case .why: ("", "list what keeps the loop alive")
        case .where: ("", "show where the process is, also while it is busy")
        case .interrupt: ("", "interrupt the running callback; the process goes on")
        case .follow: ("", "turn on or off that the prompt shows the script's output")
        case .inspect: ("expression", "show a value with everything in it")
        case .page: ("expression", "show a value in $PAGER")
        case .time: ("code", "run code, and say how long it took")
        case .traceback: ("", "show the last error once more, with its traceback")
        case .edit: ("", "edit the last entry in $EDITOR; Control-X Control-E edits this one")
        case .exit: ("", "leave; so does Control-D on an empty line")
        }
    }
}
