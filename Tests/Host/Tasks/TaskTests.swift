import RunLoops
import TestSupport
import Testing

@Suite("Tasks", .timed)
struct TaskTests {
    @Test("A task starts at once, runs until it waits, and its results are returned by await")
    func awaiting() throws {
        let script = try TaskScript(
            """
            local task = rl.task(function(a, b) log "begins" rl.sleep(2) return a + b, nil, "three" end, 1, 2)
            log(task:status())
            log(select("#", task:await()), task:await())
            log(task:status(), task:is_valid())
            """)
        #expect(script.journal == ["begins", "waiting", "3 3 nil three", "done false"])
        #expect(script.seconds == 2)
    }

    @Test("An error is raised in every task that awaits the failed one, with the value that was thrown")
    func errors() throws {
        let script = try TaskScript(
            """
            local thrown = {}
            local task = rl.task(function() rl.sleep(1) error(thrown) end)
            local ok, caught = pcall(task.await, task)
            log(ok, caught == thrown, task:status())
            log(select(2, pcall(task.await, task)) == thrown)
            """)
        #expect(script.journal == ["false true failed", "true"])
    }

    @Test("Cancelling raises an error in the task's wait, of any kind, and closes its variables")
    func cancelling() throws {
        let script = try TaskScript(
            """
            local function closing(name) return setmetatable({}, {__close = function(_, err) log(name, err) end}) end
            local sleeper = rl.task(function() local c <close> = closing "sleep" rl.sleep(100) end)
            local awaiter = rl.task(function() local c <close> = closing "await" sleeper:await() end)
            local limited = rl.task(function() local c <close> = closing "timeout" rl.timeout(50, rl.sleep, 60) end)
            local first = rl.task(function() local c <close> = closing "first" rl.first_of(sleeper) end)
            for _, task in ipairs { awaiter, limited, first, sleeper } do log(task:cancel(), task:status(), \
            task:cancel()) end
            log(pcall(sleeper.await, sleeper))
            """)
        #expect(
            script.journal == [
                "await cancelled", "true cancelled false", "timeout cancelled", "true cancelled false",
                "first cancelled", "true cancelled false", "sleep cancelled", "true cancelled false", "false cancelled",
            ])
        #expect(script.seconds == 0)
    }

    @Test("A task may catch its cancellation, and then ends as it likes")
    func caughtCancellation() throws {
        let script = try TaskScript(
            """
            local task = rl.task(function() log(pcall(rl.sleep, 10)) rl.sleep(1) return "anyway" end)
            task:cancel()
            log(task:status(), task:await())
            log(task:status())
            """)
        #expect(script.journal == ["false cancelled", "waiting anyway", "done"])
    }

    @Test("A task that is cancelled while it runs is cancelled where it next waits")
    func cancellingARunningTask() throws {
        let script = try TaskScript(
            """
            local task
            task = rl.task(function()
              rl.sleep(0)
              log(task:cancel())
              log "still runs"
              rl.sleep(1)
              log "never"
            end)
            log(pcall(task.await, task))
            log(task:status())
            """)
        #expect(script.journal == ["true", "still runs", "false cancelled", "cancelled"])
    }

    @Test("An error while its variables are closed is the task's error")
    func errorWhileClosing() throws {
        let script = try TaskScript(
            """
            local task = rl.task(function()
              local c <close> = setmetatable({}, {__close = function() error("while closing", 0) end})
              rl.sleep(1)
            end)
            task:cancel()
            log(pcall(task.await, task))
            log(task:status())
            """)
        #expect(script.journal == ["false while closing", "failed"])
    }

    @Test("rl.timeout returns the results in time, or nil, and ends a late function")
    func timeout() throws {
        let script = try TaskScript(
            """
            log(rl.timeout(2, function(...) rl.sleep(1) return ... end, "a", nil))
            log(rl.timeout(2, rl.sleep, 1))
            log(rl.timeout(1, function()
              local c <close> = setmetatable({}, {__close = function(_, err) log("late", err) end})
              rl.sleep(5)
            end))
            log(pcall(rl.timeout, 1, error, "boom"))
            log(rl.timeout(0, function() return "at once" end))
            """)
        #expect(
            script.journal == ["true a nil", "true", "late cancelled", "nil timed out", "false boom", "true at once"])
        #expect(script.seconds == 3)
    }

    @Test("rl.first_of returns the position and results of the first to end, and cancels the others")
    func firstOf() throws {
        let script = try TaskScript(
            """
            local mine = rl.task(function() rl.sleep(3) return "mine" end)
            local function late() rl.sleep(9) log "never" end
            log(rl.first_of(mine, late, function() rl.sleep(1) return "x", "y" end))
            log(mine:status())
            log(pcall(rl.first_of, mine, function() rl.sleep(1) error("first", 0) end))
            log(rl.first_of(mine))
            log(pcall(rl.first_of))
            """)
        #expect(
            script.journal == [
                "3 x y", "waiting", "false first", "1 mine",
                "false script:7: rl.first_of: argument #1 must be a task, a future or a function, got nothing",
            ])
        #expect(script.seconds == 3)
    }

    @Test("rl.all_of returns one value of each, and raises the first error at once")
    func allOf() throws {
        let script = try TaskScript(
            """
            local function after(s, ...)
              local values = table.pack(...)
              return function() rl.sleep(s) return table.unpack(values) end
            end
            log(rl.all_of(after(3, "a", "dropped"), after(1), after(2, "c")))
            log(select("#", rl.all_of()))
            log(pcall(rl.all_of, after(9, 1), function() rl.sleep(1) error("early", 0) end))
            """)
        #expect(script.journal == ["a nil c", "0", "false early"])
        #expect(script.seconds == 4)
    }

    @Test("An error that nobody can await any more is reported; one that a task awaits is not")
    func forgottenErrors() throws {
        let script = try TaskScript(
            """
            rl.on_error(function(err, info) log("reported", err, info.where) end)
            rl.task(function() error("dropped", 0) end)
            local kept = rl.task(function() error("kept", 0) end)
            rl.sleep(1)
            log(pcall(kept.await, kept))
            held = rl.task(function() error("held to the end", 0) end)
            """)
        #expect(
            script.journal == [
                "reported dropped task made at script:2", "false kept",
                "reported held to the end task made at script:6",
            ])
    }

    @Test("A chain of 20,000 tasks, each awaiting the next, ends well")
    func longChain() throws {
        let script = try TaskScript(
            """
            local task = rl.task(function() rl.sleep(1) return 0 end)
            for i = 1, 20000 do
              local before = task
              task = rl.task(function() return before:await() + 1 end)
            end
            log(task:await())
            """)
        #expect(script.journal == ["20000"])
    }

    @Test("Tasks that start tasks without end are refused before the stack ends")
    func deepTasks() throws {
        let script = try TaskScript(
            """
            rl.on_error(function(err) log(err) end)
            local depth = 0
            local function deeper() depth = depth + 1 rl.task(deeper) end
            deeper()
            log(depth > 20 and depth < 1000)
            """)
        #expect(script.journal == ["true", "C stack overflow"])
    }

    @Test("Runs inside runs are refused before the stack ends")
    func deepRuns() throws {
        let script = try TaskScript(
            """
            local depth = 0
            local function deeper()
              if refused then return end
              depth = depth + 1
              rl.after(0, deeper)
              local ok, err = pcall(rl.run, { timeout = 1 })
              if not ok then
                refused = true
                log(depth, err)
              end
            end
            rl.after(0, deeper)
            """)
        #expect(script.journal.first?.hasSuffix("rl.run: too many nested runs (40)") == true)
    }

    @Test(
        "Where Lua cannot suspend, a wait raises an error that names the obstacle",
        arguments: [
            ("table.sort({2, 1}, function() rl.sleep(1) end)", "'table.sort'"),
            ("string.gsub('x', '.', function() rl.sleep(1) end)", "'string.gsub'"),
            ("assert(pcall(string.gsub, 'x', '.', function() pcall(error) rl.sleep(1) end))", "'string.gsub'"),
            ("tostring(setmetatable({}, {__tostring = function() rl.sleep(1) end}))", "'tostring'"),
            ("table.unpack(setmetatable({}, {__index = function() rl.sleep(1) end}), 1, 1)", "'table.unpack'"),
            ("coroutine.wrap(function() rl.sleep(1) end)()", "a coroutine of the script's own"),
            ("for x in coroutine.wrap(function() rl.sleep(1) end) do end", "a coroutine of the script's own"),
            ("local s = table.sort s({2, 1}, function() rl.sleep(1) end)", "'table.sort'"),
        ])
    func blockers(_ text: String, _ blocker: String) throws {
        let script = try TaskScript("local ok, err = pcall(function() \(text) end) log(err or 'no error')")
        let what = blocker.hasPrefix("'") ? "a function called by \(blocker)" : blocker
        #expect(script.journal.count == 1 && script.journal[0].contains("cannot wait inside \(what)"))
        #expect(script.hasEnded && script.seconds == 0)
    }

    @Test("Metamethods, iterators and pcall may wait: Lua can suspend them")
    func suspendable() throws {
        let script = try TaskScript(
            """
            local slow = setmetatable({}, {__index = function(_, key) rl.sleep(1) return key end,
                                           __add = function(a, b) rl.sleep(1) return b end})
            log(slow.field, slow + 2, pcall(rl.sleep, 1))
            for i in function(_, i) rl.sleep(1) if not i then return 1 end end do log(i) end
            """)
        #expect(script.journal == ["field 2 true", "1"])
        #expect(script.seconds == 5)
    }

    @Test("A main chunk that nothing can wake is reported with its place")
    func neverEnding() throws {
        let script = try TaskScript(
            """
            local a, b
            a = rl.task(function() rl.sleep(1) return b:await() end)
            b = rl.task(function() return a:await() end)
            b:await()
            """)
        #expect(!script.hasEnded)
        #expect(script.result == .finished)
        let place = try #require(script.place)
        #expect(place.hasPrefix("it still waits in task:await"))
        #expect(place.contains("script:4: in main chunk"))
    }

    @Test("A wait ends in the common modes, or in the mode that ran when it began")
    func otherModes() throws {
        let script = try TaskScript(
            """
            local task = rl.task(function() rl.sleep(1) log "awake" return "result" end)
            rl.task(function() log(task:await()) end)
            rl.on_error(error)
            log(rl.run { mode = "modal", timeout = 5 })
            rl.current():add(rl.timer { delay = 2, callback = function() rl.sleep(1) log "slept in modal" end }, \
            "modal")
            log(rl.run { mode = "modal", timeout = 5 })
            """)
        #expect(script.journal == ["finished", "slept in modal", "finished", "awake", "result"])
    }

    @Test(
        "Misuse names the function and the argument",
        arguments: [
            ("rl.task()", "rl.task: argument #1 must be a function, got nothing"),
            ("rl.sleep('1')", "rl.sleep: argument #1 must be a number of seconds, 0 or more, got \"1\""),
            ("rl.sleep(-1)", "rl.sleep: argument #1 must be a number of seconds, 0 or more, got -1"),
            ("rl.sleep(0/0)", "rl.sleep: argument #1 must be a number of seconds, 0 or more, got nan"),
            ("rl.timeout(-1, print)", "rl.timeout: argument #1 must be a number of seconds, 0 or more, got -1"),
            ("rl.timeout(1)", "rl.timeout: argument #2 must be a function, got nothing"),
            ("rl.all_of(print, 3)", "rl.all_of: argument #2 must be a task, a future or a function, got 3"),
            (
                "rl.wait_readable('x')",
                "rl.wait_readable: argument #1 must be a descriptor, a file, or an object with fd(), getfd(), "
                    + "pollfd() or fileno(), got \"x\""
            ),
            (
                "rl.wait_writable(0, -1)",
                "rl.wait_writable: argument #2 must be a number of seconds, 0 or more, or nil for no limit, got -1"
            ),
            (
                "rl.task(rl.sleep, 1).await()",
                "task:await: a task is expected as self, got nothing; call it with a colon"
            ),
            (
                "local t t = rl.task(function() rl.sleep(0) t:await() end) t:await()",
                "task:await: a task cannot await itself"
            ),
        ])
    func misuse(_ text: String, _ message: String) throws {
        let script = try TaskScript("log(select(2, pcall(function() \(text) end)))")
        #expect(script.journal == ["script:1: \(message)"])
    }

    @Test("A task that has slept may run the loop, which ends when nothing else is left")
    func runningTheLoop() throws {
        let script = try TaskScript("rl.sleep(1) rl.after(1, function() log 'later' end) log(rl.run()) log 'on'")
        #expect(script.journal == ["later", "finished", "on"])
    }

    @Test("While many tasks wait, as many others that have ended keep no loop awake")
    func endedTasksBesideWaitingOnes() throws {
        let script = try TaskScript(
            """
            for _ = 1, 300 do rl.task(rl.sleep, 60) end
            for _ = 1, 290 do rl.task(rl.sleep, 1) end
            local passes = 0
            rl.observe("before_timers", function() passes = passes + 1 if passes > 1000 then rl.stop() end end)
            rl.sleep(30)
            log(passes < 100)
            """)
        #expect(script.journal == ["true"])
    }
}
