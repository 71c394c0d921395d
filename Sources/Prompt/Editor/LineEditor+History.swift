extension LineEditor {
    /// Up and Down: move through the lines of the entry, then through the history. With `byPrefix`, skip entries that
    /// do not begin with the text before the cursor.
    func vertical(_ direction: Int, _ previous: Command, byPrefix: Bool) {
        let start = buffer.startOfLine(buffer.cursor)
        let end = buffer.endOfLine(buffer.cursor)
        let isAtEdge = direction < 0 ? start == 0 : end == buffer.count
        guard !isAtEdge else {
            let prefix = byPrefix ? wantedPrefix ?? Array(buffer.scalars[..<buffer.cursor]) : []
            step(direction, prefix)
            wantedPrefix = prefix
            return
        }
        var column = buffer.column(of: buffer.cursor)
        // After passing a shorter line, the cursor must return to its original column.
        if case .vertical(let goal) = previous { column = goal }
        let target = direction < 0 ? buffer.startOfLine(start - 1) : end + 1
        buffer.move(to: buffer.offset(inLineFrom: target, column: column))
        lastCommand = .vertical(column: column)
    }

    /// Shows the nearest entry that begins with a prefix. Skips entries whose text was shown already.
    private func step(_ direction: Int, _ prefix: [Unicode.Scalar]) {
        let wanted = TextBuffer.string(prefix[...])
        var position = historyPosition + direction
        while (0..<history.count).contains(position) {
            let isWanted =
                edited[position].map { $0.scalars.starts(with: prefix) } ?? history[position].hasBytes(wanted)
            if isWanted, !isShownBefore(position) { return showHistory(position) }
            position += direction
        }
        // Going down, the last stop is the entry that the user was typing.
        guard position == history.count, historyPosition < position else { return events.append(.bell) }
        showHistory(position)
    }

    /// Returns whether a newer position of the history has the same text, so that going up has shown it already.
    private func isShownBefore(_ position: Int) -> Bool {
        let text = history[position]
        return (position + 1..<history.count).contains { (edited[$0]?.string ?? history[$0]) == text }
    }

    /// Shows an entry of the history, or the typed one, with the changes made to it.
    func showHistory(_ position: Int) {
        guard position != historyPosition else { return }
        edited[historyPosition] = buffer
        historyPosition = position
        buffer = entry(position)
        top = Layout.Position()
        styleCache = nil
    }

    private func entry(_ position: Int) -> TextBuffer {
        if let buffer = edited[position] { return buffer }
        guard position < history.count else { return TextBuffer() }
        return TextBuffer(TextBuffer.normalised(history[position].unicodeScalars))
    }

    // MARK: Suggestions

    /// The rest of the newest entry that begins with the text.
    var suggestion: [Unicode.Scalar] {
        guard suggests, usesColor, !isDumb, search == nil, buffer.cursor == buffer.count, buffer.count > 0 else {
            return []
        }
        if let cache = suggestionCache, cache.revision == buffer.revision, cache.count == history.count {
            return cache.text
        }
        let text = buffer.string
        var rest: [Unicode.Scalar] = []
        if let found = (0..<history.count).last(where: { history[$0].hasBytes(text) && history[$0] != text }) {
            rest = Array(TextBuffer.normalised(history[found].unicodeScalars).dropFirst(buffer.count))
        }
        suggestionCache = (buffer.revision, history.count, rest)
        return rest
    }

    /// Asks for a hint, once for each text.
    func lookForHint() {
        guard let hint, usesColor, !isDumb, search == nil, phase == .editing, buffer.cursor == buffer.count,
            buffer.count <= Self.longestHighlight, shownHint?.revision != buffer.revision,
            let last = buffer.scalars.last(where: { $0 != " " }), "(,{".unicodeScalars.contains(last)
        else { return }
        shownHint = (buffer.revision, hint(buffer.string).map { Array($0.unicodeScalars) } ?? [])
    }

    /// Shows a hint that came later than the call of `hint`, if the text is still the same.
    public func show(hint: String, for text: String) {
        guard phase == .editing, buffer.string == text else { return }
        shownHint = (buffer.revision, Array(hint.unicodeScalars))
        refresh()
    }

    /// The dimmed text that is shown after the entry.
    var afterword: [Unicode.Scalar] {
        let rest = suggestion
        guard rest.isEmpty, let shownHint, shownHint.revision == buffer.revision, buffer.cursor == buffer.count,
            search == nil
        else { return rest }
        return shownHint.text
    }

    /// Right at the end of the text: accepts the suggestion. Returns false if there is none.
    func takeSuggestion() -> Bool {
        let rest = suggestion
        guard !rest.isEmpty else { return false }
        buffer.replace(buffer.count..<buffer.count, with: rest)
        return true
    }

    /// Alt-f: at the end of the text it accepts the next word of the suggestion.
    func forwardWord() {
        let rest = TextBuffer(suggestion)
        guard !rest.isEmpty else { return buffer.move(to: buffer.endOfWord(after: buffer.cursor)) }
        buffer.replace(buffer.count..<buffer.count, with: Array(rest.scalars[..<rest.endOfWord(after: 0)]))
    }

    // MARK: The last argument

    /// Alt-.: inserts the last argument of the newest entry. If pressed again, replaces it by the last argument of the
    /// entry before.
    func insertLastArgument(_ previous: Command) {
        var range = buffer.cursor..<buffer.cursor
        var position = history.count - 1
        if case .argument(let last, let taken) = previous {
            range = last
            position = taken - 1
        }
        while position >= 0 {
            let entry = history[position]
            let argument = lastArgument.map { $0(entry) } ?? entry.split { " \t\n".contains($0) }.last.map(String.init)
            if let argument, !argument.isEmpty {
                let text = TextBuffer.normalised(argument.unicodeScalars)
                buffer.replace(range, with: text)
                lastCommand = .argument(range.lowerBound..<range.lowerBound + text.count, position: position)
                return
            }
            position -= 1
        }
        lastCommand = previous
        events.append(.bell)
    }

    /// Goes to the nearest entry that begins with the text before the cursor. The cursor stays.
    func historyByPrefix(_ direction: Int) {
        let prefix = Array(buffer.scalars[..<buffer.cursor])
        let current = buffer.scalars
        var position = historyPosition + direction
        while (0...history.count).contains(position) {
            let candidate = entry(position)
            if candidate.scalars.starts(with: prefix), candidate.scalars != current {
                showHistory(position)
                buffer.move(to: prefix.count)
                return
            }
            position += direction
        }
        events.append(.bell)
    }
}

