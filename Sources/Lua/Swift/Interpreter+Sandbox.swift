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

    /// Calls `body` with package.path and package.cpath; nil stands for a path that a script has replaced by something
    /// other than a string.
    public final func withSearchPaths<Result, Failure: Error>(
        _ body: (_ lua: UnsafePointer<CChar>?, _ c: UnsafePointer<CChar>?) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var lua: UnsafeMutablePointer<CChar>?, c: UnsafeMutablePointer<CChar>?
        cl_copy_search_paths(state, &lua, &c)
        defer {
            cl_free_text(lua)
            cl_free_text(c)
        }
        return try body(lua, c)
    }
}
