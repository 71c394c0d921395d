internal import CLua
internal import CLuaSupport

extension Interpreter {
    /// Replaces the functions of Lua's library that a sandbox changes, in this state and in later ones.
    ///
    /// - Parameters:
    ///   - allowsModules: Whether bytecode and C modules are loaded.
    ///   - refusal: Returns the text of a refusal, or NULL, for a number of a kind and a subject.
    /// - Returns: False after an error in Lua, whose message is on the stack.
    public final func enterSandbox(
        allowsModules: Bool, refusal: @convention(c) (Int32, UnsafePointer<CChar>?) -> UnsafePointer<CChar>?
    ) -> Bool {
        cl_enter_sandbox(state, refusal, allowsModules ? 1 : 0) == LUA_OK
    }

    /// package.path and package.cpath; empty if a script has made them something else.
    public final var searchPaths: (lua: String, c: String) {
        withUnsafeTemporaryAllocation(of: UnsafeMutablePointer<CChar>?.self, capacity: 2) { paths in
            cl_copy_search_paths(state, paths.baseAddress)
            defer { for path in paths { cl_free_text(path) } }
            func text(_ path: UnsafeMutablePointer<CChar>?) -> String { path.map { String(anyBytes: $0) } ?? "" }
            return (text(paths[0]), text(paths[1]))
        }
    }
}
