extension LineEditor {
    /// Handles one key. `feed(_:)` handles plain typed text by a faster path.
    func handle(_ key: Key) {
        if search != nil, searchHandles(key) { return }
        // The list of candidates stays as long as Tab chooses from it.
        if ![.scalar("\t"), .named(.backTab, []), .named(.backTab, .shift)].contains(key) { listing = nil }
        let previous = lastCommand
        lastCommand = .other
        let prefix = wantedPrefix
        wantedPrefix = nil
        if key == .named(.up, []) || key == .named(.down, []) { wantedPrefix = prefix }
        if previous == .prefix { return afterPrefix(key) }
        switch key {
        case .scalar(let scalar): Self.isControl(scalar) ? control(scalar, previous) : buffer.type([scalar])
        case .literal(let scalar): buffer.type(TextBuffer.normalised([scalar]))
        case .meta(let scalar): meta(scalar, previous)
        case .named(let name, let modifiers): named(name, modifiers, previous)
        case .paste(let bytes): paste(bytes)
        case .unknown, .function, .mouse: break
        }
    }

    private func control(_ scalar: Unicode.Scalar, _ previous: Command) {
        switch scalar {
        case "\u{01}": buffer.move(to: buffer.startOfLine(buffer.cursor))
        case "\u{02}": move(to: buffer.previous(before: buffer.cursor))
        case "\u{03}": interrupt()
        case "\u{04}": deleteForwardOrEnd()
        case "\u{05}": if !takeSuggestion() { buffer.move(to: buffer.endOfLine(buffer.cursor)) }
        case "\u{06}": if !takeSuggestion() { move(to: buffer.next(after: buffer.cursor)) }
        case "\u{07}": events.append(.bell)
        case "\u{08}", "\u{7F}": delete(buffer.previous(before: buffer.cursor)..<buffer.cursor)
        case "\t": tab(previous)
        case "\r", "\n": enter()
        case "\u{0B}": killToEndOfLine(previous)
        case "\u{0C}": clearScreen()
        case "\u{0E}": vertical(1, previous, byPrefix: false)
        case "\u{10}": vertical(-1, previous, byPrefix: false)
        case "\u{11}", "\u{16}": decoder.quotesNext = true
        case "\u{12}": beginSearch(forward: false)
        case "\u{13}": beginSearch(forward: true)
        case "\u{14}": transpose()
        case "\u{15}": kill(buffer.startOfLine(buffer.cursor)..<buffer.cursor, before: true, previous)
        case "\u{17}":
            kill(buffer.startOfBlankSeparatedWord(before: buffer.cursor)..<buffer.cursor, before: true, previous)
        case "\u{18}": lastCommand = .prefix
        case "\u{19}": yank()
        case "\u{1A}": suspend()
        case "\u{1C}": events.append(.explain)
        case "\u{1F}": if !buffer.undo() { events.append(.bell) }
        default: events.append(.bell)
        }
    }

    private func meta(_ scalar: Unicode.Scalar, _ previous: Command) {
        switch scalar {
        case "\r", "\n": newLine()
        case "b", "B": buffer.move(to: buffer.startOfWord(before: buffer.cursor))
        case "f", "F": forwardWord()
        case "d", "D": kill(buffer.cursor..<buffer.endOfWord(after: buffer.cursor), before: false, previous)
        case "\u{7F}", "\u{08}":
            kill(buffer.startOfWord(before: buffer.cursor)..<buffer.cursor, before: true, previous)
        case "u", "U": changeCase(first: \.uppercaseMapping, rest: \.uppercaseMapping)
        case "l", "L": changeCase(first: \.lowercaseMapping, rest: \.lowercaseMapping)
        case "c", "C": changeCase(first: \.titlecaseMapping, rest: \.lowercaseMapping)
        case "y", "Y": yankPop(previous)
        case "<": showHistory(0)
        case ">": showHistory(history.count)
        case ".", "_": insertLastArgument(previous)
        case "p", "P": historyByPrefix(-1)
        case "n", "N": historyByPrefix(1)
        default: events.append(.bell)
        }
    }

    private func named(_ name: Key.Name, _ modifiers: Key.Modifiers, _ previous: Command) {
        let isByWord = !modifiers.isDisjoint(with: [.alt, .control])
        let cursor = buffer.cursor
        switch name {
        case .up: vertical(-1, previous, byPrefix: true)
        case .down: vertical(1, previous, byPrefix: true)
        case .left:
            isByWord ? buffer.move(to: buffer.startOfWord(before: cursor)) : move(to: buffer.previous(before: cursor))
        case .right where isByWord: forwardWord()
        case .right: if !takeSuggestion() { move(to: buffer.next(after: cursor)) }
        case .home: buffer.move(to: isByWord ? 0 : buffer.startOfLine(cursor))
        case .end where isByWord: buffer.move(to: buffer.count)
        case .end: if !takeSuggestion() { buffer.move(to: buffer.endOfLine(cursor)) }
        case .delete where isByWord: kill(cursor..<buffer.endOfWord(after: cursor), before: false, previous)
        case .delete: delete(cursor..<buffer.next(after: cursor))
        case .pageUp: historyByPrefix(-1)
        case .pageDown: historyByPrefix(1)
        case .backTab: tab(previous, backwards: true)
        case .insert: break
        }
    }

