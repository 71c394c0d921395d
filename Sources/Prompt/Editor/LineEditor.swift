/// Edits one entry at a time on a terminal, for a host that reads the bytes and writes the bytes.
///
/// A state machine without a clock, a file descriptor or a thread: it is fed what the terminal sent, returns what the
/// user decided, and collects what has to be written.
///
///     editor.prompt = "> "
///     _ = editor.begin()
///     write(editor.takeOutput())
///     for event in editor.feed(bytes) { … }      // .line("1 + 1")
///     write(editor.takeOutput())
///
/// The terminal has to be in raw mode: no echo, no line assembly, no signals from keys, no flow control. Whether it
/// still turns LF into CR LF does not matter. Whatever else goes to the terminal passes through `interleave(_:)`.
///
/// Not thread-safe: use it from one thread, the one of the loop that reads the terminal. Callbacks may read the
/// editor but must not feed it; doing so traps.
public final class LineEditor {
    /// What stands before the first line. It may contain colours (`CSI … m`) and line breaks.
    public var prompt = "> "
    /// What stands before each further line of an entry.
    public var continuationPrompt = ">> "
    /// What Tab inserts where there is nothing to complete, at the start of a line.
    public var indentation = "  "
    /// Whether prompts and text are drawn with colours and attributes.
    public var usesColor = false
    /// A terminal without cursor movement (`TERM=dumb`): one row is used, with CR and BS alone, and the line
    /// scrolls sideways. Set it before `begin()`.
    public var isDumb = false
    /// Whether the terminal wraps rows again that have become too long for it after a change of its width. Most do;
    /// set it to false for xterm proper (`XTERM_VERSION` is set) and the Linux console.
    public var reflows = true

    /// Asked when Enter is pressed. Without it every entry is complete.
    public var isComplete: ((_ text: String) -> Verdict)?
    /// Asked when Tab is pressed; `cursor` counts UTF-8 bytes. Without it Tab only indents.
    public var complete: ((_ text: String, _ cursor: Int) -> Completion)?
    /// Asked for the look of a changed text before it is drawn in colour, up to `longestHighlight`; later spans win.
    public var highlight: ((_ text: String) -> [Highlight])?

    /// Asked, when a line is begun by Enter or changed at its first word, what blanks the last line of the text should begin
    /// with; nil leaves them as they are. Without it lines are not indented.
    public var indent: ((_ text: String) -> String?)?
    /// Asked which two brackets belong together, one of them beside the cursor, in UTF-8 bytes: they are drawn alike.
    public var brackets: ((_ text: String, _ cursor: Int) -> (Int, Int)?)?
    /// Asked for what Alt-. inserts of an earlier entry. Without it, what stands behind its last blank.
    public var lastArgument: ((_ text: String) -> String?)?
    /// Whether the newest entry of the history that begins with what was typed is shown behind it, dimmed; Right takes it. Only
    /// in colour, for otherwise it would look as if it had been typed.
    public var suggests = false

    /// Asked, behind each key, what may still follow the text; that is shown behind it, dimmed, where nothing is suggested. Only in
    /// colour. Called by `feed` alone.
    public var hint: ((_ text: String) -> String?)?

    /// The code points that stand for bytes that are not UTF-8, for hosts that can use such: each shows its byte, as `<ff>`. Fed bytes of
    /// that kind become U+FFFD otherwise.
    public static let bytes: ClosedRange<UInt32> = 0x10FF80...0x10FFFF

    /// Texts of more scalars than this are drawn plain, for a key has to be answered at once.
    public static let longestHighlight = 64 << 10

    /// What was entered before. Accepted entries are added by the editor.
    public var history: History

    /// The size of the terminal in columns and rows, at least 2 and 1.
    public internal(set) var columns: Int
    public internal(set) var rows: Int

    var phase = Phase.idle
    var buffer = TextBuffer()
    var decoder = KeyDecoder()
    var killRing = KillRing()
    var lastCommand = Command.other
    var search: Search?
    var listing: Listing?

    // The entry of the history that is shown; `history.count` for the one being typed. What was typed over others
    // is kept until an entry is accepted.
    var historyPosition = 0
    var edited: [Int: TextBuffer] = [:]

    var events: [Event] = []
    var output: [UInt8] = []
    var painter = Painter()
    var dumbPainter = DumbPainter()
    var tracker = OutputTracker()
    var top = Layout.Position()
    var styleCache: (revision: Int, styles: [Style])?
    var shownHint: (revision: Int, text: [Unicode.Scalar])?
    var suggestionCache: (revision: Int, count: Int, text: [Unicode.Scalar])?

    // Where the line starts whose blanks are the editor's, not the user's: they follow what is typed.
    var indentedLine: Int?
    // What Up and Down look for at the start of entries, while nothing else is pressed.
    var wantedPrefix: [Unicode.Scalar]?
    // More bytes have come with the one that is handled: a paste without brackets, or what was typed ahead.
    var isInBurst = false

