internal import CLuaSupport
public import Lua
internal import Glibc
internal import RunLoops

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
                    bytes.withMemoryRebound(to: CChar.self) { cl_load_text(main, $0.baseAddress ?? name, $0.count, name) }
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
        let task = MainTask(self)
        configure(task)
        task.begins(fiber)
        fiber.attachment = task
        resume(fiber, arguments: count)
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
    public var state: LuaThread { main }

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
