/// One cluster of the text in the form in which it is drawn.
struct Glyph {
    /// The offset of the cluster in scalars, and its length.
    var offset: Int
    var length: Int
    var kind: Kind

    enum Kind: Equatable {
        /// The cluster itself, with its width in columns.
        case text(width: Int)
        /// `^X`
        case control
        case tab
        /// A combining mark without a base character, drawn on a dotted circle: it must not combine with the prompt.
        case mark(width: Int)
        /// An invisible or directional character or a C1 control, which would disturb the terminal or mislead the
        /// reader.
        case hidden
        /// `<ff>`: a byte that is not part of UTF-8.
        case byte(UInt8)
    }

    /// Returns the columns that the glyph takes at a column, counted from the edge of the screen or the start of the
    /// line.
    func width(at column: Int) -> Int {
        switch kind {
        case .text(let width), .mark(let width): width
        case .control: 2
        case .tab: 8 - column % 8
        case .hidden: 1
        case .byte: 4
        }
    }
}