extension LineEditor {
    func beginSearch(forward: Bool) {
        search = Search(forward: forward, origin: buffer, position: historyPosition)
    }

    /// Handles a key during a search. Returns false if the search has ended and the key has its usual meaning.
    func searchHandles(_ key: Key) -> Bool {
        guard let search else { return false }
        switch key {
        case .scalar("\u{12}"), .scalar("\u{13}"):
            let isForward = key == .scalar("\u{13}")
            update { search, history in
                guard search.query.isEmpty else { return search.again(forward: isForward, in: history) }
                _ = search.again(forward: isForward, in: history)
                return lastQuery.isEmpty || search.resume(lastQuery, in: history)
            }
        case .scalar("\u{08}"), .scalar("\u{7F}"): update { search, _ in search.removeLast() }
        case .scalar("\u{07}"):
            self.search = nil
            buffer = search.origin
            lastCommand = .other
        case .scalar(let scalar) where !Self.isControl(scalar): searchFor(String(scalar))
        case .literal(let scalar): searchFor(String(scalar))
        case .paste(let bytes):
            searchFor(
                TextBuffer.string(TextBuffer.normalised(String(decoding: bytes, as: UTF8.self).unicodeScalars)[...]))
        case .unknown, .scalar("\u{11}"), .scalar("\u{16}"):
            if key != .unknown { decoder.quotesNext = true }
        case .scalar("\u{03}"):
            // Control-C drops the found text. The interrupted search must not count as Control-C on an empty entry.
            self.search = nil
            return false
        default:
            endSearch()
            return false
        }
        return true
    }

    /// Ends the search, with the found text as the entry.
    func endSearch() {
        guard let search else { return }
        lastQuery = search.query.isEmpty ? lastQuery : search.query
        self.search = nil
        guard let match = search.match else { return }
        let found = buffer
        buffer = search.origin
        showHistory(match.position)
        buffer = found
    }

    private func searchFor(_ text: String) {
        update { search, history in search.append(text, in: history) }
    }

    private func update(_ change: (inout Search, History) -> Bool) {
        guard var search else { return }
        if !change(&search, history) { events.append(.bell) }
        self.search = search
        if let match = search.match {
            buffer = TextBuffer(TextBuffer.normalised(history[match.position].unicodeScalars))
            buffer.move(to: buffer.offset(utf8: match.offset))
        } else {
            buffer = search.origin
        }
        top = Layout.Position()
        styleCache = nil
    }
}

extension String {
    /// Returns whether the text begins with these bytes. `hasPrefix` compares grapheme clusters, which is slower and
    /// gives other results.
    fileprivate func hasBytes(_ prefix: String) -> Bool { utf8.starts(with: prefix.utf8) }
}
