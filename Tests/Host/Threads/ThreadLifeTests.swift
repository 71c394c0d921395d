import Foundation
import LuaRunLoops
import RunLoops
import TestSupport
import Testing

@Suite("How long threads live", .timed)
struct ThreadLifeTests {
    private static func run(_ script: String) throws -> Binary.Result {
        try Binary.run(["-"], input: "local rl = require 'runloop' " + script, timeout: 30)
    }

    @Test("after its function a thread's loop runs until nothing is left; `join` returns the function's results")
    func loop() throws {
        let run = try Self.run(
            """
            local t = rl.thread(function()
              rl.after(0.02, function() print "timer" end)
              rl.task(function() rl.sleep(0.04) print "task" end)
              return "result", 2
            end)
            print(t:join())
            """)
        #expect(run.output == "timer\ntask\ntrue\tresult\t2\n" && run.status == 0, "\(run)")
    }

    @Test("the program ends when all threads have ended, except those that keep no program alive")
    func end() throws {
        let run = try Self.run(
            """
            rl.thread(function() rl.sleep(0.05) print "thread" end)
            rl.thread { function() rl.sleep(60) end, keeps_alive = false }
            print "main"
            """)
        #expect(run.output == "main\nthread\n" && run.status == 0 && run.seconds < 20, "\(run)")
    }

    @Test("`loop:stop()` and `cancel` end a thread sooner")
    func sooner() throws {
        let run = try Self.run(
            """
            local t = rl.thread(function() rl.every(1, print) return "stopped" end)
            rl.sleep(0.1) t:loop():stop() print(t:join())
            local t = rl.thread(function() rl.every(1, print) return "cancelled" end)
            rl.sleep(0.1) t:cancel() print(t:join())
            """)
        #expect(run.output == "true\tstopped\ntrue\tcancelled\n", "\(run)")
    }

    @Test("a thread ends when its function stops the loop after a wait, or when the loop is stopped in the wait")
    func stopAfterWait() throws {
        let run = try Self.run(
            """
            local function serving(stop)
              local rl = require "runloop"
              rl.every(1, print)
              stop(rl)
              rl.sleep(0.02)
              return "stopped"
            end
            local function at_the_end(rl) rl.sleep(0.01) rl.stop() end
            local function meanwhile(rl) rl.after(0.01, function() rl.stop() end) end
            for _, stop in ipairs { at_the_end, meanwhile } do print(rl.thread(serving, stop):join(20)) end
            print(rl.thread(function() local rl = require "runloop" rl.every(1, print) rl.sleep(0.01) rl.stop() \
            return "at once" end):join(20))
            """)
        #expect(run.output == "true\tstopped\ntrue\tstopped\ntrue\tat once\n", "\(run)")
    }

    @Test("sources and ports end with their thread, even if they are in no mode")
    func items() throws {
        let run = try Self.run(
            """
            local t = rl.thread(function()
              local rl = require "runloop"
              return rl.port { capacity = 1, callback = print }, rl.source { perform = print }
            end)
            local _, port, source = t:join()
            print(port:is_valid(), source:is_valid(), source:post(1))
            print(port:send { data = 1 })
            """)
        #expect(run.output == "false\tfalse\tfalse\nnil\tinvalid\n" && run.status == 0, "\(run)")
    }

    @Test("`cancel` reaches a busy thread, where code may clean up, but not go on in a loop for ever")
    func busy() throws {
        let run = try Self.run(
            Binary.interruptible(
                """
                local function cancelled(t) rl.sleep(0.2) t:cancel() return t:join() end
                print(cancelled(rl.thread(function() while true do end end)))
                print(cancelled(rl.thread(function()
                  local rl = require "runloop"
                  local _, err = pcall(function() while true do end end)
                  return rl.is_cancelled(err)
                end)))
                print(cancelled(rl.thread(function() while true do pcall(function() while true do end end) end end)))
                """))
        #expect(run.output == "false\tcancelled\ntrue\ttrue\nfalse\tcancelled\n" && run.status == 0, "\(run)")
    }

    @Test("cancelling a thread while one of its callbacks waits is not an error")
    func cancelledCallback() throws {
        let run = try Self.run(
            """
            local t = rl.thread(function() rl.after(0, function() rl.sleep(10) end) rl.sleep(100) end)
            rl.sleep(0.05)
            t:cancel()
            print("join", t:join())
            """)
        #expect(run.output == "join\tfalse\tcancelled\n" && run.errors == "" && run.status == 0, "\(run)")
    }

