internal import RunLoops

extension Recording {
    /// Chrome's trace events, as an array that need not be closed: a file that ends early can be read.
    ///
    /// Times are microseconds with nanoseconds as decimals. The other fields of a record are in `args`, so that a page
    /// can be made from the file: "due_us" on the same clock, "late_us", "flow", "task", "missed".
    final class EventsEncoder: Encoder {
        var bytes: [UInt8] = []
        let held = 0
        private var process: Int32 = 0
        private var names: [UInt32: Name] = [:]
        private var nestings: [UInt16: Nesting] = [:]
        private var firstTime = UInt64.max

        func begin(_ about: About) {
            process = about.process
            bytes.append(
                contentsOf:
                    "[\n{\"ph\":\"M\",\"pid\":\(process),\"name\":\"rlhost_format\","
                    + "\"args\":{\"format\":\(Conversion.format)"
            )
            tell(about.origin)
            bytes.append(contentsOf: "}},")
            bytes.append(
                contentsOf: "\n{\"ph\":\"M\",\"pid\":\(process),\"name\":\"process_name\",\"args\":{\"name\":")
            bytes.append(quoted: about.title)
            bytes.append(contentsOf: "}}")
        }

        /// Numbers of 64 bits are texts, because JSON has only doubles.
        private func tell(_ origin: Origin) {
            guard origin.identity != 0 else { return }
            bytes.append(contentsOf: ",\"identity\":\(origin.identity),\"machine\":\"")
            bytes.append(hex: origin.machine)
            bytes.append(contentsOf: "\",\"host\":")
            bytes.append(quoted: origin.host)
            bytes.append(contentsOf: ",\"zero_us\":")
            bytes.append(microseconds: origin.zero)
        }

        func name(_ number: UInt32, _ name: Name) { names[number] = name }

        func thread(_ number: UInt16, _ name: String, of process: Int?) {
            let process = self.process
            bytes.append(
                contentsOf:
                    ",\n{\"ph\":\"M\",\"pid\":\(process),\"tid\":\(number),\"name\":\"thread_name\",\"args\":{\"name\":"
            )
            bytes.append(quoted: name)
            bytes.append(contentsOf: "}}")
        }

        func records(_ records: UnsafeRawBufferPointer) {
            for offset in stride(from: 0, to: records.count, by: Record.size) { add(Record(records, at: offset)) }
        }

        func flush() {}

        func end(_ about: About, lost: Int) {
            bytes.append(
                contentsOf:
                    ",\n{\"ph\":\"M\",\"pid\":\(process),\"name\":\"rlhost\","
                    + "\"args\":{\"dropped\":\(about.dropped),\"lost\":\(lost)}}\n]\n"
            )
        }

        private func add(_ record: Record) {
            guard let kind = Record.Kind(rawValue: record.kind) else { return }
            firstTime = min(firstTime, record.time)
            switch kind {
            case .begin:
                open("B", record, categoryOf: record.object)
                arguments { arguments in
                    if record.a > 0 {
                        arguments.add("due_us", microseconds: record.a)
                        arguments.add("late_us", microseconds: record.time > record.a ? record.time - record.a : 0)
                    }
                    shared(record, &arguments)
                }
                nestings[record.thread, default: Nesting()].begin(.begin)
                if record.flow != 0 { flow("f", record, "begin") }
            case .end:
                close(record, .begin) { arguments in
                    if record.a > 0 { arguments.add("missed", record.a) }
                    if record.flags & Record.Flags.waits != 0 { arguments.add("waits", 1) }
                    if let wait = names[record.waitsIn] { arguments.add("waits_in", wait.text) }
                    if record.flags & Record.Flags.failed != 0 { arguments.add("failed", 1) }
                }
            case .run: open(record, kind, "run", names[record.object]?.text ?? "run")
            case .runEnd: close(record, .run) { $0.add("result", record.a, in: RecordWords.results) }
            case .pass: open(record, kind, "pass", "pass")
            case .passEnd: close(record, .pass) { _ in }
            case .sleep:
                open(record, kind, "sleep", "asleep") { if record.a > 0 { $0.add("until_us", microseconds: record.a) } }
            case .wake:
                let isOpen = close(record, .sleep) { arguments in
                    arguments.add("reason", record.a, in: RecordWords.wakes)
                    if let waker = names[record.object] { arguments.add("woken by", waker) }
                    if record.flow != 0 { arguments.add("flow", UInt64(record.flow)) }
                }
                if isOpen, record.flow != 0 { flow("t", record, "wake") }
            case .out:
                flow("s", record, "out")
            case .in:
                flow("f", record, "in")
            case .departs: message("s", record, "departs")
            case .arrives: message("f", record, "arrives")
            case .whole:
                open("X", record, categoryOf: record.object)
                bytes.append(contentsOf: ",\"dur\":")
                bytes.append(microseconds: record.a)
                arguments { shared(record, &$0) }
                if record.flow != 0 { flow("f", record, "whole") }
            case .mark, .bytes, .step, .ended, .delayed: instant(kind, record)
            case .belongs: lasting("n", record) { _ in }
            case .due: break  // Such a record never leaves the ring.
            case .opens:
                nestings[record.thread, default: Nesting()].opens(record.flow)
                lasting("b", record) { _ in }
            case .closes:
                if !nestings[record.thread, default: Nesting()].closes(record.flow) {
                    // The callback or run had begun before the recording.
                    var beginning = record
                    beginning.time = firstTime
                    lasting("b", beginning) { _ in }
                }
                lasting("e", record) { outcome(record, &$0) }
            }
        }

