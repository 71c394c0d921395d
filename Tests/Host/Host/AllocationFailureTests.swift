import CLuaSupport
import Glibc
import TestSupport
import Testing

@testable import Lua
@testable import LuaRunLoops
@testable import RunLoops

/// Each run lets another allocation of Lua fail, alone or with all later ones. In every case the process does not
/// crash, nothing stays in the loop, all memory is freed, and no descriptor stays open. After a single failure the
/// state still works.
///
/// Lua 5.4.4 has an allocation-failure bug of its own, which the host avoids: outside any protection it makes texts
/// such as "error in error handling" and "cannot resume dead coroutine". The host makes these texts once, at the start
/// (`p_prepare`).
@Suite(.timed, .serialized) struct AllocationFailureTests {
    /// Together, the scripts use every call that works within one thread.
    static let scripts: [String: String] = [
        "timers": """
        local t = rl.timer { delay = 0.01, interval = 0.01, tolerance = 0.001, order = 1, name = "t",
          callback = function(t, missed) if t:fire_date() > 1 then t:invalidate() end t:set_fire_date(rl.now() + 2) \
        end }
        l:add(t, { "default", "a" }) l:contains(t) l:next_fire_date() tostring(t) t:name() t:order() t:interval()
        t:set_tolerance(0) t:tolerance() t:repeats() t:is_valid()
        rl.after(0.01, function(t, a, b) return a .. b end, "x", {}, 3)
        rl.every(0.01, function(t, ...) t:invalidate() end, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, \
        17, 18)
        rl.timer { fire_date = rl.date(rl.time()), callback = function() end }:fire()
        l:remove(t, "a") rl.run { timeout = 0.05 }
        """,
        "sources": """
        local s = rl.source { name = "s", order = 2, schedule = function(s, loop, mode) return mode .. "!" end,
          cancel = function(s, loop, mode) return { mode } end,
          perform = function(s) for a, b in s:commands() do local x = { a, b } end end }
        l:add(s, { "default", "common", "a" }) s:post(1, "two", {}) s:post({}) s:signal() s:is_signalled() \
        s:wake_loops()
        tostring(s) rl.run { timeout = 0.01, return_after_source = true } l:remove(s, "a") s:invalidate()
        """,
        "ports": """
        local f <close> = assert(io.popen("echo hello", "r"))
        local p = assert(rl.fd_port { fd = f, events = "r", once = true, name = "p", callback = function(p, e) \
        return e .. "x" end })
        l:add(p) tostring(p) p:fd() p:events() p:set_events("r")
        local q = rl.on_readable(f, function(q) f:read("l") q:invalidate() end)
        rl.fd_port { fd = 9999, callback = print }
        os.execute "sleep 0.02" rl.run { timeout = 0.01 } p:invalidate() q:invalidate()
        """,
        "observers": """
        local o = rl.observer { activities = { "entry", "exit" }, repeats = false, name = "o", callback = function(o, \
        a) return a .. "" end }
        l:add(o, "common") tostring(o) o:activities() o:repeats()
        local p = rl.observe("all", function(o, a) local x = { [a] = o } end)
        rl.after(0.01, function() end) rl.run() p:invalidate()
        """,
        "requests": """
        local function f(...) return select("#", ...) end
        rl.perform(f, 1, 2) l:perform(f, {}) l:perform { f, 1, 2, 3, modes = { "default", "a" }, order = 3 }
        local r = rl.perform { f, after = 0.01 } tostring(r) rl.perform { f, 1, after = 0.02 }
        rl.cancel_performs(f, 1) rl.perform { f, 1, 2, wait = true } r:cancel() rl.run { timeout = 0.03 }
        """,
        "tasks": """
        local t = rl.task(function(a, b) rl.sleep(0.01) return a, b, {} end, 1, "b")
        local u = rl.task(function() return t:await() end)
        local v = rl.task(function() rl.sleep(1) end) tostring(v) v:status() v:cancel()
        local w = rl.task(function() local c <close> = setmetatable({}, { __close = function() return {} end }) \
        error { "w" } end)
        pcall(w.await, w) u:await() rl.sleep(0.01)
        for i = 1, 3 do rl.task(function() rl.sleep(0.001 * i) end) end rl.sleep(0.01)
        """,
        "loops": """
        l:add_common_mode("c") l:modes() l:mode() l:sequence() l:set_sequence("core_foundation") l:is_waiting() \
        l:wake_up()
        rl.every(0.01, function(t) t:invalidate() rl.run { mode = "c", timeout = 0.01 } l:run_mode("default", \
        rl.now()) end)
        l:run_until(rl.now() + 0.03) l:inspect() l:stats() rl.why() rl.attach() rl.attach(false) tostring(l) l:stop() \
        rl.main() rl.stop()
        """,
        "threads": """
        local t = rl.thread { function(a, b) return { a, b, a } end, { "x" }, rl.sleep, name = "t" }
        if not t then return end
        tostring(t) t:name() t:loop() t:is_alive() t:is_valid() local ok, r = t:join(5) local x = ok and r[1] == r[3]
        local u = rl.thread(function() error { "wanted" } end) u:join(5)
        pcall(rl.thread, function() return l end, coroutine.create(print)) pcall(t.join, t, -1)
        local v = rl.thread(function() require "runloop".sleep(60) end)
        v:loop():perform(function() end) v:cancel() v:join(5)
        """,
        "crossing": """
        local p = rl.port { name = "in", capacity = 4, callback = function(p, m)
          if m.reply_port then m.reply_port:send { id = m.id, data = { m.data, m.data } } end p:invalidate() end }
        l:add(p)
        local s = rl.source { perform = function(s) for c in s:commands() do s:invalidate() end end } l:add(s)
        local t = rl.thread(function(p, s, main)
          local rl = require "runloop"
          p:send { id = 1, data = { "text", { 1, 2 } }, reply_port = rl.port {}, before = rl.now() + 1 }
          s:post({ "command" }) s:signal()
          pcall(main.perform, main, { function(...) return ... end, 1, "two", wait = true })
          main:perform(function() end)
        end, p, s, l)
        if t then t:join(5) end
        """,
        "messages": """
        local p = rl.port { callback = function(p, m) local x = m.data.x .. m.id end, capacity = 2 }
        l:add(p) p:count() p:capacity() tostring(p)
        p:send { id = 1, data = { x = "y" } } p:send { data = { x = 1 }, reply_port = p } p:send { before = rl.now() }
        pcall(p.send, p, { nonsense = 1 }) pcall(p.send, p, { data = coroutine.create(print) })
        rl.run { timeout = 0.01 } p:invalidate() p:send { id = 2 }
        local name = "org.rlhost.test.allocation." .. tostring(l):gsub("%W", "")
        local server, why = rl.message_port { name = name, callback = function(port, id, data) return data:rep(2) end }
        if server then
          l:add(server) tostring(server)
          local remote = rl.remote_port(name)
          if remote then
            tostring(remote) remote:send(1, "one") remote:unacknowledged()
            remote:request(2, ("two"):rep(100), { reply_timeout = 1, reply_mode = "default" })
            remote:request(3, "three", { send_timeout = 1, reply_timeout = 1 }) remote:flush(1) remote:invalidate()
          end
          server:set_name(name .. "x") server:invalidate()
        end
        rl.remote_port "org.rlhost.nobody"
        """,
        "notifications": """
        local n = rl.notifications
        local o = n:observe("a", function(name, info, sender) local x = { name, info, sender } end)
        local q = n:observe("a", function() error "wanted" end, l) tostring(o) o:name()
        n:post("a", { 1 }) pcall(n.post, n, "a", nil, l)
        n:enqueue("a", {}, { style = "asap", sender = l }) n:enqueue("a", 2, { style = "idle", coalesce = { "name" } })
        n:enqueue("a", 3, { style = "now", modes = { "default" } }) n:enqueue("b") n:dequeue("b")
        rl.run { timeout = 0.01 } o:invalidate() q:invalidate()
        """,
        "waiting": """
        local f <close> = assert(io.popen("echo hello", "r"))
        rl.wait_readable(f, 1) rl.timeout(0.01, rl.sleep, 1) rl.timeout(1, function() return 1, "x" end)
        rl.first_of(function() rl.sleep(1) end, function() rl.sleep(0.001) return {} end)
        rl.all_of(function() rl.sleep(0.002) return 1 end, rl.task(function() return "b" end))
        pcall(rl.all_of, function() error { "wanted" } end)
        """,
        "errors": """
        rl.on_error(function(e, info) local x = { e, info } end)
        rl.after(0, function() error "text" end) rl.after(0, function() error {} end)
        rl.after(0, function() rl.sleep(0.001) error(setmetatable({}, { __tostring = function() return "object" end \
        })) end)
        rl.perform(function() local x = nil; x() end)
        pcall(rl.timer, { nonsense = 1 }) pcall(rl.timer, {}) pcall(rl.after, -1, print) pcall(l.add, l, 3)
        pcall(rl.observer, { activities = "al", callback = print }) pcall(string.rep, "x", -1)
        rl.sleep(0.01) rl.on_error(nil)
        """,
    ]

