internal import CLuaSupport

/// The process.
public enum System {
    /// A path from the root, without links; nil if there is no such file.
    public static func realPath(of path: String) -> String? {
        guard let real = path.withAnyCString({ cl_real_path($0) }) else { return nil }
        defer { cl_free_text(real) }
        return String(anyBytes: UnsafePointer(real))
    }

    /// Ends it by a signal, as if nobody had handled that: whoever has started it sees as much.
    public static func die(by signal: Int32) -> Never { cl_die(signal) }

    /// Whether SIGINT and SIGTERM interrupt nothing and are only noted, the first of them.
    public static func deferSignals(_ defers: Bool) { cl_defer_signals(defers ? 1 : 0) }

    /// Ends it as C's `exit` does.
    public static func exit(_ status: Int32) -> Never { cl_exit(status) }
}