        /// Adds the outcome of a long operation.
        private func outcome(_ record: Record, _ arguments: inout Arguments) {
            if names[record.object]?.kind == .data {
                arguments.add("rows", record.answer.rows)
                if record.answer.waited > 0 { arguments.add("waited_us", record.answer.waited) }
            } else if record.a > 0 {
                arguments.add("status", record.a)
            }
            if record.flags & Record.Flags.failed != 0 { arguments.add("failed", 1) }
        }

        private func instant(_ kind: Record.Kind, _ record: Record) {
            switch kind {
            case .mark:
                open("i", record, categoryOf: record.object, "mark")
                bytes.append(contentsOf: ",\"s\":\"t\"")
                arguments { shared(record, &$0) }
            case .bytes:
                open("i", record, categoryOf: record.object, "bytes")
                bytes.append(contentsOf: ",\"s\":\"t\"")
                arguments { arguments in
                    arguments.add("bytes", record.a)
                    if record.flags & Record.Flags.out != 0 { arguments.add("out", 1) }
                    if let place = names[record.object]?.place, !place.isEmpty { arguments.add("made at", place) }
                    if record.flow != 0 { arguments.add("connection", UInt64(record.flow)) }
                }
            case .step:
                head("i", record, "step", "step")
                bytes.append(contentsOf: ",\"s\":\"t\"")
                arguments { $0.add("step", record.a) }
            case .ended:
                head("i", record, "ended", "ended")
                bytes.append(contentsOf: ",\"s\":\"t\"")
                arguments { _ in }
            case .delayed:
                open("i", record, categoryOf: record.object, "delayed")
                bytes.append(contentsOf: ",\"s\":\"t\"")
                arguments { arguments in
                    arguments.add("not_scheduled_us", microseconds: record.a)
                    if let place = names[record.object]?.place, !place.isEmpty { arguments.add("made at", place) }
                }
            default: break
            }
        }

        /// Appends an asynchronous event, as Chrome calls it: identified by category and number, and free to overlap
        /// others.
        private func lasting(_ phase: String, _ record: Record, _ body: (inout Arguments) -> Void) {
            open(phase, record, categoryOf: record.object)
            bytes.append(contentsOf: ",\"id\":")
            bytes.append(decimal: UInt64(record.flow))
            arguments { arguments in
                if let place = names[record.object]?.place, !place.isEmpty { arguments.add("made at", place) }
                body(&arguments)
            }
        }

        // MARK: Pieces of an event

        /// Appends the fields that every event has, without its end. The end of a slice has no category and no name.
        private func head(_ phase: String, _ record: Record, _ category: String, _ name: String) {
            bytes.append(contentsOf: ",\n{\"ph\":\"")
            bytes.append(contentsOf: phase)
            bytes.append(contentsOf: "\",\"pid\":")
            bytes.append(decimal: UInt64(max(0, process)))
            bytes.append(contentsOf: ",\"tid\":")
            bytes.append(decimal: UInt64(record.thread))
            bytes.append(contentsOf: ",\"ts\":")
            bytes.append(microseconds: record.time)
            guard !category.isEmpty else { return }
            bytes.append(contentsOf: ",\"cat\":\"")
            bytes.append(contentsOf: category)
            bytes.append(contentsOf: "\",\"name\":")
            bytes.append(quoted: name)
        }

