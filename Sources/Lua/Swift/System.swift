internal import CLuaSupport

/// The process.
public enum System {
    /// A path from the root, without links; nil if there is no such file.
    public static func realPath(of path: String) -> String? {
        guard let real = path.withAnyCString({ cl_real_path($0) }) else { return nil }
        defer { cl_free_text(real) }
        return String(anyBytes: UnsafePointer(real))
    }

    /// Whether SIGINT and SIGTERM interrupt nothing and are only noted, the first of them.
    public static func deferSignals(_ defers: Bool) { cl_defer_signals(defers ? 1 : 0) }
}
