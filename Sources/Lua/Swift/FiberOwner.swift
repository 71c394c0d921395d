/// Who has given a fiber its work: told when that runs, waits and ends. Subclasses are the main chunk, tasks, tests, and what
/// answers a message or a connection.
open class FiberOwner {
    public init() {}
    /// On: `runs` is called. For those who need it: a task goes on often.
    public final var watchesRunning = false
    /// It begins or goes on, or it has waited or ended.
    open func runs(_ isRunning: Bool) {}
    /// Ended, with `results` values on its stack, or, if that is -1, an error value. The fiber is used again as soon as this
    /// returns: what is to be kept of them is put elsewhere.
    open func ended(_ fiber: Fiber, results: Int32) {}
    /// What recordings call it, where it is not its subject: what it is, and where.
    open var recorded: (word: String, place: String)? { nil }
    /// Who is asked first about errors, that nobody has seen, of tasks which its fiber starts, and those start.
    open var guardian: FiberOwner? { nil }
    /// Whether it has dealt with such an error, which says this.
    open func takes(_ error: String) -> Bool { false }
}
