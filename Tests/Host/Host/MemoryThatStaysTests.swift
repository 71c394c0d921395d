import Foundation
import TestSupport
import Testing

/// A script's objects leave no memory behind after it has used and dropped them.
@Suite(
    "Leaks of objects", .timed,
    .disabled(if: Binary.isUnderThreadSanitizer || Binary.isUnderAddressSanitizer, "which keeps memory"))
struct MemoryThatStaysTests {
    private static func leaks(_ arguments: [String]) throws -> Binary.Result {
        try Binary.run(
            ["scripts/leaks", "--host", Binary.path] + arguments, directory: Binary.repository,
            program: "/usr/bin/python3", name: "python3", timeout: 300)
    }

    private static let kinds = ((try? leaks(["--list"]).output) ?? "").split(separator: "\n").map(String.init)

    /// The kinds are the classes of docs/lua with methods.
    @Test("each kind of object that the reference knows has a row")
    func list() throws {
        let run = try Self.leaks(["--list"])
        #expect(run.status == 0 && Self.kinds.count > 50, "\(run)")
    }

    /// `scripts/leaks` without arguments makes more objects of each kind, and waits less in real time.
    @Test("objects of each kind leave no memory behind", .soak(seconds: 120))
    func kinds() throws {
        try #require(!Self.kinds.isEmpty)
        for seed in Soak.seeds {
            let run = try Self.leaks(["--few", "--exactly", Self.kinds[Int(seed % UInt64(Self.kinds.count))]])
            #expect(run.status == 0, "\(run)")
        }
    }

    private static let bursts: [(name: String, code: String)] = [
        ("tasks", "for i = 1, n do rl.task(function() rl.sleep(0.2) end) end"),
        ("timers", "for i = 1, n do rl.after(0.2, function() end) end"),
        ("strings", "local t = {} for i = 1, n do t[i] = ('x'):rep(1000) .. i end"),
        ("tasks of a thread", "for i = 1, n do rl.task(function() rl.sleep(0.2) end) end"),
    ]

    /// The script does not call collectgarbage. The script makes two bursts, since memory left by each would add up.
    @Test("the memory of a burst is returned to the system", arguments: bursts.indices)
    func burst(_ index: Int) throws {
        let (name, code) = Self.bursts[index]
        let script = """
            local rl = require "runloop"
            local function resident()
              for line in io.lines "/proc/self/status" do
                local size = line:match "VmRSS:%s*(%d+)"
                if size then return tonumber(size) end
              end
            end
            local function bursts()
              local rl, n = require "runloop", 20000
              for i = 1, 2 do \(code) rl.sleep(0.5) end
            end
            local before = resident()
            \(name.contains("thread") ? "rl.thread(bursts)" : "bursts()")
            -- Real time may be scarce.
            local after
            for i = 1, 100 do
              rl.sleep(0.2)
              after = resident()
              if i > 8 and after < before * 1.3 + 2000 then break end
            end
            print(before, after, after < before * 1.3 + 2000 and "good" or "bad")
            """
        let run = try Binary.run(["-e", script])
        #expect(run.output.hasSuffix("good\n"), "\(run)")
    }

    @Test("a collection in steps frees memory without other effects on a script, which may stop the collector")
    func mode() throws {
        let run = try Binary.run([
            "-e",
            """
            local rl = require "runloop"
            local function burst() local t = {} for i = 1, 200000 do t[i] = { i } end end
            -- Real time may be scarce.
            local function settle()
              for i = 1, 100 do
                rl.sleep(0.1)
                if collectgarbage "count" < 4000 then break end
              end
            end
            burst()
            rl.sleep(0.06)
            print(collectgarbage "incremental", collectgarbage "incremental")
            burst()
            settle()
            print(collectgarbage "generational", collectgarbage "generational")
            burst()
            settle()
            print(collectgarbage "generational", collectgarbage "count" < 4000)
            collectgarbage "stop"
            burst()
            rl.sleep(1)
            print(collectgarbage "isrunning", collectgarbage "count" > 8000)
            """,
        ])
        #expect(
            run.output
                == "generational\tincremental\nincremental\tgenerational\ngenerational\ttrue\nfalse\ttrue\n",
            "\(run)")
    }
}
