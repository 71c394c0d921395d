internal import Lua
internal import RunLoops

/// When a state collects all its garbage, and gives memory back.
final class LuaMemory: HostPart {
    /// When, at the earliest, to collect all garbage again.
    private var nextCollection = Int64.min
    /// Fibers that were freed since garbage was last collected for their sake.
    private var freedFibers = 0
    /// How many bytes of Lua's were left by the last collection, or were in use before the script began.
    private var survivors = 0
    /// The collection in steps that is under way.
    private var collection: Collection?

    /// They are a megabyte or more.
    private static let manyFibers = 1000
    /// A collection that frees less is not worth its time, nor is another cycle of one.
    private static let worthwhile = 1 << 20
    /// How long a step takes, the end of a cycle excepted: whatever happens meanwhile waits.
    private static let step: Int64 = 2_000_000

    private struct Collection {
        /// Bytes in use when its present cycle began.
        var bytes: Int
        var cycles = 0
        /// Nanoseconds of processor time.
        var spent: Int64 = 0
    }

    /// In passes to come: the number of fibers falls as that of tasks does.
    func shrinkSoon() {
        host.loop.perform { [weak host = host] in
            guard let host, !host.isClosed else { return }
            host.part(LuaMemory.self).shrink()
        }
    }

    private func shrink() {
        let (freed, isLarge) = host.shrinkPool()
        freedFibers += freed
        if isLarge { shrinkSoon() }
    }

    // MARK: While the loop has nothing to do

    /// The loop is about to sleep for long: collects garbage, in small steps, if there may be much of it.
    ///
    /// - Returns: after how many nanoseconds to call again; 0 if it has done something, `.max` if there is nothing to do.
    func rest() -> Int64 {
        if collection != nil {
            advance()
            return 0
        }
        let bytes = host.bytesInUse
        survivors = min(survivors, bytes)
        guard freedFibers >= Self.manyFibers || bytes > survivors + survivors / 4 + Self.worthwhile else {
            // Lua may have collected by itself.
            host.shrinkTables()
            return .max
        }
        let now = host.loop.now.nanoseconds
        guard now >= nextCollection else { return nextCollection - now }
        guard host.beginCollection() else { return .max }
        freedFibers = 0
        collection = Collection(bytes: bytes)
        return 0
    }

    private func advance() {
        guard var current = collection else { return }
        // A finalizer may run the loop, which comes here again.
        collection = nil
        let progress = host.collect(for: Self.step, spent: &current.spent)
        guard progress != .interrupted else { return end(current) }
        guard progress == .cycleEnded else {
            collection = current
            return
        }
        // What has a finalizer is freed by the cycle after the one that calls it.
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
        nextCollection = host.loop.now.nanoseconds + 20 * collection.spent
    }

    // MARK: At once

    var mayCollect: Bool { host.loop.now.nanoseconds >= nextCollection }

    /// A full collection, unless the last one was so long that this takes more than a twentieth of the time.
    func collectInMeasure() -> Bool {
        guard mayCollect else { return false }
        let start = host.loop.now.nanoseconds
        host.collectGarbage()
        let end = host.loop.now.nanoseconds
        nextCollection = end + 20 * (end - start)
        return true
    }

    override func reset() { nextCollection = .min }
}
