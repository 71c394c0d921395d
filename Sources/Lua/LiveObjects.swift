internal import Synchronization

/// How many objects of the kinds that only a script's objects hold are alive: for tests that look for leaks. Counted in debug
/// builds only.
public enum LiveObjects {
    private static let number = Atomic(0)

    public static var count: Int { number.load(ordering: .relaxed) }

    @inline(__always)
    public static func note(_ change: Int) {
        #if DEBUG
            number.add(change, ordering: .relaxed)
        #endif
    }
}
