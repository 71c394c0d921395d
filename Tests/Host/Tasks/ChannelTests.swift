import TestSupport
import Testing

@Suite("Conditions, channels and groups", .timed)
struct ChannelTests {
    // MARK: Conditions

    @Test("A signal wakes the task that has waited longest, a broadcast all; signals are not stored")
    func conditions() throws {
        let script = try TaskScript(
            """
            local c = rl.condition()
            log(c:signal(), c:broadcast())
            for i = 1, 4 do rl.task(function() log(i, c:wait()) end) end
            log(c:signal()) rl.sleep(0)
            log(c:broadcast()) rl.sleep(0)
            log(c:wait(2), rl.now())
            log(tostring(c):match "condition %(nobody waits, made at script:1%)")
            """)
        #expect(
            script.journal
                == [
                    "false 0", "true", "1 true", "3", "2 true", "3 true", "4 true", "nil timed out 2.0",
                    "condition (nobody waits, made at script:1)",
                ].map { $0.replacing("nil timed out 2.0", with: "nil 2.0") }, "\(script.journal)")
        #expect(script.seconds == 2)
    }

    @Test(
        "A wait for a condition ends at its time limit, or when the task is cancelled, and the others keep their turn"
    )
    func endsOfWaits() throws {
        let script = try TaskScript(
            """
            local c = rl.condition()
            local a = rl.task(function() log("a", c:wait(1)) end)
            local b = rl.task(function() log("b", pcall(c.wait, c)) end)
            local d = rl.task(function() log("d", c:wait()) end)
            b:cancel()
            rl.sleep(2)
            c:signal()
            d:await()
            """)
        #expect(script.journal == ["b false cancelled", "a nil timed out", "d true"])
    }

    @Test(
        "A task that is signalled and cancelled at the same moment keeps the signal, and is cancelled at its next wait"
    )
    func signalledAndCancelled() throws {
        let script = try TaskScript(
            """
            local c = rl.condition()
            local t = rl.task(function() log(c:wait(1)) log(pcall(rl.sleep, 1)) end)
            c:signal() log(t:cancel())
            rl.sleep(5)
            """)
        #expect(script.journal == ["true", "true", "false cancelled"])
    }

    @Test("A wait for a condition can end in the mode in which it began")
    func modes() throws {
        let script = try TaskScript(
            """
            local c = rl.condition()
            rl.perform { function() log(c:wait()) log(rl.current():mode()) rl.stop() end, modes = "private" }
            rl.perform { function() rl.sleep(1) c:signal() end, modes = "private" }
            rl.current():add(rl.port(), "private")
            log(rl.run { mode = "private" })
            """)
        #expect(script.journal == ["true", "private", "stopped"])
    }

    // MARK: Channels

    @Test("Values come in order, several as one; a sender waits while the channel is full", arguments: [0, 1, 3, 100])
    func order(capacity: Int) throws {
        let script = try TaskScript(
            """
            local c = rl.channel(\(capacity))
            local most = 0
            rl.task(function()
              for i = 1, 50 do
                c:send(i, i % 3 ~= 0 and i or nil, "end")
                most = math.max(most, c:count())
              end
              c:close()
            end)
            local n = 0
            for a, b, last in c:values() do
              n = n + 1
              assert(a == n and b == (n % 3 ~= 0 and n or nil) and last == "end", a)
              if n % 7 == 0 then rl.sleep(1) end
            end
            log(n, most <= \(capacity), c:is_closed(), c:receive())
            """)
        #expect(script.journal == ["50 true true nil closed"], "\(script.journal)")
    }

    @Test("Without capacity `send` returns when the value has been taken")
    func handingOver() throws {
        let script = try TaskScript(
            """
            local c = rl.channel()
            rl.task(function() log("sent", c:send "a", rl.now()) end)
            rl.sleep(3)
            log(c:receive(), c:count())
            rl.sleep(0)
            """)
        #expect(script.journal == ["a 0", "sent true 3.0"], "\(script.journal)")
    }

    @Test(
        "A cancelled sender has sent nothing, a cancelled receiver takes nothing, and a value handed over is not lost")
    func cancelling() throws {
        let script = try TaskScript(
            """
            local c = rl.channel()
            local s = rl.task(function() c:send "never" end)
            rl.task(function() c:send "second" end)
            s:cancel()
            log(c:receive())
            local r = rl.task(function() c:receive() end)
            r:cancel()
            local got
            local g = rl.task(function() got = c:receive() rl.sleep(1) log "not reached" end)
            log(c:send "kept") g:cancel()
            rl.sleep(0)
            log(got, g:status())
            """)
        #expect(script.journal == ["second", "true", "kept cancelled"])
    }

    @Test("Closing wakes all that wait; buffered values can still be received")
    func closing() throws {
        let script = try TaskScript(
            """
            local full = rl.channel(1)
            full:send(1)
            rl.task(function() log("sender", full:send(2)) end)
            full:close() full:close()
            rl.sleep(0)
            log(full:receive()) log(full:receive()) log(full:send(3))
            local empty = rl.channel()
            rl.task(function() log("receiver", empty:receive()) end)
            do local e <close> = empty end
            rl.sleep(0)
            """)
        #expect(script.journal == ["sender nil closed", "1", "nil closed", "nil closed", "receiver nil closed"])
    }

    @Test("A receiver may return without waiting, or wait up to a time limit")
    func timeouts() throws {
        let script = try TaskScript(
            """
            local c = rl.channel(1)
            log(c:receive(0)) log(c:receive(2))
            c:send "x"
            log(c:receive(0), rl.now())
            """)
        #expect(script.journal == ["nil timed out", "nil timed out", "x 2.0"], "\(script.journal)")
    }

    @Test("A main chunk that waits for a value that nobody sends is reported with the place of its wait")
    func deadlock() throws {
        let script = try TaskScript("rl.channel():receive()")
        #expect(script.place?.hasPrefix("it still waits in channel:receive") == true, "\(script.place ?? "")")
    }

    // MARK: Groups

    @Test("A group's `wait` returns when all of its tasks, and the tasks that they start, have ended")
    func groups() throws {
        let script = try TaskScript(
            """
            local g = rl.group()
            log(g:wait())
            for i = 1, 3 do g:task(function() rl.sleep(i) g:task(rl.sleep, 1) end) end
            log(g:wait(2)) log(g:wait(), rl.now())
            log(tostring(g))
            """)
        #expect(script.journal == ["true", "nil timed out", "true 4.0", "group (0 tasks, made at script:1)"])
    }

    @Test("The first error cancels a group's other tasks, newest first; `wait` raises it each time")
    func failures() throws {
        let script = try TaskScript(
            """
            local function closing(name) return setmetatable({}, { __close = function(_, err) log(name, err) end }) end
            local g, thrown = rl.group(), {}
            g:task(function() local c <close> = closing "first" rl.sleep(9) end)
            g:task(function() local c <close> = closing "second" rl.sleep(9) end)
            g:task(function() rl.sleep(1) error(thrown) end)
            log(select(2, pcall(g.wait, g)) == thrown, select(2, pcall(g.wait, g)) == thrown, rl.now())
            log((select(2, pcall(g.task, g, print)):gsub("0x%x+", "ADDRESS")))
            local quick = rl.group()
            quick:task(function() error("at once", 0) end)
            log(pcall(quick.task, quick, print))
            log(pcall(quick.wait, quick))
            local odd = rl.group()
            odd:task(function() error(setmetatable({}, { __tostring = function() error("no text", 0) end })) end)
            log(pcall(odd.task, odd, print))
            pcall(odd.wait, odd)
            """)
        #expect(
            script.journal == [
                "second cancelled", "first cancelled", "true true 1.0",
                "script:7: group:task: a task of this group has failed, which ends them all: table: ADDRESS",
                "false script:10: group:task: a task of this group has failed, which ends them all: at once",
                "false at once",
                "false script:14: group:task: a task of this group has failed, which ends them all: no text",
            ])
    }

    @Test("An error in a group for which no task waits is reported")
    func unseen() throws {
        let script = try TaskScript(
            """
            rl.on_error(function(err, info) log(err, (info.traceback:match "script:%d+: in"), info.where) end)
            do
              local g = rl.group()
              g:task(function() rl.sleep(1) error("unseen", 0) end)
            end
            rl.sleep(2) collectgarbage() rl.sleep(1)
            """)
        #expect(script.journal == ["unseen script:4: in task made at script:4"], "\(script.journal)")
    }

    @Test("The end of a block cancels a group; so does cancelling the task that waits for it")
    func scopes() throws {
        let script = try TaskScript(
            """
            local function sleeper(name)
              return function() local c <close> = setmetatable({}, { __close = function(_, e) log(name, e) end }) \
            rl.sleep(9) end
            end
            do local g <close> = rl.group() g:task(sleeper "block") end
            local t = rl.task(function() local g <close> = rl.group() g:task(sleeper "waiter") g:wait() end)
            t:cancel()
            local g = rl.group() g:cancel() log(pcall(g.task, g, print))
            """)
        #expect(
            script.journal == [
                "block cancelled", "waiter cancelled", "false script:7: group:task: this group has been cancelled",
            ])
    }

    @Test("A member that is cancelled alone has not failed")
    func memberCancelled() throws {
        let script = try TaskScript(
            """
            local g = rl.group()
            local t = g:task(rl.sleep, 100)
            g:task(rl.sleep, 1)
            t:cancel()
            log(g:wait(), rl.now())
            """)
        #expect(script.journal == ["true 1.0"])
    }

    // MARK: Misuse

    @Test("Misuse raises an error at the place of the caller")
    func misuse() throws {
        let script = try TaskScript(
            """
            local function try(f) local _, message = pcall(f) log(message) end
            local c, g, d = rl.channel(), rl.group(), rl.condition()
            try(function() rl.channel(-1) end)
            try(function() rl.channel(1.5) end)
            try(function() c:send(nil, 1) end)
            try(function() c.send(1) end)
            try(function() c:receive "x" end)
            try(function() g:task(1) end)
            try(function() g.wait() end)
            try(function() d.wait(1) end)
            try(function() d:wait(-1) end)
            try(function() rl.group(1) end)
            """)
        #expect(
            script.journal == [
                "script:3: rl.channel: argument #1 must be the number of values that it can hold, 0 or more, got -1",
                "script:4: rl.channel: argument #1 must be the number of values that it can hold, 0 or more, got 1.5",
                "script:5: channel:send: argument #1 must be a value other than nil, which says that the channel is "
                    + "closed",
                "script:6: channel:send: a channel is expected as self, got 1; call it with a colon",
                "script:7: channel:receive: argument #1 must be a number of seconds, 0 or more, or nil for no limit, "
                    + "got \"x\"",
                "script:8: group:task: argument #1 must be a function, got 1",
                "script:9: group:wait: a group is expected as self, got nothing; call it with a colon",
                "script:10: condition:wait: a condition is expected as self, got 1; call it with a colon",
                "script:11: condition:wait: argument #1 must be a number of seconds, 0 or more, or nil for no limit, "
                    + "got -1",
                "script:12: rl.group: no arguments are expected",
            ])
    }

    // MARK: Cancelling

    @Test("The error of a cancelled task differs from all errors of scripts, in each thread")
    func cancelled() throws {
        let script = try TaskScript(
            """
            local t = rl.task(rl.sleep, 1)
            t:cancel()
            local _, err = pcall(t.await, t)
            log(rl.is_cancelled(err), err == rl.cancelled, rl.is_cancelled "cancelled", rl.is_cancelled(nil), \
            "it was " .. err)
            """)
        #expect(script.journal == ["true true false false it was cancelled"])
        let run = try Binary.run([
            "-e",
            "local rl = require 'runloop' "
                + "print(rl.thread(function(err) return rl.is_cancelled(err) end, rl.cancelled):join())",
        ])
        #expect(run.output == "true\ttrue\n", "\(run)")
    }
}