    @Test("an error that nobody joins is reported, with the place where the thread was made", arguments: ["", "T = "])
    func unjoined(keeping: String) throws {
        let run = try Self.run("\(keeping)rl.thread { function() error 'lost' end, name = 'worker' }")
        #expect(run.status == 1 && run.errors.contains("lost"), "\(run)")
        #expect(run.errors.contains("in thread \"worker\" made at stdin:1"), "\(run)")
        let handled = try Self.run(
            "rl.on_error(function(err) print((err:match 'lost')) end) \(keeping)rl.thread(function() error 'lost' end)")
        #expect(handled.output == "lost\n" && handled.status == 0 && handled.errors == "", "\(handled)")
    }

    @Test("rl.on_error gets each thread's error value, with the place")
    func values() throws {
        let run = try Self.run(
            """
            local told = {}
            rl.on_error(function(err, info)
              told[#told + 1] = ("%s %s %s"):format(type(err), type(err) == "table" and err.code or err, info.where)
              assert(info.traceback:find "stack traceback:")
            end)
            rl.thread { function() error { code = 5 } end, name = "w" }
            rl.thread { function() require "runloop".sleep(0.05) error("plain", 0) end, name = "x" }
            rl.thread { function() require "runloop".sleep(0.1) error { code = 6, a = { b = { coroutine.create(print) } } } end, name = "y" }
            rl.thread { function()
              require "runloop".after(0, function() error { code = 7 } end)
              require "runloop".sleep(0.02)
            end, name = "z" }
            rl.thread { function()
              require "runloop".thread { function() require "runloop".sleep(0.2) error("deep", 0) end, name = "inner" }
            end, name = "outer" }
            rl.after(0.5, function() table.sort(told) print(table.concat(told, "\\n")) end)
            """)
        #expect(
            run.output.split(separator: "\n").map(String.init) == [
                "string deep thread \"inner\" made at stdin:14", "string plain thread \"x\" made at stdin:7",
                "string { a = { b = {…} }, code = 6 } thread \"y\" made at stdin:8",
                "table 5 thread \"w\" made at stdin:6", "table 7 timer made at stdin:10 in thread \"z\"",
            ] && run.errors == "" && run.status == 0, "\(run)")
    }

    @Test("a thread that does not stop on request is named, and the program ends nevertheless")
    func hung() throws {
        let run = try Self.run(
            "rl.thread { function() os.execute 'sleep 6' end, keeps_alive = false, name = 'deaf' } rl.sleep(0.1)")
        #expect(run.status == 1 && run.errors == "rlhost: these threads did not stop within 2 s: deaf\n", "\(run)")
    }

    // MARK: Functions that block

    @Test("a blocking function runs on a thread of a pool while the loop goes on")
    func blocking() throws {
        let run = try Self.run(
            """
            local ticks = 0
            local timer = rl.every(0.01, function() ticks = ticks + 1 end)
            print(rl.blocking(function(a, b) os.execute "sleep 0.3" return a + b, "second" end, 1, 2))
            print(ticks > 5, rl.blocking(function(...) return select("#", ...), nil, nil end, 1, nil, nil))
            timer:invalidate()
            print(pcall(rl.blocking, function() error({ code = 7 }) end))
            local pool <close> = rl.pool { threads = 2, name = "p" }
            print(table.concat(pool:map({ 3, 1, 2 }, function(n, i) return n * 10 + i end), " "))
            print((tostring(pool):gsub(", made.*", "")))
            print(pcall(pool.map, pool, { 1, 2, 3 }, function(n) if n == 2 then error("two", 0) end end))
            """)
        let lines = run.output.split(separator: "\n").map(String.init)
        #expect(lines.count == 6 && run.status == 0, "\(run)")
        guard lines.count == 6 else { return }
        #expect(Array(lines[0...1]) == ["3\tsecond", "true\t3\tnil\tnil"], "\(run)")
        #expect(lines[2].hasPrefix("false\ttable"), "\(run)")
        #expect(Array(lines[3...]) == ["31 12 23", "pool \"p\" (2 of 2 threads, 2 free", "false\ttwo"], "\(run)")
    }

    @Test("a pool that is dropped ends its threads")
    func droppedPool() throws {
        let run = try Self.run(
            """
            local function threads() local count = 0 for _ in io.popen("ls /proc/" .. pid .. "/task"):lines() do \
            count = count + 1 end return count end
            pid = io.open("/proc/self/stat"):read "n"
            for _ = 1, 10 do rl.pool { threads = 1 }:run(function() end) end
            collectgarbage() collectgarbage()
            for _ = 1, 500 do if threads() < 5 then break end rl.sleep(0.01) end
            print(threads() < 5)
            """)
        #expect(run.output == "true\n", "\(run)")
    }

    @Test("a task that is cancelled while its function blocks lets the thread finish before the next one gets it")
    func cancelledUse() throws {
        let run = try Self.run(
            """
            local pool = rl.pool { threads = 1 }
            local t = rl.task(function() pool:run(function() os.execute "sleep 0.2" end) end)
            rl.sleep(0.05) t:cancel()
            local start = rl.now()
            print(pool:run(function() return "next" end), rl.now() - start > 0.1)
            pool:close()
            print(pcall(function() pool:run(print) end))
            """)
        #expect(
            run.output
                == "next\ttrue\nfalse\tstdin:7: pool:run: the pool is closed\n",
            "\(run)")
    }

    @Test("a function that computes is interrupted when its task is cancelled, and its thread's place becomes free")
    func interruptedUse() throws {
        let run = try Self.run(
            Binary.interruptible(
                """
                for i = 1, 6 do print(rl.timeout(0.05, rl.blocking, function() while true do end end)) end
                print(rl.blocking(function() return "next" end))
                local pool = rl.pool { threads = 1 }
                print(rl.timeout(0.05, pool.run, pool, function() while true do end end))
                print(pool:run(function() return "next" end))
                """))
        let lines = Array(repeating: "nil\ttimed out", count: 6) + ["next", "nil\ttimed out", "next", ""]
        #expect(run.output == lines.joined(separator: "\n") && run.status == 0, "\(run)")
    }

    @Test("a run that waits for threads ends even if the last one has ended just before", .timeLimit(.minutes(1)))
    func lastThread() throws {
        let world = try LuaWorld()
        // Requests that the thread has sent before are served.
        var served = false
        world.loop.perform { served = true }
        #expect(world.host.runUntilThreadsEnd([]))
        #expect(served)
    }
}

