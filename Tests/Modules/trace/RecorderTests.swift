import Foundation
import TestSupport
import Testing

/// The events that `rlhost` records of a script, and when it records them.
@Suite(.timed) struct RecorderTests {
    @Test("callbacks are recorded with their kinds, names and places") func callbacksAreRecordedWith() throws {
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(
                """
                local rl = require "runloop"
                rl.timer { name = "poll", delay = 0.01, callback = function() end, modes = { "default" } }
                rl.after(0.02, function() rl.perform(function() end) end)
                local source source = rl.source { name = "commands", perform = function() source:invalidate() end }
                rl.current():add(source)
                rl.after(0.03, function() source:signal() end)
                rl.observe("before_waiting", function() end)
                rl.task(function() rl.sleep(0.01) end)
                """, in: directory)
            #expect(recording.faults.isEmpty)
            let poll = try #require(recording.callbacks("timer", "timer \"poll\"").first)
            #expect(poll.place == "app.lua:2" && recording.callbacks("timer").count == 3)
            #expect(recording.callbacks("request", "request").first?.place == "app.lua:3")
            #expect(recording.callbacks("source", "source \"commands\"").first?.place == "app.lua:4")
            #expect(recording.callbacks("observer").allSatisfy { $0.place == "app.lua:7" })
            let pieces = recording.callbacks("task", "task")
            #expect(pieces.count == 2 && pieces.allSatisfy { $0.place == "app.lua:8" })
            #expect(Set(pieces.compactMap { $0.arguments["task"] as? Int }).count == 1, "its pieces are joined")
            #expect(recording.events.contains { $0.kind == "run" && $0.name == "default" })
            #expect(recording.events.contains { $0.kind == "sleep" } && recording.events.contains { $0.kind == "pass" })
        }
    }

    @Test("a send and the callback that it causes have one number, across threads too") func aSendAndWhat() throws {
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(
                """
                local rl = require "runloop"
                local main = rl.current()
                local port
                port = rl.port { name = "inbox", callback = function() port:invalidate() end, modes = { "default" } }
                rl.thread(function(main, port)
                  local rl = require "runloop"
                  rl.sleep(0.02)
                  main:perform(function() end)
                  main:perform { function() end, wait = true }
                  rl.sleep(0.02)
                  port:send { data = 1 }
                end, main, port)
                """, in: directory)
            #expect(recording.faults.isEmpty)
            let sent = recording.events.filter { $0.phase == "s" && $0.thread == 1 }.compactMap(\.id)
            let arrived = recording.events.filter { ["f", "t"].contains($0.phase) && $0.thread == 0 }.compactMap(\.id)
            #expect(sent.count >= 2 && Set(sent).isSubset(of: arrived), "\(sent) arrive as \(arrived)")
            // A request has the place where it was made, although another thread made it.
            let requests = recording.callbacks("request", "request").filter { $0.thread == 0 }
            for line in [8, 9] { #expect(requests.contains { $0.place == "app.lua:\(line)" }, "\(requests)") }
            #expect(recording.events.contains { $0.phase == "M" && $0.arguments["name"] as? String == "thread 1" })
        }
    }

    @Test("processes are joined by message ports") func processesAreJoinedBy() throws {
        try Binary.withDirectory { directory in
            let name = "recorder-tests.\(getpid())"
            let server = """
                local rl = require "runloop"
                local port
                port = rl.message_port { name = "\(name)", callback = function() rl.after(0.01, function() port:invalidate() end) return "" end }
                rl.current():add(port)
                """
            let client = """
                local rl = require "runloop"
                local port repeat rl.sleep(0.02) port = rl.remote_port("\(name)") until port
                assert(port:request(7, "hello"))
                """
            try server.write(toFile: directory + "/server.lua", atomically: true, encoding: .utf8)
            try client.write(toFile: directory + "/client.lua", atomically: true, encoding: .utf8)
            let run = try Binary.shell(
                """
                $RLHOST --trace=s.pftrace server.lua & $RLHOST --trace=c.pftrace client.lua && wait
                for one in s c; do $RLHOST trace $one.pftrace -o $one.json; done
                $RLHOST trace c.pftrace s.pftrace -o both.json && $RLHOST trace c.pftrace s.pftrace -o both.html
                """, directory: directory)
            #expect(run.status == 0 && run.errors.isEmpty, "\(run)")
            let sender = try TraceRecording(directory + "/c.json")
            let sent = sender.events.filter { $0.phase == "s" }.compactMap(\.id)
            let arrived = try TraceRecording(directory + "/s.json").events.filter { ["f", "t"].contains($0.phase) }
                .compactMap(\.id)
            #expect(!Set(sent).isDisjoint(with: arrived), "\(sent) arrive as \(arrived)")
            #expect(
                sender.events.contains { $0.name == "process_name" && $0.arguments["name"] as? String == "client.lua" })
            // When the two recordings are one, the arrow leads from one process to the other. Arrows within a process
            // do not leave the process.
            let both = try TraceRecording(directory + "/both.json").events
            let tails = both.filter { $0.phase == "s" }
            let arrows = both.filter { $0.phase == "f" }.compactMap { head in
                tails.first { $0.id == head.id }.map { (from: $0.thread, to: head.thread, id: head.id ?? 0) }
            }
            #expect(arrows.contains { $0.from == 0 && $0.to == 1 }, "\(arrows)")
            #expect(arrows.allSatisfy { $0.from == $0.to || $0.id >> 31 == 1 }, "\(arrows)")
            #expect(try String(contentsOfFile: directory + "/both.html", encoding: .utf8).count > 40_000)
        }
    }

    @Test("connections, programs and requests are lasting items with their results") func whatLasts() throws {
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(
                """
                local rl = require "runloop"
                local http = require "runloop.http"
                local net = require "runloop.net"
                local server = assert(http.serve("127.0.0.1:0", { name = "web" }, function(request)
                  if request.path == "/bad" then return 503 end
                  return "hello"
                end))
                rl.task(function()
                  local stream = assert(net.connect(server:address()))
                  stream:write "GET /good?secret=1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
                  assert(stream:read_until "hello")
                  stream:write "GET /bad HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
                  assert(stream:read(1000))
                  stream:close()
                  require "runloop.process".run { "sh", "-c", "exit 3" }
                  server:stop(1)
                end)
                """, in: directory)
            #expect(recording.faults.isEmpty)
            func lasting(_ kind: String, _ name: String) -> TraceRecording.Event? {
                let begins = recording.events.filter { $0.phase == "b" && $0.kind == kind && $0.name == name }
                let ends = recording.events.filter { $0.phase == "e" && $0.kind == kind && $0.name == name }
                #expect(begins.count == 1 && ends.map(\.id) == begins.map(\.id), "\(kind) \(name)")
                return ends.first
            }
            #expect(lasting("http", "GET /good")?.arguments["status"] as? Int == 200)
            let bad = lasting("http", "GET /bad")
            #expect(bad?.arguments["status"] as? Int == 503 && bad?.arguments["failed"] as? Int == 1)
            #expect(lasting("program", "program \"sh\"")?.arguments["status"] as? Int == 3)
            let connection = try #require(lasting("stream", "connection of listener \"web\""))
            #expect(connection.place == "app.lua:4" && connection.arguments["failed"] == nil)
            let own = try #require(
                recording.events.first { $0.phase == "b" && $0.name.hasPrefix("connection to 127.0.0.1:") })
            #expect(own.place == "app.lua:9")
            let bytes = recording.events.filter { $0.kind == "bytes,stream" }
            func count(_ id: Int?, _ out: Int?) -> Int {
                bytes.filter { $0.arguments["connection"] as? Int == id && $0.arguments["out"] as? Int == out }
                    .reduce(0) { $0 + ($1.arguments["bytes"] as? Int ?? 0) }
            }
            #expect(count(own.id, 1) == 70 && count(connection.id, nil) == 70)
            #expect(count(own.id, nil) == count(connection.id, 1))
            #expect(!recording.events.contains { $0.name.contains("secret") })
        }
    }

    @Test("a server's connections are named by its actual address, not by the requested one")
    func connectionsOfServers() throws {
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(
                """
                local rl = require "runloop"
                local net = require "runloop.net"
                local server = assert(net.listener { host = "localhost", port = 0, on_data = function(s) s:close() end })
                rl.current():add(server)
                rl.task(function()
                  local stream = assert(net.connect(server:address()))
                  stream:write "x"
                  stream:read_all()
                  stream:close()
                  rl.trace.mark("port " .. server:port())
                  server:close()
                end)
                """, in: directory)
            let mark = try #require(recording.events.first { $0.name.hasPrefix("port ") })
            let port = mark.name.dropFirst(5)
            let names = recording.events.map(\.name).filter { $0.hasPrefix("connection at ") }
            #expect(!names.isEmpty && names.allSatisfy { $0.hasSuffix(":\(port)") }, "\(names), \(port)")
        }
    }

    @Test("a wake-up has the thread that caused it") func whoWakes() throws {
        try Binary.withDirectory { directory in
            let recording = try TraceRecording.of(
                """
                local rl = require "runloop"
                local main = rl.current()
                rl.after(0.5, function() end)
                rl.thread { function(main)
                  local rl = require "runloop"
                  rl.sleep(0.05)
                  main:wake_up()
                  rl.sleep(0.05)
                  main:perform(function() end)
                  rl.sleep(0.05)
                  main:stop()
                end, main, name = "worker-2" }
                """, in: directory)
            let wakers = recording.events.compactMap { $0.arguments["woken by"] as? String }
            for call in ["wake_up", "perform", "stop"] {
                #expect(wakers.contains("thread worker-2 · \(call)"), "\(wakers)")
            }
        }
    }

    @Test("-W reports callbacks that hold the loop") func wTellsOfCallbacks() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                rl.timer { name = "slow", delay = 0.01, modes = { "default" }, callback = function()
                  rl.after(0.1, function() end)
                  local late = rl.now() + 0.2
                  repeat until rl.now() > late
                end }
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["-W", "app.lua"], directory: directory)
            let warning =
                /rlhost: warning: timer "slow" made at app\.lua:2 held the loop for \d+ ms.*; 1 timer was late\n/
            #expect(run.errors.wholeMatch(of: warning) != nil, "\(run)")
            #expect(try Binary.run(["-W", "--slow=60", "app.lua"], directory: directory).errors.isEmpty)
            #expect(try Binary.run(["app.lua"], directory: directory).errors.isEmpty)
        }
    }

    @Test("-W reports each callback that holds the loop once, but none in which the loop runs") func tellsOnce()
        throws
    {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                local function compute(seconds) local done = rl.now() + seconds repeat until rl.now() > done end
                rl.task(function() compute(0.5) end)
                rl.after(0.01, function()
                  rl.task(function() compute(0.2) end)
                  rl.task(function() compute(0.2) end)
                end)
                rl.after(0.02, function() rl.trace.span("part", compute, 0.5) end)
                rl.after(0.03, function() rl.current():run { mode = "default", timeout = 1 } end)
                rl.after(3, function() end)
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["-W", "--slow=0.35", "app.lua"], directory: directory)
            let places = run.errors.matches(of: /warning: (.*) held the loop/).map { String($0.1) }
            #expect(
                places == ["task made at app.lua:3", "timer made at app.lua:4", "timer made at app.lua:8"], "\(run)")
        }
    }

    @Test("a recording reaches until shortly before the process was killed") func killed() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                rl.trace.mark "begun"
                if ... then
                  local function again() local done = rl.now() + 0.02 repeat until rl.now() > done rl.after(0, again) end
                  again()
                else
                  rl.after(0.05, function() rl.trace.mark "at last" end)
                  rl.after(1000, function() end)
                end
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            // The first program sleeps for good, and the second never sleeps. After their first records, neither
            // program writes further ones by itself.
            for (arguments, mark) in [("", "at last"), ("busy", "begun")] {
                let run = try Binary.shell(
                    """
                    rm -f all.json  # the other one's has the same words
                    $RLHOST --trace=all.json app.lua \(arguments) & process=$!
                    for n in $(seq 1200); do grep -q '\(mark)' all.json && break; sleep 0.05; done
                    kill -KILL $process
                    $RLHOST trace all.json -o page.html && grep -o '\(mark)' all.json
                    """, directory: directory)
                #expect(run.output == mark + "\n", "\(run)")
            }
        }
    }

    @Test("SIGUSR2 writes the last moments, unless the script handles it") func sigusr2HasTheLast() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                rl.every(0.01, function() end)
                if ... then require "runloop.process".on_signal("USR2", function() print "mine" end) end
                rl.after(1.3, function() os.execute "kill -USR2 $PPID" end)
                rl.after(1.6, function() os.exit(0, true) end)
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["app.lua"], directory: directory)
            let said = run.errors.wholeMatch(of: /rlhost: the last moments are in (.*\/app-\d+\.html)\n/)
            let path = String(try #require(said, "\(run)").1)
            let page = try String(contentsOfFile: path, encoding: .utf8)
            #expect(page.hasPrefix("<!doctype html>") && page.contains("text/x-rlhost") && run.status == 0)
            let own = try Binary.run(["app.lua", "own"], directory: directory)
            #expect(own.output == "mine\n" && own.errors.isEmpty && own.status == 0, "\(own)")
        }
    }

    @Test("an unhandled error leaves its last moments, and a slow callback too") func anErrorThatNobody()
        throws
    {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                rl.trace.mark "here"
                rl.after(0.01, function() local late = os.clock() + 0.1 repeat until os.clock() > late end)
                rl.after(0.15, function() error "no" end)
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(
                ["--trace-on-error=moments", "--trace-slow=0.05", "app.lua"], directory: directory)
            #expect(run.status == 1)
            let files = try FileManager.default.contentsOfDirectory(atPath: directory + "/moments").sorted()
            // On a busy machine another callback may be slow as well.
            #expect(files.count { $0.hasSuffix("-error.html") } == 1, "\(files)")
            #expect(files.count { $0.hasSuffix("-slow.html") } == 1, "\(files)")
            #expect(run.errors.contains("rlhost: the last moments are in "))
            let early = try Binary.run(["--trace-on-error=early", "-e", "error 'at once'"], directory: directory)
            #expect(early.errors.contains("rlhost: the last moments are in "), "\(early)")
        }
    }

    @Test("an error at the very start leaves its last moments as well") func ofAProgramThatHasHardlyBegun() throws {
        try Binary.withDirectory { directory in
            let run = try Binary.run(
                ["--trace-on-error=moments", "-e", "rl.after(0, function() error 'no' end)"], directory: directory)
            let files = try FileManager.default.contentsOfDirectory(atPath: directory + "/moments")
            #expect(
                files.count == 1 && run.status == 1 && run.errors.contains("rlhost: the last moments are in "), "\(run)"
            )
        }
    }

    @Test("wrong options of recording have status 64, and the error names the valid form") func wrongOptionsSayWhat()
        throws
    {
        for (option, message) in [
            ("--trace=x.txt", "a recording's file ends in .html, .pftrace or .json, not as 'x.txt'"),
            ("--trace-limit=3", "needs a size, 1M or more, such as 64M or 2G, not '3'"),
            ("--trace-slow=-1", "needs a number of seconds, more than 0, not '-1'"),
            ("--slow=x", "needs a number of seconds, more than 0, not 'x'"),
            ("--trace-on-error=", "needs a directory"),
            ("--tracing=x.html", "unknown option '--tracing=x.html'"),
        ] {
            let run = try Binary.run([option, "-e", "print(1)"])
            #expect(run.status == 64 && run.errors.contains(message) && run.output.isEmpty, "\(run)")
        }
        let run = try Binary.run(["--trace=/nonexistent/x.html", "-e", "print(1)"])
        #expect(run.status == 1 && run.errors.contains("/nonexistent/x.html") && run.output.isEmpty, "\(run)")
    }

    @Test("rl.trace records spans and marks, from start to stop") func rlTraceRecordsSpans() throws {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                assert(rl.trace.stop() == nil)
                assert(rl.trace.start("part.json", { limit = 1 << 20 }))
                assert(select(3, rl.trace.start "other.json") == "EBUSY")
                assert(select("#", rl.trace.span("both", function(...) rl.sleep(0.01) return ... end, nil, nil)) == 2)
                assert(not pcall(rl.trace.span, "fails", error, "x"))
                rl.trace.mark("here", 1, nil)
                assert(select(3, rl.trace.dump "./part.json") == "EBUSY")
                assert(rl.trace.stop() == "part.json")
                rl.trace.mark "later"
                assert(rl.trace.dump "moments.json")
                assert(select(3, rl.trace.dump "/nonexistent/moments.json") == "ENOENT")
                for _, fn in ipairs { rl.trace.dump, rl.trace.start } do
                  for _, path in ipairs { "x.txt", 1, {}, "x\\0.html" } do
                    local ok, message = pcall(fn, path)
                    assert(not ok and message:find "must be the path of a file: a recording's file ends in", message)
                  end
                end
                assert(select(2, pcall(rl.trace.mark)):find "rl.trace.mark: argument #1 must be a name, got no value" or true)
                assert(select(2, pcall(rl.trace.span, "x")):find "rl.trace.span: argument #2 must be a function, got nothing")
                assert(select(2, pcall(rl.trace.start, "x.html", { limit = 5 })):find "field 'limit' must be a number of bytes")
                """
            try script.write(toFile: directory + "/app.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["app.lua"], directory: directory)
            #expect(run.status == 0, "\(run)")
            let part = try TraceRecording(directory + "/part.json")
            let spans = part.callbacks("span", "both")
            #expect(spans.count == 2 && spans.allSatisfy { $0.place == "app.lua:5" }, "in two pieces, around its wait")
            #expect(part.callbacks("span", "fails").count == 1)
            #expect(part.events.contains { $0.phase == "i" && $0.name == "here 1 nil" && $0.place == "app.lua:7" })
            #expect(!part.events.contains { $0.name == "later" })
            #expect(try TraceRecording(directory + "/moments.json").events.contains { $0.name == "later" })
            let off = try Binary.run(["--no-recorder", "-e", "print(rl.trace.dump 'x.html')"], directory: directory)
            #expect(off.output.contains("ENODATA"), "\(off)")
        }
    }
}
