internal import CLuaSupport

/// The process.
public enum System {
    /// Returns the absolute path without symbolic links, or nil if there is no such file.
    public static func realPath(of path: String) -> String? {
        guard let real = path.withAnyCString({ cl_real_path($0) }) else { return nil }
        defer { cl_free_text(real) }
        return String(anyBytes: UnsafePointer(real))
    }

    /// Sets whether the first SIGINT or SIGTERM is only noted, and interrupts nothing.
    public static func deferSignals(_ defers: Bool) { cl_defer_signals(defers ? 1 : 0) }
}
