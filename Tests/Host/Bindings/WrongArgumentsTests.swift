import TestSupport
import Testing

@testable import Lua
@testable import LuaRunLoops
@testable import RunLoops

/// Calls every function and method with arguments that make no sense. Each call returns a sensible result or raises an
/// error that names the function; no call crashes, and no object stays alive.
@Suite(.timed) struct WrongArgumentsTests {
    /// Calls everything many times with random values. Returns the errors that do not name a function.
    private static let attack = """
        local seed, rounds = ...
        math.randomseed(tonumber(seed))
        local l = rl.current()
        local huge = {} for i = 1, 2000 do huge[i] = i end
        local cyclic = {} cyclic[1] = cyclic
        local hostile = setmetatable({}, { __index = function() error "hostile" end, __len = function() return 1e19 end,
          __tostring = function() error "hostile" end, __eq = error, __lt = error, __call = error, __pairs = error })
        local nan, inf = 0 / 0, 1 / 0
        local function noop() end
        local function fail() error "hostile" end
        local dead = {
          rl.timer { delay = 1, callback = noop }, rl.source {}, rl.observer { activities = "all", callback = noop },
          rl.port {}, rl.after(1, noop), rl.perform(noop), rl.task(noop) }
        for _, object in ipairs(dead) do object:invalidate() end
        local fixed = { nil, true, false, 0, 1, -1, 0.5, nan, inf, -inf, 1e19, -1e19, 2^53, math.maxinteger, \
        math.mininteger,
          1e-300, "", "default", "common", "r", "rw", "documented", "no such thing", ("x"):rep(5000), "\\0\\255", \
        huge, cyclic,
          hostile, {}, noop, print, fail, coroutine.create(noop), io.stdout, l, rl }
        local count = 36
        local names = { "callback", "delay", "fire_date", "interval", "tolerance", "order", "name", "activities", \
        "repeats", "fd",
          "events", "owns", "once", "perform", "schedule", "cancel", "modes", "wait", "after", "mode", "timeout",
          "return_after_source", "capacity", "nonsense", 1, 2, 300 }
        local live = {}
        local function value(depth)
          local n = math.random(count + 14)
          if n <= count then return fixed[n] end
          if n <= count + 4 and #live > 0 then return live[math.random(#live)] end
          if n <= count + 6 then return dead[math.random(#dead)] end
          local options = {}
          for _ = 1, math.random(0, 5) do
            local v
            if depth > 1 then v = fixed[math.random(count)] else v = value(depth + 1) end
            options[names[math.random(#names)]] = v
          end
          if math.random(2) == 1 then options.callback = noop end
          return options
        end
        local functions, where = {}, {}
        local leave_out = { on_error = true, thread = true, run = true, run_mode = true, run_until = true, \
        shutdown = true,
          on_shutdown = true, blocking = true, pool = true }
        local function collect(t, prefix)
          for name, f in pairs(t) do
            if type(f) == "function" and not leave_out[name] then
              functions[#functions + 1] = f
              where[#functions] = prefix .. name
            end
          end
        end
        collect(rl, "rl.")
        for kind, object in pairs { timer = dead[1], source = dead[2], observer = dead[3], port = dead[4], loop = l, \
        request = dead[6],
            task = dead[7], fd_port = rl.fd_port { fd = 1, callback = noop } } do
          local meta = debug.getmetatable(object)
          collect(meta.__index, kind .. ":")
          functions[#functions + 1] = meta.__tostring where[#functions] = kind .. ":__tostring"
        end
        local order = {} for i = 1, #functions do order[i] = i end
        table.sort(order, function(a, b) return where[a] < where[b] end)
        local complaints, wrong = 0, {}
        rl.on_error(noop)
        for round = 1, tonumber(rounds) do
          local f = order[math.random(#order)]
          local arguments = math.random(0, 4)
          local results
          local call = function()
            if math.random(2) == 1 and #live > 0 then
              return functions[f](live[math.random(#live)], value(0), value(0))
            end
            if arguments == 0 then return functions[f]() end
            if arguments == 1 then return functions[f](value(0)) end
            if arguments == 2 then return functions[f](value(0), value(0)) end
            return functions[f](value(0), value(0), value(0), value(0))
          end
          -- Waits are refused in here, so that nothing hangs.
          local ok, result = coroutine.resume(coroutine.create(call))
          if not ok then
            complaints = complaints + 1
            if type(result) == "string" and not (result:find "rl%." or result:find "loop:" or result:find "timer:" or \
        result:find "source:"
                or result:find "observer:" or result:find "port:" or result:find "request:" or result:find "task:"
                or result:find "hostile" or result:find "too many arguments" or result:find "notifications" or \
        result:find "thread"
                or result:find "attempt to" or result:find "table:" or result == "nil") then
              wrong[where[f]] = result
            end
          elseif type(result) == "userdata" and io.type(result) == nil then
            if #live < 40 then live[#live + 1] = result else live[math.random(40)] = result end
          end
          if round % 500 == 0 then
            -- Scheduled callbacks run; then all remaining objects are invalidated.
            rl.run { timeout = 0 }
            for _, object in ipairs(live) do pcall(function() object:invalidate() end) end
            live = {}
          end
        end
        local texts = {}
        for name, text in pairs(wrong) do texts[#texts + 1] = name .. " → " .. text:sub(1, 200) end
        return complaints > tonumber(rounds) / 10 and table.concat(texts, "\\n") or "too few complaints: " .. complaints
        """

