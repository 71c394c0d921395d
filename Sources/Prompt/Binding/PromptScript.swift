internal import Glibc
internal import Linux
public import Lua
public import LuaRunLoops
internal import RunLoops

/// The part of the prompt that is written in Lua: compiles entries, shows results, completes, and gives help.
public final class PromptScript {
    private unowned let host: LuaHost
    /// The anchored table of the Lua functions.
    private let functions: UInt32

    /// Returns nil if memory is exhausted. Opens `runloop` as the global `rl`, unless there is a global `rl` already.
    ///
    /// - Parameter guest: The name of the entries' chunks, for a prompt that does not change the globals: `rl`, `help`
    ///   and the last results are local to it.
    public init?(_ host: LuaHost, guest: String? = nil) {
        self.host = host
        let stack = host.stack
        let opening = guest == nil ? "rl = rl or require 'runloop'" : "require 'runloop'"
        guard host.load(.text(opening, name: "=[rlhost]")) == nil,
            stack.call(arguments: 0, results: 0), stack.pushModule("runloop.prompt.entries"),
            Call(stack.thread).push(Self.library), stack.replaceTop(withField: "part"),
            Call(stack.thread).push(Self.library), stack.replaceTop(withField: "list_directory"),
            Call(stack.thread).push(Self.library), stack.replaceTop(withField: "text"),
            stack.pushInternals(), stack.push(guest)
        else { return nil }
        stack.pushPrint()
        guard stack.call(arguments: 6, results: 1) else { return nil }
        functions = stack.anchor(-1)
        stack.pop()
        guard functions != 0, call("install") != nil else { return nil }
    }

    deinit { host.release(functions) }

    private static let library = Library([
        .init("list_directory") { listDirectory(Call($0)) }, .init("part") { loadPart(Call($0)) },
        .init("text") { loadText(Call($0)) },
    ])

    /// load_part(name): Returns the function of one of the host's modules. Does not use the script's `require`.
    private static func loadPart(_ call: Call) -> Int32 {
        guard let name = call.string(1), call.stack.pushModule("runloop.\(name)") else {
            return call.raise("there is no such part of the prompt")
        }
        return call.values(1)
    }

    /// load_text(name): returns the source of one of our modules, or the reference text of all of them; empty if there
    /// is none.
    private static func loadText(_ call: Call) -> Int32 {
        guard let name = call.string(1), call.stack.pushModuleText(name) else {
            return call.raise("there is no such part of the prompt")
        }
        return call.values(1)
    }

    /// list_directory(path): returns the names in a directory. Names of directories end with a slash.
    private static func listDirectory(_ call: Call) -> Int32 {
        var program = ValueProgram()
        program.table { table in
            guard let path = call.string(1), let entries = try? Directory.entries(of: path) else { return }
            for entry in entries {
                let name = entry.name.withUnsafeBytes { String(anyBytes: $0) }
                let isDirectory =
                    entry.kind == .directory
                    || entry.kind == .link && (try? Directory.kind(of: path + "/" + name)) == .directory
                table.element { $0.append(isDirectory ? name + "/" : name) }
            }
        }
        return call.answer(program)
    }

    // MARK: Requests of the prompt

    /// The name of an entry's chunk, for messages and tracebacks.
    public enum ChunkName {
        /// "stdin", or the guest's name.
        case input
        /// "[1]", "[2]" …
        case numbered
        /// The name of a file.
        case file(String)
    }

    /// Compiles an entry, and leaves its function on `main`'s stack for `LuaHost.start`. Returns the error message if
    /// that fails.
    public func compile(_ text: String, name: ChunkName = .input) -> String? {
        let stack = host.stack
        let kind: String? =
            switch name {
            case .input: nil
            case .numbered: "numbered"
            case .file(let path): path
            }
        let base = stack.top
        // These calls also fail if Control-C interrupts one of them.
        guard begin("compile"), stack.push(text), stack.push(kind), stack.call(arguments: 2, results: 2),
            stack.type(base + 1) == .function
        else {
            let message = host.popMessage()
            stack.top = base
            return host.stack.wasInterrupted ? "interrupted!" : message
        }
        stack.pop()
        return nil
    }

    /// Returns whether an entry is wrong only because it is unfinished.
    public func isIncomplete(_ text: String) -> Bool {
        guard begin("is_incomplete"), host.stack.push(text), host.stack.call(arguments: 1, results: 1) else {
            return false
        }
        defer { host.stack.pop() }
        return host.stack.boolean(-1)
    }

    /// Returns an entry in the form that a file needs: values are printed.
    public func statement(_ text: String) -> String {
        guard begin("statement"), host.stack.push(text), host.stack.call(arguments: 1, results: 1) else {
            _ = host.popMessage()
            return text
        }
        defer { host.stack.pop() }
        return host.stack.string(-1) ?? text
    }

