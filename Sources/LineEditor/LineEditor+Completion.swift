extension LineEditor {
    /// Tab: indents, completes as far as the candidates agree, or lists them.
    func tab(_ previous: Command) {
        if listing != nil, previous == .ambiguousTab {
            listing?.turn()
            lastCommand = .ambiguousTab
            return
        }
        listing = nil
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
        // Where the candidates differ in letters that are there already, a shorter text would be a step back.
        if common != typed, isSingle || common.count >= typed.count {
            buffer.replace(start..<buffer.cursor, with: common)
            if isSingle { return }
        } else if isSingle {
            return
        } else if previous == .ambiguousTab {
            listing = Listing(candidates: completion.candidates)
        }
        events.append(.bell)
        lastCommand = .ambiguousTab
    }

    /// What two candidates have in common, up to a cluster boundary in both.
    private static func commonPrefix(_ first: [Unicode.Scalar], _ second: [Unicode.Scalar]) -> [Unicode.Scalar] {
        let length = zip(first, second).prefix { $0 == $1 }.count
        let end = min(
            TextBuffer(first).boundary(atOrBefore: length), TextBuffer(second).boundary(atOrBefore: length))
        return Array(first[..<end])
    }
}
