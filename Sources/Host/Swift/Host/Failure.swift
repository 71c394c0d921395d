internal import Linux

/// An error that no code has handled. It is converted to text only where it is shown.
public struct Failure: Error {
    public enum Cause: Sendable {
        /// Code of the script, or of a library, has raised it.
        case raised
        /// The host has raised it, because a signal or a user at a prompt has ended the running code.
        case interrupted
        /// The host has raised it, because the task was cancelled.
        case cancelled
    }

    /// The object to which the failed code belongs.
    public struct Subject: Sendable {
        /// The kind in messages: "timer".
        public var kind: String
        public var name: String
        /// The creation site: "app.lua:12".
        public var site: String?
        /// Whether code of an attached user has raised the error.
        public var isGuest: Bool

        public init(kind: String, name: String = "", site: String? = nil, isGuest: Bool = false) {
            self.kind = kind
            self.name = name
            self.site = site
            self.isGuest = isGuest
        }

        /// A text such as `timer "poll" made at app.lua:12`.
        public var text: String {
            (kind + (name.isEmpty ? "" : " \"\(name)\"") + (site.map { " made at \($0)" } ?? "")).shownInLine
        }
    }

    /// The message as lua writes it, with the position if it has one.
    public var message: String
    /// The lines of the traceback, innermost first; nil for an error value that describes itself.
    public var frames: [String]?
    /// The waits that have passed the error on, in order. The failure's subject and thread are those of the last wait.
    public var route: [Passage] = []

    /// A wait that has passed an error on.
    public struct Passage: Sendable {
        /// The task or callback, and the thread, that passed the error to this wait: "in task made at app.lua:4".
        let from: [String]
        /// The script's line that waited: "app.lua:9".
        let place: String
        let frames: [String]
        /// The number of waits that were left out before this one.
        let skipped: Int
    }
    public var subject: Subject?
    /// The name of the failed thread, if another thread reports the failure.
    public var thread: String?
    /// The place where the failed thread was started, if it is worth showing.
    public var threadSite: String?
    public var cause: Cause
    /// If the function of `rl.on_error` has raised this failure: the failure for which that function was called. At
    /// most one element.
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

    /// Message and traceback, as lua shows them. The host's own Lua functions are left out: they do not concern the
    /// author of a script.
    public var traceback: String {
        ([message] + (frames.map { Self.section("stack traceback:", $0) } ?? []) + passages).joined(separator: "\n")
    }

    /// The lines of `frames`, and those about the waits, without indentation.
    public var lines: [String] {
        (frames ?? [])
            + route.flatMap { passage in
                passage.from + (passage.skipped > 0 ? [Self.left(out: passage.skipped)] : [])
                    + ["awaited at \(passage.place)"] + passage.frames
            }
    }

    private var passages: [String] {
        route.flatMap { passage in
            passage.from.map(\.shown) + (passage.skipped > 0 ? [Self.left(out: passage.skipped)] : [])
                + Self.section("awaited at \(passage.place)", passage.frames)
        }
    }

    private static func left(out count: Int) -> String { "...\t(skipping \(count) waits)" }

    private static func section(_ head: String, _ frames: [String]) -> [String] {
        [head] + frames.filter { !$0.utf8.starts(with: "[rlhost]:".utf8) }.map { "\t\($0)" }
    }

    /// Adds a wait that has passed the error on to code with this subject.
    mutating func pass(at place: String, _ frames: [String], _ subject: Subject?, skipped: Int = 0) {
        route.append(
            Passage(from: surroundings.map { "in \($0)" }, place: place, frames: frames, skipped: skipped))
        self.subject = subject
        (thread, threadSite) = (nil, nil)
    }

    /// The task or callback that has failed, such as `timer "poll" made at app.lua:12`, and its thread, if another
    /// thread reports the failure.
    private var surroundings: [String] {
        (subject.map { [$0.text] } ?? [])
            + (thread.map { ["thread \"\($0.shownInLine)\"" + (threadSite.map { " made at \($0.shownInLine)" } ?? "")] }
                ?? [])
    }

    /// The surroundings in one line, for scripts; nil if there are none.
    public var place: String? { surroundings.isEmpty ? nil : surroundings.joined(separator: " in ") }

    /// The surroundings as lines of a message: "in timer …", "in thread …".
    public var places: [String] {
        surroundings.map { "in \($0)" }
            + toldOf.flatMap { ["in the function of rl.on_error, which was called for:", $0.text] }
    }

    /// The full text for people: the traceback and the surroundings.
    public var text: String { ([traceback.shown] + places).joined(separator: "\n") }
}
