/// One cluster of the text as it is going to be drawn.
struct Glyph {
    /// The offset of the cluster in scalars, and its length.
    var offset: Int
    var length: Int
    var kind: Kind

    enum Kind: Equatable {
        /// The cluster itself, so many columns wide.
        case text(width: Int)
        /// `^X`
        case control
        case tab
        /// A combining mark with nothing to stand on, drawn on a dotted circle: it must not combine with the prompt.
        case mark(width: Int)
        /// An invisible or directional character or a C1 control, which would upset the terminal or fool the reader.
        case hidden
        /// `<ff>`: a byte that is no part of UTF-8.
        case byte(UInt8)
    }

    /// Columns taken when drawn at a column that counts from the edge of the screen or of the line.
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
