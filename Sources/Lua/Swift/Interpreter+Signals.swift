internal import CLuaSupport

/// Signals, and other ways to interrupt the Lua code that runs.
extension Interpreter {
    /// Has SIGINT, SIGTERM, SIGQUIT and SIGPIPE noted, and `notify` called in the signal handler. Code that runs is interrupted by the
    /// first two; `tellWhy` is called in it for the third; the fourth ends the process only if nobody reads its standard output
    /// any more. To be called on this state's thread, once.
    public final func handleSignals(
        notify: @convention(c) () -> Void, isWaiting: @convention(c) () -> Int32
    ) {
        cl_handle_signals(state, notify, isWaiting) { Interpreter.of($0)?.tellWhy() }
    }

    /// Whether a signal is to interrupt what the calling thread does, so that it should not go on waiting.
    public static let endsWaits: @convention(c) () -> Int32 = cl_ends_waits

    /// Takes the note of a signal; whether there was one.
    public static func takeSignal(_ number: Int32) -> Bool { cl_take_signal(number) != 0 }

    /// Code that runs, or that goes on next, is interrupted once, as if by SIGINT.
    public final func interruptOnce() { cl_interrupt_once(state) }

    /// A signal that has just come, while no Lua code ran, is for the code that runs now.
    public final func handSignalOver() { cl_hand_interrupt_over(state) }

    /// No Lua code runs any more that an interruption was meant for. A signal that has met none is still to be taken.
    public static func forgetInterruptions() { cl_forget_interrupts() }

    /// Sets how this process ends.
    ///
    /// - Parameters:
    ///   - lastWords: called in the signal handler, before a signal that nobody has listened to ends the process.
    ///   - end: called in place of C's `exit`, with the exit status. Does not return.
    public static func setEnds(
        lastWords: @convention(c) () -> Void, end: @convention(c) (Int32) -> Void
    ) { cl_set_ends(lastWords, end) }

    /// The state is about to be closed because of a signal. If that takes longer than three seconds, the process ends by the signal all
    /// the same.
    public static func limitClosing(by signal: Int32) { cl_limit_closing(signal) }

    /// Called with 1 before a program that `os.execute` runs, and with 0 after it, on the thread that runs it.
    public static func setAroundPrograms(_ function: @convention(c) (Int32) -> Void) {
        cl_set_around_program(function)
        cl_note_prompt()
    }

    // MARK: What others want

    /// Has SIGURG handled, from now on, or not any more: it says that another thread, or another process, wants something. To be
    /// called behind `handleSignals`. `grant` is called for what is wanted while Lua code runs; where none does, take it.
    public final func watchWishes(_ watches: Bool) {
        cl_watch_wishes(state, watches ? 1 : 0)
        cl_grant_wishes(state) { state, wishes in
            Interpreter.of(state)?.grant(Wishes(rawValue: wishes), isRunning: true)
        }
    }

    /// SIGUSR2 means the wish for a dump from now on, unless it is ignored or handled already. Behind `handleSignals`.
    public final func watchDumps() { cl_watch_dumps(state) }

    public static func takeWishes() -> Wishes { Wishes(rawValue: cl_take_wishes()) }

    // MARK: Code of somebody who has attached

    /// Has an entry that runs interrupted by `Entries.end`. Once, behind `handleSignals`: without that, nothing is interrupted.
    public final func watchEntries() { cl_watch_entries(state) { Interpreter.of($0)?.isInEntry ?? false ? 1 : 0 } }

    /// From now on the code of this entry runs on this thread; 0: no entry's. Returns which it was before.
    public static func entryRuns(_ entry: UInt64) -> UInt64 { cl_entry_runs(entry) }

    /// Code of the entry that runs goes on with the error.
    public final func interruptEntry(_ entry: UInt64) { cl_interrupt_entry(state, entry) }

    public final var entries: Entries { Entries(state) }

