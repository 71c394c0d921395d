/// Edits one entry at a time on a terminal. The host reads the terminal's bytes and writes the editor's output.
///
/// The editor is a state machine without a clock, a file descriptor or a thread. The host feeds it the terminal's
/// bytes. The editor returns the user's actions, and collects the bytes to write.
///
///     editor.prompt = "> "
///     _ = editor.begin()
///     write(editor.takeOutput())
///     for event in editor.feed(bytes) { … }      // .line("1 + 1")
///     write(editor.takeOutput())
///
/// The terminal must be in raw mode: no echo, no line buffering, no signals from keys, no flow control. It may or may
/// not convert LF to CR LF. All other output to the terminal must pass through `interleave(_:)`.
///
/// Not thread-safe: use it only on the thread of the loop that reads the terminal. Callbacks may read the editor but
/// must not feed it; doing so traps.
public final class LineEditor {
    /// The text before the first line. The text may contain colours (`CSI … m`) and line breaks.
    public var prompt = "> "
    /// The text before each further line of an entry.
    public var continuationPrompt = ">> "
    /// The text that Tab inserts at the start of a line if there is nothing to complete.
    public var indentation = "  "
    /// Whether prompts and text are drawn with colours and attributes.
    public var usesColor = false
    /// A terminal without cursor movement (`TERM=dumb`): one row is used, with CR and BS alone, and the line
    /// scrolls sideways. Set it before `begin()`.
    public var isDumb = false
    /// Whether the terminal, after its width has changed, wraps rows again that are now too long. Most terminals do.
    /// Set it to false for xterm itself (`XTERM_VERSION` is set) and for the Linux console.
    public var reflows = true

    /// Asked when Enter is pressed. Without this function, every entry is complete.
    public var isComplete: ((_ text: String) -> Verdict)?
    /// Asked when Tab is pressed; `cursor` counts UTF-8 bytes. Without this function, Tab only indents.
    public var complete: ((_ text: String, _ cursor: Int) -> Completion)?
    /// Returns the colours of a text. Called before a changed text of at most `longestHighlight` scalars is drawn.
    /// Where ranges overlap, the later one wins.
    public var highlight: ((_ text: String) -> [Highlight])?

    /// Called when Enter begins a line or its first word changes. Returns the blanks for the start of the text's last
    /// line; nil leaves them. Without this function, lines are not indented.
    public var indent: ((_ text: String) -> String?)?
    /// Returns the offsets, in UTF-8 bytes, of two matching brackets, one of which is next to the cursor. The editor
    /// draws both brackets in the same style.
    public var brackets: ((_ text: String, _ cursor: Int) -> (Int, Int)?)?
    /// Returns the text of an earlier entry that Alt-. inserts. Without this function, Alt-. inserts the text after the
    /// entry's last blank.
    public var lastArgument: ((_ text: String) -> String?)?
    /// Whether the rest of the newest matching entry of the history is shown after the text, dimmed; Right accepts it.
    /// The rest is shown only with colour, because otherwise it would look like typed text.
    public var suggests = false

    /// Returns the text that may follow, which the editor shows dimmed if there is no suggestion. Called after each
    /// key, by `feed` only, and only if colours are used.
    public var hint: ((_ text: String) -> String?)?

    /// The code points that represent bytes that are not UTF-8, for hosts that use such code points. The editor shows
    /// each as its byte, `<ff>`. In the input of `feed`, bytes that are not UTF-8 become U+FFFD.
    public static let bytes: ClosedRange<UInt32> = 0x10FF80...0x10FFFF

    /// Texts with more scalars than this are drawn without colours, because each key must be answered at once.
    public static let longestHighlight = 64 << 10

    /// Earlier entries. The editor adds each accepted entry.
    public var history: History

    /// The size of the terminal: at least 2 columns and 1 row.
    public internal(set) var columns: Int
    public internal(set) var rows: Int

    var phase = Phase.idle
    var buffer = TextBuffer()
    var decoder = KeyDecoder()
    var killRing = KillRing()
    var lastCommand = Command.other
    var search: Search?
    var listing: Listing?

    // The index of the history entry that is shown; `history.count` for the entry that the user types. Changes that the
    // user makes to history entries are kept until an entry is accepted.
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

    // The start of the line that the editor has indented. The editor adjusts this indentation while the user types.
    var indentedLine: Int?
    // The prefix that Up and Down search for, until another key is pressed.
    var wantedPrefix: [Unicode.Scalar]?
    // Whether further bytes have arrived together with the current one: a paste without brackets, or keys typed ahead.
    var isInBurst = false

    // Whether unfinished output is in the row above the prompt and will be continued there.
    var followsPartialLine = false

    // Keys typed ahead while the editor was idle.
    private var queue: [UInt8] = []
    private var isFeeding = false
    var lastQuery = ""

    enum Phase { case idle, editing, hidden }

    /// The action of the last key, for commands that depend on it.
    enum Command: Equatable {
        case other, kill
        case yank(Range<Int>)
        /// Up or Down, with the column to which the cursor returns in longer lines.
        case vertical(column: Int)
        /// A Tab that could not complete: the next Tab lists the candidates.
        case ambiguousTab
        /// A Tab that inserted one of the listed candidates.
        case choice(Range<Int>)
        /// Control-X, which waits for another key.
        case prefix
        /// Alt-. and the position of the entry from which it took the argument.
        case argument(Range<Int>, position: Int)
    }

    /// An impossible size is replaced by the nearest possible one.
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

    /// Returns the bytes to write to the terminal since the last call, in this order.
    public func takeOutput() -> [UInt8] {
        defer { output.removeAll(keepingCapacity: true) }
        return output
    }

    /// Shows the prompt and begins an entry that contains `text`. Handles keys typed ahead at once, so it may return
    /// events, as `feed` does. Does nothing while an entry is being edited.
    public func begin(with text: String = "") -> [Event] {
        guard phase == .idle else { return [] }
        phase = .hidden
        reset(TextBuffer(TextBuffer.normalised(text.unicodeScalars)))
        show()
        let queued = queue
        queue = []
        return feed(queued)
    }

    /// Handles bytes from the terminal, and returns the resulting events.
    ///
    /// After `.line` and `.endOfFile`, the following bytes wait for the next `begin()`. Draws at most once, however
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
        // As in the terminal driver: an interrupt discards the keys typed before it, and several at once count as one.
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
