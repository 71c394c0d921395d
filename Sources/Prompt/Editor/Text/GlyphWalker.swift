/// Iterates over a part of one line, glyph by glyph. The part begins and ends at cluster boundaries.
struct GlyphWalker {
    private let buffer: TextBuffer
    private var offset: Int
    private let end: Int

    // The lengths of the clusters in the current run, so that each run is divided only once.
    private var lengths: [Int] = []
    private var position = 0

    init(_ buffer: TextBuffer, range: Range<Int>) {
        self.buffer = buffer
        offset = range.lowerBound
        end = range.upperBound
    }

    mutating func next() -> Glyph? {
        guard offset < end else { return nil }
        if position >= lengths.count {
            let runEnd = buffer.endOfRun(from: offset, limit: end)
            if runEnd == offset + 1 { return glyph(length: 1) }
            lengths = buffer.clusterLengths(in: offset..<runEnd)
            position = 0
        }
        defer { position += 1 }
        return glyph(length: lengths[position])
    }

    private mutating func glyph(length: Int) -> Glyph {
        defer { offset += length }
        let scalar = buffer.scalars[offset]
        let cluster = buffer.scalars[offset..<offset + length]
        return Glyph(offset: offset, length: length, kind: length == 1 ? Self.kind(of: scalar) : Self.kind(of: cluster))
    }

    private static func kind(of scalar: Unicode.Scalar) -> Glyph.Kind {
        switch scalar.value {
        case 0x20..<0x7F: .text(width: 1)
        case 0x09: .tab
        case 0x00..<0x20, 0x7F: .control
        case 0x80..<0xA0, 0xAD: .hidden
        case 0xAE..<0x300: .text(width: 1)
        case LineEditor.bytes: .byte(UInt8(truncatingIfNeeded: scalar.value))
        default: kind(of: CollectionOfOne(scalar))
        }
    }

    private static func kind(of cluster: some Collection<Unicode.Scalar>) -> Glyph.Kind {
        guard let first = cluster.first else { return .hidden }
        // A skin tone without its emoji would change the character before it, and a selector is invisible: hide both.
        if first.properties.isEmojiModifier || first.properties.isVariationSelector { return .hidden }
        if needsBase(first) { return .mark(width: CharacterWidth.of(["\u{25CC}"] + cluster)) }
        if CharacterWidth.of(first) == 0 { return .hidden }
        return .text(width: CharacterWidth.of(cluster))
    }

    /// Returns whether a scalar joins with any character before it.
    private static func needsBase(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .spacingMark: true
        // The vowel AM of Thai and Lao is a letter, but joins nevertheless.
        default: scalar == "\u{E33}" || scalar == "\u{EB3}"
        }
    }
}
