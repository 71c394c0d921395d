internal import Linux
internal import RunLoops

extension Recording {
    /// Passes events of files on to a writer. Loops and names get new numbers, so that several files make one
    /// recording. Arrows lead from one file to another, since the numbers of sends are the same in all.
    ///
    /// Several files are read twice, because the first reading determines how their clocks differ.
    final class Retelling {
        private let make: (About) throws(SystemError) -> Writer
        private var writer: Writer?
        private var about = About(title: "", process: 0)
        private var lanes: [Event.Track: Lane] = [:]
        private var numbers: [Name: UInt32] = [:]
        private var processes: [Process] = []
        /// The processes of the current file, by the numbers that their machines gave them.
        private var current: [Int64: Int] = [:]
        private var clocks = Clocks()
        private var alignments: [Int64: Clocks.Alignment] = [:]
        private var isSurvey = false
        /// The name that the joined recording gives to the process of the current file, instead of its name there.
        var title: String?
        private var lost = 0
        private var counters: [Counter: UInt32] = [:]
        private var takenRooms: Set<UInt32> = []
        /// The latest time in the current file.
        private var latest: UInt64 = 0

        /// A process. The process's number in the joined recording is its place in `processes`, because processes of
        /// different machines may have equal numbers.
        private struct Process {
            var process: Int64
            var origin: Origin
            /// nil until a file gives it.
            var title: String?
        }

        private struct Lane {
            var number: UInt16
            var name: String
            /// The open slices, and the mode of each run.
            var open: [(kind: Record.Kind, object: UInt32)] = []
            /// The names of lasting items, by number.
            var lasting: [UInt32: UInt32] = [:]
        }

        init(_ make: @escaping (About) throws(SystemError) -> Writer) { self.make = make }

        /// Begins or ends the reading that only finds the differences of clocks.
        func survey(_ isSurvey: Bool) {
            self.isSurvey = isSurvey
            if !isSurvey { alignments = clocks.aligned() }
            // A record that is read twice counts once.
            (about.dropped, lost, current) = (0, 0, [:])
        }

        /// Reports where a process of the current file runs, before its other events.
        func origin(_ process: Int64, _ origin: Origin) {
            guard current[process] == nil else { return }
            // The recordings of format 1 do not distinguish machines.
            let known = processes.firstIndex {
                $0.origin.identity == origin.identity && (origin.identity != 0 || $0.process == process)
            }
            current[process] = known ?? processes.count
            if known == nil { processes.append(Process(process: process, origin: origin)) }
            if let place = current[process] { clocks.add(Int64(place), processes[place].origin) }
        }

        /// Returns the number of a process in `processes`.
        private func place(_ process: Int64) -> Int64 {
            if current[process] == nil { origin(process, Origin()) }
            return Int64(current[process] ?? 0)
        }

        /// Adds a process to the recording.
        func process(_ process: Int64, _ title: String) throws(SystemError) {
            let place = Int(place(process))
            guard processes[place].title == nil else { return }
            let title = self.title ?? title
            processes[place].title = title
            if processes.count(where: { $0.title != nil }) == 1 {
                about.process = Int32(clamping: process)
                about.title = title
                about.origin = processes[place].origin
            } else {
                about.title += " + \(title)"
                about.origin = Origin()
                // Two loops named "main" need different names.
                for (track, lane) in lanes { try tellName(of: lane, track) }
            }
        }

        private func own(_ track: Event.Track) -> Event.Track {
            Event.Track(process: place(track.process), number: track.number)
        }

        func thread(_ track: Event.Track, _ name: String) throws(SystemError) {
            if isSurvey { return }
            let track = own(track)
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
            // If there are more loops than a record can number, the last ones share a lane. Recordings of rlhost never
            // have that many.
            let lane = Lane(
                number: UInt16(clamping: lanes.count),
                name: name ?? (track.number == 0 ? "main" : "thread \(track.number)"))
            lanes[track] = lane
            try tellName(of: lane, track)
            return lane
        }

