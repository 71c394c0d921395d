internal import Lua
internal import RunLoops

/// When a state collects all its garbage, and gives memory back.
final class LuaMemory: HostPart {
    /// When, at the earliest, to collect all garbage again.
    private var nextCollection = Int64.min
    /// Fibers that were freed since memory was last given back.
    private var freedFibers = 0

    /// They are a megabyte or more.
    private static let manyFibers = 1000

    /// In passes to come: the number of fibers falls as that of tasks does, and what they took goes back to the system.
    func shrinkSoon() {
        host.loop.perform { [weak host = host] in
            guard let host, !host.isClosed else { return }
            host.part(LuaMemory.self).shrink()
        }
    }

    private func shrink() {
        let (freed, isLarge) = host.shrinkPool()
        freedFibers += freed
        if isLarge { return shrinkSoon() }
        guard freedFibers >= Self.manyFibers, collectInMeasure() else { return }
        freedFibers = 0
        // What has a finalizer is freed by the second one: the tasks.
        host.collectGarbage()
        System.trimMemory()
    }

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
