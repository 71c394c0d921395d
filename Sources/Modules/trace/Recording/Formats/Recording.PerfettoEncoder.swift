internal import RunLoops

extension Recording {
    /// Perfetto's protocol buffers: a track for each loop below one for the process, slices, instants, flows. Texts are
    /// written once and then referred to by numbers. See docs/seeing.md for the meaning of the fields.
    ///
    /// Files of several processes can be concatenated: the numbers of tracks and sequences contain the process.
    final class PerfettoEncoder: Encoder {
        var bytes: [UInt8] = []
        let held = 0
        private var process: Int32 = 0
        private var names: [UInt32: Name] = [:]
        private var nestings: [UInt16: Nesting] = [:]
        private var isFirst = true

        func begin(_ about: About) {
            process = about.process
            packet { packet in
                packet.append(Perfetto.Packet.format, UInt64(Conversion.format))
                let origin = about.origin
                guard origin.identity != 0 else { return }
                packet.append(Perfetto.Packet.identity, UInt64(origin.identity))
                packet.append(Perfetto.Packet.machine, origin.machine)
                packet.append(Perfetto.Packet.host, origin.host)
                packet.append(Perfetto.Packet.zero, origin.zero)
            }
            packet { [process] packet in
                packet.append(Perfetto.Packet.trackDescriptor) { track in
                    track.append(Perfetto.Track.uuid, Perfetto.track(process))
                    track.append(Perfetto.Track.process) { descriptor in
                        descriptor.append(Perfetto.Process.pid, UInt64(max(0, process)))
                        descriptor.append(Perfetto.Process.name, about.title)
                    }
                }
            }
            packet { packet in
                packet.append(Perfetto.Packet.sequenceFlags, 1)  // Texts interned before are no longer valid.
                packet.append(Perfetto.Packet.internedData) { interned in
                    for (number, category) in Perfetto.Category.allCases.enumerated() {
                        interned.append(Perfetto.Interned.categories, UInt64(number + 1), category.rawValue)
                    }
                    for fixed in Perfetto.FixedName.allCases {
                        interned.append(Perfetto.Interned.names, fixed.rawValue, "\(fixed)")
                    }
                    for (number, annotation) in Perfetto.Annotation.allCases.enumerated() {
                        interned.append(Perfetto.Interned.annotations, UInt64(number + 1), annotation.rawValue)
                    }
                    for (number, word) in Perfetto.words.enumerated() {
                        interned.append(Perfetto.Interned.texts, UInt64(number + 1), word)
                    }
                }
            }
        }

        func name(_ number: UInt32, _ name: Name) {
            names[number] = name
            let number = UInt64(number) + Perfetto.firstName
            packet { packet in
                packet.append(Perfetto.Packet.sequenceFlags, 2)
                packet.append(Perfetto.Packet.internedData) { interned in
                    interned.append(Perfetto.Interned.names, number, name.text)
                    interned.append(Perfetto.Interned.texts, number, name.text)
                    guard !name.place.isEmpty else { return }
                    interned.append(Perfetto.Interned.places) { place in
                        place.append(Perfetto.Place.iid, number)
                        let (file, line) = Perfetto.parts(ofPlace: name.place)
                        place.append(Perfetto.Place.file, file)
                        if let line { place.append(Perfetto.Place.line, line) }
                    }
                }
            }
        }

        func thread(_ number: UInt16, _ name: String, of process: Int?) {
            let process = self.process
            describe(Perfetto.track(process, number), name, under: Perfetto.track(process))
        }

        private func describe(_ uuid: UInt64, _ name: String, under parent: UInt64) {
            packet { packet in
                packet.append(Perfetto.Packet.trackDescriptor) { track in
                    track.append(Perfetto.Track.uuid, uuid)
                    track.append(Perfetto.Track.name, name)
                    track.append(Perfetto.Track.parent, parent)
                }
            }
        }

        func records(_ records: UnsafeRawBufferPointer) {
            for offset in stride(from: 0, to: records.count, by: Record.size) { add(Record(records, at: offset)) }
        }

        func flush() {}

        func end(_ about: About, lost: Int) {
            guard about.dropped + lost > 0 else { return }
            // This is a separate instant: the format has no field for such numbers that every reader shows.
            event(Record(time: lastTime, kind: .mark), .instant, [.lost], Perfetto.FixedName.lost.rawValue) { event in
                event.annotate(.dropped, UInt64(about.dropped))
                event.annotate(.lost, UInt64(lost))
            }
        }

        private var firstTime = UInt64.max
        private var lastTime: UInt64 = 0

