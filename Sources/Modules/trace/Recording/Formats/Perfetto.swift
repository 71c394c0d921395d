/// The numbers of Perfetto's format that a recording uses: fields of its messages, and texts that a writer interns.
enum Perfetto {
    /// `Trace.packet`
    static let packet: UInt64 = 1

    enum Packet {
        static let timestamp: UInt64 = 8
        static let sequence: UInt64 = 10
        static let trackEvent: UInt64 = 11
        static let internedData: UInt64 = 12
        static let sequenceFlags: UInt64 = 13
        static let trackDescriptor: UInt64 = 60
        /// A field of rlhost: the number of a recording's format, in its first packet. Other readers skip it.
        static let format: UInt64 = 15000
        /// A field of rlhost in the same packet: see `Recording.Origin`.
        static let identity: UInt64 = 15001
        static let machine: UInt64 = 15002
        static let host: UInt64 = 15003
        static let zero: UInt64 = 15004
    }

    enum Track {
        static let uuid: UInt64 = 1
        static let name: UInt64 = 2
        static let process: UInt64 = 3
        static let thread: UInt64 = 4
        static let parent: UInt64 = 5
    }

    enum Process {
        static let pid: UInt64 = 1
        static let name: UInt64 = 6
    }

    enum Event {
        static let categories: UInt64 = 3
        static let annotations: UInt64 = 4
        static let type: UInt64 = 9
        static let name: UInt64 = 10
        static let track: UInt64 = 11
        static let categoryTexts: UInt64 = 22
        static let nameText: UInt64 = 23
        static let place: UInt64 = 34
        static let flows: UInt64 = 47
        static let endingFlows: UInt64 = 48
    }

    enum EventType: UInt64 {
        case begin = 1
        case end, instant
    }

    enum Interned {
        static let categories: UInt64 = 1
        static let names: UInt64 = 2
        static let annotations: UInt64 = 3
        static let places: UInt64 = 4
        static let texts: UInt64 = 29
    }

    enum Place {
        static let iid: UInt64 = 1
        static let file: UInt64 = 2
        static let line: UInt64 = 4
    }

    /// The kinds of names, and of events that are not callbacks.
    enum Category: String, CaseIterable {
        case timer, source, port, observer, request, task, message, span, collector, stream, program, other
        case run, pass, sleep, send, receive, mark, bytes, step, lost, http, ended, delayed, nats, departs, arrives
        case data

        var number: UInt64 { UInt64(Self.allCases.firstIndex(of: self) ?? 0) + 1 }
    }

    /// Names of events without an object.
    enum FixedName: UInt64, CaseIterable {
        case pass = 1
        case asleep, received, step, lost, unnamed, ended
    }

    /// The numbers of objects' names follow those of the fixed names.
    static let firstName: UInt64 = 16

    enum Annotation: String, CaseIterable {
        case due = "due_ns"
        case late = "late_ns"
        case missed, waits
        case waitsIn = "waits_in"
        case failed, task, result
        case until = "until_ns"
        case reason
        case waker = "woken by"
        case bytes, out, step
        case whole = "whole_ns"
        case dropped, lost, status, connection
        case notScheduled = "not_scheduled_ns"
        case sent = "sent_ns"
        case rows
        case waited = "waited_us"

        var number: UInt64 { UInt64(Self.allCases.firstIndex(of: self) ?? 0) + 1 }

        /// - Parameter name: Old files have times without a unit.
        init?(name: String) {
            guard let known = Self(rawValue: name) ?? Self(rawValue: name + "_ns") else { return nil }
            self = known
        }
    }

    /// Texts of annotations that are not names of objects. The numbers of these texts are below those of the objects.
    static let words = RecordWords.wakes + RecordWords.results

    /// The track of a process, and of one of its loops.
    static func track(_ process: Int32, _ thread: UInt16? = nil) -> UInt64 {
        UInt64(max(0, process)) << 17 | (thread.map { UInt64($0) + 1 } ?? 0)
    }

    /// Each lasting item has a separate track below that of its loop, because such slices overlap.
    static func track(_ process: Int32, lasting number: UInt32) -> UInt64 {
        1 << 62 | UInt64(max(0, process)) << 32 | UInt64(number)
    }

    /// Flow numbers must be unique in the whole trace. Each process counts the flows between its own loops;
    /// `MessageFrame.flow` makes the numbers of flows between processes.
    static func flow(_ process: Int32, _ flow: UInt32) -> UInt64 {
        flow >> 31 == 1 ? UInt64(flow) : UInt64(max(0, process)) << 32 | UInt64(flow)
    }

    /// Each sequence has its own interned texts. 0 would mean no sequence.
    static func sequence(_ process: Int32) -> UInt64 { UInt64(max(0, process)) + 1 }

    /// Splits "app.lua:12" into a file and a line.
    static func parts(ofPlace place: String) -> (file: String, line: UInt64?) {
        guard let colon = place.utf8.lastIndex(of: UInt8(ascii: ":")),
            let line = UInt64(place[place.utf8.index(after: colon)...])
        else { return (place, nil) }
        return (String(place[..<colon]), line)
    }
}
