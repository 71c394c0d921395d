/// The entry being edited: scalars, a cursor between two grapheme clusters, and the changes for undo.
///
/// Offsets count scalars. Line breaks are `\n` alone; all input converts `\r\n` and `\r` to it.
struct TextBuffer {
    private(set) var scalars: [Unicode.Scalar] = []

    /// An offset, always on the boundary of a grapheme cluster.
    private(set) var cursor = 0

    /// Increases with each change of the text. A value that was derived from the text is valid as long as this number
    /// is unchanged.
    private(set) var revision = 0

    private var undos: [Change] = []
    private var joinsNextTyping = false

    /// One replacement, with the data that undoes it.
    private struct Change {
        var offset: Int
        var removed: [Unicode.Scalar]
        var insertedCount: Int
        var cursorBefore: Int
        var isTyping: Bool
    }

    /// How many changes can be undone.
    static let undoDepth = 1_000

    init(_ text: [Unicode.Scalar] = []) {
        scalars = text
        cursor = text.count
    }

    var isEmpty: Bool { scalars.isEmpty }
    var count: Int { scalars.count }

    /// The whole text. O(n).
    var string: String { Self.string(scalars[...]) }

    static func string(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }

    /// Converts line breaks in text from outside to `\n`. O(n).
    static func normalised(_ text: some Sequence<Unicode.Scalar>) -> [Unicode.Scalar] {
        var result: [Unicode.Scalar] = []
        result.reserveCapacity(text.underestimatedCount)
        var followsReturn = false
        for scalar in text {
            if scalar == "\r" {
                result.append("\n")
            } else if scalar != "\n" || !followsReturn {
                result.append(scalar)
            }
            followsReturn = scalar == "\r"
        }
        return result
    }

    /// Moves the cursor; an offset inside of a cluster means the end of that cluster.
    mutating func move(to offset: Int) {
        cursor = boundary(atOrAfter: min(max(offset, 0), count))
        joinsNextTyping = false
    }

    /// Replaces a range, and puts the cursor after the new text. O(n) for the memory moved.
    mutating func replace(_ range: Range<Int>, with text: [Unicode.Scalar]) {
        guard !range.isEmpty || !text.isEmpty else { return }
        record(
            Change(
                offset: range.lowerBound, removed: Array(scalars[range]), insertedCount: text.count,
                cursorBefore: cursor, isTyping: false))
        joinsNextTyping = false
        substitute(range, text)
        cursor = boundary(atOrAfter: range.lowerBound + text.count)
    }

    /// Inserts typed text at the cursor. Undo removes typed text word by word, not letter by letter.
    mutating func type(_ text: [Unicode.Scalar]) {
        guard let first = text.first else { return }
        let startsWord = first != " " && cursor > 0 && scalars[cursor - 1] == " "
        if joinsNextTyping, !startsWord, let last = undos.last, last.isTyping,
            last.offset + last.insertedCount == cursor
        {
            undos[undos.count - 1].insertedCount += text.count
        } else {
            record(
                Change(offset: cursor, removed: [], insertedCount: text.count, cursorBefore: cursor, isTyping: true))
        }
        let end = cursor + text.count
        substitute(cursor..<cursor, text)
        cursor = boundary(atOrAfter: end)
        // If the inserted text has joined the cluster after it, the cursor is after that cluster, and not at the end of
        // the inserted text.
        joinsNextTyping = cursor == end
    }

    /// Undoes the last change. Returns false if there is none.
    mutating func undo() -> Bool {
        guard let change = undos.popLast() else { return false }
        substitute(change.offset..<change.offset + change.insertedCount, change.removed)
        cursor = boundary(atOrAfter: change.cursorBefore)
        joinsNextTyping = false
        return true
    }

    private mutating func substitute(_ range: Range<Int>, _ text: [Unicode.Scalar]) {
        scalars.replaceSubrange(range, with: text)
        revision += 1
    }

    private mutating func record(_ change: Change) {
        undos.append(change)
        if undos.count > Self.undoDepth { undos.removeFirst(Self.undoDepth / 10) }
    }
}
