/// The waiters for a stream's output. Each waiter waits until fewer bytes than its limit are left to send. The waiters
/// keep their order. Adding, removing and finding a waiter takes the same time for any number of waiters.
final class OutputWaits {
    /// Waiters with the same limit. Few different limits occur.
    private struct Line {
        let limit: Int
        /// A removed waiter leaves a gap, which is closed at the front, or when most entries are gaps.
        var entries: [(number: Int, waiter: Int)] = []
        var first = 0
        var count = 0
        var front: (number: Int, waiter: Int)? { first < entries.count ? entries[first] : nil }
    }

    private var lines: [Line] = []
    private var places: [Int: (number: Int, limit: Int)] = [:]
    private var latest = 0
    /// The waiters that do not keep the loop running.
    private var idle: Set<Int> = []

    /// Whether one of the waiters keeps the loop running.
    var keepsAlive: Bool { places.count > idle.count }
    var isEmpty: Bool { places.isEmpty }

    func append(_ waiter: Int, below limit: Int, keepsAlive: Bool) {
        latest += 1
        if !keepsAlive { idle.insert(waiter) }
        places[waiter] = (latest, limit)
        let line = lines.firstIndex { $0.limit == limit } ?? lines.count
        if line == lines.count { lines.append(Line(limit: limit)) }
        lines[line].entries.append((latest, waiter))
        lines[line].count += 1
    }

    /// Returns whether the waiter was there.
    @discardableResult
    func remove(_ waiter: Int) -> Bool {
        guard let place = places.removeValue(forKey: waiter) else { return false }
        if !idle.isEmpty { idle.remove(waiter) }
        guard let line = lines.firstIndex(where: { $0.limit == place.limit }) else { return true }
        lines[line].count -= 1
        if lines[line].count == 0 {
            lines.remove(at: line)
        } else if lines[line].entries.count > 32, lines[line].entries.count > 2 * lines[line].count {
            lines[line].entries.removeAll { places[$0.waiter]?.number != $0.number }
            lines[line].first = 0
        }
        return true
    }

    /// The earliest waiter whose limit is above `unsent`.
    func next(above unsent: Int) -> Int? {
        var found: (number: Int, waiter: Int)?
        for line in lines.indices where lines[line].limit > unsent {
            while let entry = lines[line].front, places[entry.waiter]?.number != entry.number { lines[line].first += 1 }
            guard let entry = lines[line].front, entry.number < found?.number ?? .max else { continue }
            found = entry
        }
        return found?.waiter
    }

    /// All waiters, in their order.
    var all: [Int] { places.sorted { $0.value.number < $1.value.number }.map(\.key) }
}
