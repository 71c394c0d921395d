internal import CLuaSupport

/// Counts the living objects that were made on this thread and that only objects of scripts retain. For tests that look
/// for leaks; the count is per thread because several tests run at once. Debug builds only.
public enum LiveObjects {
    public static var count: Int { Int(cl_live_objects(0)) }

    @inline(__always)
    public static func note(_ change: Int) {
        #if DEBUG
            _ = cl_live_objects(Int32(change))
        #endif
    }
}
