internal import CLuaSupport

/// The process.
public enum System {
    /// Ends it as C's `exit` does.
    public static func exit(_ status: Int32) -> Never { cl_exit(status) }
}
