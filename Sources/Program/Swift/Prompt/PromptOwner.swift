import LineEditor

/// Who knows where the Lua of a prompt is: in this process, or in another one.
protocol PromptOwner: AnyObject {
    /// An entry runs, or waits, and the prompt with it.
    var isBusy: Bool { get }
    /// What leaving does not end, for the hint.
    var leavingHint: String { get }
    /// The commands that make no sense here.
    var absentCommands: Set<Command.Name> { get }
    /// What stands before the first line of an entry, and before the others; nil: nothing.
    func texts() -> (first: String, further: String)?
    /// Whether Lua would take it as the beginning of something longer.
    func isIncomplete(_ text: String) -> Bool
    /// An entry as it can stand in a file.
    func statement(_ text: String) -> String
    /// What the end of a text may be completed to.
    func candidates(_ before: String) -> LineEditor.Completion
    /// What may still follow a text; nil if there is nothing to say.
    func hint(_ before: String) -> String?
    /// Runs an entry. If it does not end at once, the prompt is busy until it has.
    func evaluate(_ entry: Prompt.Entry)
    /// Whether the text asks to leave in words that are not Lua's; the user has been told how, then.
    func isFarewell(_ text: String) -> Bool
    /// The commands whose answers depend on where Lua is.
    func answer(_ command: Command)
    /// Control-\\: says what keeps the process busy, or alive.
    func explain()
    /// Plain input is over.
    func inputEnded()
    /// Control-C on an empty line, or without one: ends what runs or waits. Returns false if nothing does.
    func interruptWork() -> Bool
    /// The prompt is about to be shown on the terminal.
    func willShow()
    /// Gives the terminal to whoever started this process.
    func suspendTerminal()
    /// Takes it back.
    func resumeTerminal()
}
