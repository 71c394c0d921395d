import TestSupport
import Testing

/// Recordings name what each task waits for.
@Suite(.timed) struct TraceWaitTests {
    @Test("a section of a task that ends with a wait names the call, in each form") func waits() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                local net = require "runloop.net"
                local a, b = net.memory()
                rl.task(function() a:read(1) end)
                rl.after(0.01, function()
                  rl.trace.span("part", rl.sleep, 0.01)
                  b:write "x"
                end)
                rl.task(function()
                  rl.first_of(function() rl.sleep(0.01) end, function() rl.sleep(1) end)
                  rl.task(rl.sleep, 0.01):await()
                end)
                """
            let recording = try TraceRecording.of(script, in: directory)
            #expect(recording.faults.isEmpty)
            /// The wait at the end of each piece: its kind, and the line where the object was made.
            func ends(_ events: [TraceRecording.Event]) -> Set<String> {
                var open: [TraceRecording.Event] = []
                var ends: Set<String> = []
                for event in events where event.thread == 0 {
                    if event.phase == "B" { open.append(event) }
                    guard event.phase == "E", let begun = open.popLast() else { continue }
                    let (waits, wait) = (event.arguments["waits"], event.arguments["waits_in"] as? String)
                    #expect((waits == nil) == (wait == nil), "\(event)")
                    guard let wait else { continue }
                    let line = begun.place?.split(separator: ":").last
                    ends.insert("\(begun.name) \(line ?? "") \(wait)")
                }
                return ends
            }
            let found = ends(recording.events)
            for wanted in [
                "task 4 stream:read", "timer 5 rl.sleep", "part 6 rl.sleep", "task 9 rl.first_of",
                "task 9 task:await",
            ] { #expect(found.contains(wanted), "\(found.sorted())") }
            let run = try Binary.shell(
                "$RLHOST --trace=all.pftrace app.lua && $RLHOST trace all.pftrace -o again.json", directory: directory)
            #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
            #expect(try ends(TraceRecording(directory + "/again.json").events) == found)
        }
    }
}
