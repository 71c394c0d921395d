import TestSupport
@testable import LineEditor

/// An editor and the screen that it draws on, with a minimal host.
final class Terminal {
    let editor: LineEditor
    var screen: Screen
    private(set) var events: [LineEditor.Event] = []

    init(_ columns: Int = 80, _ rows: Int = 24, history: [String] = [], begins: Bool = true) {
        editor = LineEditor(columns: columns, rows: rows, history: History(history))
        screen = Screen(columns: columns, rows: rows)
        if begins { begin() }
    }

    func begin() {
        events += editor.begin()
        flush()
    }

    /// Feeds keys, all at once.
    func type(_ keys: String) { type(bytes: Array(keys.utf8)) }

    func type(bytes: [UInt8]) {
        events += editor.feed(bytes)
        flush()
    }

    /// Feeds keys byte by byte, as a slow line delivers them.
    func typeSlowly(_ keys: String) {
        for byte in keys.utf8 { type(bytes: [byte]) }
    }

    func paste(_ text: String) { type("\u{1B}[200~" + text + "\u{1B}[201~") }

    /// Writes what a program writes.
    func print(_ text: String) { screen.write(editor.interleave(Array(text.utf8))) }

    func resize(_ columns: Int, _ rows: Int) {
        screen.resize(columns: columns, rows: rows, reflows: editor.reflows)
        editor.resize(columns: columns, rows: rows)
        flush()
    }

    func flush() { screen.write(editor.takeOutput()) }

    /// The events since the last call.
    func takeEvents() -> [LineEditor.Event] {
        defer { events = [] }
        return events
    }

    /// The rows, with a bar where the cursor is.
    var picture: [String] {
        var lines = screen.lines
        while lines.count <= screen.row { lines.append("") }
        var row = screen.rows[screen.row].places.map(\.text)
        row[screen.column] = "|" + row[screen.column]
        var text = row.joined()
        while text.last == " " { text.removeLast() }
        lines[screen.row] = text
        return lines
    }

    /// Text and cursor of the entry: `foo|bar`.
    var entry: String {
        var text = Array(editor.text.utf8)
        text.insert(UInt8(ascii: "|"), at: editor.cursor)
        return String(decoding: text, as: UTF8.self)
    }

    /// The difference between the screen and the simplest way to draw the entry; nil if they are equal.
    func defect() -> String? {
        if let problem = screen.problems.first { return problem }
        guard editor.phase == .editing, !editor.isDumb, editor.listing == nil else { return nil }
        let reference = ReferenceLayout(
            text: editor.text, cursor: editor.cursor, prompt: editor.shownPrompt,
            continuation: editor.continuationPrompt, columns: editor.columns)
        guard let frame = editor.painter.shown else { return "nothing is drawn" }
        let first = screen.row - frame.cursorRow
        let skipped = reference.cursorRow - frame.cursorRow
        guard first >= 0, skipped >= 0 else { return "the cursor is in row \(screen.row), not \(reference.cursorRow)" }
        guard !screen.isWrapPending, screen.column == reference.cursorColumn else {
            return "the cursor is in column \(screen.column), not \(reference.cursorColumn)"
        }
        let expected = reference.trimmedRows.dropFirst(skipped).prefix(frame.rows.count)
        let shown = screen.rows[first...].map(\.text)
        guard shown.starts(with: expected), shown.dropFirst(expected.count).allSatisfy(\.isEmpty) else {
            return "shows \(shown) instead of \(Array(expected))"
        }
        let hidesRows = expected.count < reference.rows.count
        if hidesRows, expected.count < editor.height { return "hides rows although there is room" }
        return nil
    }
}