        private func add(_ record: Record) {
            guard let kind = Record.Kind(rawValue: record.kind) else { return }
            firstTime = min(firstTime, record.time)
            lastTime = max(lastTime, record.time)
            switch kind {
            case .begin:
                nestings[record.thread, default: Nesting()].begin(.begin)
                callback(record, .begin) { event in
                    guard record.a > 0 else { return }
                    event.annotate(.due, record.a)
                    event.annotate(.late, record.time > record.a ? record.time - record.a : 0)
                }
            case .whole:
                callback(record, .begin) { $0.annotate(.whole, record.a) }
                var end = record
                end.time = record.time &+ record.a
                event(end, .end, [], nil) { _ in }
            case .end:
                close(record, .begin) { event in
                    if record.a > 0 { event.annotate(.missed, record.a) }
                    if record.flags & Record.Flags.waits != 0 { event.annotate(.waits, 1) }
                    if self.names[record.waitsIn] != nil {
                        event.annotate(.waitsIn, text: UInt64(record.waitsIn) + Perfetto.firstName)
                    }
                    if record.flags & Record.Flags.failed != 0 { event.annotate(.failed, 1) }
                }
            case .run:
                nestings[record.thread, default: Nesting()].begin(.run)
                event(record, .begin, [.run], number(record.object)) { _ in }
            case .runEnd: close(record, .run) { $0.annotate(.result, record.a, in: RecordWords.results) }
            case .pass:
                nestings[record.thread, default: Nesting()].begin(.pass)
                event(record, .begin, [.pass], Perfetto.FixedName.pass.rawValue) { _ in }
            case .passEnd: close(record, .pass) { _ in }
            case .sleep:
                nestings[record.thread, default: Nesting()].begin(.sleep)
                event(record, .begin, [.sleep], Perfetto.FixedName.asleep.rawValue) { event in
                    if record.a > 0 { event.annotate(.until, record.a) }
                }
            case .wake:
                close(record, .sleep) { event in
                    event.annotate(.reason, record.a, in: RecordWords.wakes)
                    if self.names[record.object] != nil {
                        event.annotate(.waker, text: UInt64(record.object) + Perfetto.firstName)
                        event.append(Perfetto.Event.categories, self.category(record.object).number)
                        self.place(record, &event)
                    }
                    if record.flow != 0 {
                        event.append(Perfetto.Event.flows, fixed: Perfetto.flow(process, record.flow))
                    }
                }
            case .out, .in, .departs, .arrives, .mark, .bytes, .step, .ended, .delayed, .belongs: instant(kind, record)
            case .due: break  // Such a record never leaves the ring.
            case .opens:
                nestings[record.thread, default: Nesting()].opens(record.flow)
                opens(record)
            case .closes:
                if !nestings[record.thread, default: Nesting()].closes(record.flow) {
                    // The operation had begun before the recording.
                    var beginning = record
                    beginning.time = firstTime
                    opens(beginning)
                }
                event(record, .end, [], nil, on: Perfetto.track(process, lasting: record.flow)) {
                    self.outcome(record, &$0)
                }
            }
        }

        /// Adds the outcome of a long operation.
        private func outcome(_ record: Record, _ event: inout [UInt8]) {
            if names[record.object]?.kind == .data {
                event.annotate(.rows, record.answer.rows)
                if record.answer.waited > 0 { event.annotate(.waited, record.answer.waited) }
            } else if record.a > 0 {
                event.annotate(.status, record.a)
            }
            if record.flags & Record.Flags.failed != 0 { event.annotate(.failed, 1) }
        }

        private func instant(_ kind: Record.Kind, _ record: Record) {
            switch kind {
            case .out:
                event(record, .instant, [.send, category(record.object)], number(record.object)) { event in
                    self.place(record, &event)
                    event.append(Perfetto.Event.flows, fixed: Perfetto.flow(process, record.flow))
                }
            case .in:
                event(record, .instant, [.receive], Perfetto.FixedName.received.rawValue) { event in
                    event.append(Perfetto.Event.endingFlows, fixed: Perfetto.flow(process, record.flow))
                }
            case .departs, .arrives:
                let category = kind == .departs ? Perfetto.Category.departs : .arrives
                event(record, .instant, [category, self.category(record.object)], number(record.object)) { event in
                    self.place(record, &event)
                    event.append(Perfetto.Event.flows, fixed: record.a)
                    if kind == .arrives, record.sentAt != 0 { event.annotate(.sent, record.sentAt) }
                }
            case .mark:
                event(record, .instant, [.mark, category(record.object)], number(record.object)) {
                    self.place(record, &$0)
                }
            case .bytes:
                event(record, .instant, [.bytes, category(record.object)], number(record.object)) { event in
                    self.place(record, &event)
                    event.annotate(.bytes, record.a)
                    if record.flags & Record.Flags.out != 0 { event.annotate(.out, 1) }
                    if record.flow != 0 { event.annotate(.connection, UInt64(record.flow)) }
                }
            case .step:
                event(record, .instant, [.step], Perfetto.FixedName.step.rawValue) { $0.annotate(.step, record.a) }
            case .ended: event(record, .instant, [.ended], Perfetto.FixedName.ended.rawValue) { _ in }
            case .delayed:
                event(record, .instant, [.delayed, category(record.object)], number(record.object)) { event in
                    self.place(record, &event)
                    event.annotate(.notScheduled, record.a)
                }
            case .belongs:
                event(
                    record, .instant, [category(record.object)], number(record.object),
                    on: Perfetto.track(process, lasting: record.flow)
                ) { _ in }
            default: break
            }
        }

