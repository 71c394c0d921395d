import Foundation
import TestSupport
import Testing

/// A recording in Chrome's format, with functions that tests need.
struct TraceRecording {
    struct Event {
        let phase, name, kind: String
        let thread: Int
        let time: Double
        let place: String?
        let arguments: [String: Any]
        let id: Int?
        /// In microseconds; nil unless the event is complete.
        let duration: Double?
    }

    let events: [Event]

    init(_ path: String) throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: path))
        let list = try #require(try JSONSerialization.jsonObject(with: data) as? [[String: Any]])
        events = list.map { event in
            let arguments = event["args"] as? [String: Any] ?? [:]
            return Event(
                phase: event["ph"] as? String ?? "", name: event["name"] as? String ?? "",
                kind: event["cat"] as? String ?? "", thread: event["tid"] as? Int ?? 0,
                time: (event["ts"] as? NSNumber)?.doubleValue ?? 0, place: arguments["made at"] as? String,
                arguments: arguments, id: event["id"] as? Int, duration: event["dur"] as? Double)
        }
    }

    /// Runs a script with `--trace`, and returns the recording.
    static func of(_ script: String, _ arguments: [String] = [], in directory: String) throws -> TraceRecording {
        try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
        let run = try Binary.run(arguments + ["--trace=all.json", "app.lua"], directory: directory)
        #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
        return try TraceRecording(directory + "/all.json")
    }

    /// Callbacks, by their beginning.
    func callbacks(_ kind: String, _ name: String? = nil) -> [Event] {
        events.filter { ["B", "X"].contains($0.phase) && $0.kind == kind && (name == nil || $0.name == name) }
    }

    /// The faults of the whole recording: on each thread everything that begins must end, in order, and times must not
    /// decrease.
    var faults: [String] {
        var faults: [String] = []
        var open: [Int: [String]] = [:]
        var latest: [Int: Double] = [:]
        for event in events where ["B", "E", "X"].contains(event.phase) {
            if event.time < latest[event.thread] ?? 0 { faults.append("\(event.name) goes back in time") }
            latest[event.thread] = event.time
            if event.phase == "B" { open[event.thread, default: []].append(event.name) }
            if event.phase == "E", open[event.thread]?.popLast() == nil { faults.append("an end too many") }
        }
        return faults
    }
}
