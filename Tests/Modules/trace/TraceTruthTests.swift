import Foundation
import TestSupport
import Testing

/// A recording and its summary attribute delays to the right callback, and reveal no secret.
@Suite("Accuracy of recordings", .timed)
struct TraceTruthTests {
    @Test("a program's arguments are recorded only if the option is set")
    func arguments() throws {
        let script = """
            local process = require "runloop.process"
            process.run { "sh", "-c", "cat; true SECRET", input = "x" }
            process.shell "true SECRET"
            process.run { "true", "SECRET", name = "named" }
            local program = process.start { "sh", "-c", "echo SECRET", on_output = function() end }
            program:wait()
            """
        try Binary.withDirectory { directory in
            for ending in ["json", "pftrace"] {
                try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
                let path = directory + "/all.\(ending)"
                func recorded(_ options: [String]) throws -> String {
                    let run = try Binary.run(options + ["--trace=\(path)", "app.lua"], directory: directory)
                    #expect(run.status == 0, "\(run)")
                    return String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
                }
                let text = try recorded([])
                #expect(!text.contains("SECRET") && text.contains("named") && text.contains("/bin/sh"))
                #expect(try recorded(["--trace-arguments"]).contains("true SECRET"))
            }
        }
    }

    @Test("the end of a thread's loop is recorded after all of its callbacks")
    func ends() throws {
        let script = """
            local rl = require "runloop"
            local thread = rl.thread { function() require "runloop".sleep(0.05) end, name = "short" }
            rl.sleep(0.2)
            thread:join()
            """
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(script, in: directory)
            let end = try #require(recording.events.first { $0.kind == "ended" && $0.thread != 0 })
            #expect(recording.events.last { $0.thread == end.thread }?.kind == "ended")
        }
    }

    /// The program runs on one processor, which other programs keep busy.
    @Test(
        "a callback is not blamed for time in which its thread waited for a processor",
        .enabled(if: Delays.areCounted))
    func delays() throws {
        let script = """
            local rl = require "runloop"
            local function compute() local sum = 0 for i = 1, 1e6 do sum = sum + i end end
            local timer
            local count = 0
            timer = rl.every(0.01, function()
              compute()
              count = count + 1
              if count == 20 then timer:invalidate() end
            end)
            """
        try Binary.withDirectory { directory in
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.shell(
                """
                for i in 1 2 3; do taskset -c 0 sh -c 'while :; do :; done' & spinners="$spinners $!"; done
                taskset -c 0 nice -n 5 $RLHOST -W --slow=0.02 --trace=all.json app.lua
                kill $spinners
                """, directory: directory)
            let told = /timer made at app\.lua:5 held the loop for [\d.]+ m?s, but was not scheduled for [\d.]+ m?s/
            #expect(run.errors.contains(told), "\(run)")
            let recording = try TraceRecording(directory + "/all.json")
            #expect(recording.events.contains { $0.kind == "delayed,timer" && $0.arguments["not_scheduled_us"] != nil })
        }
    }

    @Test("each request is recorded with the pattern of its route as name")
    func routes() throws {
        let script = """
            local http = require "runloop.http"
            local routes = http.routes():get("/item/:id", function(request) return request.params.id end)
            routes:get("/slow/:id", function(request) require("runloop").sleep(0.001) return request.params.id end)
            local server = assert(http.serve({ host = "127.0.0.1", port = 0 }, routes))
            for i = 1, 20 do assert(http.get("http://" .. tostring(server:address()) .. "/item/" .. i).body == tostring(i)) end
            for i = 1, 5 do assert(http.get("http://" .. tostring(server:address()) .. "/slow/" .. i).body == tostring(i)) end
            server:close()
            """
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(script, in: directory)
            #expect(recording.events.count { $0.phase == "n" && $0.name == "GET /item/:id" } == 20)
            #expect(recording.events.count { $0.phase == "n" && $0.name == "GET /slow/:id" } == 5)
        }
    }
}

private enum Delays {
    static let areCounted = FileManager.default.fileExists(atPath: "/proc/thread-self/schedstat")
}
