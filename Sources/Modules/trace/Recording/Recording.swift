/// A recording of run loops, and its files. This module knows no loop and no Lua: it receives names and records, and
/// writes them. See docs/seeing.md.
package enum Recording {
    /// The format of a recording.
    package enum Format: Sendable {
        /// One HTML file with everything in it, to look at.
        case page
        /// Perfetto's protocol buffers, for ui.perfetto.dev and trace_processor.
        case perfetto
        /// An array of Chrome's trace events.
        case events

        /// Finds the format by a path's ending: .html, .pftrace or .json; nil for any other.
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

        /// The message about a path with another ending.
        package static let advice = "a recording's file ends in .html, .pftrace or .json"
    }

    /// Facts about a recording as a whole.
    package struct About: Equatable, Sendable {
        /// The recorded thing: the name of a script or a test.
        package var title: String
        /// The process.
        package var process: Int32
        /// The number of records before the first that are lost, because a ring had no room.
        package var dropped: Int

        package init(title: String, process: Int32, dropped: Int = 0) {
            self.title = title
            self.process = process
            self.dropped = dropped
        }
    }

    /// The meaning of a number in records.
    package struct Name: Hashable, Sendable {
        package var kind: Kind
        /// `timer "poll"`
        package var text: String
        /// The place where it was made, `app.lua:12`; empty if that is unknown.
        package var place: String

        package init(kind: Kind, text: String, place: String = "") {
            self.kind = kind
            self.text = text
            self.place = place
        }

        /// The kind of a named object, which decides its colour in pages. The numbers are in no file.
        package enum Kind: String, CaseIterable, Sendable {
            case timer, source, port, observer, request, task, message, span, collector, stream, program, http, other
        }
    }
}
