internal import Lua
internal import RunLoops

/// Decides when a state runs a full garbage collection and frees memory.
package final class LuaMemory: HostPart {
    /// The earliest time to collect all garbage again.
    private var nextCollection = Int64.min
    /// The number of fibers freed, and of other objects released, since the last collection. The userdata of these
    /// objects are small, but keep memory that Lua does not count.
    private var released = 0
    /// The bytes that Lua used after the last collection, or before the script began.
    private var survivors = 0
    /// The earliest time of the next collection that only checks whether surviving objects have become garbage.
    private var nextLook = Int64.min
    /// The number of the loop's passes at the end of the last collection. If the loop has made no pass since then, no
    /// object has become garbage.
    private var lastPass = -1
    /// The collection in steps that is under way, if any.
    private var collection: Collection?
    /// Whether a task has failed since the last collection began: only a collection shows whether the script has
    /// forgotten the task.
    private var isWanted = false

    /// This number of objects takes half a megabyte or more.
    private static let manyReleased = 1000
    /// A collection, or one more cycle, is not worth its time if it frees fewer bytes than this.
    private static let worthwhile = 1 << 20
    /// A state with fewer bytes than this is collected only after it has grown.
    private static let large = 2 << 20
    /// Nanoseconds for one step of a collection; the step at the end of a cycle may take longer. An event that comes
    /// meanwhile waits for the end of the step.
    private static let step: Int64 = 2_000_000

    private static let second: Int64 = 1_000_000_000

    private struct Collection {
        /// Bytes in use when the present cycle began.
        var bytes: Int
        var cycles = 0
        /// Nanoseconds of processor time.
        var spent: Int64 = 0
    }

    /// Frees idle fibers in later passes, since the number of fibers falls as tasks end.
    func shrinkSoon() {
        host.loop.perform { [weak host = host] in
            guard let host, !host.isClosed else { return }
            host.part(LuaMemory.self).shrink()
        }
    }

    /// Notes that the host has released an object, which a collection may now free.
    package func noteRelease() { released += 1 }

    private func shrink() {
        let (freed, isLarge) = host.shrinkPool()
        released += freed
        if isLarge { shrinkSoon() }
    }

    /// Asks for a collection, however small the state is, as soon as the last one is long enough ago.
    func collectSoon() {
        isWanted = true
        host.loop.restIsWanted = true
    }

    // MARK: While the loop has nothing to do

    /// Collects garbage in small steps, if there may be much of it. Called when the loop is about to sleep for long.
    ///
    /// - Returns: nanoseconds until the next call; 0 if it has done something, `.max` if there is nothing to do.
    func rest() -> Int64 {
        if collection != nil {
            advance()
            return 0
        }
        let bytes = host.bytesInUse
        survivors = min(survivors, bytes)
        let hasGrown = isWanted || released >= Self.manyReleased || bytes > survivors + survivors / 4 + Self.worthwhile
        // Lua's count of bytes does not include the memory of released objects. So a large state is also collected if
        // the loop has made a pass since the last collection.
        guard hasGrown || bytes > Self.large && host.loop.statistics.passes != lastPass else {
            // Lua may have collected by itself.
            host.shrinkTables()
            return .max
        }
        let now = host.loop.now.nanoseconds
        let date = hasGrown ? nextCollection : nextLook
        guard now >= date else { return date - now }
        guard host.beginCollection() else { return .max }
        released = 0
        isWanted = false
        collection = Collection(bytes: bytes)
        return 0
    }

    private func advance() {
        guard var current = collection else { return }
        // A finalizer may run the loop, which calls this function again.
        collection = nil
        let progress = host.collect(for: Self.step, spent: &current.spent)
        // The script has set the collector's mode meanwhile; do not overwrite it.
        guard progress != .interrupted else { return }
        guard progress == .cycleEnded else {
            collection = current
            return
        }
        // The collector calls an object's finalizer in a cycle, and frees the object only in the next cycle.
        let bytes = host.bytesInUse
        let freed = current.bytes - bytes
        current.bytes = bytes
        current.cycles += 1
        guard current.cycles < 2 || freed > Self.worthwhile && current.cycles < 4 else { return end(current) }
        collection = current
    }

    private func end(_ collection: Collection) {
        host.shrinkTables()
        host.endCollection()
        survivors = host.bytesInUse
        lastPass = host.loop.statistics.passes
        let now = host.loop.now.nanoseconds
        nextCollection = now + 20 * collection.spent
        // Such a collection often frees nothing, so limit it to half a percent of the processor's time.
        nextLook = now + max(Self.second, 200 * collection.spent)
    }

    // MARK: At once

    var mayCollect: Bool { host.loop.now.nanoseconds >= nextCollection }

    /// Runs a full collection, unless collections would then take more than a twentieth of the time, judging by the
    /// length of the last one. Returns whether it collected.
    func collectInMeasure() -> Bool {
        guard mayCollect else { return false }
        let start = host.loop.now.nanoseconds
        isWanted = false
        host.collectGarbage()
        let end = host.loop.now.nanoseconds
        nextCollection = end + 20 * (end - start)
        return true
    }

    package override func reset() {
        nextCollection = .min
        nextLook = .min
        lastPass = -1
    }
}
