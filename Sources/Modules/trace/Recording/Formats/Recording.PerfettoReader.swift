internal import Linux

extension Recording {
    /// Reads Perfetto's format: files of `PerfettoEncoder`, and the slices, instants and flows of other programs'
    /// files.
    struct PerfettoReader {
        private let bytes: UnsafeRawBufferPointer
        private let retelling: Retelling
        private var sequences: [UInt64: Texts] = [:]
        private var tracks: [UInt64: Event.Track] = [:]
        /// The numbers of lasting items, by track.
        private var lasting: [UInt64: UInt64] = [:]
        /// The number of the recording's format; nil in files of other programs.
        private var format: Int64?
        /// Where the process of the current packets runs, until its number is known.
        private var origin = Origin()
        /// For each track: the number of ends to skip, because their slices were reported as a whole.
        private var told: [Event.Track: Int] = [:]

        /// The interned texts of a sequence.
        private struct Texts {
            var categories: [UInt64: String] = [:]
            var names: [UInt64: String] = [:]
            var annotations: [UInt64: String] = [:]
            var places: [UInt64: String] = [:]
            var values: [UInt64: String] = [:]
        }

        init(_ bytes: UnsafeRawBufferPointer, _ retelling: Retelling) {
            self.bytes = bytes
            self.retelling = retelling
        }

        mutating func read() throws(Conversion.Failure) {
            var packets = ProtobufReader(bytes)
            var count = 0
            while let (field, value) = packets.next() {
                guard field == Perfetto.packet, case .bytes = value else {
                    throw .malformed("byte \(packets.position): a packet was expected")
                }
                do throws(SystemError) { try packet(value.fields) } catch { throw .refused(error) }
                try Conversion.check(format: format)
                count += 1
            }
            // The last packet of a killed program is incomplete.
            if count == 0 { throw .malformed(packets.isCut ? "it has no packet at its start" : "it is empty") }
        }

        private mutating func packet(_ fields: ProtobufReader) throws(SystemError) {
            var sequence: UInt64 = 0
            var time: UInt64 = 0
            var event: ProtobufReader?
            var fields = fields
            var interned: [ProtobufReader] = []
            var descriptor: ProtobufReader?
            var isCleared = false
            while let (field, value) = fields.next() {
                switch field {
                case Perfetto.Packet.sequence: sequence = value.number
                case Perfetto.Packet.timestamp: time = value.number
                case Perfetto.Packet.sequenceFlags: isCleared = value.number & 1 != 0
                case Perfetto.Packet.trackDescriptor: descriptor = value.fields
                case Perfetto.Packet.format: format = Int64(clamping: value.number)
                case Perfetto.Packet.identity: origin.identity = UInt32(truncatingIfNeeded: value.number)
                case Perfetto.Packet.machine: origin.machine = value.number
                case Perfetto.Packet.host: origin.host = value.text.shownInLine
                case Perfetto.Packet.zero: origin.zero = value.number
                case Perfetto.Packet.trackEvent: event = value.fields
                case Perfetto.Packet.internedData: interned.append(value.fields)
                default: break
                }
            }
            if isCleared { sequences[sequence] = Texts() }
            for data in interned { intern(data, &sequences[sequence, default: Texts()]) }
            if let descriptor { try track(descriptor) }
            if let event { try self.event(event, time, sequences[sequence] ?? Texts()) }
        }

        private func intern(_ data: ProtobufReader, _ texts: inout Texts) {
            var data = data
            while let (field, value) = data.next() {
                var number: UInt64 = 0
                var text = ""
                var line: UInt64?
                var entry = value.fields
                while let (part, value) = entry.next() {
                    switch part {
                    case 1: number = value.number
                    case 2: text = value.text
                    case Perfetto.Place.line: line = value.number
                    default: break
                    }
                }
                switch field {
                case Perfetto.Interned.categories: texts.categories[number] = text
                case Perfetto.Interned.names: texts.names[number] = text
                case Perfetto.Interned.annotations: texts.annotations[number] = text
                case Perfetto.Interned.places: texts.places[number] = line.map { "\(text):\($0)" } ?? text
                case Perfetto.Interned.texts: texts.values[number] = text
                default: break
                }
            }
        }

        private mutating func track(_ descriptor: ProtobufReader) throws(SystemError) {
            var descriptor = descriptor
            var uuid: UInt64 = 0
            var parent: UInt64?
            var name: String?
            var process: Int64?
            var title = ""
            var thread: UInt64?
            while let (field, value) = descriptor.next() {
                switch field {
                case Perfetto.Track.uuid: uuid = value.number
                case Perfetto.Track.parent: parent = value.number
                case Perfetto.Track.name: name = value.text
                case Perfetto.Track.process, Perfetto.Track.thread:
                    var parts = value.fields
                    while let (part, value) = parts.next() {
                        switch (field, part) {
                        case (_, 1): process = Int64(truncatingIfNeeded: value.number)
                        case (Perfetto.Track.process, Perfetto.Process.name): title = value.text
                        case (Perfetto.Track.thread, 2): thread = value.number
                        case (Perfetto.Track.thread, 5): name = value.text
                        default: break
                        }
                    }
                default: break
                }
            }
            if let process, thread == nil {
                tracks[uuid] = .init(process: process, number: .max)
                retelling.origin(process, origin)
                origin = Origin()
                return try retelling.process(process, title)
            }
            if let parent, let loop = tracks[parent], let own = Int32(exactly: loop.process),
                uuid == Perfetto.track(own, lasting: UInt32(truncatingIfNeeded: uuid))
            {
                tracks[uuid] = loop
                lasting[uuid] = uuid & 0xFFFF_FFFF
                return
            }
            let owner = process ?? parent.flatMap { tracks[$0]?.process } ?? 0
            // Tracks of rlhost contain the number of their loop.
            let number = parent.map { uuid > $0 && uuid - $0 <= 1 << 16 ? uuid - $0 - 1 : uuid } ?? thread ?? uuid
            let track = Event.Track(process: owner, number: number)
            tracks[uuid] = track
            if let name { try retelling.thread(track, name) }
        }

