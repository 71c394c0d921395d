internal import CLuaSupport
internal import Glibc
internal import Linux
public import Lua
internal import RunLoops

/// The Lua-written part of the prompt: what an entry means, how results look, what may stand at the cursor, help.
public final class PromptScript {
    private unowned let host: LuaHost
    /// The anchored table of its functions.
    private let functions: UInt32

    /// nil when there is not enough memory. Opens `runloop` as the global `rl`, unless there is one.
    ///
    /// - Parameter guest: the name of the entries' chunks, for a prompt that leaves the globals alone: `rl`, `help` and the
    ///   last results are local to it.
    public init?(_ host: LuaHost, guest: String? = nil) {
        self.host = host
        let main = host.main
        let opening = guest == nil ? "rl = rl or require 'runloop'" : "require 'runloop'"
        guard host.load(.text(opening, name: "=[rlhost]")) == nil,
            cl_call_traced(main, 0, 0) == LUA_OK, cl_load_module(main, "runloop.prompt.entries") == LUA_OK,
            cl_load_module(main, "runloop.prompt.inspect") == LUA_OK,
            cl_call_traced(main, 0, 1) == LUA_OK, Call(main).push(Self.library)
        else { return nil }
        // Instead of the table, its function.
        host.setScratch("list_directory")
        guard cl_push_text(main, host.host.pointee.scratch, host.host.pointee.length) == LUA_OK else { return nil }
        lua_rawget(main, -2)
        lua_rotate(main, -2, 1)
        cl_pop(main, 1)
        guard cl_push_module_text(main, "runloop.reference") == LUA_OK, cl_push_internals(main) == LUA_OK,
            Self.push(guest, host), cl_call_traced(main, 5, 1) == LUA_OK
        else { return nil }
        functions = host.anchor(main, -1)
        cl_pop(main, 1)
        guard functions != 0, call("install") != nil else { return nil }
    }

    deinit { host.release(functions) }

    private static let library = Library([.init("list_directory") { listDirectory(Call($0)) }])

    /// (path) -> the names in a directory; those of directories end with a slash.
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

    // MARK: What the prompt asks

    /// Compiles an entry and leaves its function on `main`'s stack, for `LuaHost.start`; or says what is wrong with it.
    public func compile(_ text: String) -> String? {
        let base = lua_gettop(host.main)
        // Not only for lack of memory: Control-C may meet any of these calls.
        guard begin("compile"), push(text), cl_call_traced(host.main, 1, 2) == LUA_OK,
            lua_type(host.main, base + 1) == LUA_TFUNCTION
        else {
            let message = host.popMessage()
            lua_settop(host.main, base)
            return host.stack.wasInterrupted ? "interrupted!" : message
        }
        cl_pop(host.main, 1)
        return nil
    }

    /// Whether an entry is wrong only because it is not finished.
    public func isIncomplete(_ text: String) -> Bool {
        guard begin("is_incomplete"), push(text), cl_call_traced(host.main, 1, 1) == LUA_OK else { return false }
        defer { cl_pop(host.main, 1) }
        return lua_toboolean(host.main, -1) != 0
    }

    /// The text that shows the topmost `count` values of a coroutine; nil for no values. Sets `_` and `_1` and so on.
    public func show(_ source: Stack, _ count: Int32, width: Int, color: Bool, deep: Bool = false) -> String? {
        let main = host.main
        guard lua_checkstack(main, count + 30) != 0, source.reserve(count + 1),
            begin(deep ? "show_deep" : "show")
        else { return "not enough memory" }
        lua_pushinteger(main, lua_Integer(width))
        lua_pushboolean(main, color ? 1 : 0)
        source.move(count, to: host.stack)
        guard cl_call_traced(main, count + 2, 1) == LUA_OK else { return host.popMessage() }
        defer { cl_pop(main, 1) }
        return Call(main).string(-1)
    }

    /// What may stand at the end of a text: where it begins, in bytes, and the candidates.
    public func complete(_ text: String) -> (start: Int, candidates: [String]) {
        var results = call("complete", text) ?? []
        guard let start = results.first.flatMap({ $0.flatMap { Int($0) } }) else { return (text.utf8.count, []) }
        results.removeFirst()
        return (start, results.compactMap { $0 })
    }

    /// The reference text for a name, or what there is instead.
    public func help(_ name: String) -> String {
        let results = call("help", name) ?? []
        return results.compactMap { $0 }.first ?? "no help"
    }

    /// Closes what `<close>` variables of entries hold. Returns messages of those that failed.
    public func close() -> [String] { call("close")?.compactMap { $0 } ?? [] }

    /// The text of a global, as `tostring` gives it; nil if it is nil, or cannot be had.
    public func text(ofGlobal name: String) -> String? {
        let status = name.withCString { cl_get_global(host.main, $0) }
        defer { cl_pop(host.main, 1) }
        guard status == LUA_OK, lua_type(host.main, -1) != LUA_TNIL else { return nil }
        cl_to_text(host.main, -1)
        return host.scratch
    }

    // MARK: Calls

    private func push(_ text: String) -> Bool { Self.push(text, host) }

    private static func push(_ text: String?, _ host: LuaHost) -> Bool {
        guard let text else {
            lua_pushnil(host.main)
            return true
        }
        host.setScratch(text)
        return cl_push_text(host.main, host.host.pointee.scratch, host.host.pointee.length) == LUA_OK
    }

    /// Pushes a function of the script.
    private func begin(_ name: String) -> Bool {
        guard lua_checkstack(host.main, 30) != 0 else { return false }
        host.push(host.main, slot: functions)
        guard push(name) else { return false }
        lua_rawget(host.main, -2)
        lua_rotate(host.main, -2, 1)
        cl_pop(host.main, 1)
        return true
    }

    /// Calls a function of the script with texts; its results as texts, nil where they are none. nil: it failed.
    private func call(_ name: String, _ arguments: String...) -> [String?]? {
        let base = lua_gettop(host.main)
        guard begin(name), arguments.allSatisfy(push),
            cl_call_traced(host.main, Int32(arguments.count), LUA_MULTRET) == LUA_OK
        else {
            lua_settop(host.main, base)
            return nil
        }
        let call = Call(host.main)
        var results: [String?] = []
        for index in base..<lua_gettop(host.main) {
            results.append(call.string(index + 1) ?? call.integer(index + 1).map { "\($0)" })
        }
        lua_settop(host.main, base)
        return results
    }
}

extension LuaHost {
    /// Has Lua code interrupted, as Control-C does: what runs now, or what goes on when the runs of the loop have ended.
    public func interrupt() { cl_interrupt_once(host) }

    /// Called in the signal handler, before a signal that nobody has listened to ends the process.
    public static func setLastWords(_ function: @convention(c) () -> Void) { cl_set_last_words(function) }

    /// Called with true before a program that `os.execute` runs, and with false after it, on the thread that runs it.
    public static func setAroundProgram(_ function: @convention(c) (Int32) -> Void) { cl_set_around_program(function) }

    /// A Control-C that has just come was meant for the code that begins now.
    public func handInterruptOver() { cl_hand_interrupt_over(host) }

    /// No Lua code runs any more that an interruption was meant for. A signal that has met none is still to be taken.
    public func forgetInterrupt() { cl_forget_interrupts() }
}
