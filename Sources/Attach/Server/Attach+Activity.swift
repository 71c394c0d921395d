internal import Linux
internal import RunLoops
internal import Tracing

extension Attach {
    /// The largest number of reported places of a loop; the busiest come first.
    private static let mostPlaces = 40

    /// Returns the activity of this process's loops during the last `nanoseconds`, as JSON. Reads the loops' recorders,
    /// so the loops need not turn. On any thread; O(records).
    static func activity(_ nanoseconds: UInt64) -> [UInt8] {
        var text: [UInt8] = []
        text.append(contentsOf: "{\"loops\":[".utf8)
        RunLoop.forEachRecorder { recorder, name in
            if text.last != UInt8(ascii: "[") { text.append(UInt8(ascii: ",")) }
            let (records, lost) = RunLoop.Recorder.copy(recorder)
            let now = UInt64(max(0, RunLoop.Instant.now.nanoseconds))
            // Whether the loop was active before recording began is unknown, so that time is left out.
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