        private func opens(_ record: Record) {
            let track = Perfetto.track(process, lasting: record.flow)
            describe(track, names[record.object]?.text ?? "", under: Perfetto.track(process, record.thread))
            event(record, .begin, [category(record.object)], number(record.object), on: track) {
                self.place(record, &$0)
            }
        }

        // MARK: Pieces

        private func callback(_ record: Record, _ type: Perfetto.EventType, _ body: (inout [UInt8]) -> Void) {
            event(record, type, [category(record.object)], number(record.object)) { event in
                self.place(record, &event)
                if record.flow != 0 {
                    event.append(Perfetto.Event.endingFlows, fixed: Perfetto.flow(process, record.flow))
                }
                if record.task != 0 { event.annotate(.task, UInt64(record.task)) }
                body(&event)
            }
        }

        /// Returns the category of the object's kind.
        private func category(_ object: UInt32) -> Perfetto.Category {
            names[object].flatMap { Perfetto.Category(rawValue: $0.kind.rawValue) } ?? .other
        }

        private func place(_ record: Record, _ event: inout [UInt8]) {
            guard let place = names[record.object]?.place, !place.isEmpty else { return }
            event.append(Perfetto.Event.place, UInt64(record.object) + Perfetto.firstName)
        }

        /// Returns the number of the object's name. If the name is unknown, returns the number of a fixed name: readers
        /// show no name for a number without a text.
        private func number(_ object: UInt32) -> UInt64 {
            names[object] == nil ? Perfetto.FixedName.unnamed.rawValue : UInt64(object) + Perfetto.firstName
        }

        private func close(_ record: Record, _ kind: Record.Kind, _ body: (inout [UInt8]) -> Void) {
            let count = nestings[record.thread, default: Nesting()].end(kind)
            for rest in (0..<count).reversed() {
                event(record, .end, [], nil) { if rest == 0 { body(&$0) } }
            }
        }

        private func event(
            _ record: Record, _ type: Perfetto.EventType, _ categories: [Perfetto.Category], _ name: UInt64?,
            on track: UInt64? = nil, _ body: (inout [UInt8]) -> Void
        ) {
            packet { [process] packet in
                packet.append(Perfetto.Packet.timestamp, record.time)
                packet.append(Perfetto.Packet.sequenceFlags, 2)
                packet.append(Perfetto.Packet.trackEvent) { event in
                    event.append(Perfetto.Event.type, type.rawValue)
                    event.append(Perfetto.Event.track, track ?? Perfetto.track(process, record.thread))
                    for category in categories { event.append(Perfetto.Event.categories, category.number) }
                    if let name { event.append(Perfetto.Event.name, name) }
                    body(&event)
                }
            }
        }

        private func packet(_ body: (inout [UInt8]) -> Void) {
            bytes.append(Perfetto.packet) { packet in
                packet.append(Perfetto.Packet.sequence, Perfetto.sequence(process))
                body(&packet)
            }
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ field: UInt64, _ number: UInt64, _ text: String) {
        append(field) { interned in
            interned.append(1, number)
            interned.append(2, text)
        }
    }

    fileprivate mutating func annotate(_ annotation: Perfetto.Annotation, _ value: UInt64) {
        append(Perfetto.Event.annotations) { message in
            message.append(1, annotation.number)
            message.append(3, value)
        }
    }

    /// Annotates with the word that a number stands for; does nothing for 0.
    fileprivate mutating func annotate(_ annotation: Perfetto.Annotation, _ number: UInt64, in words: [String]) {
        if let word = RecordWords.word(number, of: words), let place = Perfetto.words.firstIndex(of: word) {
            annotate(annotation, text: UInt64(place + 1))
        } else if number > 0 {
            annotate(annotation, number)
        }
    }

    fileprivate mutating func annotate(_ annotation: Perfetto.Annotation, text number: UInt64) {
        append(Perfetto.Event.annotations) { message in
            message.append(1, annotation.number)
            message.append(17, number)
        }
    }
}