        private func tellName(of lane: Lane, _ track: Event.Track) throws(SystemError) {
            let place = Int(track.process)
            guard processes.count(where: { $0.title != nil }) > 1, let title = processes[place].title else {
                return try open().thread(lane.number, lane.name)
            }
            let name = "\(title) \(processes[place].process)\(host(of: place)): \(lane.name)"
            try open().thread(lane.number, name, of: place)
        }

        /// Returns the name of a process's machine if there are several machines.
        private func host(of place: Int) -> String {
            let host = processes[place].origin.host
            return host.isEmpty || processes.allSatisfy { $0.origin.host == host } ? "" : "@\(host)"
        }

        private func joined() -> [Joined] {
            guard processes.count > 1 else { return [] }
            return processes.indices.map { place in
                let alignment = alignments[Int64(place)]
                return Joined(
                    title: processes[place].title ?? "", process: processes[place].process,
                    host: processes[place].origin.host, error: alignment?.error,
                    sharesClock: alignment?.sharesClock ?? false)
            }
        }

        private func open() throws(SystemError) -> Writer {
            if let writer { return writer }
            about.processes = joined()
            let made = try make(about)
            writer = made
            return made
        }

        /// Converts a number that each process counts for itself to one that is unique in the recording. Keeps a number
        /// that several processes share.
        private func flow(of event: Event, _ process: Int64) -> UInt32 {
            let flow =
                event.flow >> 32 == UInt64(clamping: event.track.process)
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
            let track = own(event.track)
            if isSurvey { return survey(event, track.process) }
            var lane = try self.lane(track)
            let isMessage = event.phase == .departs || event.phase == .arrives
            let flow = isMessage ? 0 : flow(of: event, track.process)
            var record = Record(
                time: shifted(event.time, track), kind: .begin, thread: lane.number, flow: flow,
                task: isMessage ? 0 : UInt32(truncatingIfNeeded: event.task))
            switch event.phase {
            case .begin:
                try begin(event, lane, &record)
                let hasDate = [Record.Kind.sleep, .begin].contains { $0.rawValue == record.kind }
                if hasDate, record.a > 0 { record.a = shifted(record.a, track) }
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
                record.a = event.status | Record.answer(rows: event.rows, waited: event.waited)
                record.flags = event.failed ? Record.Flags.failed : 0
            case .departs, .arrives: try message(event, &record)
            default:
                try instant(event, &record)
            }
            lanes[track] = lane
            latest = max(latest, record.time)
            try put(record)
        }

        private func survey(_ event: Event, _ process: Int64) {
            clocks.saw(process, at: event.time)
            switch event.phase {
            case .departs: clocks.departed(event.flow, process, at: event.time)
            case .arrives: clocks.arrived(event.flow, process, at: event.time, sentAt: event.sentAt)
            default: break
            }
        }

        /// Converts a time of a process to the clock of the whole recording.
        private func shifted(_ time: UInt64, _ track: Event.Track) -> UInt64 {
            guard let offset = alignments[track.process]?.offset, offset != 0 else { return time }
            return UInt64(clamping: Int64(clamping: time).addingReportingOverflow(offset).partialValue)
        }

        private func message(_ event: Event, _ record: inout Record) throws(SystemError) {
            record.object = event.name.isEmpty ? 0 : try number(name(of: event))
            record.a = event.flow
            guard event.phase == .arrives else { return record.kind = Record.Kind.departs.rawValue }
            record.kind = Record.Kind.arrives.rawValue
            // The time by the common clock, if the difference of the sender's clock is known.
            let identity = UInt32(truncatingIfNeeded: event.flow >> 32)
            let sender = identity == 0 ? nil : processes.firstIndex { $0.origin.identity == identity }
            if let sender, event.sentAt > 0 {
                record.sentAt = shifted(event.sentAt, .init(process: Int64(sender), number: 0))
            }
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
            defer { (latest, current) = (0, [:]) }
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
