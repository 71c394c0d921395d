extension LineEditor {
    /// Begins another line, indented to the depth of the open blocks. Text that arrives in a burst is not indented,
    /// since it contains its own blanks.
    func newLine() {
        guard let indent, !isInBurst else {
            indentedLine = nil
            return buffer.replace(buffer.cursor..<buffer.cursor, with: ["\n"])
        }
        // A line of only blanks becomes an empty one.
        let line = buffer.startOfLine(buffer.cursor)
        let start = line > 0 && buffer.isCursorInIndentation ? line : buffer.cursor
        let before = TextBuffer.string(buffer.scalars[..<start]) + "\n"
        buffer.replace(start..<buffer.cursor, with: ["\n"] + Array((indent(before) ?? "").unicodeScalars))
        indentedLine = buffer.startOfLine(buffer.cursor)
    }

    /// Indents the line again if its first word requires it, such as `end`, and if the editor has inserted its blanks.
    func reindent() {
        guard let indent, let line = indentedLine else { return }
        guard line == buffer.startOfLine(buffer.cursor), line > 0 else { return indentedLine = nil }
        let blanks = buffer.scalars[line...].prefix { $0 == " " }.count
        guard let wanted = indent(TextBuffer.string(buffer.scalars[..<buffer.cursor])), wanted.utf8.count != blanks
        else {
            return
        }
        let cursor = buffer.cursor
        guard cursor > line + blanks else { return }
        buffer.replace(line..<line + blanks, with: Array(wanted.unicodeScalars))
        buffer.move(to: cursor - blanks + wanted.unicodeScalars.count)
    }
}
