extension LineEditor {
    /// A stretch of the entry and its look.
    public struct Highlight: Equatable, Sendable {
        /// UTF-8 bytes from the start of the entry. What lies outside of the text is ignored.
        public var range: Range<Int>
        public var style: Style

        public init(range: Range<Int>, style: Style) {
            self.range = range
            self.style = style
        }
    }
}
