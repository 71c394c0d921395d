internal import Glibc
internal import Linux
internal import LuaRunLoops
internal import RunLoops
internal import Tracing

/// Names of objects in recordings, and writing records to a file.
enum TraceNames {
    /// The script's name, without its directory.
    static var title: String {
        guard let script = LuaHost.script ?? TracePart.settings.title else { return "rlhost" }
        return script.split(separator: "/").last.map(String.init) ?? script
    }

    static var process: Int32 { getpid() }

    static func write(_ records: [RunLoop.Recorder.Record], to writer: Recording.Writer) throws(SystemError) {
        for record in records {
            if record.object != 0, !writer.knows(record.object) {
                try writer.name(record.object, .init(label: record.object))
            }
            let wait = record.waitsIn
            if wait != 0, !writer.knows(wait) { try writer.name(wait, .init(label: wait)) }
        }
        guard !records.isEmpty else { return }
        var failure: SystemError?
        records.withUnsafeBytes { bytes in
            do throws(SystemError) { try writer.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// `timer "poll" made at app.lua:12`
    static func text(_ label: UInt32) -> String {
        let name = Recording.Name(label: label)
        return (name.text.isEmpty ? "a callback" : name.text) + (name.place.isEmpty ? "" : " made at \(name.place)")
    }

    /// Returns the error that would keep a dump from being written.
    static func failure(ofDumpTo path: String) -> SystemError? {
        do throws(SystemError) { try dump(to: path) } catch { return error }
        return nil
    }

    /// Writes the records that the recorders of all loops still hold. On any thread.
    ///
    /// - Throws: The errors of `Recording.Writer`; ENODATA if nothing is recorded; EBUSY if the current recording goes
    ///   to that file.
    static func dump(to path: String) throws(SystemError) {
        if let file = TraceFile.current, Recording.Conversion.isSameFile(path, file.path) {
            throw SystemError("trace", path, errno: EBUSY, reason: "a recording is under way, into \(path)")
        }
        try dump { about throws(SystemError) in try Recording.Writer(path: path, about: about) }
    }

    /// Writes the records by a writer that is made when there is something to write.
    static func dump(
        _ makeWriter: (Recording.About) throws(SystemError) -> Recording.Writer
    ) throws(SystemError) {
        var copies: [(number: UInt16, name: String, records: [RunLoop.Recorder.Record], lost: Int)] = []
        RunLoop.forEachRecorder { recorder, name in
            let (records, lost) = RunLoop.Recorder.copy(recorder)
            copies.append((recorder.pointee.number, name, records, lost))
        }
        guard !copies.isEmpty else {
            throw SystemError("trace", errno: ENODATA, reason: "nothing is recorded: the recorder is off")
        }
        let lost = copies.reduce(0) { $0 + $1.lost }
        let writer = try makeWriter(TraceFile.about(dropped: lost))
        for copy in copies {
            try writer.thread(copy.number, copy.name)
            try write(copy.records, to: writer)
        }
        try writer.finish()
    }
}
