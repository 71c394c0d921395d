internal import Linux
internal import RunLoops
internal import Tracing

extension Attach {
    /// The largest number of creation sites that are reported for a loop, the busiest ones first.
    private static let mostPlaces = 40

    /// Returns the activity of this process's loops during the last `nanoseconds`, as JSON. Reads the loops' recorders,
    /// so it works even if a loop is busy. On any thread; O(records).
    static func activity(_ nanoseconds: UInt64) -> [UInt8] {
        var text: [UInt8] = []
        text.append(contentsOf: "{\"loops\":[".utf8)
        RunLoop.forEachRecorder { recorder, name in
            if text.last != UInt8(ascii: "[") { text.append(UInt8(ascii: ",")) }
            let (records, lost) = RunLoop.Recorder.copy(recorder)
            let now = UInt64(max(0, RunLoop.Instant.now.nanoseconds))
            // Leave out the time before recording began: the loop's activity in that time is unknown.
            let start = max(now - min(now, nanoseconds), UInt64(max(0, recorder.pointee.recordsSince)))
            let activity = records.withUnsafeBytes {
                Recording.Activity($0, dropped: lost > 0, from: start, to: now)
            }
            activity.append(
                to: &text, loop: name.shownInLine, number: recorder.pointee.number, places: mostPlaces,
                name: Recording.Name.init(label:))
        }
        text.append(contentsOf: "]}".utf8)
        return text
    }
}
