extension LineEditor {
    /// The possible completions at the cursor.
    public struct Completion: Equatable, Sendable {
        /// Where the replaced text begins, in UTF-8 bytes from the start of the entry. The replaced text ends at the
        /// cursor.
        public var start: Int
        /// Full replacements for that text, in the order in which they are listed.
        public var candidates: [String]

        /// If `start` is inside a character or after the cursor, the editor uses the nearest valid offset before it.
        public init(start: Int, candidates: [String]) {
            self.start = start
            self.candidates = candidates
        }
    }
}