    /// The scripts that wait for other threads or for the kernel, which takes real time.
    static let real: Set<String> = ["threads", "crossing", "messages", "waiting"]

    /// The state whose allocations fail.
    enum Victim: CaseIterable { case own, threads }

    /// Makes one run in a separate state. Returns whether the allocation that was to fail was reached.
    private func run(
        _ name: String, failing number: UInt64, persistently: Bool, of victim: Victim = .own
    ) throws -> Bool {
        let script = try #require(Self.scripts[name])
        let isReal = Self.real.contains(name)
        let loop = RunLoop(poller: isReal ? EpollPoller() : SimulatedPoller())
        let host = try #require(LuaHost(loop: loop))
        var reached = false
        // A ready port stays ready while its function fails, and simulated time stands still meanwhile: the run must be
        // ended.
        var failures = 0
        host.onUncaught = { _, _ in
            failures += 1
            if failures % 1000 == 0 { loop.stopAll() }
        }
        try #require(host.openLibraries(ignoringEnvironment: true) == nil)
        try #require(
            host.load(.text("local rl = require 'runloop' local l = rl.current() " + script, name: "=test")) == nil)
        let record = host.state
        record.pointee.allocations = 0
        switch victim {
        case .own:
            record.pointee.fail_at = number
            record.pointee.fail_on = persistently ? 1 : 0
        case .threads:
            host.threads.world.prepare = { host in
                host.state.pointee.allocations = 0
                host.state.pointee.fail_at = number
                host.state.pointee.fail_on = persistently ? 1 : 0
                return nil
            }
        }
        let task = host.start { task in
            task.onFailure = { _ in }
            if isReal { task.onEnd = { loop.stop() } }
        }
        if !isReal || task?.hasEnded == false {
            loop.run(in: .default, for: isReal ? .seconds(5) : .milliseconds(200))
        }
        reached = record.pointee.allocations >= number
        record.pointee.fail_at = 0
        if !persistently || number % 16 == 0 {
            var fired = false
            let check = """
                local rl = require 'runloop'
                rl.on_error(nil)
                local done = false
                local t = rl.task(function() rl.sleep(0.001) done = true end)
                t:await()
                return tostring(done)
                """
            try #require(host.load(.text(check, name: "=check")) == nil)
            _ = host.start {
                $0.onResults = { thread, count in fired = count == 1 && thread.string(-1) == "true" }
            }
            loop.run(in: .default, for: .seconds(5))
            #expect(fired, "after allocation \(number) failed, the state works no more")
        }
        for node in loop.allTimers { #expect(node.pointee.isValid) }
        if isReal {
            #expect(LuaHost.stopThreads(within: 10, or: 10) == [], "allocation \(number): a thread does not end")
        }
        host.close()
        #expect(record.pointee.bytes == 0 && record.pointee.blocks == 0, "allocation \(number): memory is left")
        #expect(loop.allTimers.isEmpty && loop.allItems.isEmpty, "allocation \(number): something is left in the loop")
        loop.close()
        return reached
    }

