/// A recording of what run loops did: who makes one, and how it is kept in files. It knows no loop and no Lua: it is told names and
/// records, and writes them down. See docs/seeing.md.
package enum Recording {
    /// How a recording is kept.
    package enum Format: Sendable {
        /// One HTML file with everything in it, to look at.
        case page
        /// Perfetto's protocol buffers, for ui.perfetto.dev and trace_processor.
        case perfetto
        /// An array of Chrome's trace events.
        case events

        /// By a path's ending: .html, .pftrace, .json; nil for any other.
        package init?(path: String) {
            let bytes = path.utf8
            func ends(_ ending: StaticString) -> Bool {
                ending.withUTF8Buffer { ending in
                    bytes.count > ending.count && bytes.suffix(ending.count).elementsEqual(ending)
                }
            }
            if ends(".html") {
                self = .page
            } else if ends(".pftrace") {
                self = .perfetto
            } else if ends(".json") {
                self = .events
            } else {
                return nil
            }
        }

        /// What to tell who has given a path with another ending.
        package static let advice = "a recording's file ends in .html, .pftrace or .json"
    }

    /// What is true of a recording as a whole.
    package struct About: Equatable, Sendable {
        /// What was recorded: a script's name, a test's.
        package var title: String
        /// The process.
        package var process: Int32
        /// How many records before the first are lost: a ring had no room for them.
        package var dropped: Int

        package init(title: String, process: Int32, dropped: Int = 0) {
            self.title = title
            self.process = process
            self.dropped = dropped
        }
    }

    /// What records mean by a number.
    package struct Name: Hashable, Sendable {
        package var kind: Kind
        /// `timer "poll"`
        package var text: String
        /// Where it was made, `app.lua:12`; empty where that is not known.
        package var place: String

        package init(kind: Kind, text: String, place: String = "") {
            self.kind = kind
            self.text = text
            self.place = place
        }

        /// What something is that has a name. Pages colour by it. The numbers are not kept in any file.
        package enum Kind: String, CaseIterable, Sendable {
            case timer, source, port, observer, request, task, message, span, collector, stream, program, http, other
        }
    }
}
