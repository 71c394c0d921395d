extension LuaTask {
    /// The waiters of a task, in the order in which they began to wait. Adding a waiter takes O(1) and removing one
    /// O(log n), amortized: thousands of tasks may wait for one task and be cancelled one by one.
    struct Awaiters {
        private var entries: [(number: Int, waiter: Waiter?)] = []
        private var gone = 0

        var all: [Waiter] { entries.compactMap(\.waiter) }
        /// Whether a waiter wants the task's results or its error.
        var wantResults: Bool { entries.contains { $0.waiter?.purpose == .results } }

        mutating func append(_ waiter: Waiter) { entries.append((waiter.number, waiter)) }

        mutating func remove(_ waiter: Waiter) {
            var place = 0
            var end = entries.count
            while place < end {
                let middle = (place + end) / 2
                if entries[middle].number < waiter.number { place = middle + 1 } else { end = middle }
            }
            // The list that a waiter awaits may contain this task twice.
            while place < entries.count, entries[place].number == waiter.number {
                if entries[place].waiter != nil { gone += 1 }
                entries[place].waiter = nil
                place += 1
            }
            guard gone * 2 > entries.count else { return }
            entries.removeAll { $0.waiter == nil }
            gone = 0
        }
    }
}