/// A C function cannot be interrupted; `join` names the one in which the thread is.
@Suite("Cancelled threads in C functions", .timed)
struct StuckThreadTests {
    private static func run(_ body: String) throws -> Binary.Result {
        try Binary.withDirectory { directory in
            let script = """
                local rl = require "runloop"
                \(body)
                """
            try script.write(toFile: directory + "/x.lua", atomically: true, encoding: .utf8)
            return try Binary.run(["x.lua"], directory: directory, timeout: 30)
        }
    }

    @Test("join names the function, where it was called, and for how long") func stuck() throws {
        let run = try Self.run(
            """
            local thread = rl.thread { function()
              string.find(("a"):rep(3000), ("a-"):rep(12) .. "b")
            end, keeps_alive = false }
            rl.sleep(0.2)
            print(thread:join(0.01))
            thread:cancel()
            print(thread:join(0.3))
            os.exit(0)
            """)
        #expect(run.status == 0, "\(run)")
        let lines = run.output.split(separator: "\n")
        #expect(lines.first == "nil\ttimed out", "\(run)")
        #expect(
            lines.last?.wholeMatch(of: /nil\ttimed out: in string\.find, called at x\.lua:3, for [0-9.]+ s/) != nil,
            "\(run)")
    }

    @Test("join names no function if the thread runs Lua code, waits, or was not cancelled") func others() throws {
        let run = try Self.run(
            """
            local function busy() while true do pcall(rl.sleep, 0) end end
            local function catches() while true do pcall(function() while true do end end) end end
            for _, fn in ipairs { busy, catches, function() rl.sleep(1000) end } do
              local thread = rl.thread { fn, keeps_alive = false }
              rl.sleep(0.02)
              print(thread:join(0.02))
              thread:cancel()
              print((select(2, thread:join(0.05))))
            end
            os.exit(0)
            """)
        #expect(run.status == 0 && !run.output.contains("in "), "\(run)")
    }
}
