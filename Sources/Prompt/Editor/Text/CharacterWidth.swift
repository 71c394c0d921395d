/// The number of columns that a terminal gives to text: 0, 1 or 2 for each scalar and each grapheme cluster.
///
/// The C library's `wcwidth` is not used: it depends on the locale, and its table is often older than the terminal's.
package enum CharacterWidth {
    /// The width of one scalar in columns. O(log n) in the size of the table; constant for Latin text.
    ///
    /// Control characters count as 0 here; the editor draws them as `^X`.
    package static func of(_ scalar: Unicode.Scalar) -> Int {
        let value = scalar.value
        if value < 0x20 || (0x7F..<0xA0).contains(value) { return 0 }
        if value < 0x300 { return 1 }
        // The later letters of a conjoining Hangul syllable are drawn inside the first one.
        if (0x1160...0x11FF).contains(value) || (0xD7B0...0xD7FB).contains(value) { return 0 }
        if (0x3400...0x9FFF).contains(value) { return (0x4DC0...0x4DFF).contains(value) ? 1 : 2 }
        switch scalar.properties.generalCategory {
        // Unlike other format characters, signs that enclose the following number are visible.
        case .format where isPrepended(value): return 1
        case .nonspacingMark, .enclosingMark, .format, .lineSeparator, .paragraphSeparator: return 0
        default: return isWide(value) ? 2 : 1
        }
    }

    /// The width of a text in columns: that of its grapheme clusters. O(length).
    package static func of(text: String) -> Int { text.reduce(0) { $0 + of($1.unicodeScalars) } }

    /// The width of one grapheme cluster in columns, at most 2. O(length of the cluster).
    package static func of(_ cluster: some Sequence<Unicode.Scalar>) -> Int {
        var width = 0
        var previous: Unicode.Scalar?
        for scalar in cluster {
            // An emoji presentation selector makes a narrow symbol wide, as in U+2764 U+FE0F.
            if scalar == "\u{FE0F}", width == 1, previous?.properties.isEmoji == true { return 2 }
            previous = scalar
            width += of(scalar)
            if width >= 2 { return 2 }
        }
        return width
    }

    /// Whether terminals are known to disagree about the width of this cluster of several scalars: joined emoji,
    /// flags, skin tones, presentation selectors and conjuncts. Plain accents are not contested.
    static func isContested(_ cluster: some Sequence<Unicode.Scalar>) -> Bool {
        var isFirst = true
        for scalar in cluster {
            if !isFirst {
                let value = scalar.value
                if value == 0x200D || value == 0xFE0F || of(scalar) > 0 { return true }
            }
            isFirst = false
        }
        return false
    }

    /// Prepended_Concatenation_Mark of Unicode 15.0.
    private static func isPrepended(_ value: UInt32) -> Bool {
        switch value {
        case 0x600...0x605, 0x6DD, 0x70F, 0x890...0x891, 0x8E2, 0x110BD, 0x110CD: true
        default: false
        }
    }

    private static func isWide(_ value: UInt32) -> Bool {
        var low = 0
        var high = wide.count
        while low < high {
            let middle = (low + high) / 2
            if wide[middle].upperBound < value { low = middle + 1 } else { high = middle }
        }
        return low < wide.count && wide[low].contains(value)
    }
}
