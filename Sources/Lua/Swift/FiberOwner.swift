/// The owner of a fiber's work. It is called when the fiber runs, waits and ends. Subclasses are the main chunk, tasks,
/// tests, and the code that answers a message or a connection.
open class FiberOwner {
    public init() {}
    /// Whether `runs` is called. False by default: few owners need these calls, and they would be frequent.
    public final var watchesRunning = false
    /// Called when the fiber begins or goes on, and when it waits or has ended.
    open func runs(_ isRunning: Bool) {}
    /// Called when the fiber has ended, with `results` values on its stack, or with an error value if `results` is -1.
    /// The fiber is reused as soon as this returns, so results that are needed later must be stored elsewhere.
    open func ended(_ fiber: Fiber, results: Int32) {}
    /// The name and place of the fiber in recordings, if they are not those of its subject.
    open var recorded: (word: String, place: String)? { nil }
    /// The owner that is asked first about uncaught errors of tasks that this fiber starts, directly or through other
    /// tasks.
    open var guardian: FiberOwner? { nil }
    /// Handles the text of an uncaught error of these tasks. Returns whether the owner has handled the error.
    open func takes(_ error: String) -> Bool { false }
}