    // Whether unfinished output stands in the row above the prompt and is to be continued there.
    var followsPartialLine = false

    // What was typed ahead while the editor was idle.
    private var queue: [UInt8] = []
    private var isFeeding = false
    var lastQuery = ""

    enum Phase { case idle, editing, hidden }

    /// What the last key did, for the commands that depend on it.
    enum Command: Equatable {
        case other, kill
        case yank(Range<Int>)
        /// Up or Down, with the column it came from.
        case vertical(column: Int)
        /// Tab that could only make a noise: the next one lists the candidates.
        case ambiguousTab
        /// Tab that put one of the listed candidates into the text.
        case choice(Range<Int>)
        /// Control-X, which waits for another key.
        case prefix
        /// Alt-. with the entry that it took the argument from.
        case argument(Range<Int>, position: Int)
    }

    /// A size that makes no sense counts as the nearest that does.
    public init(columns: Int = 80, rows: Int = 24, history: History = History()) {
        self.columns = max(columns, 2)
        self.rows = max(rows, 1)
        self.history = history
        tracker.columns = self.columns
    }
}

extension LineEditor {
    /// Whether an entry is being edited, shown or hidden.
    public var isActive: Bool { phase != .idle }

    /// The text of the entry so far. O(n).
    public var text: String { buffer.string }

    /// The cursor in UTF-8 bytes from the start of the entry. O(n).
    public var cursor: Int { buffer.utf8Offset(of: buffer.cursor) }

    /// What has to be written to the terminal, in this order, since the last call.
    public func takeOutput() -> [UInt8] {
        defer { output.removeAll(keepingCapacity: true) }
        return output
    }

    /// Shows the prompt and begins an entry, with `text` in it. What was typed ahead is taken up at once, so that it
    /// can return events just like `feed`. While an entry is being edited nothing happens: its prompt is there.
    public func begin(with text: String = "") -> [Event] {
        guard phase == .idle else { return [] }
        phase = .hidden
        reset(TextBuffer(TextBuffer.normalised(text.unicodeScalars)))
        show()
        let queued = queue
        queue = []
        return feed(queued)
    }

    /// Takes bytes from the terminal and returns what follows from them.
    ///
    /// After `.line` and `.endOfFile` the rest of the bytes waits for the next `begin()`. Draws at most once, however
    /// many bytes there are: 1 MB of pasted text takes some 50 ms.
    public func feed(_ bytes: some Collection<UInt8>) -> [Event] {
        precondition(!isFeeding, "LineEditor.feed(_:) was called from one of the editor's own callbacks")
        isFeeding = true
        defer { isFeeding = false }
        let bytes = Array(bytes)
        var index = 0
        var typed: [Unicode.Scalar] = []
        while index < bytes.count, phase != .idle {
            let byte = bytes[index]
            index += 1
            if (0x20..<0x7F).contains(byte), decoder.isAtRest, search == nil {
                typed.append(Unicode.Scalar(byte))
                continue
            }
            let (first, second) = decoder.push(byte)
            for key in [first, second] {
                guard let key else { continue }
                if search == nil, case .scalar(let scalar) = key, !Self.isControl(scalar) {
                    typed.append(scalar)
                } else {
                    insertTyped(&typed)
                    isInBurst = index < bytes.count
                    handle(key)
                }
            }
        }
        insertTyped(&typed)
        if phase == .idle { typeAhead(bytes[index...]) }
        lookForHint()
        refresh()
        defer { events = [] }
        return events
    }

    static func isControl(_ scalar: Unicode.Scalar) -> Bool { scalar.value < 0x20 || scalar.value == 0x7F }

    private func insertTyped(_ typed: inout [Unicode.Scalar]) {
        guard !typed.isEmpty else { return }
        listing = nil
        lastCommand = .other
        wantedPrefix = nil
        buffer.type(typed)
        reindent()
        typed.removeAll(keepingCapacity: true)
    }

    private func typeAhead(_ bytes: ArraySlice<UInt8>) {
        var bytes = bytes
        // As the terminal driver does it: an interrupt throws away what was typed before it, and both are heard at once.
        if let last = bytes.lastIndex(of: 0x03) {
            queue = []
            bytes = bytes[(last + 1)...]
            events.append(.interrupt)
        }
        for byte in bytes {
            switch byte {
            case 0x1A: events.append(.suspend)
            case 0x1C: events.append(.explain)
            default: queue.append(byte)
            }
        }
    }

    func reset(_ text: TextBuffer) {
        buffer = text
        decoder.reset()
        lastCommand = .other
        search = nil
        listing = nil
        historyPosition = history.count
        edited = [:]
        top = Layout.Position()
        styleCache = nil
        suggestionCache = nil
        shownHint = nil
        indentedLine = nil
        wantedPrefix = nil
    }
}
