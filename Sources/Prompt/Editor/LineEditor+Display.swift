extension LineEditor {
    /// Removes prompt and text from the screen. The cursor is then where the prompt began, and the screen below is
    /// empty. Keys still work.
    ///
    /// Hosts call this before they lend the terminal to another program. The output of that program must end with a
    /// newline. For output that may not end with a newline, use `interleave(_:)`. Does nothing if the prompt is hidden.
    public func hide() {
        guard phase == .editing else { return }
        refresh()
        erase()
        if !isDumb { output.append(sequence: "\u{1B}[?2004l") }
        forgetOutput()
        phase = .hidden
    }

    /// Removes prompt and text, for code that reads a line while the terminal echoes it. The cursor is then where the
    /// last output stopped, such as after a question. `show()` draws prompt and text again.
    public func makeWay() {
        guard phase == .editing else { return }
        refresh()
        erase()
        if !isDumb { output.append(sequence: "\u{1B}[?2004l") }
        if followsPartialLine { tracker.resume(into: &output) }
        followsPartialLine = false
        phase = .hidden
    }

    /// How the input that the terminal has echoed ended.
    public enum Echo {
        /// With Enter.
        case line
        /// With Control-D after other characters.
        case somewhere
        /// By an interruption.
        case cutOff
    }

    /// Called when the terminal has echoed input after the last output.
    public func followEcho(_ echo: Echo) {
        if echo == .cutOff { output.append(sequence: "\r\n") }
        tracker.followEcho(endsLine: echo != .somewhere)
    }

    /// Draws prompt and text again after `hide()`, `makeWay()` or `.suspend`. Does nothing if they are shown.
    public func show() {
        guard phase == .hidden else { return }
        phase = .editing
        if !isDumb { output.append(sequence: "\u{1B}[?2004h") }
        leaveUnfinishedOutput()
        refresh()
    }

    /// Like `show()`, but with another text, which was edited elsewhere. The cursor is then at the end of the text.
    public func show(with text: String) {
        guard phase == .hidden else { return }
        buffer.replace(0..<buffer.count, with: TextBuffer.normalised(text.unicodeScalars))
        show()
    }

    /// Draws prompt and text again in the cursor's row, after another program may have written to the terminal.
    public func redraw() {
        guard phase == .editing else { return }
        forgetOutput()
        painter.forget()
        dumbPainter.forget()
        output.append(UInt8(ascii: "\r"))
        if !isDumb { output.append(sequence: "\u{1B}[?2004h\u{1B}[J") }
        refresh()
    }

    /// Sets a new size of the terminal, and draws again.
    ///
    /// Later output continues an unfinished line above the prompt only if the new size leaves that line in its place.
    public func resize(columns: Int, rows: Int) {
        let columns = max(columns, 2)
        let rows = max(rows, 1)
        guard columns != self.columns || rows != self.rows else { return }
        let extent = painter.extent(columns: columns, reflows: reflows)
        if painter.shown != nil {
            let depth = min(extent.cursorRow, rows - 1)
            if depth > 0 { output.append(sequence: "\u{1B}[\(depth)A") }
            output.append(UInt8(ascii: "\r"))
            painter.forget()
        }
        let isInView = rows >= self.rows && extent.rows < self.rows
        if followsPartialLine, !isInView || !tracker.fits(columns: columns) {
            forgetOutput()
        }
        self.columns = columns
        self.rows = rows
        tracker.columns = columns
        dumbPainter.forget()
        listing?.first = 0
        refresh()
    }

    /// Wraps output for the terminal, so that it does not damage the line that is being typed: returns all bytes to
    /// write, including pending output of the editor.
    ///
    /// If output does not end with a newline, the prompt is drawn in a new row, and the next output continues where the
    /// last output stopped, in the same colours. A character or an escape sequence that is cut off at the end of
    /// `bytes` is held back until the rest arrives. If a program has moved the cursor, the next output does not
    /// continue its line; the editor then only avoids overwriting the program's output. Pass output through here while
    /// the editor is idle, too. O(n).
    public func interleave(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var visible: [UInt8] = []
        tracker.track(bytes, into: &visible)
        guard !visible.isEmpty else { return takeOutput() }
        let isShown = phase == .editing
        if isShown { erase() }
        if followsPartialLine {
            tracker.resume(into: &output)
        } else if isShown {
            output.append(contentsOf: tracker.colors)
        }
        followsPartialLine = false
        tracker.commit()
        output.append(contentsOf: visible)
        if isShown {
            leaveUnfinishedOutput()
            refresh()
        }
        return takeOutput()
    }

    /// Ends editing for good: leaves the entry on the screen, switches bracketed paste off, and writes the output that
    /// `interleave` held back. The editor is idle afterwards.
    public func finish() {
        if phase != .idle { close(mark: "") }
        phase = .idle
        output.append(contentsOf: tracker.takeHeld())
    }
}

