internal import CLuaSupport
public import Lua
internal import Glibc
internal import RunLoops

/// A chunk that the host itself runs: the script, a `-e` text, a line at the prompt.
public final class MainTask: FiberAttachment {
    private unowned let host: LuaHost
    public private(set) var hasEnded = false
    public private(set) var hasFailed = false
    /// What it waits in, while it does.
    fileprivate var fiber: Fiber?
    /// Called with its error's message and traceback; by default as for any error that nobody handles.
    public var onFailure: ((String) -> Void)?
    /// Called with the coroutine, its error value on top, and message and traceback.
    var onError: ((OpaquePointer, String) -> Void)?
    /// Called when it has ended well, with the number of results on top of the coroutine's stack.
    public var onResults: ((OpaquePointer, Int32) -> Void)?

    init(_ host: LuaHost) {
        self.host = host
        super.init()
    }

    public override func ended(_ fiber: Fiber, results: Int32) -> Bool {
        hasEnded = true
        hasFailed = results < 0
        self.fiber = nil
        if results >= 0 {
            onResults?(fiber.thread, results)
        } else if let onError {
            onError(fiber.thread, host.explanation(of: fiber.thread))
        } else if let onFailure {
            onFailure(host.explanation(of: fiber.thread))
        } else {
            host.uncaught(fiber)
        }
        return true
    }

    /// Ends it where it waits. Returns whether it was waiting.
    @discardableResult
    public func cancel() -> Bool {
        guard let fiber, fiber.state == .waiting, let cancelWait = fiber.cancelWait,
            lua_checkstack(fiber.thread, 4) != 0
        else { return false }
        cancelWait(fiber)
        lua_pushlightuserdata(fiber.thread, cl_raise_mark())
        host.pushCancelled(onto: fiber)
        host.resume(fiber, arguments: 2)
        return true
    }

    /// Where it waits: "rl.sleep" and the traceback.
    public var whereItWaits: String? {
        guard let fiber, fiber.state == .waiting else { return nil }
        return host.traceback(of: fiber, "it still waits in \(fiber.waitsIn)")
    }
}

extension LuaHost {
    public enum Chunk {
        case file(String)
        case standardInput
        case text(String, name: String)
    }

    /// Compiles a chunk and leaves the function on `main`'s stack; or returns an error message.
    public func load(_ chunk: Chunk) -> String? {
        let status: Int32
        switch chunk {
        case .file(let path): status = path.withCString { cl_load_file(main, $0) }
        case .standardInput: status = cl_load_file(main, nil)
        case .text(var text, let name):
            status = name.withCString { name in
                text.withUTF8 { bytes in
                    bytes.withMemoryRebound(to: CChar.self) {
                        cl_load_text(main, $0.baseAddress ?? name, $0.count, name)
                    }
                }
            }
        }
        return status == LUA_OK ? nil : popMessage()
    }

    /// Forgets what `load` left.
    public func dropChunk() { cl_pop(main, 1) }

    /// Runs the function that `load` left, as a task, until it ends or waits.
    ///
    /// - Parameters:
    ///   - arguments: strings for `...`.
    ///   - configure: sets the task's handlers before it starts.
    public func start(arguments: [String] = [], configure: (MainTask) -> Void = { _ in }) -> MainTask? {
        guard let fiber = takeFiber() else {
            cl_pop(main, 1)
            return nil
        }
        let thread = fiber.thread
        let count = Int32(arguments.count)
        guard lua_checkstack(thread, count + 8) != 0 else { return nil }
        lua_xmove(main, thread, 1)
        for argument in arguments {
            setScratch(argument)
            guard cl_push_text(thread, host.pointee.scratch, host.pointee.length) == LUA_OK else { return nil }
        }
        return start(fiber, arguments: count, configure)
    }

    /// Runs the function below the topmost `arguments` values of `main`'s stack.
    func startPrepared(arguments: Int32, configure: (MainTask) -> Void) -> MainTask? {
        guard let fiber = takeFiber(), lua_checkstack(fiber.thread, arguments + 8) != 0 else {
            cl_pop(main, arguments + 1)
            return nil
        }
        lua_xmove(main, fiber.thread, arguments + 1)
        return start(fiber, arguments: arguments, configure)
    }

    private func start(_ fiber: Fiber, arguments: Int32, _ configure: (MainTask) -> Void) -> MainTask {
        let task = MainTask(self)
        configure(task)
        task.fiber = fiber
        fiber.attachment = task
        resume(fiber, arguments: arguments)
        return task
    }

    /// Sets the global `arg`: the script is number 0.
    public func setArguments(_ arguments: [String], script: Int) -> Bool {
        var program = ValueProgram()
        program.table { table in
            for (index, argument) in arguments.enumerated() { table.field(index - script) { $0.append(argument) } }
        }
        return decode(program, onto: main) && cl_set_global(main, "arg") == LUA_OK
    }

    /// Turns Lua's warnings on.
    public func turnWarningsOn() { lua_warning(main, "@on", 0) }

    /// `lua_State` for callers that call into Lua themselves, as the prompt does.
    public var state: OpaquePointer { main }

    /// Has signals noted; `handler` is called on the loop's thread, between two callbacks, with those that came.
    public func handleSignals(_ handler: @escaping ([Int32]) -> Void) {
        Signals.handle = loop.handle
        loop.attentionHandler = { _ in
            let noted = [SIGINT, SIGTERM, SIGQUIT].filter { cl_take_signal($0) != 0 }
            if !noted.isEmpty { handler(noted) }
        }
        cl_handle_signals(
            host, { Signals.handle?.raiseAttention() }, { Signals.handle?.isWaiting ?? false ? 1 : 0 },
            { host in
                guard let host, let swift = host.pointee.swift else { return }
                let lua = unsafe Unmanaged<LuaHost>.fromOpaque(swift).takeUnretainedValue()
                write(lua.why() + "\n", to: 2)
            })
    }

    /// What keeps the loop alive.
    public func why() -> String { InspectBinding.why(self) }
}

/// For the signal handler.
private enum Signals {
    // Set once, before the handler is; only read by it.
    nonisolated(unsafe) static var handle: RunLoop.Handle?
}