    @Test("a wrong argument gives an error that names the function, or a sensible result", .soak(seconds: 60))
    func anErrorThatNamesTheFunctionOrASensibleResult() throws {
        for seed in Soak.seeds { try attack(seed) }
    }

    private func attack(_ seed: UInt64) throws {
        let before = LiveObjects.count
        do {
            let world = try LuaWorld()
            let rounds = 5_000
            let script = Self.attack.replacing("= ...", with: "= \(seed), \(rounds)")
            let result = try world.run(script, for: .seconds(1))
            #expect(result == "", "\(result)")
        }
        #expect(LiveObjects.count == before)
    }

    /// As in Lua's own messages, the object before the colon is not counted.
    @Test("arguments of methods are counted without their object") func argumentsOfMethodsAreCountedWithoutTheirObject()
        throws
    {
        let world = try LuaWorld()
        let script = """
            local l, t = rl.current(), rl.timer { delay = 1, callback = print }
            local p = rl.fd_port { fd = 0, callback = print }
            local wrong = {}
            local function check(name, number, ...)
              local ok, message = pcall(...)
              local expected = name .. ": argument #" .. number .. " "
              if ok or not message:find(expected, 1, true) then \
            wrong[#wrong + 1] = expected .. "← " .. tostring(message) end
            end
            check("loop:add", 1, l.add, l, 3)
            check("loop:add", 2, l.add, l, t, 3)
            check("loop:remove", 1, l.remove, l, 3)
            check("loop:contains", 2, l.contains, l, t, {1})
            check("loop:run_mode", 1, l.run_mode, l, 3)
            check("loop:run_mode", 2, l.run_mode, l, "a", "b")
            check("loop:add_common_mode", 1, l.add_common_mode, l)
            check("loop:perform", 1, l.perform, l, 3)
            check("timer:set_fire_date", 1, t.set_fire_date, t, "x")
            check("timer:set_tolerance", 1, t.set_tolerance, t, -1)
            check("fd_port:set_events", 1, p.set_events, p, "x")
            check("source:post", 1, function() rl.source {}:post(nil) end)
            check("rl.sleep", 1, rl.sleep, "x")
            check("rl.after", 2, rl.after, 1, 2)
            check("rl.observe", 2, rl.observe, "all", 2)
            check("notifications:observe", 2, function() rl.notifications:observe("n", 2) end)
            return table.concat(wrong, "\\n")
            """
        #expect(try world.run(script, for: .zero) == "")
    }