    private func move(to offset: Int) {
        if offset == buffer.cursor { events.append(.bell) }
        buffer.move(to: offset)
    }
}

extension LineEditor {
    /// Enter: accepts the entry, or begins another line if the host says that it is incomplete.
    private func enter() {
        let text = buffer.string
        if let isComplete, isComplete(text) == .incomplete {
            newLine()
            return
        }
        close(mark: "")
        phase = .idle
        history.add(text)
        events.append(.line(text))
    }

    /// Control-C: drops an unfinished entry as a whole.
    private func interrupt() {
        guard !buffer.isEmpty else { return events.append(.interrupt) }
        close(mark: "^C")
        reset(TextBuffer())
        if phase == .editing, !isDumb { output.append(sequence: "\u{1B}[?2004h") }
        events.append(.discarded)
    }

    private func deleteForwardOrEnd() {
        guard buffer.isEmpty else { return delete(buffer.cursor..<buffer.next(after: buffer.cursor)) }
        close(mark: "")
        phase = .idle
        events.append(.endOfFile)
    }

    private func suspend() {
        leave()
        events.append(.suspend)
    }

    /// Leaves the prompt on the screen before another program gets the terminal.
    private func leave() {
        let cursor = buffer.cursor
        close(mark: "")
        buffer.move(to: cursor)
        phase = .hidden
    }

    /// Handles the key after Control-X.
    private func afterPrefix(_ key: Key) {
        switch key {
        case .scalar("\u{05}"):
            leave()
            events.append(.edit(buffer.string))
        case .scalar("\u{15}"): if !buffer.undo() { events.append(.bell) }
        default: events.append(.bell)
        }
    }

    private func clearScreen() {
        if isDumb { return events.append(.bell) }
        guard phase == .editing else { return }
        forgetOutput()
        output.append(sequence: "\u{1B}[H\u{1B}[2J")
        painter.forget()
    }

    /// Inserts a paste as text. Control characters in the paste become visible text such as `^X`, so that they neither
    /// act as keys nor reach the terminal.
    private func paste(_ bytes: [UInt8]) {
        buffer.replace(
            buffer.cursor..<buffer.cursor,
            with: TextBuffer.normalised(String(decoding: bytes, as: UTF8.self).unicodeScalars))
    }

    private func delete(_ range: Range<Int>) {
        guard !range.isEmpty else { return events.append(.bell) }
        buffer.replace(range, with: [])
    }

    private func kill(_ range: Range<Int>, before: Bool, _ previous: Command) {
        guard !range.isEmpty else { return events.append(.bell) }
        let text = Array(buffer.scalars[range])
        if previous == .kill { killRing.extend(text, before: before) } else { killRing.push(text) }
        buffer.replace(range, with: [])
        lastCommand = .kill
    }

    private func killToEndOfLine(_ previous: Command) {
        let end = buffer.endOfLine(buffer.cursor)
        // At the end of a line, kills the line break, which joins the next line.
        kill(buffer.cursor..<(end == buffer.cursor ? buffer.next(after: end) : end), before: false, previous)
    }

    private func yank() {
        guard let text = killRing.current else { return events.append(.bell) }
        insertYank(text, over: buffer.cursor..<buffer.cursor)
    }

    private func yankPop(_ previous: Command) {
        guard case .yank(let range) = previous else { return events.append(.bell) }
        killRing.rotate()
        insertYank(killRing.current ?? [], over: range)
    }

    private func insertYank(_ text: [Unicode.Scalar], over range: Range<Int>) {
        buffer.replace(range, with: text)
        lastCommand = .yank(range.lowerBound..<range.lowerBound + text.count)
    }

    /// Swaps the characters around the cursor, or the last two at the end of a line.
    private func transpose() {
        let cursor = buffer.cursor
        let isAtEnd = cursor == buffer.endOfLine(cursor)
        let middle = isAtEnd ? buffer.previous(before: cursor) : cursor
        let end = isAtEnd ? cursor : buffer.next(after: cursor)
        let start = buffer.previous(before: middle)
        let line = buffer.startOfLine(cursor)
        guard start >= line, middle > line, start < middle, middle < end else { return events.append(.bell) }
        buffer.replace(start..<end, with: Array(buffer.scalars[middle..<end] + buffer.scalars[start..<middle]))
    }

    private func changeCase(
        first: KeyPath<Unicode.Scalar.Properties, String>, rest: KeyPath<Unicode.Scalar.Properties, String>
    ) {
        let end = buffer.endOfWord(after: buffer.cursor)
        guard end > buffer.cursor else { return events.append(.bell) }
        var isFirst = true
        var text: [Unicode.Scalar] = []
        for scalar in buffer.scalars[buffer.cursor..<end] {
            let isWord = TextBuffer.isWord(scalar)
            text.append(contentsOf: scalar.properties[keyPath: isFirst ? first : rest].unicodeScalars)
            if isWord { isFirst = false }
        }
        buffer.replace(buffer.cursor..<end, with: text)
    }
}