    // MARK: A limit to what a test may take

    /// After so many real seconds, code that runs gets the error "the test takes too long", again every second, and `notify` is
    /// called in the signal handler.
    ///
    /// - Parameter left: called in the signal handler when they are over: for how many more it may run.
    public final func startWatch(
        seconds: Double, notify: @convention(c) () -> Void, isWaiting: @convention(c) () -> Int32,
        left: @convention(c) () -> Double
    ) {
        cl_watch(state, seconds, notify, isWaiting, left)
    }

    /// After so many real seconds, code that runs raises what a cancelled task does, again every second; 0: off. Nothing where a test
    /// is watched.
    ///
    /// - Returns: whether the time of the limit before was over.
    public final func limitLastTask(seconds: Double, isWaiting: @convention(c) () -> Int32) -> Bool {
        cl_limit_last_task(state, seconds, isWaiting) != 0
    }

    public final func stopWatch() { cl_watch(state, 0, nil, nil, nil) }

    /// Code that runs gets an error, because nothing can happen any more in the loop that it runs.
    public final func interruptStuck() { cl_interrupt_stuck(state) }

    /// Whether the time is over.
    public static var timeIsOver: Bool { cl_time_is_over() != 0 }

    // MARK: Chance

    /// States made from now on have tables whose order depends on this number alone, in a process whose addresses are not random.
    public static func fixSeed(_ seed: UInt32) { cl_fix_seed(seed) }

    // MARK: Counting lines

    /// Counts how often each line of Lua runs, in a coroutine and in all that are made from now on, in any state.
    ///
    /// - Parameters:
    ///   - on: nil leaves that as it is, for a coroutine whose hook is to be as that of others.
    ///   - index: where the coroutine is on the stack; the stack's own, if none is there.
    public static func countLines(_ on: Bool?, _ stack: Stack, coroutine index: Int32) {
        cl_count_lines(lua_tothread(stack.thread, index) ?? stack.thread, on.map { $0 ? 1 : 0 } ?? -1)
    }

    /// The counts by what happened, see `cl_take_lines`, by file; they are forgotten.
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

/// The entries of those who have attached to a state, for any thread.
public struct Entries: @unchecked Sendable {
    // Sendable: the state is only named.
    private let state: UnsafeMutablePointer<cl_state>
    init(_ state: UnsafeMutablePointer<cl_state>) { self.state = state }

    /// If an entry of these runs now it is interrupted, as by SIGINT. That one alone, however late this is.
    ///
    /// - Returns: whether one ran.
    @discardableResult
    public func end(from first: UInt64, to last: UInt64, _ force: Force = .asked) -> Bool {
        cl_end_entries(state, first, last, force.rawValue) != 0
    }

    public enum Force: Int32 {
        /// As Control-C does it.
        case asked
        /// Past the message handlers of xpcall.
        case pressed
        /// Each further instruction of it raises, too.
        case pursued
    }

    /// Wants something of the thread that runs Lua.
    public func wish(_ wish: Wishes) { cl_wish(state, wish.rawValue) }
}

/// What others may want of a thread that runs Lua.
public struct Wishes: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// To be attachable.
    public static let attach = Wishes(rawValue: UInt32(CL_WISH_ATTACH))
    /// To know where it is.
    public static let whereabouts = Wishes(rawValue: UInt32(CL_WISH_WHERE))
    /// The end of the callback that runs.
    public static let interrupt = Wishes(rawValue: UInt32(CL_WISH_INTERRUPT))

    /// What it has recorded lately, in a file.
    public static let dump = Wishes(rawValue: UInt32(CL_WISH_DUMP))
    /// That what happens is recorded from now on.
    public static let record = Wishes(rawValue: UInt32(CL_WISH_RECORD))

    /// The value with which another process has to send SIGURG in order to be heard: it means `attach`.
    public static let word = Int32(CL_ATTACH_WORD)
}