    @Test("wrong names, and observers without activities, raise errors") func namesAndActivities() throws {
        let world = try LuaWorld()
        let script = """
            local wrong = {}
            local function check(text, fn, options)
              options.callback = options.callback or function() end
              local ok, message = pcall(fn, options)
              if ok or not message:find(text, 1, true) then wrong[#wrong + 1] = text .. ": " .. tostring(message) end
            end
            check("rl.timer: field 'name' must be a string, got a table", rl.timer, { delay = 1, name = {} })
            check("rl.port: field 'name' must be a string, got true", rl.port, { name = true })
            -- Numbers are accepted, as nearly everywhere in Lua where a string is expected.
            if rl.source { name = 5, perform = print }:name() ~= "5" then wrong[#wrong + 1] = "a number as a name" end
            local list = '"all" or an array of activity names, got '
            check(list .. "an empty one", rl.observer, { activities = {} })
            check(list .. "a table", rl.observer, { activities = { all = 1 } })
            check(list .. "a table", rl.observer, { activities = { "entry", x = 1 } })
            check("is missing", rl.observer, {})
            local ok, message = pcall(rl.pool, { threads = "2" })
            if ok or not message:find('an integer, 1 or more, got "2"', 1, true) then \
            wrong[#wrong + 1] = tostring(message) end
            ok, message = pcall(function() rl.port():send { id = "5" } end)
            if ok or not message:find('an integer, got "5"', 1, true) then wrong[#wrong + 1] = tostring(message) end
            return table.concat(wrong, "\\n")
            """
        #expect(try world.run(script, for: .zero) == "")
    }

    @Test("every error of misuse has the position of the script, also where pcall makes the call")
    func positions() throws {
        let world = try LuaWorld()
        let script = """
            local wrong = {}
            for name, call in pairs {
              fd_port = { rl.fd_port, { fd = "x" } }, on_readable = { rl.on_readable, 0 }, observe = { rl.observe, \
            "all" },
              timeout = { rl.timeout }, thread = { rl.thread }, wait_readable = { rl.wait_readable, "x" }, \
            after = { rl.after, 1, 2 },
              send = { rl.port().send, rl.port(), 5 }, channel = { rl.channel, -1 }, crossing = { rl.thread, \
            function() return wrong end },
              post = { rl.notifications.post, 5 }, all_of = { rl.all_of, 1 },
            } do
              if name == "crossing" then wrong.file = io.stdout wrong.co = coroutine.create(function() end) end
              local ok, message = pcall(table.unpack(call))
              wrong.file, wrong.co = nil, nil
              if ok or not message:find "^[^:]+:%d+: %l[%w_.]*[.:][%w_]+: " then \
            wrong[#wrong + 1] = name .. ": " .. tostring(message) end
            end
            return table.concat(wrong, "\\n")
            """
        #expect(try world.run(script, for: .zero) == "")
    }

    @Test("invalid time limits and modes of a run raise errors") func runningWithArgumentsThatMakeNoSense() throws {
        let world = try LuaWorld()
        let script = """
            local l = rl.current()
            rl.every(1, print)
            local bad = { 0 / 0, "x", {}, print, true, l }
            local wrong = {}
            local function check(name, ...)
              local ok, message = pcall(...)
              if ok or not message:find(name, 1, true) then wrong[#wrong + 1] = name .. ": " .. tostring(message) end
            end
            for _, v in ipairs(bad) do
              check("rl.run", rl.run, { timeout = v })
              check("loop:run_mode", l.run_mode, l, "default", v)
              check("loop:run_until", l.run_until, l, v)
              if v ~= l then check("loop:run", l.run, v) end
              if type(v) ~= "string" then
                check("loop:run", l.run, l, { mode = v })
                check("loop:run_mode", l.run_mode, l, v, 0)
              end
              if type(v) ~= "boolean" then check("rl.run", rl.run, { return_after_source = v }) end
            end
            check("rl.run", rl.run, { mode = "common" })
            check("rl.run", rl.run, { timeuot = 1 })
            for _, v in ipairs { -1e308, -1, 0, 1e-300, -1 / 0 } do rl.run { timeout = v } l:run_until(v) \
            l:run_mode("default", v) end
            return table.concat(wrong, "\\n")
            """
        #expect(try world.run(script, for: .zero) == "")
    }
}
