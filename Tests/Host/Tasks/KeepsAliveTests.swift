import TestSupport
import Testing

@Suite("Objects that keep no loop alive, and objects that are added at once", .timed)
struct KeepsAliveTests {
    @Test(
        "an object with keeps_alive = false is served, and does not keep the loop running",
        arguments: [
            "rl.timer { interval = 1, modes = 'common', keeps_alive = false, callback = function() log 'tick' end }",
            "rl.source { modes = 'common', keeps_alive = false }", "rl.port { modes = 'common', keeps_alive = false }",
            "rl.fd_port { fd = 0, events = '', modes = 'common', keeps_alive = false, callback = print }",
        ])
    func kinds(object: String) throws {
        let script = try TaskScript("local o = \(object) log(rl.run { timeout = 5 }) log(rl.why())")
        #expect(script.journal.first == "finished", "\(script.journal)")
        #expect(script.journal.contains { $0.contains("nothing keeps the loop alive") }, "\(script.journal)")
        #expect(script.journal.contains { $0.contains("it does not keep the loop running") }, "\(script.journal)")
    }

    @Test("an object with keeps_alive = false is served while another keeps the loop running")
    func served() throws {
        let script = try TaskScript(
            """
            rl.timer { interval = 1, modes = "default", keeps_alive = false, callback = function() log "tick" end }
            rl.after(2.5, log, "last")
            """)
        #expect(script.journal.prefix(2) == ["tick", "tick"] && script.seconds == 2.5, "\(script.journal)")
    }

    @Test("modes in an options table add the object at once")
    func modes() throws {
        let script = try TaskScript(
            """
            local l = rl.current()
            local t = rl.timer { delay = 1, modes = { "default", "a" }, callback = print }
            log(l:contains(t, "default"), l:contains(t, "a"), l:contains(t, "b"))
            local o = rl.observer { activities = { "entry" }, modes = "common", callback = function() log "entry" end }
            local s = rl.source { modes = "a", schedule = function(_, _, mode) log(mode) end }
            log(l:contains(o), l:contains(s, "a"))
            log(pcall(rl.timer, { delay = 1, modes = 1, callback = print }))
            log(pcall(rl.port, { keeps_alive = 1 }))
            t:invalidate() s:invalidate()
            """)
        #expect(
            script.journal.prefix(5) == [
                "true true false", "a", "true true",
                "false script:7: rl.timer: field 'modes' must be the name of a mode, or an array of them, got 1",
                "false script:8: rl.port: field 'keeps_alive' must be a boolean, got 1",
            ], "\(script.journal)")
    }

    @Test("the error for a missing method names the intended one, or all methods")
    func missing() throws {
        let script = try TaskScript(
            """
            local t, p = rl.timer { delay = 1, callback = print }, rl.port()
            local function try(f) log(select(2, pcall(f))) end
            try(function() t:cancel() end)
            try(function() t:fire_dat() end)
            try(function() p:close() end)
            try(function() rl.current():frobnicate() end)
            """)
        #expect(
            Array(script.journal.prefix(3)) == [
                "script:3: timers have invalidate(), not cancel()", "script:4: timers have fire_date(), not fire_dat()",
                "script:5: ports have invalidate(), not close()",
            ], "\(script.journal)")
        #expect(script.journal.last?.hasPrefix("script:6: loops have add(), ") == true, "\(script.journal)")
    }

    @Test("the error for a missing method is the same for channels, groups, pools and other objects")
    func missingElsewhere() throws {
        let script = try TaskScript(
            """
            local function try(f) log((select(2, pcall(f)):gsub("^script:%d: ", ""))) end
            try(function() rl.channel():stop() end)
            try(function() rl.channel():poke() end)
            try(function() rl.group():stop() end)
            try(function() rl.condition():notify() end)
            try(function() rl.pool():submit() end)
            try(function() rl.perform(function() end):stop() end)
            try(function() rl.notifications:subscribe() end)
            try(function() rl.notifications:observe("x", print):stop() end)
            log(rl.channel().poke, rl.notifications.subscribe)
            """)
        #expect(
            script.journal == [
                "channels have close(), not stop()",
                "channels have close(), count(), is_closed(), receive(), send(), values(), not poke()",
                "groups have cancel(), not stop()", "conditions have signal(), not notify()",
                "pools have close(), map(), run(), not submit()", "requests have invalidate(), not stop()",
                "rl.notifications has dequeue(), enqueue(), observe(), post(), not subscribe()",
                "notification_observers have invalidate(), not stop()", "nil nil",
            ], "\(script.journal)")
    }

    @Test("a script can test whether a method exists, as for any value in Lua")
    func asked() throws {
        let script = try TaskScript(
            """
            local t = rl.timer { delay = 1, callback = print }
            local name = "rea" .. "d"
            t:is_valid()
            log(t.read, t[name], t[1], t.invalidate ~= nil, t.read and t:read() or "no reader")
            local function call(o) return o:kill() end
            log(select(2, pcall(call, t)))
            log(select(2, pcall(function() local kill = t.kill; kill(t) end)))
            """)
        #expect(
            script.journal == [
                "nil nil nil true no reader", "script:5: timers have invalidate(), not kill()",
                "script:7: attempt to call a nil value (local 'kill')",
            ], "\(script.journal)")
    }

    @Test("objects with buffered input are ready while they are dirty, for waits and for ports")
    func dirty() throws {
        let script = try TaskScript(
            """
            local left = 3
            local object = { getfd = function() return 0 end, dirty = function() return left > 0 end }
            log(rl.wait_readable(object, 1))
            local port
            port = rl.on_readable(object, function(_, events)
              left = left - 1
              log(left)
              if left == 0 then port:invalidate() end
            end)
            """)
        #expect(script.journal == ["r", "2", "1", "0"], "\(script.journal)")
    }

    @Test("an object whose descriptor is closed returns its own error")
    func noDescriptor() throws {
        let script = try TaskScript(
            """
            local pipe = { fileno = function() return nil, "EBADF: bad file descriptor" end }
            log(select(2, pcall(rl.on_readable, pipe, print)))
            """)
        #expect(
            script.journal == [
                "script:2: rl.on_readable: argument #1 must have a descriptor, but its fileno() gave nil: EBADF: bad "
                    + "file descriptor"
            ])
    }

    @Test("first_of, all_of and settle_all take a list, and settle_all returns each outcome")
    func lists() throws {
        let script = try TaskScript(
            """
            local function after(s, v) return function() rl.sleep(s) if not v then error("failed", 0) end return v, \
            s end end
            log(rl.first_of { after(2, "slow"), after(1, "fast") })
            log(rl.all_of { after(2, "a"), after(1, "b") })
            local all = rl.settle_all { after(1, "a"), after(2), after(3, "c") }
            log(#all, all[1].ok, all[1][1], all[1][2], all[2].ok, all[2][1], all[2].error, all[3].n)
            local t = rl.task(function() rl.settle_all { after(9, "x") } log "not reached" end)
            t:cancel()
            log(t:status(), pcall(rl.first_of, {}))
            """)
        #expect(
            script.journal == [
                "2 fast 1", "a b", "3 true a 1 false failed failed 2",
                "cancelled false script:8: "
                    + "rl.first_of: argument #1 must be a task, a future or a function, got nothing",
            ], "\(script.journal)")
    }
}
