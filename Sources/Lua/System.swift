internal import CLuaSupport

/// The process.
public enum System {
    /// Gives memory that is kept for later back.
    public static func trimMemory() { cl_trim_memory() }

    /// Ends it as C's `exit` does.
    public static func exit(_ status: Int32) -> Never { cl_exit(status) }
}
