/// An incremental search through the history: it starts at one entry, and continues with older or newer ones.
struct Search {
    /// The text to find, in UTF-8. If the text has no capital letters, the search ignores case.
    private(set) var query = ""
    private(set) var goesForward: Bool
    private(set) var hasFailed = false

    /// The match: the entry's position in the history, and the offset in UTF-8 bytes.
    private(set) var match: (position: Int, offset: Int)?

    /// The text at the beginning of the search, which Control-G restores.
    let origin: TextBuffer
    let originPosition: Int

    // The state before each typed character, for Backspace.
    private var steps: [(query: String, match: (position: Int, offset: Int)?, hasFailed: Bool)] = []

    init(forward: Bool, origin: TextBuffer, position: Int) {
        goesForward = forward
        self.origin = origin
        originPosition = position
    }

    /// The text that is shown in place of the prompt.
    var prompt: String {
        "\(hasFailed ? "failed " : "")\(goesForward ? "forward" : "reverse") search '\(visibleQuery)': "
    }

    private var visibleQuery: String { Cell.cells(query).map(\.text).joined() }

    /// Extends the query, and searches from the current match on, which may still match. Returns false if nothing
    /// matches.
    mutating func append(_ text: String, in history: History) -> Bool {
        steps.append((query, match, hasFailed))
        query += text
        return find(from: match?.position ?? start, in: history)
    }

    /// Undoes the last extension. Returns false if the query is empty.
    mutating func removeLast() -> Bool {
        guard let step = steps.popLast() else { return false }
        (query, match, hasFailed) = step
        return true
    }

    /// Searches for the next match in a direction. Returns false if there is none; the old match stays.
    mutating func again(forward: Bool, in history: History) -> Bool {
        goesForward = forward
        guard let match else { return query.isEmpty || find(from: start, in: history) }
        return find(from: match.position + (forward ? 1 : -1), in: history)
    }

    /// Begins with the query of an earlier search, unless there is a new query already.
    mutating func resume(_ query: String, in history: History) -> Bool {
        guard self.query.isEmpty, !query.isEmpty else { return false }
        return append(query, in: history)
    }

    private var start: Int { goesForward ? originPosition + 1 : originPosition - 1 }

    private mutating func find(from position: Int, in history: History) -> Bool {
        let step = goesForward ? 1 : -1
        var position = position
        // Skip entries with the text that is shown now: the user would think that nothing has happened.
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
    /// Returns where a text first occurs, in UTF-8 bytes. O(n · m), with a fast search for the first byte.
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
