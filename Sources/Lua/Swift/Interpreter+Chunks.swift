internal import CLua
internal import CLuaSupport

/// Opening the libraries, loading code, and the globals. What returns a Bool leaves an error on the main stack for false.
extension Interpreter {
    /// Opens Lua's libraries. Unless the collector is stopped, it is generational afterwards.
    public final func openLibraries(withoutEnvironment: Bool) -> Bool {
        cl_open_libraries(main, withoutEnvironment ? 1 : 0) == LUA_OK
    }

    /// Leaves a file's code as a function on the main stack; nil: that of standard input.
    public final func pushCode(ofFile path: String?) -> Bool {
        state.pointee.is_unreadable = 0
        // Lua goes on reading whatever comes; and lua itself has no handler for signals yet.
        cl_read_script(1)
        defer { cl_read_script(0) }
        return (path.map { $0.withAnyCString { cl_load_file(main, $0) } } ?? cl_load_file(main, nil)) == LUA_OK
    }

    /// The latest `pushCode(ofFile:)` failed because the file could not be read.
    public final var fileIsUnreadable: Bool { state.pointee.is_unreadable != 0 }

    /// Leaves a text's code as a function on the main stack.
    public final func pushCode(_ text: String, name: String) -> Bool {
        state.pointee.is_unreadable = 0
        return name.withAnyCString { name in
            text.withAnyBytes { bytes in
                let start = bytes.assumingMemoryBound(to: CChar.self).baseAddress ?? name
                return cl_load_text(main, start, bytes.count, name) == LUA_OK
            }
        }
    }

    public final func pushGlobal(_ name: String) -> Bool {
        name.withAnyCString { cl_get_global(main, $0) } == LUA_OK
    }

    /// Pops a value.
    public final func setGlobal(_ name: String) -> Bool { name.withAnyCString { cl_set_global(main, $0) } == LUA_OK }

    /// The elements of the global table `arg`, from 1 on. Returns how many; nil, with the error there: it is no table.
    public final func pushArguments() -> Int32? {
        let top = stack.top
        return cl_push_arguments(main) == LUA_OK ? stack.top - top : nil
    }

    /// Whether warnings are told.
    public final var warns: Bool { cl_warns(state) != 0 }

    public final func setWarnings(on: Bool) { lua_warning(main, on ? "@on" : "@off", 0) }

    /// "Lua 5.4.4".
    public static let release = String(cString: cl_release())
    /// What `lua -v` says.
    public static let copyright = String(cString: cl_copyright())
}

extension Stack {
    /// A function that calls the function which is its first argument, with the others, as lua calls a chunk. An error does not leave
    /// it: see `isFailure`. What it calls may wait.
    public func pushChunkRunner() { cl_push_chunk_runner(thread) }
}