    /// Returns the text that shows the topmost `count` values of a coroutine; nil if there are none. Sets `_`, `_1` and
    /// so on.
    public func show(
        _ source: Stack, _ count: Int32, width: Int, color: Bool, deep: Bool = false, plain: Bool = false
    ) -> String? {
        let stack = host.stack
        guard stack.reserve(count + 30), source.reserve(count + 1),
            begin(deep ? "show_deep" : plain ? "show_plain" : "show")
        else { return "not enough memory" }
        stack.push(width)
        stack.push(color)
        source.move(count, to: stack)
        guard stack.call(arguments: count + 2, results: 1) else { return host.popMessage() }
        defer { stack.pop() }
        return stack.string(-1)
    }

    /// Returns the text that shows an error. If `source` is not nil, the error's value is on top of that stack. Sets
    /// `_error`.
    public func failed(_ source: Stack?, _ failure: Failure, width: Int, color: Bool) -> String {
        let stack = host.stack
        let base = stack.top
        guard stack.reserve(30), source?.reserve(1) ?? true, begin("failed") else { return failure.traceback }
        defer { stack.pop(stack.top - base) }
        stack.push(width)
        stack.push(color)
        stack.push(failure.cause != .raised)
        guard stack.push(failure.traceback) else { return failure.traceback }
        if let source {
            source.pushCopy(of: -1)
            source.move(1, to: stack)
        } else {
            stack.pushCopy(of: -1)
        }
        guard stack.call(arguments: 5, results: 1), let text = stack.string(-1) else { return failure.traceback }
        return ([text] + failure.places).joined(separator: "\n")
    }

    /// Returns the last error with its traceback.
    public func traceback() -> String { call("traceback")?.first.flatMap { $0 } ?? "there was no error" }

    /// Returns the candidates for the end of a text, and where the completed part begins, in bytes.
    public func complete(_ text: String) -> (start: Int, candidates: [String]) {
        var results = call("complete", text) ?? []
        guard let start = results.first.flatMap({ $0.flatMap { Int($0) } }) else { return (text.utf8.count, []) }
        results.removeFirst()
        return (start, results.compactMap { $0 })
    }

    /// Returns the remaining parameters of the call at the end of a text; nil if nothing is known.
    public func hint(_ text: String) -> String? { call("hint", text)?.first.flatMap { $0 } }

    /// Loads a module again. Returns what has changed, or why nothing has.
    public func reload(_ name: String) -> String { call("reload", name)?.first.flatMap { $0 } ?? "not enough memory" }

    /// Returns the reference text for a name, or a message if there is none.
    public func help(_ name: String, width: Int = 80) -> String {
        let results = call("help_for", name, "\(width)") ?? []
        return results.compactMap { $0 }.first ?? "no help"
    }

    /// Closes the values of the entries' `<close>` variables. Returns the messages of failures.
    public func close() -> [String] { call("close")?.compactMap { $0 } ?? [] }

    /// Returns the text of a global, as `tostring` gives it; nil if it is nil or cannot be read.
    public func text(ofGlobal name: String) -> String? {
        guard host.pushGlobal(name), !host.stack.isMissing(-1) else {
            host.stack.pop()
            return nil
        }
        return host.stack.popText()
    }

    // MARK: Calls

    /// Pushes a function of the script.
    private func begin(_ name: String) -> Bool {
        guard host.stack.reserve(30) else { return false }
        host.push(host.stack, slot: functions)
        return host.stack.replaceTop(withField: name)
    }

    /// Calls a function of the script with texts. Returns the function's results, with nil for results that are not
    /// texts; returns nil if the call failed.
    private func call(_ name: String, _ arguments: String...) -> [String?]? {
        let stack = host.stack
        let base = stack.top
        guard begin(name), arguments.allSatisfy({ stack.push($0) }),
            stack.call(arguments: Int32(arguments.count), results: Stack.all)
        else {
            stack.top = base
            return nil
        }
        var results: [String?] = []
        for index in base..<stack.top {
            results.append(stack.string(index + 1) ?? stack.integer(index + 1).map { "\($0)" })
        }
        stack.top = base
        return results
    }
}

extension LuaHost {
    /// Interrupts Lua code, as Control-C does: the code that runs now, or the code that continues when the runs of the
    /// loop have ended.
    public func interrupt() { interruptOnce() }

    /// Sets a function that is called with true before `os.execute` runs a program, and with false afterwards, on the
    /// same thread.
    public static func setAroundProgram(_ function: @convention(c) (Int32) -> Void) { setAroundPrograms(function) }

    /// Lets a Control-C that has just arrived interrupt the code that begins now.
    public func handInterruptOver() { handSignalOver() }

    /// Called when the Lua code that should be interrupted has ended. Signals that the code has not noticed stay noted,
    /// for `takeSignal`.
    public func forgetInterrupt() { Self.forgetInterruptions() }
}
