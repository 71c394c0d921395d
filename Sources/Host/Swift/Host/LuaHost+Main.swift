public import Lua
internal import Glibc
internal import Linux
internal import RunLoops

extension LuaHost {
    public enum Chunk {
        case file(String)
        case standardInput
        case text(String, name: String)
        /// Code of the host itself. Such code can require private parts of modules.
        case own(String)
        /// The function `require`.
        case requiring
    }

    /// Compiles a chunk and pushes the function onto the stack of `main`. Returns nil, or an error message.
    public func load(_ chunk: Chunk) -> String? {
        let isThere =
            switch chunk {
            case .file(let path): pushCode(ofFile: path)
            case .standardInput: pushCode(ofFile: nil)
            case .requiring: pushGlobal("require")
            case .text(let text, let name): pushCode(text, name: name)
            case .own(let text): pushOwnCode(text)
            }
        return isThere ? nil : popMessage()
    }

    /// Whether the latest `load` failed because the file could not be read.
    public var chunkIsUnreadable: Bool { fileIsUnreadable }

    /// Drops the function that `load` has pushed.
    public func dropChunk() { stack.pop() }

    /// Runs the function that `load` has pushed, as a task, until it ends or waits.
    ///
    /// - Parameters:
    ///   - arguments: strings for `...`.
    ///   - configure: sets the task's handlers before it starts.
    public func start(arguments: [String] = [], configure: (MainTask) -> Void = { _ in }) -> MainTask? {
        guard let fiber = takeFiber() else {
            stack.pop()
            return nil
        }
        let count = Int32(arguments.count)
        guard fiber.stack.reserve(count + 8) else { return nil }
        stack.move(1, to: fiber.stack)
        for argument in arguments where !fiber.stack.push(argument) { return nil }
        return start(fiber, arguments: count, configure)
    }

    /// Runs the function below the topmost `arguments` values of the stack of `main`.
    func startPrepared(arguments: Int32, configure: (MainTask) -> Void) -> MainTask? {
        guard let fiber = takeFiber(), fiber.stack.reserve(arguments + 8) else {
            stack.pop(arguments + 1)
            return nil
        }
        stack.move(arguments + 1, to: fiber.stack)
        return start(fiber, arguments: arguments, configure)
    }

    private func start(_ fiber: Fiber, arguments: Int32, _ configure: (MainTask) -> Void) -> MainTask {
        let task = MainTask(self)
        configure(task)
        task.begins(fiber)
        mains.append(fiber)
        fiber.owner = task
        fiber.stack.pushChunkRunner()
        fiber.stack.insert(at: -arguments - 2)
        resume(fiber, arguments: arguments + 1)
        return task
    }

    /// Sets the global `arg`: the script has number 0.
    public func setArguments(_ arguments: [String], script: Int) -> Bool {
        var program = ValueProgram()
        program.table { table in
            for (index, argument) in arguments.enumerated() { table.field(index - script) { $0.append(argument) } }
        }
        return stack.push(program) && setGlobal("arg")
    }

    /// Sets a global to the value at an index of a coroutine's stack. Returns an error message, or nil.
    public func setGlobal(_ name: String, to source: Stack, _ index: Int32) -> String? {
        guard source.reserve(1), stack.reserve(1) else { return "not enough memory" }
        source.pushCopy(of: index)
        source.move(1, to: stack)
        return setGlobal(name) ? nil : popMessage()
    }

    /// Runs the script that `load` has pushed, with the elements of the global `arg` as `...`. Returns an error message
    /// if there is no such table.
    public func startScript(configure: (MainTask) -> Void = { _ in }) -> Result<MainTask, StartFailure> {
        guard let count = pushArguments() else {
            let message = popMessage()
            dropChunk()
            return .failure(.init(message: message))
        }
        return startPrepared(arguments: count, configure: configure).map { .success($0) }
            ?? .failure(.init(message: "not enough memory"))
    }

    public struct StartFailure: Error {
        public let message: String
    }

    /// The version of this program: "0.1.0".
    public static var version: String { programVersion }
    /// The version of Lua: "Lua 5.4.4".
    public static var luaRelease: String { release }
    /// The text that `lua -v` prints.
    public static var luaCopyright: String { copyright }

    /// Turns Lua's warnings on.
    public func turnWarningsOn() {
        setWarnings(on: true)
        noteBlocking()
    }

    /// Catches signals, and calls `handler` with their numbers on the loop's thread, between two callbacks.
    public func handleSignals(_ handler: @escaping ([Int32]) -> Void) {
        Signals.handle = loop.handle
        StandardStreams.stopWaiting(when: Self.endsWaits)
        loop.attentionHandler = { [unowned self] _ in
            let noted = takeSignals()
            if !noted.isEmpty { handler(noted) }
            let wishes = Self.takeWishes()
            if !wishes.isEmpty { grant(wishes, isRunning: false) }
            for part in parts { part.attend() }
        }
        handleSignals(
            notify: { Signals.handle?.raiseAttention() }, isWaiting: { Signals.handle?.isWaiting ?? false ? 1 : 0 })
    }

    /// Sets the time after which running code is cancelled; 0 for no limit. Returns whether the previous limit was
    /// reached.
    func limitLastTask(_ seconds: Double) -> Bool {
        limitLastTask(seconds: seconds) { Signals.handle?.isWaiting ?? false ? 1 : 0 }
    }

    /// Returns the signals that have come and were not taken yet. For code that cannot wait for the loop to call the
    /// handler.
    public func takeSignals() -> [Int32] { [SIGINT, SIGTERM, SIGQUIT].filter { Self.takeSignal($0) } }

    /// Returns what keeps the loop alive.
    public func why() -> String { InspectBinding.why(self) }
}

/// The loop that the signal handler wakes.
private enum Signals {
    // Set once, before the handler; the handler only reads it.
    nonisolated(unsafe) static var handle: RunLoop.Handle?
}
