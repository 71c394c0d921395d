internal import CLuaSupport

/// Signals, and other ways to interrupt the running Lua code.
extension Interpreter {
    /// Handles SIGINT, SIGTERM, SIGQUIT and SIGPIPE: notes them, and calls `notify` in the signal handler. SIGINT and
    /// SIGTERM interrupt the running code; SIGQUIT calls `tellWhy` in it; SIGPIPE ends the process only if the reader
    /// of standard output has gone. Must be called once, on this state's thread.
    public final func handleSignals(
        notify: @convention(c) () -> Void, isWaiting: @convention(c) () -> Int32
    ) {
        cl_handle_signals(state, notify, isWaiting) { Interpreter.of($0)?.tellWhy() }
    }

    /// Returns whether a signal is to interrupt the calling thread, which should then stop waiting.
    public static let endsWaits: @convention(c) () -> Int32 = cl_ends_waits

    /// Clears the note of a signal. Returns whether the signal was noted.
    public static func takeSignal(_ number: Int32) -> Bool { cl_take_signal(number) != 0 }

    /// Interrupts the running code once, as SIGINT does; if no code runs, interrupts the code that runs next.
    public final func interruptOnce() { cl_interrupt_once(state) }

    /// Lets a signal that came while no Lua code ran interrupt the code that runs now.
    public final func handSignalOver() { cl_hand_interrupt_over(state) }

    /// Discards interruptions after the Lua code they were meant for has ended. Noted signals stay noted.
    public static func forgetInterruptions() { cl_forget_interrupts() }

    /// Sets how this process ends.
    ///
    /// - Parameters:
    ///   - lastWords: called in the signal handler, before an unhandled signal ends the process.
    ///   - end: called in place of C's `exit`, with the exit status. The function must not return.
    public static func setEnds(
        lastWords: @convention(c) () -> Void, end: @convention(c) (Int32) -> Void
    ) { cl_set_ends(lastWords, end) }

    /// Limits the closing of the state because of a signal: if it takes longer than three seconds, the signal ends the
    /// process.
    public static func limitClosing(by signal: Int32) { cl_limit_closing(signal) }

    /// Sets a function that is called with 1 before a program of `os.execute`, and with 0 after it, on the calling
    /// thread.
    public static func setAroundPrograms(_ function: @convention(c) (Int32) -> Void) {
        cl_set_around_program(function)
        cl_note_prompt()
    }

    // MARK: Requests of other threads and processes

    /// Starts or stops handling SIGURG, which announces requests of other threads and processes. Must be called after
    /// `handleSignals`. `grant` is called for requests that arrive while Lua code runs; otherwise `takeWishes` returns
    /// them.
    public final func watchWishes(_ watches: Bool) {
        cl_watch_wishes(state, watches ? 1 : 0)
        cl_grant_wishes(state) { state, wishes in
            Interpreter.of(state)?.grant(Wishes(rawValue: wishes), isRunning: true)
        }
    }

    /// Lets SIGUSR2 ask for a dump, unless the signal is ignored or handled already. Must be called after
    /// `handleSignals`.
    public final func watchDumps() { cl_watch_dumps(state) }

    public static func takeWishes() -> Wishes { Wishes(rawValue: cl_take_wishes()) }

    // MARK: Code of attached users

    /// Lets `Entries.end` interrupt a running entry. Must be called once, after `handleSignals`; without it nothing is
    /// interrupted.
    public final func watchEntries() { cl_watch_entries(state) { Interpreter.of($0)?.isInEntry ?? false ? 1 : 0 } }

    /// Declares that this thread runs the code of this entry from now on; 0 means no entry. Returns the previous entry.
    public static func entryRuns(_ entry: UInt64) -> UInt64 { cl_entry_runs(entry) }

    /// Interrupts the running entry by an error; if its code catches the error, the code goes on.
    public final func interruptEntry(_ entry: UInt64) { cl_interrupt_entry(state, entry) }

    public final var entries: Entries { Entries(state) }

    // MARK: Limits

    /// Limits the number of bytes of Lua's memory: of this state, or of all that call `shareMemory`.
    public final func limitMemory(to bytes: Int, ofAll: Bool) {
        if ofAll { cl_limit_all_memory(state, bytes) } else { cl_limit_memory(state, bytes) }
    }

    /// If there is a common limit for all states, counts this state's memory towards it.
    public final func shareMemory() { cl_share_memory(state) }

    /// Interrupts the running code when this thread has used this processor time, and again after each further second.
    /// The error is that of a cancellation. In the main state, the limit is for the process's time, and the error is a
    /// text. Returns 0 or an errno.
    public final func limitProcessor(to seconds: Double, ofAll: Bool) -> Int32 {
        let limit = ofAll ? cl_limit_all_processor : cl_limit_processor
        return limit(state, seconds) { state, times in Interpreter.of(state)?.reachedProcessorLimit(Int(times)) }
    }

