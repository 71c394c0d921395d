extension TextBuffer {
    /// Returns whether a scalar never joins with another of its kind, so that there is a boundary between two such
    /// scalars.
    ///
    /// These are Latin, Greek and Cyrillic letters, kana and Han. Nearly every text has such a pair near each offset,
    /// which makes the functions below O(1) in practice. Only text without such a pair (all emoji, all Devanagari)
    /// costs O(n).
    static func isSimple(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x300, 0x370..<0x483, 0x48A..<0x530, 0x3041..<0x3097, 0x30A0..<0x3100, 0x3400..<0xA000,
            LineEditor.bytes:
            true
        default: false
        }
    }

    private func isCertainBoundary(_ offset: Int) -> Bool {
        offset <= 0 || offset >= count || Self.isSimple(scalars[offset - 1]) && Self.isSimple(scalars[offset])
    }

    /// Returns the end of the run that starts at a cluster boundary. A run can be divided into clusters without looking
    /// at the text around it.
    func endOfRun(from offset: Int, limit: Int) -> Int {
        var end = offset + 1
        while end < limit, !isCertainBoundary(end) { end += 1 }
        return min(end, limit)
    }

    /// The lengths in scalars of the clusters in a run that begins and ends at certain boundaries. O(length).
    func clusterLengths(in run: Range<Int>) -> [Int] {
        if run.count == 1 { return [1] }
        return Self.string(scalars[run]).map { $0.unicodeScalars.count }
    }

    /// The nearest boundary at or after an offset.
    func boundary(atOrAfter offset: Int) -> Int {
        guard !isCertainBoundary(offset) else { return min(max(offset, 0), count) }
        return boundaries(around: offset).first { $0 >= offset } ?? count
    }

    /// The nearest boundary at or before an offset.
    func boundary(atOrBefore offset: Int) -> Int {
        guard !isCertainBoundary(offset) else { return min(max(offset, 0), count) }
        return boundaries(around: offset).last { $0 <= offset } ?? 0
    }

    /// The boundary after the next cluster; the end of the text stays where it is.
    func next(after offset: Int) -> Int { offset < count ? boundary(atOrAfter: offset + 1) : count }

    /// The boundary before the previous cluster; the start of the text stays where it is.
    func previous(before offset: Int) -> Int { offset > 0 ? boundary(atOrBefore: offset - 1) : 0 }

    private func boundaries(around offset: Int) -> [Int] {
        var start = offset - 1
        while !isCertainBoundary(start) { start -= 1 }
        var end = offset + 1
        while !isCertainBoundary(end) { end += 1 }
        var result = [start]
        var position = start
        for length in clusterLengths(in: start..<end) {
            position += length
            result.append(position)
        }
        return result
    }
}
