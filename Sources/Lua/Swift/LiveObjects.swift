internal import CLuaSupport

/// How many objects of the kinds that only a script's objects hold were made on this thread and are still alive: for tests that
/// look for leaks, several of which run at once. Counted in debug builds only.
public enum LiveObjects {
    public static var count: Int { Int(cl_live_objects(0)) }

    @inline(__always)
    public static func note(_ change: Int) {
        #if DEBUG
            _ = cl_live_objects(Int32(change))
        #endif
    }
}