        private func open(_ phase: String, _ record: Record, categoryOf object: UInt32, _ first: String? = nil) {
            let name = names[object]
            let category = name?.kind.rawValue ?? "other"
            head(phase, record, first.map { "\($0),\(category)" } ?? category, name?.text ?? "#\(object)")
        }

        private func open(
            _ record: Record, _ kind: Record.Kind, _ category: String, _ name: String,
            _ body: (inout Arguments) -> Void = { _ in }
        ) {
            nestings[record.thread, default: Nesting()].begin(kind)
            head("B", record, category, name)
            arguments(body)
        }

        @discardableResult
        private func close(_ record: Record, _ kind: Record.Kind, _ body: (inout Arguments) -> Void) -> Bool {
            let count = nestings[record.thread, default: Nesting()].end(kind)
            for rest in (0..<count).reversed() {
                head("E", record, "", "")
                arguments { if rest == 0 { body(&$0) } }
            }
            return count > 0
        }

        private func shared(_ record: Record, _ arguments: inout Arguments) {
            if let place = names[record.object]?.place, !place.isEmpty { arguments.add("made at", place) }
            if record.flow != 0 { arguments.add("flow", UInt64(record.flow)) }
            if record.task != 0 { arguments.add("task", UInt64(record.task)) }
        }

        /// Arrows are joined by category, name and id. "bp" "e" binds them to the enclosing slice.
        private func flow(_ phase: String, _ record: Record, _ part: String) {
            head(phase, record, "flow", "flow")
            bytes.append(contentsOf: ",\"id\":")
            bytes.append(decimal: UInt64(record.flow))
            bytes.append(contentsOf: ",\"bp\":\"e\"")
            arguments { arguments in
                arguments.add("at", part)
                if part == "out", let name = names[record.object] { arguments.add("by", name) }
            }
        }

        private func message(_ phase: String, _ record: Record, _ part: String) {
            head(phase, record, "flow", "message")
            bytes.append(contentsOf: ",\"id\":\"")
            bytes.append(hex: record.a)
            bytes.append(contentsOf: "\",\"bp\":\"e\"")
            arguments { arguments in
                arguments.add("at", part)
                if let name = names[record.object] { arguments.add("by", name) }
                if part == "arrives", record.sentAt != 0 { arguments.add("sent_us", microseconds: record.sentAt) }
            }
        }

        private func arguments(_ body: (inout Arguments) -> Void) {
            // The two are swapped so that the text always has one owner: with two owners, each addition would copy all
            // of it.
            var arguments = Arguments()
            swap(&bytes, &arguments.bytes)
            body(&arguments)
            swap(&bytes, &arguments.bytes)
            bytes.append(contentsOf: arguments.isEmpty ? "}" : "}}")
        }

        private struct Arguments {
            var bytes: [UInt8] = []
            var isEmpty = true

            mutating func add(_ key: String, _ value: UInt64) {
                begin(key)
                bytes.append(decimal: value)
            }

            mutating func add(_ key: String, microseconds nanoseconds: UInt64) {
                begin(key)
                bytes.append(microseconds: nanoseconds)
            }

            /// Adds a number as its word; adds nothing for 0.
            mutating func add(_ key: String, _ number: UInt64, in words: [String]) {
                if let word = RecordWords.word(number, of: words) {
                    add(key, word)
                } else if number > 0 {
                    add(key, number)
                }
            }

            mutating func add(_ key: String, _ value: String) {
                begin(key)
                bytes.append(quoted: value)
            }

            /// Adds the name of another object than the event's own.
            mutating func add(_ key: String, _ name: Name) {
                add(key, name.text)
                add("kind", name.kind.rawValue)
                if !name.place.isEmpty { add("made at", name.place) }
            }

            private mutating func begin(_ key: String) {
                bytes.append(contentsOf: isEmpty ? ",\"args\":{\"" : ",\"")
                isEmpty = false
                bytes.append(contentsOf: key)
                bytes.append(contentsOf: "\":")
            }
        }
    }
}
