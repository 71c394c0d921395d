internal import CLinux

/// A heap of timers with four children to a node, sorted by date, order and age. Each timer stores its index, so that
/// moving or removing a timer takes O(log n).
///
/// The heap uses raw storage. Costs if removed: exclusivity checks alone make an array in a class ten times slower.
struct TimerHeap: ~Copyable {
    private struct Entry {
        var date: Int64  // a copy, so that most comparisons need not read the node
        var node: NodePointer
    }

    private let entries = RawBuffer<Entry>(capacity: 16)

    deinit { entries.free() }

    private var storage: UnsafeMutablePointer<Entry> { entries.base }
    var count: Int { entries.count }

    var first: NodePointer? { count > 0 ? storage[0].node : nil }
    var firstDate: Int64 { count > 0 ? storage[0].date : .max }

    subscript(index: Int) -> NodePointer { storage[index].node }

    /// Takes the first timer out. Prefetches the root's children, one of which becomes the first: reading them from
    /// memory takes most of the time.
    func popFirst() -> NodePointer? {
        guard let first else { return nil }
        for child in 1..<max(1, min(5, count)) { linux_prefetch(storage[child].node, 48) }
        remove(first)
        return first
    }

    func insert(_ node: NodePointer) {
        entries.makeRoom()
        entries.count += 1
        siftUp(Entry(date: node.pointee.fireDate, node: node), from: count - 1)
    }

    func shrink() { entries.shrink() }

    func remove(_ node: NodePointer) {
        let hole = Int(node.pointee.heapIndex)
        node.pointee.heapIndex = -1
        entries.count -= 1
        guard hole != count else { return }
        place(storage[count], at: hole)
    }

    /// Moves a node whose date has changed.
    func move(_ node: NodePointer) {
        place(Entry(date: node.pointee.fireDate, node: node), at: Int(node.pointee.heapIndex))
    }

    /// The earliest time at which a timer's tolerance ends.
    func latestStart() -> Int64 {
        guard count > 0 else { return .max }
        var best = Int64.max
        latestStart(below: 0, &best)
        return best
    }

    // Children are never earlier than their parent. So the search does not go below a node that is later than the best
    // time so far.
    private func latestStart(below index: Int, _ best: inout Int64) {
        guard index < count, storage[index].date < best else { return }
        let tolerance = storage[index].node.pointee.tolerance
        best = min(best, storage[index].date.addingSaturating(tolerance))
        if tolerance == 0 { return }
        for child in (4 * index + 1)...(4 * index + 4) { latestStart(below: child, &best) }
    }

    /// The date of the latest timer that is due at `limit`; `.min` if none is.
    func latestDate(upTo limit: Int64) -> Int64 {
        var best = Int64.min
        latestDate(below: 0, limit, &best)
        return best
    }

    private func latestDate(below index: Int, _ limit: Int64, _ best: inout Int64) {
        guard index < count, storage[index].date <= limit else { return }
        best = max(best, storage[index].date)
        for child in (4 * index + 1)...(4 * index + 4) { latestDate(below: child, limit, &best) }
    }

    private func isBefore(_ a: Entry, _ b: Entry) -> Bool {
        a.date != b.date ? a.date < b.date : Self.winsTie(a.node, over: b.node)
    }

    static func winsTie(_ a: NodePointer, over b: NodePointer) -> Bool {
        a.pointee.order != b.pointee.order
            ? a.pointee.order < b.pointee.order : a.pointee.age < b.pointee.age
    }

    private func place(_ entry: Entry, at hole: Int) {
        if hole > 0, isBefore(entry, storage[(hole - 1) / 4]) {
            siftUp(entry, from: hole)
        } else {
            siftDown(entry, from: hole)
        }
    }

    private func put(_ entry: Entry, at index: Int) {
        storage[index] = entry
        entry.node.pointee.heapIndex = Int32(truncatingIfNeeded: index)
    }

    private func siftUp(_ entry: Entry, from start: Int) {
        var hole = start
        while hole > 0 {
            let parent = (hole - 1) / 4
            guard isBefore(entry, storage[parent]) else { break }
            put(storage[parent], at: hole)
            hole = parent
        }
        put(entry, at: hole)
    }

    @inline(never)
    private func earliest(_ range: Range<Int>) -> Int {
        var best = range.lowerBound
        for other in (best + 1)..<max(best + 1, range.upperBound) where isBefore(storage[other], storage[best]) {
            best = other
        }
        return best
    }

    /// Finds the earliest of four children without branches, since a processor cannot predict which child it is. Equal
    /// dates, which are rare, take a slower path.
    @inline(__always)
    private func earliestOfFour(from first: Int) -> Int {
        let children = storage + first
        let a = children[0].date
        let b = children[1].date
        let c = children[2].date
        let d = children[3].date
        let ab = b < a ? b : a
        let cd = d < c ? d : c
        let date = cd < ab ? cd : ab
        let isA = a == date ? 1 : 0
        let isB = b == date ? 1 : 0
        let isC = c == date ? 1 : 0
        let isD = d == date ? 1 : 0
        guard isA + isB + isC + isD == 1 else { return earliest(first..<(first + 4)) }
        return first + isB + 2 * isC + 3 * isD
    }

    private func siftDown(_ entry: Entry, from start: Int) {
        var hole = start
        while true {
            let firstChild = 4 * hole + 1
            guard firstChild < count else { break }
            let child = firstChild + 4 <= count ? earliestOfFour(from: firstChild) : earliest(firstChild..<count)
            guard isBefore(storage[child], entry) else { break }
            put(storage[child], at: hole)
            hole = child
        }
        put(entry, at: hole)
    }
}
