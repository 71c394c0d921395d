extension Recording {
    /// The open slices of one loop. Formats with nested slices need to know which beginning an end belongs to. The
    /// oldest records of a ring may be ends of slices whose beginnings are lost.
    struct Nesting {
        private var open: [Record.Kind] = []
        /// The open lasting items, by number.
        private var lasting: Set<UInt32> = []

        mutating func begin(_ kind: Record.Kind) { open.append(kind) }

        /// Returns how many slices end: the innermost of this kind, and all unfinished ones in it; 0 if there is none.
        mutating func end(_ kind: Record.Kind) -> Int {
            guard let index = open.lastIndex(of: kind) else { return 0 }
            let count = open.count - index
            open.removeLast(count)
            return count
        }

        mutating func opens(_ number: UInt32) { lasting.insert(number) }

        /// Returns whether the beginning was seen.
        mutating func closes(_ number: UInt32) -> Bool { lasting.remove(number) != nil }
    }
}
