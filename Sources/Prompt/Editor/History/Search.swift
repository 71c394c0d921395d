/// An incremental search through the history, from where it began towards older or newer entries.
struct Search {
    /// What is looked for, in UTF-8. Without capital letters in it, those of the entries count as small ones.
    private(set) var query = ""
    private(set) var goesForward: Bool
    private(set) var hasFailed = false

    /// The entry that was found: its position in the history, and the offset of the match in UTF-8 bytes.
    private(set) var match: (position: Int, offset: Int)?

    /// Where the search began: what Control-G brings back.
    let origin: TextBuffer
    let originPosition: Int

    // What each typed character changed, for Backspace.
    private var steps: [(query: String, match: (position: Int, offset: Int)?, hasFailed: Bool)] = []

    init(forward: Bool, origin: TextBuffer, position: Int) {
        goesForward = forward
        self.origin = origin
        originPosition = position
    }

    /// What is shown instead of the prompt.
    var prompt: String {
        "\(hasFailed ? "failed " : "")\(goesForward ? "forward" : "reverse") search '\(visibleQuery)': "
    }

    private var visibleQuery: String { Cell.cells(query).map(\.text).joined() }

    /// Adds to the query and goes on from the current match, which may still be right. False if nothing matches.
    mutating func append(_ text: String, in history: History) -> Bool {
        steps.append((query, match, hasFailed))
        query += text
        return find(from: match?.position ?? start, in: history)
    }

    /// Takes the last addition back. False if the query is empty.
    mutating func removeLast() -> Bool {
        guard let step = steps.popLast() else { return false }
        (query, match, hasFailed) = step
        return true
    }

    /// Looks for the next match in a direction. False if there is none; the match stays.
    mutating func again(forward: Bool, in history: History) -> Bool {
        goesForward = forward
        guard let match else { return query.isEmpty || find(from: start, in: history) }
        return find(from: match.position + (forward ? 1 : -1), in: history)
    }

    /// Begins with the query of an earlier search.
    mutating func resume(_ query: String, in history: History) -> Bool {
        guard self.query.isEmpty, !query.isEmpty else { return false }
        return append(query, in: history)
    }

    private var start: Int { goesForward ? originPosition + 1 : originPosition - 1 }

    private mutating func find(from position: Int, in history: History) -> Bool {
        let step = goesForward ? 1 : -1
        var position = position
        // The same text again would look as if nothing had happened.
        let current = match.map { history[$0.position] }
        let isStaying = match?.position == position
        while position >= 0, position < history.count {
            let entry = history[position]
            if let offset = entry.utf8Offset(of: query), isStaying || entry != current {
                match = (position, offset)
                hasFailed = false
                return true
            }
            position += step
        }
        hasFailed = true
        return false
    }
}

extension String {
    /// Where a text occurs first, in UTF-8 bytes. O(n · m), with a fast first byte.
    fileprivate func utf8Offset(of text: String) -> Int? {
        let needle = Array(text.utf8)
        let isCapital: (UInt8) -> Bool = { (0x41...0x5A).contains($0) }
        let haystack = needle.contains(where: isCapital) ? Array(utf8) : utf8.map { isCapital($0) ? $0 | 0x20 : $0 }
        guard let first = needle.first else { return 0 }
        guard haystack.count >= needle.count else { return nil }
        for offset in 0...haystack.count - needle.count where haystack[offset] == first {
            if haystack[offset..<offset + needle.count].elementsEqual(needle) { return offset }
        }
        return nil
    }
}