    /// Returns the target of each open descriptor.
    private var openDescriptors: [String] {
        (0..<256).compactMap { fd in
            var target = [CChar](repeating: 0, count: 256)
            let length = readlink("/proc/self/fd/\(fd)", &target, target.count)
            guard length > 0 else { return nil }
            return String(decoding: target[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    /// In each round every 31st allocation of one script fails; the next rounds take other scripts.
    @Test("every allocation may fail", .soak(seconds: 300)) func everyAllocationMayFail() throws {
        let names = Self.scripts.keys.sorted()
        for seed in Soak.seeds {
            let (round, number) = seed.quotientAndRemainder(dividingBy: UInt64(names.count * 2))
            try failAllocations(
                of: names[Int(number / 2)], persistently: number % 2 == 1, from: 1 + round % Self.step)
        }
    }

    private static let step: UInt64 = 31

    private func failAllocations(of name: String, persistently: Bool, from first: UInt64) throws {
        let items = LiveObjects.count
        let descriptors = openDescriptors
        var number = first
        while try run(name, failing: number, persistently: persistently) { number += Self.step }
        #expect(number > 50)
        // The count is by thread: this thread may have released objects that another one has made.
        if !Self.real.contains(name) { #expect(LiveObjects.count == items, "Swift objects are left") }
        // Descriptors belong to the process, so those of other tests count as well, unless this test runs alone.
        if Soak.isLong { #expect(openDescriptors == descriptors) }
    }

    /// The thread ends with "not enough memory", which `join` returns, or works as usual.
    @Test("every allocation of a thread may fail", .soak(seconds: 300))
    func everyAllocationOfAThreadMayFail() throws {
        for seed in Soak.seeds {
            let (name, persistently) = (seed % 2 == 0 ? "threads" : "crossing", seed / 2 % 2 == 0)
            // 257 is a prime: consecutive seeds jump over the whole range and meet each number once.
            _ = try run(name, failing: 1 + seed * 257 % 900, persistently: persistently, of: .threads)
        }
    }
}
