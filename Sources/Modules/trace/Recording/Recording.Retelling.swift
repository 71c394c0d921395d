internal import Linux
internal import RunLoops

extension Recording {
    /// Passes events of files on to a writer. Loops and names get new numbers, so that several files make one
    /// recording. Arrows lead from one file to another, since times and the numbers of sends are the same on the whole
    /// machine.
    final class Retelling {
        private let make: (About) throws(SystemError) -> Writer
        private var writer: Writer?
        private var about = About(title: "", process: 0)
        private var lanes: [Event.Track: Lane] = [:]
        private var numbers: [Name: UInt32] = [:]
        private var titles: [Int64: String] = [:]
        private var lost = 0
        private var counters: [Counter: UInt32] = [:]
        private var takenRooms: Set<UInt32> = []
        /// The latest time in the current file.
        private var latest: UInt64 = 0

        private struct Lane {
            var number: UInt16
            var name: String
            /// The open slices, and the mode of each run.
            var open: [(kind: Record.Kind, object: UInt32)] = []
            /// The names of lasting items, by number.
            var lasting: [UInt32: UInt32] = [:]
        }

        init(_ make: @escaping (About) throws(SystemError) -> Writer) { self.make = make }

        /// Adds a process to the recording.
        func process(_ process: Int64, _ title: String) throws(SystemError) {
            guard titles[process] == nil else { return }
            titles[process] = title
            if titles.count == 1 {
                about.process = Int32(clamping: process)
                about.title = title
            } else {
                about.title += " + \(title)"
                // Two loops named "main" need different names.
                for (track, lane) in lanes { try tellName(of: lane, track) }
            }
        }

        func thread(_ track: Event.Track, _ name: String) throws(SystemError) {
            guard var lane = lanes[track] else {
                _ = try lane(track, name)
                return
            }
            lane.name = name
            lanes[track] = lane
            try tellName(of: lane, track)
        }

        private func lane(_ track: Event.Track, _ name: String? = nil) throws(SystemError) -> Lane {
            if let lane = lanes[track] { return lane }
            // Loops beyond the largest number of a record share one lane. Our own recordings have fewer.
            let lane = Lane(
                number: UInt16(clamping: lanes.count),
                name: name ?? (track.number == 0 ? "main" : "thread \(track.number)"))
            lanes[track] = lane
            try tellName(of: lane, track)
            return lane
        }

        private func tellName(of lane: Lane, _ track: Event.Track) throws(SystemError) {
            let title = titles.count > 1 ? titles[track.process].map { "\($0) \(track.process): " } ?? "" : ""
            try open().thread(lane.number, title + lane.name)
        }

        private func open() throws(SystemError) -> Writer {
            if let writer { return writer }
            let made = try make(about)
            writer = made
            return made
        }

        /// Makes numbers unique that each process counts for itself. Numbers that processes share are kept.
        private func flow(of event: Event) -> UInt32 {
            let process = event.track.process
            let flow =
                event.flow >> 32 == UInt64(clamping: process)
                ? UInt32(truncatingIfNeeded: event.flow) : UInt32(truncatingIfNeeded: event.flow ^ event.flow >> 32)
            guard flow != 0, flow >> 31 == 0 else { return flow }
            // The numbers begin with that of a loop, which each process counts for itself.
            let counter = Counter(process: process, number: flow >> 22)
            if let room = counters[counter] { return room << 22 | flow & (1 << 22 - 1) }
            var room = counter.number
            while takenRooms.contains(room), takenRooms.count < 512 { room = (room + 1) & 511 }
            counters[counter] = room
            takenRooms.insert(room)
            return room << 22 | flow & (1 << 22 - 1)
        }

        private struct Counter: Hashable {
            var process: Int64
            var number: UInt32
        }

        private func number(_ name: Name) throws(SystemError) -> UInt32 {
            if let number = numbers[name] { return number }
            let number = UInt32(clamping: numbers.count + 1)
            numbers[name] = number
            try open().name(number, name)
            return number
        }

