extension LineEditor {
    /// A range of the entry and its style.
    public struct Highlight: Equatable, Sendable {
        /// UTF-8 bytes from the start of the entry. Parts outside of the text are ignored.
        public var range: Range<Int>
        public var style: Style

        public init(range: Range<Int>, style: Style) {
            self.range = range
            self.style = style
        }
    }
}
