/// Killed texts. The newest is yanked first.
struct KillRing {
    private var entries: [[Unicode.Scalar]] = []
    private var position = 0

    /// How many kills are remembered.
    static let capacity = 32

    /// The text that a yank inserts; nil while nothing has been killed.
    var current: [Unicode.Scalar]? { entries.indices.contains(position) ? entries[position] : nil }

    /// Begins a new entry.
    mutating func push(_ text: [Unicode.Scalar]) {
        entries.append(text)
        if entries.count > Self.capacity { entries.removeFirst() }
        position = entries.count - 1
    }

    /// Adds text to the newest entry, for consecutive kills. `before`: whether the killed text was before the cursor.
    mutating func extend(_ text: [Unicode.Scalar], before: Bool) {
        guard !entries.isEmpty else { return push(text) }
        position = entries.count - 1
        if before {
            entries[position].insert(contentsOf: text, at: 0)
        } else {
            entries[position].append(contentsOf: text)
        }
    }

    /// Selects the next older entry; after the oldest, the newest.
    mutating func rotate() {
        guard !entries.isEmpty else { return }
        position = position == 0 ? entries.count - 1 : position - 1
    }
}