        func tell(_ event: Event) throws(SystemError) {
            if event.phase == .loss {
                about.dropped += Int(clamping: event.dropped)
                lost += Int(clamping: event.lost)
                return
            }
            var lane = try self.lane(event.track)
            let flow = flow(of: event)
            var record = Record(
                time: event.time, kind: .begin, thread: lane.number, flow: flow,
                task: UInt32(truncatingIfNeeded: event.task))
            switch event.phase {
            case .begin:
                try begin(event, lane, &record)
                lane.open.append((Record.Kind(rawValue: record.kind) ?? .begin, record.object))
            case .end:
                // An end without a known beginning is ignored.
                guard let last = lane.open.popLast() else { return }
                try end(event, last, &record)
            case .whole:
                record.kind = Record.Kind.whole.rawValue
                record.object = try number(name(of: event))
                record.a = event.duration
            case .send:
                record.kind = Record.Kind.out.rawValue
                record.object = event.name.isEmpty ? 0 : try number(name(of: event))
            case .receive: record.kind = Record.Kind.in.rawValue
            case .opens:
                record.kind = Record.Kind.opens.rawValue
                record.object = try number(name(of: event))
                lane.lasting[flow] = record.object
            case .belongs:
                record.kind = Record.Kind.belongs.rawValue
                record.object = try number(name(of: event))
            case .closes:
                record.kind = Record.Kind.closes.rawValue
                record.object = lane.lasting.removeValue(forKey: flow) ?? 0
                record.a = event.status
                record.flags = event.failed ? Record.Flags.failed : 0
            default:
                try instant(event, &record)
            }
            lanes[event.track] = lane
            latest = max(latest, record.time)
            try put(record)
        }

        /// Makes the record of an event that begins a slice.
        private func begin(_ event: Event, _ lane: Lane, _ record: inout Record) throws(SystemError) {
            switch event.category {
            case "run":
                record.kind = Record.Kind.run.rawValue
                record.object = try number(Name(kind: .other, text: event.name))
            case "pass":
                record.kind = Record.Kind.pass.rawValue
                record.object = lane.open.last { $0.kind == .run }?.object ?? 0
            case "sleep":
                record.kind = Record.Kind.sleep.rawValue
                record.a = event.until
            default:
                record.object = try number(name(of: event))
                record.a = event.due ?? 0
            }
        }

        /// Makes the record of an event that ends the slice `last`.
        private func end(
            _ event: Event, _ last: (kind: Record.Kind, object: UInt32), _ record: inout Record
        ) throws(SystemError) {
            record.object = last.object
            switch last.kind {
            case .run:
                record.kind = Record.Kind.runEnd.rawValue
                record.a = event.result
            case .pass: record.kind = Record.Kind.passEnd.rawValue
            case .sleep:
                record.kind = Record.Kind.wake.rawValue
                record.a = event.reason
                record.object = try event.waker.map { waker throws(SystemError) in try number(waker) } ?? 0
            default:
                record.kind = Record.Kind.end.rawValue
                record.a = event.missed
                record.flow =
                    event.waits && !event.waitsIn.isEmpty
                    ? try number(Name(kind: .other, text: event.waitsIn)) : 0
                record.flags =
                    (event.waits ? Record.Flags.waits : 0) | (event.failed ? Record.Flags.failed : 0)
            }
        }

        private func instant(_ event: Event, _ record: inout Record) throws(SystemError) {
            switch event.category.split(separator: ",").first {
            case "delayed":
                record.kind = Record.Kind.delayed.rawValue
                record.a = event.delay
                record.object = try number(name(of: event))
            case "ended": record.kind = Record.Kind.ended.rawValue
            case "step":
                record.kind = Record.Kind.step.rawValue
                record.a = event.step
            case "bytes":
                record.kind = Record.Kind.bytes.rawValue
                record.a = event.bytes
                record.flags = event.out ? Record.Flags.out : 0
                record.object = try number(name(of: event))
            default:
                record.kind = Record.Kind.mark.rawValue
                record.object = try number(name(of: event))
            }
        }

        private func put(_ record: Record) throws(SystemError) {
            let writer = try open()
            let told: Result<Void, SystemError> = withUnsafeBytes(of: record) { bytes in
                do throws(SystemError) { return .success(try writer.write(bytes)) } catch { return .failure(error) }
            }
            try told.get()
        }

        /// Called at the end of a file. Open slices of this file end at its own last time, not at the last time of all
        /// files.
        func endFile() throws(SystemError) {
            defer { latest = 0 }
            for (track, lane) in lanes.sorted(by: { $0.value.number < $1.value.number }) {
                for (kind, object) in lane.open.reversed() {
                    let end: Record.Kind =
                        switch kind {
                        case .run: .runEnd
                        case .pass: .passEnd
                        case .sleep: .wake
                        default: .end
                        }
                    try put(
                        Record(time: latest, kind: end, thread: lane.number, object: kind == .sleep ? 0 : object))
                }
                for (flow, object) in lane.lasting.sorted(by: { $0.key < $1.key }) {
                    try put(Record(time: latest, kind: .closes, thread: lane.number, object: object, flow: flow))
                }
                lanes[track]?.open = []
                lanes[track]?.lasting = [:]
            }
        }

        /// Other programs have their own categories; their slices become spans.
        private func name(of event: Event) -> Name {
            let category = event.category.split(separator: ",").last.map(String.init) ?? ""
            return Name(kind: Name.Kind(rawValue: category) ?? .span, text: event.name, place: event.place)
        }

        func finish() throws(SystemError) {
            try open().finish(title: about.title, dropped: about.dropped, lost: lost)
        }
    }
}
