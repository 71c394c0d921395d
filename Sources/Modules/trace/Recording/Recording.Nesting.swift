extension Recording {
    /// What is open in one loop: formats whose slices lie within each other need to know which ends belong to which beginnings. A ring
    /// begins in the middle, with ends of what nobody saw begin.
    struct Nesting {
        private var open: [Record.Kind] = []
        /// What lasts, by number.
        private var lasting: Set<UInt32> = []

        mutating func begin(_ kind: Record.Kind) { open.append(kind) }

        /// How many slices end: the innermost of this kind, and all that lie in it and were not ended; 0 if there is none.
        mutating func end(_ kind: Record.Kind) -> Int {
            guard let index = open.lastIndex(of: kind) else { return 0 }
            let count = open.count - index
            open.removeLast(count)
            return count
        }

        mutating func opens(_ number: UInt32) { lasting.insert(number) }

        /// Whether it was seen to begin.
        mutating func closes(_ number: UInt32) -> Bool { lasting.remove(number) != nil }
    }
}
