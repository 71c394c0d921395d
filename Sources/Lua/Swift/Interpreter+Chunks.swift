internal import CLua
internal import CLuaSupport

/// Opening the libraries, loading code, and the globals. A function that returns false leaves an error on the main
/// stack.
extension Interpreter {
    /// Opens Lua's libraries. Leaves the collector in generational mode, unless it is stopped.
    public final func openLibraries(withoutEnvironment: Bool) -> Bool {
        cl_open_libraries(main, withoutEnvironment ? 1 : 0) == LUA_OK
    }

    /// Pushes the code of a file, or of standard input for nil, as a function onto the main stack.
    public final func pushCode(ofFile path: String?) -> Bool {
        state.pointee.is_unreadable = 0
        // While a script is read, SIGINT and SIGTERM end the process at once, as in lua: see `heed` in signals.c.
        cl_read_script(1)
        defer { cl_read_script(0) }
        return (path.map { $0.withAnyCString { cl_load_file(main, $0) } } ?? cl_load_file(main, nil)) == LUA_OK
    }

    /// Whether the latest `pushCode(ofFile:)` failed because the file could not be read.
    public final var fileIsUnreadable: Bool { state.pointee.is_unreadable != 0 }

    /// Pushes a text's code as a function onto the main stack.
    public final func pushCode(_ text: String, name: String) -> Bool {
        state.pointee.is_unreadable = 0
        return name.withAnyCString { name in
            text.withAnyBytes { bytes in
                let start = bytes.assumingMemoryBound(to: CChar.self).baseAddress ?? name
                return cl_load_text(main, start, bytes.count, name) == LUA_OK
            }
        }
    }

    /// Pushes code of the host as a function onto the main stack. The code can require private parts of modules.
    /// Changes of globals by a script do not affect it.
    public final func pushOwnCode(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { cl_load_own(main, $0.baseAddress, $0.count) == LUA_OK }
        }
    }

    public final func pushGlobal(_ name: String) -> Bool {
        name.withAnyCString { cl_get_global(main, $0) } == LUA_OK
    }

    /// Pops a value and makes it a global.
    public final func setGlobal(_ name: String) -> Bool { name.withAnyCString { cl_set_global(main, $0) } == LUA_OK }

    /// Pushes the elements of the global table `arg`, from 1 on, and returns their number. Returns nil if `arg` is not
    /// a table, with the error on the stack.
    public final func pushArguments() -> Int32? {
        let top = stack.top
        return cl_push_arguments(main) == LUA_OK ? stack.top - top : nil
    }

    /// Whether warnings are on.
    public final var warns: Bool { cl_warns(state) != 0 }

    public final func setWarnings(on: Bool) { lua_warning(main, on ? "@on" : "@off", 0) }

    /// Notes from now on which functions of Lua's own libraries block the thread.
    public final func noteBlocking() { if cl_note_blocking(main) != LUA_OK { stack.pop() } }

    /// If one or two functions have blocked the thread for most of an interval, returns a text such as "os.execute at
    /// app.lua:2"; otherwise nil. The interval is in nanoseconds of the monotonic clock.
    public final func whatBlocked(since began: Int64, for took: Int64) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { text in
            guard let start = text.baseAddress, cl_what_blocked(state, began, took, start, text.count) != 0 else {
                return nil
            }
            return String(anyBytes: UnsafePointer(start))
        }
    }

    /// The version of this program: "0.1.0".
    public static let programVersion = String(cString: cl_version())
    /// The version of Lua: "Lua 5.4.4".
    public static let release = String(cString: cl_release())
    /// The text that `lua -v` prints.
    public static let copyright = String(cString: cl_copyright())
}

extension Stack {
    /// Pushes a function that calls its first argument with the other arguments, as lua calls a chunk. An error in the
    /// chunk becomes a result: see `Interpreter.explanation(ofChunk:results:)`. The chunk may wait.
    public func pushChunkRunner() { cl_push_chunk_runner(thread) }
}
