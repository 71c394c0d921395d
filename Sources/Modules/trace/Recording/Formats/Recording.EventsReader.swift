internal import Linux

extension Recording {
    /// Reads Chrome's trace events: those of `EventsEncoder`, and those of other programs as far as they have the same
    /// meaning. An array that is not closed comes from a killed program, and ends there.
    struct EventsReader {
        private var text: JSONReader
        private let retelling: Retelling

        init(_ bytes: UnsafeRawBufferPointer, _ retelling: Retelling) {
            text = JSONReader(bytes)
            self.retelling = retelling
        }

        mutating func read() throws(Conversion.Failure) {
            switch text.peek() {
            case UInt8(ascii: "["): try events()
            case UInt8(ascii: "{"):
                // Other programs put the events into an object.
                var isFound = false
                text.skip()
                while text.peek() == UInt8(ascii: "\"") || text.peek() == UInt8(ascii: ",") {
                    if text.peek() == UInt8(ascii: ",") { text.skip() }
                    guard case .string(let key) = try text.value() else { throw text.failure("a key") }
                    guard text.peek() == UInt8(ascii: ":") else { throw text.failure("':'") }
                    text.skip()
                    if key == "traceEvents", text.peek() == UInt8(ascii: "[") {
                        isFound = true
                        try events()
                    } else {
                        _ = try text.value()
                    }
                }
                guard isFound else { throw .malformed("it has no \"traceEvents\"") }
            default: throw text.failure("an array of events")
            }
        }

        private mutating func events() throws(Conversion.Failure) {
            text.skip()
            while let next = text.peek(), next != UInt8(ascii: "]") {
                if next == UInt8(ascii: ",") {
                    text.skip()
                    continue
                }
                let start = text.position
                do throws(Conversion.Failure) {
                    guard case .object(let fields) = try text.value() else { throw text.failure("an event") }
                    try event(fields, start)
                } catch {
                    // The last line of a killed program.
                    if case .malformed = error, text.isAtEnd { return }
                    throw error
                }
            }
            text.skip()
        }

        private func event(_ fields: [(String, JSONReader.Value)], _ start: Int) throws(Conversion.Failure) {
            func field(_ name: String) -> JSONReader.Value? { fields.first { $0.0 == name }?.1 }
            let arguments: [(String, JSONReader.Value)] =
                if case .object(let arguments)? = field("args") { arguments } else { [] }
            func argument(_ name: String) -> JSONReader.Value? { arguments.first { $0.0 == name }?.1 }
            guard case .string(let phase)? = field("ph") else {
                throw .malformed("\(text.place(of: start)): an event without \"ph\"")
            }
            let process = Int64(clamping: field("pid")?.count ?? 0)
            let track = Event.Track(process: process, number: field("tid")?.count ?? 0)
            let name = field("name")?.text ?? ""
            if phase == "M" { return try metadata(name, process, track, argument) }
            let phases: [String: Event.Phase] = [
                "B": .begin, "E": .end, "X": .whole, "i": .instant, "I": .instant, "s": .send, "f": .receive,
                "b": .opens, "e": .closes, "n": .belongs,
            ]
            guard let known = phases[phase] else { return }
            // Skips heads of arrows that the beginning of a slice implies.
            if known == .receive, let at = argument("at")?.text, at != "in", at != "arrives" { return }
            let at = argument("at")?.text
            var event = Event(at == "departs" ? .departs : at == "arrives" ? .arrives : known, track)
            guard let time = field("ts")?.nanoseconds else {
                throw .malformed("\(text.place(of: start)): an event without a time, \"ts\"")
            }
            event.time = time
            event.category = field("cat")?.text ?? ""
            event.name = name
            event.place = argument("made at")?.text ?? ""
            // In old files the field was in nanoseconds.
            event.due = argument("due_us").map { $0.nanoseconds ?? 0 } ?? argument("due")?.count
            event.duration = field("dur")?.nanoseconds ?? 0
            event.missed = argument("missed")?.count ?? 0
            event.waits = argument("waits") != nil
            event.waitsIn = argument("waits_in")?.text ?? ""
            event.failed = argument("failed") != nil
            event.task = argument("task")?.count ?? 0
            event.flow = (argument("flow") ?? argument("connection") ?? field("id"))?.count ?? 0
            event.result = argument("result").map { RecordWords.number($0.text, of: RecordWords.results) } ?? 0
            event.until = argument("until_us")?.nanoseconds ?? argument("until")?.count ?? 0
            event.reason = argument("reason").map { RecordWords.number($0.text, of: RecordWords.wakes) } ?? 0
            event.waker = argument("woken by").map { other($0, argument) }
            event.bytes = argument("bytes")?.count ?? 0
            event.out = argument("out") != nil
            event.status = argument("status")?.count ?? 0
            event.rows = argument("rows")?.count ?? 0
            event.waited = argument("waited_us")?.count ?? 0
            event.delay = argument("not_scheduled_us")?.nanoseconds ?? 0
            event.step = argument("step")?.count ?? 0
            if event.phase == .departs || event.phase == .arrives {
                event.flow = field("id")?.count ?? 0
                event.sentAt = argument("sent_us")?.nanoseconds ?? 0
            }
            if known == .send || event.phase == .arrives {
                let by = argument("by").map { other($0, argument) }
                event.name = by?.text ?? event.name
                event.place = by?.place ?? ""
                event.category = by?.kind.rawValue ?? Name.Kind.other.rawValue
            }
            do throws(SystemError) { try retelling.tell(event) } catch { throw .refused(error) }
        }

        /// Reads metadata events: names, and properties of the whole recording.
        private func metadata(
            _ name: String, _ process: Int64, _ track: Event.Track, _ argument: (String) -> JSONReader.Value?
        ) throws(Conversion.Failure) {
            if name == "rlhost_format" {
                try Conversion.check(format: Int64(clamping: argument("format")?.count ?? 0))
                retelling.origin(
                    process,
                    Origin(
                        identity: UInt32(truncatingIfNeeded: argument("identity")?.count ?? 0),
                        machine: argument("machine")?.count ?? 0,
                        host: argument("host")?.text ?? "", zero: argument("zero_us")?.nanoseconds ?? 0))
            }
            do throws(SystemError) {
                switch name {
                case "process_name": try retelling.process(process, argument("name")?.text ?? "")
                case "thread_name": try retelling.thread(track, argument("name")?.text ?? "")
                case "rlhost":
                    var event = Event(.loss, track)
                    event.dropped = argument("dropped")?.count ?? 0
                    event.lost = argument("lost")?.count ?? 0
                    try retelling.tell(event)
                default: break
                }
            } catch { throw .refused(error) }
        }

        private func other(_ text: JSONReader.Value, _ argument: (String) -> JSONReader.Value?) -> Name {
            Name(
                kind: argument("kind").flatMap { Name.Kind(rawValue: $0.text) } ?? .other, text: text.text,
                place: argument("made at")?.text ?? "")
        }
    }
}