    /// The two arguments of `reportHeld`: the number of the thread; and a function whose result differs for each
    /// callback. Any thread may call the function as long as the state exists.
    public final func limitCallbacks(to seconds: Double) -> (thread: UInt, turn: @Sendable () -> UInt64) {
        let thread = cl_limit_callbacks(state, seconds) { Interpreter.of($0)?.isInRun ?? false ? 1 : 0 }
        nonisolated(unsafe) let state = UnsafePointer(state)
        return (thread, { cl_turns(state) })
    }

    /// Raises "limit: held the loop for 2 s" in the running callback of a thread.
    public static func reportHeld(_ thread: UInt) { cl_report_held(thread) }

    /// Removes all limits of this thread, except the limit of memory.
    public final func endLimits() { cl_end_limits(state) }

    // MARK: Time limits of tests

    /// After this many real seconds, raises "the test takes too long" in the running code, again every second, and
    /// calls `notify` in the signal handler.
    ///
    /// - Parameter left: called in the signal handler after that time; returns how many more seconds the code may run.
    public final func startWatch(
        seconds: Double, notify: @convention(c) () -> Void, isWaiting: @convention(c) () -> Int32,
        left: @convention(c) () -> Double
    ) {
        cl_watch(state, seconds, notify, isWaiting, left)
    }

    /// After this many real seconds, raises the error of a cancelled task in the running code, again every second. 0
    /// turns the limit off. Does nothing while a test is watched.
    ///
    /// - Returns: whether the previous limit had been reached.
    public final func limitLastTask(seconds: Double, isWaiting: @convention(c) () -> Int32) -> Bool {
        cl_limit_last_task(state, seconds, isWaiting) != 0
    }

    public final func stopWatch() { cl_watch(state, 0, nil, nil, nil) }

    /// Raises an error in code that runs a loop in which nothing can happen any more.
    public final func interruptStuck() { cl_interrupt_stuck(state) }

    /// Whether the time limit has been reached.
    public static var timeIsOver: Bool { cl_time_is_over() != 0 }

    // MARK: Seeds

    /// Makes the order of tables in all later states depend on this number alone, if the process has no random
    /// addresses.
    public static func fixSeed(_ seed: UInt32) { cl_fix_seed(seed) }

    // MARK: Counting lines

    /// Counts the runs of each Lua line, in a coroutine and in all that are made later, in any state.
    ///
    /// - Parameters:
    ///   - on: whether to count; nil changes nothing, except that this coroutine gets the hook of the others.
    ///   - index: the stack index of the coroutine; if none is there, the stack's own coroutine is meant.
    public static func countLines(_ on: Bool?, _ stack: Stack, coroutine index: Int32) {
        cl_count_lines(lua_tothread(stack.thread, index) ?? stack.thread, on.map { $0 ? 1 : 0 } ?? -1)
    }

    /// Returns the counts by file and by event (see `cl_take_lines`), and resets them.
    public static func takeLines() -> [String: [Int: Int]] {
        var counts: [String: [Int: Int]] = [:]
        withUnsafeMutablePointer(to: &counts) { counts in
            cl_take_lines(counts) { context, source, what, count in
                guard let context, let source else { return }
                let counts = context.assumingMemoryBound(to: [String: [Int: Int]].self)
                counts.pointee[String(anyBytes: source), default: [:]][Int(what), default: 0] += Int(count)
            }
        }
        return counts
    }
}

/// The entries of users who are attached to a state. May be used on any thread.
public struct Entries: @unchecked Sendable {
    // Sendable: the state is only passed on, never read here.
    private let state: UnsafeMutablePointer<cl_state>
    init(_ state: UnsafeMutablePointer<cl_state>) { self.state = state }

    /// Interrupts the running entry, as SIGINT does, if its number is in this range. So a late call cannot interrupt
    /// another entry.
    ///
    /// - Returns: whether such an entry ran.
    @discardableResult
    public func end(from first: UInt64, to last: UInt64, _ force: Force = .asked) -> Bool {
        cl_end_entries(state, first, last, force.rawValue) != 0
    }

    public enum Force: Int32 {
        /// Interrupts as Control-C does.
        case asked
        /// Interrupts past the message handlers of xpcall.
        case pressed
        /// Raises in each further instruction, too.
        case pursued
    }

    /// Sends a request to the thread that runs Lua.
    public func wish(_ wish: Wishes) { cl_wish(state, wish.rawValue) }
}

/// Requests of other threads and processes to a thread that runs Lua.
public struct Wishes: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Makes the process attachable.
    public static let attach = Wishes(rawValue: UInt32(CL_WISH_ATTACH))
    /// Reports where the code is.
    public static let whereabouts = Wishes(rawValue: UInt32(CL_WISH_WHERE))
    /// Ends the running callback.
    public static let interrupt = Wishes(rawValue: UInt32(CL_WISH_INTERRUPT))

    /// Dumps the latest recorded events into a file.
    public static let dump = Wishes(rawValue: UInt32(CL_WISH_DUMP))
    /// Starts recording.
    public static let record = Wishes(rawValue: UInt32(CL_WISH_RECORD))

    /// Ends the program, whose processor time is over.
    public static let end = Wishes(rawValue: UInt32(CL_WISH_END))

    /// The value that another process must send with SIGURG. It means `attach`; other values are ignored.
    public static let word = Int32(CL_ATTACH_WORD)
}
