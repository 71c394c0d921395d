extension LineEditor {
    /// Tab: indents, or completes as far as the candidates agree, or lists them; further presses insert one candidate
    /// after the other. Shift-Tab goes backwards.
    func tab(_ previous: Command, backwards: Bool = false) {
        if listing != nil {
            switch previous {
            case .ambiguousTab: return choose(range: listing?.range ?? buffer.cursor..<buffer.cursor, backwards)
            case .choice(let range): return choose(range: range, backwards)
            default: break
            }
        }
        listing = nil
        guard !backwards else { return events.append(.bell) }
        guard !buffer.isCursorInIndentation else {
            return buffer.replace(
                buffer.cursor..<buffer.cursor, with: TextBuffer.normalised(indentation.unicodeScalars))
        }
        guard let completion = complete?(text, cursor), !completion.candidates.isEmpty else {
            return events.append(.bell)
        }
        let start = min(buffer.boundary(atOrBefore: buffer.offset(utf8: max(completion.start, 0))), buffer.cursor)
        let typed = Array(buffer.scalars[start..<buffer.cursor])
        let candidates = completion.candidates.map { TextBuffer.normalised($0.unicodeScalars) }
        let common = candidates.dropFirst().reduce(candidates[0]) { Self.commonPrefix($0, $1) }
        let isSingle = candidates.allSatisfy { $0 == candidates[0] }
        // If the candidates differ in the case of typed letters, their common prefix is shorter than the typed text. Do
        // not insert it: it would remove typed letters.
        if common != typed, isSingle || common.count >= typed.count {
            buffer.replace(start..<buffer.cursor, with: common)
            if isSingle { return }
        } else if isSingle {
            return
        } else if previous == .ambiguousTab {
            listing = Listing(candidates: completion.candidates, range: start..<buffer.cursor)
        }
        events.append(.bell)
        lastCommand = .ambiguousTab
    }

    /// Replaces the inserted candidate by the next one; after the last one, by the typed text.
    private func choose(range: Range<Int>, _ backwards: Bool) {
        guard var list = listing, range.upperBound <= buffer.count else { return }
        if list.chosen == nil { list.typed = Array(buffer.scalars[range]) }
        list.choose(backwards ? -1 : 1)
        let text = list.chosen.map { TextBuffer.normalised(list.candidates[$0].unicodeScalars) } ?? list.typed
        buffer.replace(range, with: text)
        listing = list
        lastCommand = .choice(range.lowerBound..<buffer.cursor)
    }

    /// Returns the common prefix of two candidates, up to a cluster boundary in both.
    private static func commonPrefix(_ first: [Unicode.Scalar], _ second: [Unicode.Scalar]) -> [Unicode.Scalar] {
        let length = zip(first, second).prefix { $0 == $1 }.count
        let end = min(
            TextBuffer(first).boundary(atOrBefore: length), TextBuffer(second).boundary(atOrBefore: length))
        return Array(first[..<end])
    }
}