extension LineEditor {
    /// If the last output did not end its row, begins a new row, so that the prompt does not overwrite the output.
    func leaveUnfinishedOutput() {
        if !tracker.colors.isEmpty { output.append(sequence: Style.plain.sequence) }
        guard tracker.isLineUnfinished else { return }
        tracker.suspend(into: &output)
        // With a single row, the cursor cannot return to a row above the prompt.
        followsPartialLine = tracker.canResume && rows > 1 && !isDumb
        if !followsPartialLine { tracker.reset() }
    }

    func forgetOutput() {
        followsPartialLine = false
        tracker.reset()
    }

    func erase() {
        if isDumb { dumbPainter.erase(into: &output) } else { painter.erase(into: &output) }
    }

    /// Draws the changes if the editor is visible.
    func refresh() {
        guard phase == .editing else { return }
        if isDumb {
            dumbPainter.paint(
                buffer, prompt: shownPrompt, continuation: continuationPrompt, columns: columns, into: &output)
            return
        }
        painter.usesColor = usesColor
        painter.paint(frame(isFinal: false), columns: columns, into: &output)
    }

    /// The number of rows for the frame. If output will be continued in the row above the frame, one row less, so that
    /// the cursor can reach that row.
    var height: Int { followsPartialLine ? max(rows - 1, 1) : rows }

    var shownPrompt: String { search?.prompt ?? prompt }

    /// Returns the frame to draw.
    func frame(isFinal: Bool) -> Frame {
        var layout = Layout(
            buffer, columns: columns, prompt: PromptRows(shownPrompt, columns: columns),
            continuation: PromptRows(continuationPrompt, columns: columns), styles: styles(isFinal: isFinal),
            isFinal: isFinal)
        guard let listing, !isFinal else {
            var frame = layout.frame(height: height, top: &top)
            if !isFinal { addSuggestion(to: &frame) }
            return frame
        }
        // The list of candidates may take rows from the text, but the text keeps at least half of the screen.
        var whole = Layout.Position()
        let used = layout.frame(height: height, top: &whole).rows.count
        let room = height - min(used, (height + 1) / 2)
        let page = listing.page(columns: columns, rows: room)
        self.listing?.shown = page.count
        var frame = layout.frame(height: height - page.rows.count, top: &top)
        frame.rows += page.rows
        return frame
    }

    private func styles(isFinal: Bool) -> [Style] {
        guard usesColor, search == nil, buffer.count <= Self.longestHighlight else { return [] }
        var styles = textStyles()
        guard !isFinal, let (first, second) = brackets?(buffer.string, cursor) else { return styles }
        if styles.isEmpty { styles = [Style](repeating: .plain, count: buffer.count) }
        for offset in [first, second].map(buffer.offset(utf8:)) where styles.indices.contains(offset) {
            styles[offset].attributes.formUnion([.bold, .underlined])
        }
        return styles
    }

    /// Adds the suggestion or the hint after the text, cut to the room in the cursor's row.
    private func addSuggestion(to frame: inout Frame) {
        let rest = afterword
        guard !rest.isEmpty, frame.rows.indices.contains(frame.cursorRow) else { return }
        let line = rest.prefix { $0 != "\n" }
        var room = columns - 1 - frame.cursorColumn
        for cell in Cell.cells(TextBuffer.string(line), style: Style(attributes: .dim)) {
            room -= cell.width
            guard room >= 0 else { return }
            frame.rows[frame.cursorRow].append(cell)
        }
    }

    private func textStyles() -> [Style] {
        guard let highlight else { return [] }
        if let styleCache, styleCache.revision == buffer.revision { return styleCache.styles }
        var scalarOfByte: [Int] = []
        for (index, scalar) in buffer.scalars.enumerated() {
            for _ in 0..<UTF8.width(scalar) { scalarOfByte.append(index) }
        }
        scalarOfByte.append(buffer.count)
        var styles = [Style](repeating: .plain, count: buffer.count)
        for span in highlight(buffer.string) {
            let range = span.range.clamped(to: 0..<scalarOfByte.count - 1)
            for index in scalarOfByte[range.lowerBound]..<scalarOfByte[range.upperBound] { styles[index] = span.style }
        }
        styleCache = (buffer.revision, styles)
        return styles
    }

    /// Draws the entry for the last time, with a mark such as `^C` after it, and begins a fresh row.
    func close(mark: String) {
        search = nil
        listing = nil
        buffer.move(to: buffer.count)
        if phase == .editing {
            if isDumb {
                refresh()
                output.append(sequence: mark + "\r\n")
                dumbPainter.forget()
            } else {
                var frame = frame(isFinal: true)
                let cells = Cell.cells(mark)
                if let last = frame.rows.last, last.columns + cells.columns <= columns {
                    frame.rows[frame.rows.count - 1] += cells
                } else {
                    frame.rows.append(cells)
                }
                frame.cursorRow = frame.rows.count - 1
                frame.cursorColumn = 0
                painter.paint(frame, columns: columns, into: &output)
                painter.leave(into: &output)
            }
        }
        if !isDumb { output.append(sequence: "\u{1B}[?2004l") }
        forgetOutput()
    }
}
