internal import Linux

/// A recording of run loops, and its files. This module knows no loop and no Lua: it receives names and records, and
/// writes them. See docs/seeing.md.
package enum Recording {
    /// The format of a recording.
    package enum Format: Sendable {
        /// A single HTML file that shows the recording in a browser.
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

    /// Properties of a whole recording.
    package struct About: Equatable, Sendable {
        /// The recorded thing: the name of a script or a test.
        package var title: String
        /// The process.
        package var process: Int32
        /// The number of records that were lost before the first one, because a ring had no room.
        package var dropped: Int
        package var origin = Origin()
        /// The processes whose recordings were joined, if there are several.
        package var processes: [Joined] = []

        package init(title: String, process: Int32, dropped: Int = 0, origin: Origin = Origin()) {
            self.title = title
            self.process = process
            self.dropped = dropped
            self.origin = origin
        }
    }

    /// Where a process runs, and by which clock. Files of format 1 do not contain the origin.
    package struct Origin: Equatable, Sendable {
        /// The upper half of the numbers of all messages of the process; 0 if unknown.
        package var identity: UInt32 = 0
        /// Processes with the same number have the same clock: they run on one machine that was not restarted in
        /// between. 0 if unknown.
        package var machine: UInt64 = 0
        /// The name of the machine; empty if unknown.
        package var host = ""
        /// Nanoseconds from 1970 to the zero of the recording's clock, by the machine's clock; 0 if unknown.
        package var zero: UInt64 = 0

        package init() {}

        package init(identity: UInt32, machine: UInt64, host: String, zero: UInt64) {
            self.identity = identity
            self.machine = machine
            self.host = host.shownInLine
            self.zero = zero
        }
    }

    /// One of the processes whose recordings were joined.
    package struct Joined: Equatable, Sendable {
        package var title: String
        package var process: Int64
        package var host: String
        /// The largest error of its times, in nanoseconds, relative to those of the first process; nil if it is
        /// unknown, because only the machines' clocks could be compared.
        package var error: Int64?
        /// Whether the process's clock is that of the first process.
        package var sharesClock: Bool
    }

    /// The meaning of a number in records.
    package struct Name: Hashable, Sendable {
        package var kind: Kind
        /// `timer "poll"`
        package var text: String
        /// The place where the object was made, `app.lua:12`; empty if that is unknown.
        package var place: String

        package init(kind: Kind, text: String, place: String = "") {
            self.kind = kind
            self.text = text
            self.place = place
        }

        /// The kind of a named object, which decides its colour in pages. The numbers are in no file.
        package enum Kind: String, CaseIterable, Sendable {
            case timer, source, port, observer, request, task, message, span, collector, stream, program, http, nats,
                data, other
        }
    }
}