        private mutating func event(_ fields: ProtobufReader, _ time: UInt64, _ texts: Texts) throws(SystemError) {
            var fields = fields
            var type: UInt64 = 0
            var event = Event(.instant, .init(process: 0, number: 0))
            event.time = time
            var isWhole = false
            var lasts: UInt64?
            while let (field, value) = fields.next() {
                switch field {
                case Perfetto.Event.type: type = value.number
                case Perfetto.Event.track:
                    lasts = lasting[value.number]
                    event.track = tracks[value.number] ?? .init(process: 0, number: value.number)
                case Perfetto.Event.categories, Perfetto.Event.categoryTexts:
                    let text = field == Perfetto.Event.categories ? texts.categories[value.number] ?? "" : value.text
                    event.category += (event.category.isEmpty ? "" : ",") + text
                case Perfetto.Event.name: event.name = texts.names[value.number] ?? ""
                case Perfetto.Event.nameText: event.name = value.text
                case Perfetto.Event.place: event.place = texts.places[value.number] ?? ""
                case Perfetto.Event.flows, Perfetto.Event.endingFlows: event.flow = value.number
                case Perfetto.Event.annotations: annotate(&event, value.fields, texts, &isWhole)
                default: break
                }
            }
            event.flow = lasts ?? event.flow
            switch (type, event.category.split(separator: ",").first) {
            case (Perfetto.EventType.begin.rawValue, _) where lasts != nil: event.phase = .opens
            case (Perfetto.EventType.end.rawValue, _) where lasts != nil: event.phase = .closes
            case (Perfetto.EventType.instant.rawValue, _) where lasts != nil: event.phase = .belongs
            case (Perfetto.EventType.begin.rawValue, _):
                event.phase = isWhole ? .whole : .begin
                if isWhole { told[event.track, default: 0] += 1 }
            case (Perfetto.EventType.end.rawValue, _):
                if let count = told[event.track], count > 0 {
                    told[event.track] = count - 1
                    return
                }
                event.phase = .end
                // The kind and place of a loop's waker are in the same fields as those of a slice.
                event.waker?.kind = Name.Kind(rawValue: event.category) ?? .other
                event.waker?.place = event.place
            case (Perfetto.EventType.instant.rawValue, "send"):
                event.phase = .send
            case (Perfetto.EventType.instant.rawValue, "receive"): event.phase = .receive
            case (Perfetto.EventType.instant.rawValue, "departs"): event.phase = .departs
            case (Perfetto.EventType.instant.rawValue, "arrives"): event.phase = .arrives
            case (Perfetto.EventType.instant.rawValue, "lost"): event.phase = .loss
            case (Perfetto.EventType.instant.rawValue, _): break
            default: return
            }
            try retelling.tell(event)
        }

        private func annotate(
            _ event: inout Event, _ fields: ProtobufReader, _ texts: Texts, _ isWhole: inout Bool
        ) {
            var fields = fields
            var name = ""
            var number: UInt64 = 0
            var text = ""
            while let (field, value) = fields.next() {
                switch field {
                case 1: name = texts.annotations[value.number] ?? ""
                case 10: name = value.text
                case 2, 3, 4: number = value.number
                case 6: text = value.text
                case 17: text = texts.values[value.number] ?? ""
                default: break
                }
            }
            switch Perfetto.Annotation(name: name) {
            case .due: event.due = number
            case .missed: event.missed = number
            case .waits: event.waits = true
            case .waitsIn: event.waitsIn = text
            case .failed: event.failed = true
            case .task: event.task = number
            case .result: event.result = text.isEmpty ? number : RecordWords.number(text, of: RecordWords.results)
            case .until: event.until = number
            case .reason: event.reason = text.isEmpty ? number : RecordWords.number(text, of: RecordWords.wakes)
            case .waker: event.waker = Name(kind: .other, text: text)
            case .bytes: event.bytes = number
            case .status: event.status = number
            case .rows: event.rows = number
            case .waited: event.waited = number
            case .connection: event.flow = number
            case .out: event.out = true
            case .step: event.step = number
            case .dropped: event.dropped = number
            case .lost: event.lost = number
            case .whole:
                event.duration = number
                isWhole = true
            case .notScheduled: event.delay = number
            case .sent: event.sentAt = number
            case .late, nil: break
            }
        }
    }
}
