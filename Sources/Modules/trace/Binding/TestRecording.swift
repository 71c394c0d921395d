public import Linux
public import LuaRunLoops
internal import RunLoops
internal import Tracing

/// The recording of one test. The recording's bytes are the same in each run, as long as the test is unchanged.
public enum TestRecording {
    /// The loop's time at which the recording began. Used on the main thread only.
    nonisolated(unsafe) private static var beginning: Int64 = 0
    /// The path and title of the recording of the current test, which are needed if the test ends the process.
    nonisolated(unsafe) private static var place: (path: String, title: String)?

    /// Begins a new recording with this state's loop, and with those of later threads.
    ///
    /// - Parameter path: Where the recording is written if the process ends in the middle of the test.
    public static func begin(_ host: LuaHost, path: String, title: String) {
        end(host)
        place = (path, title)
        WorkerProcess.setLastWords {
            guard let (path, title) = TestRecording.place else { return }
            // If writing fails, the missing file shows that to the reader of the report.
            do throws(SystemError) { try TestRecording.write(to: path, title: title) } catch {}
        }
        RunLoop.keepEnded(true)
        LuaHost.recorder = { wish in
            switch wish {
            case .begin(let host, let isNew): if isNew { host.record() }
            case .dump(let path): return TraceNames.failure(ofDumpTo: path)
            }
            return nil
        }
        host.loop.recorder.pointee.empty()
        beginning = host.loop.now.nanoseconds
        host.record()
    }

    /// Ends the recording: later events do not belong to the test.
    public static func end(_ host: LuaHost) {
        host.loop.stopRecording()
        WorkerProcess.setLastWords(nil)
        place = nil
    }

    /// Writes the recording.
    ///
    /// - Throws: The system's error.
    public static func write(to path: String, title: String) throws(SystemError) {
        var lanes: [(number: UInt16, name: String, records: [RunLoop.Recorder.Record])] = []
        RunLoop.forEachRecorder { recorder, name in
            lanes.append((recorder.pointee.number, name, RunLoop.Recorder.copy(recorder).records))
        }
        for var lane in RunLoop.ended {
            // The end of the loop gets the time of the loop's last event: the time at which the thread really ended
            // depends on the machine.
            if let last = lane.records.last { lane.records.append(.init(.ended, last.time)) }
            lanes.append(lane)
        }
        let writer = try Recording.Writer(path: path, about: .init(title: title, process: 0), followsLinks: false)
        var numbers = Numbers()
        for (index, lane) in lanes.enumerated() {
            let number = UInt16(truncatingIfNeeded: index)
            try writer.thread(number, lane.name)
            var records = lane.records
            for place in records.indices { numbers.replace(in: &records[place], number, since: beginning) }
            for (label, object) in numbers.newNames { try writer.name(object, .init(label: label)) }
            numbers.newNames = []
            try TraceNames.write(records, to: writer)
        }
        try writer.finish()
    }

    /// Numbers objects in the order in which they appear. The numbers of the process count everything since its start.
    private struct Numbers {
        private var objects: [UInt32: UInt32] = [:]
        private var flows: [UInt32: UInt32] = [:]
        private var tasks: [UInt32: UInt32] = [:]
        private var messages: [UInt64: UInt64] = [:]
        /// The names that were not written yet.
        var newNames: [(label: UInt32, object: UInt32)] = []

        private static func number(_ value: UInt32, in table: inout [UInt32: UInt32]) -> UInt32 {
            if value == 0 { return 0 }
            if let known = table[value] { return known }
            let new = UInt32(table.count + 1)
            table[value] = new
            return new
        }

        private mutating func object(_ label: UInt32) -> UInt32 {
            let before = objects.count
            let object = Self.number(label, in: &objects)
            if objects.count > before { newNames.append((label, object)) }
            return object
        }

        mutating func replace(in record: inout RunLoop.Recorder.Record, _ thread: UInt16, since beginning: Int64) {
            let wait = record.waitsIn
            record.object = object(record.object)
            let kind = RunLoop.Recorder.Kind(rawValue: record.kind)
            let start = UInt64(max(0, beginning))
            if kind == .departs || kind == .arrives {
                record.sentAt -= min(record.sentAt, start)
                if messages[record.a] == nil { messages[record.a] = UInt64(messages.count + 1) }
                record.a = messages[record.a] ?? 0
                record.thread = thread
                return record.time -= min(record.time, start)
            }
            record.flow = wait != 0 ? object(wait) : Self.number(record.flow, in: &flows)
            record.task = Self.number(record.task, in: &tasks)
            record.thread = thread
            record.time -= min(record.time, start)
            switch kind {
            case .begin, .sleep: record.a -= min(record.a, start)
            default: break
            }
        }
    }
}
