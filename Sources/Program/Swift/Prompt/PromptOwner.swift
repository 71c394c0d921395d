import LineEditor

/// Runs the Lua code of a prompt, in this process or in another one.
protocol PromptOwner: AnyObject {
    /// Whether an entry runs or waits. The prompt takes no input meanwhile.
    var isBusy: Bool { get }
    /// A text for the hint about leaving: the work that continues after the prompt ends.
    var leavingHint: String { get }
    /// The commands that are useless here.
    var absentCommands: Set<Command.Name> { get }
    /// Returns the prompts of the first line of an entry and of further lines; nil: none.
    func texts() -> (first: String, further: String)?
    /// Returns whether the text is wrong only because it is unfinished.
    func isIncomplete(_ text: String) -> Bool
    /// Returns an entry in the form that a file needs.
    func statement(_ text: String) -> String
    /// Returns the possible completions of the end of a text.
    func candidates(_ before: String) -> LineEditor.Completion
    /// Returns the text that may follow, for display; nil if nothing is known.
    func hint(_ before: String) -> String?
    /// Runs an entry. If the entry does not end at once, the prompt is busy until it ends.
    func evaluate(_ entry: Prompt.Entry)
    /// Returns whether the text is a word such as `exit`, which is not Lua but a request to leave. If so, shows the
    /// user how to leave.
    func isFarewell(_ text: String) -> Bool
    /// Answers a command that depends on where Lua runs.
    func answer(_ command: Command)
    /// Control-\\: shows what keeps the process busy or alive.
    func explain()
    /// Called at the end of plain input.
    func inputEnded()
    /// Control-C on an empty line, or without one: ends the entry that runs or waits. Returns false if there is none.
    func interruptWork() -> Bool
    /// Called before the prompt is shown on the terminal.
    func willShow()
    /// Gives the terminal back to the program that started this process.
    func suspendTerminal()
    /// Takes the terminal again.
    func resumeTerminal()
}
