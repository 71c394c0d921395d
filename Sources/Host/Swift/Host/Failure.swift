internal import Linux

/// An error that nobody has handled, as it was found. It becomes text where somebody is to read it, and nowhere before.
public struct Failure: Error {
    public enum Cause: Sendable {
        /// Code of the script, or of a library, has raised it.
        case raised
        /// The host has: a signal, or somebody at a prompt, has ended what ran.
        case interrupted
        /// The host has: the task was cancelled.
        case cancelled
    }

    /// What the code belongs to that failed.
    public struct Subject: Sendable {
        /// As `type` in messages: "timer".
        public var kind: String
        public var name: String
        /// Where it was made: "app.lua:12".
        public var site: String?
        /// Code of somebody who is attached has made it.
        public var isGuest: Bool

        public init(kind: String, name: String = "", site: String? = nil, isGuest: Bool = false) {
            self.kind = kind
            self.name = name
            self.site = site
            self.isGuest = isGuest
        }

        /// `timer "poll" made at app.lua:12`
        public var text: String {
            (kind + (name.isEmpty ? "" : " \"\(name)\"") + (site.map { " made at \($0)" } ?? "")).shownInLine
        }
    }

    /// As lua says it, with the position if there is one.
    public var message: String
    /// The lines of the traceback, innermost first; nil: an error value that describes itself has none.
    public var frames: [String]?
    public var subject: Subject?
    /// The name of the thread in which it was, if that is not the one that reports it.
    public var thread: String?
    /// Where that was made, if it is worth telling.
    public var threadSite: String?
    public var cause: Cause
    /// It was raised by the function that `rl.on_error` has set: what that was told of. One at most.
    public var toldOf: [Failure] = []

    public init(
        _ message: String, frames: [String]? = nil, subject: Subject? = nil, thread: String? = nil,
        cause: Cause = .raised
    ) {
        self.message = message
        self.frames = frames
        self.subject = subject
        self.thread = thread
        self.cause = cause
    }

    /// Message and traceback, as lua shows them; what of the host is written in Lua is no news to the author of a script.
    public var traceback: String {
        frames.map {
            (["\(message)\nstack traceback:"] + $0.filter { !$0.utf8.starts(with: "[rlhost]:".utf8) }).joined(
                separator: "\n\t")
        } ?? message
    }

    /// What it was in: `timer "poll" made at app.lua:12`, and the thread, if that is another one.
    private var surroundings: [String] {
        (subject.map { [$0.text] } ?? [])
            + (thread.map { ["thread \"\($0.shownInLine)\"" + (threadSite.map { " made at \($0.shownInLine)" } ?? "")] }
                ?? [])
    }

    /// The same in a line, for scripts; nil: it was in none of these.
    public var place: String? { surroundings.isEmpty ? nil : surroundings.joined(separator: " in ") }

    /// The lines in which it says what it was in: "in timer …", "in thread …".
    public var places: [String] {
        surroundings.map { "in \($0)" }
            + toldOf.flatMap { ["in the function of rl.on_error, which was told of:", $0.text] }
    }

    /// For people: the traceback, and what it was in.
    public var text: String { ([traceback.shown] + places).joined(separator: "\n") }
}
