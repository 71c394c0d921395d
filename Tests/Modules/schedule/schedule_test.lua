-- Moments of the wall clock: rl.at and runloop.schedule, when the clock is set, and when it is put forward and back.

local t = require "runloop.test"
local rl = require "runloop"
local schedule = require "runloop.schedule"

local utc = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua").utc

local function contains(text, part) t.truthy(tostring(text):find(part, 1, true), tostring(text)) end

local function refused(text, fn, ...)
  local fine, message = pcall(fn, ...)
  t.falsy(fine)
  contains(message, text)
end

t.describe("rl.at", function()
  t.it("calls at a moment of the wall clock, to the nanosecond in virtual time", function()
    local start, got = rl.time()
    rl.sleep(0.1)
    rl.at(start + 10, function(timer) got = { rl.time() - start, rl.now(), timer:is_valid() } end)
    rl.sleep(11)
    t.equal(got, { 10.0, 10.0, true })
  end)

  t.it("takes a table as os.time does, and leaves it as it is", function()
    local moment = { year = 2000, month = 1, day = 1, hour = 0, min = 61, sec = 30 }
    local called
    rl.at(moment, function() called = rl.time() end)
    rl.sleep(3700)
    t.equal(called, os.time { year = 2000, month = 1, day = 1, hour = 1, min = 1, sec = 30 })
    t.equal(moment.min, 61)
  end)

  t.it("calls at once for a moment in the past", function()
    local called
    rl.at(rl.time() - 1000, function() called = rl.now() end)
    local before = rl.now()
    rl.sleep(1)
    t.equal(called, before)
  end)

  t.it("returns a timer with modes, a name, a fire method and an invalidate method", function()
    local calls = 0
    local function count() calls = calls + 1 end
    local timer = rl.at(rl.time() + 5, count, { name = "midnight", modes = "dialogue", order = 3, tolerance = 0.5 })
    local loop = rl.current()
    t.equal({ timer:name(), timer:order(), timer:repeats(), timer:tolerance(), timer:interval() },
      { "midnight", 3, false, 0.5, 0.0 })
    t.truthy(loop:contains(timer, "dialogue") and not loop:contains(timer, "default"))
    contains(tostring(timer), "timer \"midnight\" (at ")
    contains(tostring(timer), "schedule_test.lua:")
    rl.sleep(10)
    t.equal(calls, 0)
    t.equal(loop:run { mode = "dialogue", timeout = 1 }, "finished")
    t.equal(calls, 1)
    local other = rl.at(rl.time() + 5, count)
    other:fire()
    t.equal({ calls, other:is_valid() }, { 2, false })
    local third <close> = rl.at(rl.time() + 5, count)
    third:invalidate()
    rl.sleep(6)
    t.equal(calls, 2)
  end)

  t.it("is listed, and keeps the loop running unless keeps_alive is false", function()
    local loop = rl.current()
    local timer = rl.at(rl.time() + 5, print, { name = "backup", modes = "work" })
    local idle = rl.at(rl.time() + 5, print, { name = "idle", modes = "idle", keeps_alive = false })
    local entry = loop:inspect().modes.work[1]
    t.equal({ entry.kind, entry.name, entry.next - rl.now() }, { "timer", "backup", 5.0 })
    t.equal(#loop:inspect().modes.work, 1)
    contains(rl.why(), "timer \"backup\" (next in 5 s, at 2000-01-01 ")
    t.equal(loop:run { mode = "idle", timeout = 1 }, "finished")
    timer:invalidate()
    idle:invalidate()
  end)

  t.it("calls at once when the clock is set forward over it", function()
    local got
    rl.at(rl.time() + 3600, function() got = { rl.now(), rl.time() } end)
    local begun, start = rl.now(), rl.time()
    rl.sleep(10)
    rl.clock:set_time(start + 7200)
    rl.sleep(1)
    t.equal(got, { begun + 10, start + 7200 })
  end)

  t.it("calls later when the clock is set back, also in a mode that was not running", function()
    local start, got = rl.time(), {}
    rl.at(start + 10, function() got[#got + 1] = { rl.time() - start, rl.now() } end)
    rl.at(start + 10, function() got[#got + 1] = { rl.time() - start, rl.now() } end, { modes = "own" })
    local begun = rl.now()
    rl.sleep(5)
    rl.clock:set_time(start - 3600)
    -- Only the job's own mode runs, so the timer of the job notices only when it fires that it is early.
    rl.run { mode = "own", timeout = 3605 }
    t.equal(got, {})
    rl.run { mode = "own", timeout = 10 }
    t.equal(got, { { 10.0, begun + 3615 } })
    rl.sleep(10)
    t.equal(got, { { 10.0, begun + 3615 }, { 10.0, begun + 3615 } })
  end)

  t.it("follows the clock from the date that set_fire_date sets", function()
    local begun, got = rl.now(), nil
    local timer = rl.at(rl.time() + 100, function() got = rl.now() - begun end)
    timer:set_fire_date(begun + 200)
    rl.clock:set_time(rl.time() + 50)
    rl.sleep(140)
    t.equal(got, nil)
    rl.sleep(20)
    t.equal(got, 150.0)
  end)

  t.it("fires in the loops of other threads when the clock is set", function()
    local thread = rl.thread(function()
      local rl = require "runloop"
      local start = rl.time()
      local at
      rl.at(start + 3600, function() at = rl.now() rl.stop() end)
      rl.run()
      return at
    end)
    rl.sleep(1)
    rl.clock:set_time(rl.time() + 3600)
    local fine, at = thread:join()
    t.truthy(fine)
    t.equal(at, 1.0)
  end)

  t.it("names wrong arguments in errors", function()
    refused("rl.at: argument #1 must be a number of seconds since 1970, or a table as os.time takes it, got \"x\"",
      rl.at, "x", print)
    refused("rl.at: argument #1 must be a number of seconds since 1970", rl.at, 0 / 0, print)
    refused("rl.at: argument #1: field 'year' missing in date table", rl.at, {}, print)
    refused("rl.at: argument #2 must be a function, got nothing", rl.at, 1)
    refused("rl.at: unknown field 'mode' (did you mean 'modes'?)", rl.at, 1, print, { mode = "x" })
    refused("rl.at: field 'order' must be an integer", rl.at, 1, print, { order = "x" })
    refused("rl.at: an options table is expected", rl.at, 1, print, 3)
    refused("rl.clock:set_time: argument #1", function() rl.clock:set_time "x" end)
    for _, moment in ipairs { 1e300, -1e300, math.huge, -math.huge, math.maxinteger } do
      rl.at(moment, print):invalidate()
    end
  end)
end)

t.describe("rl.debounce", function()
  t.it("calls once after a burst, with the arguments of the last call", function()
    local got = {}
    local save, calls = rl.debounce(0.5, function(...) got[#got + 1] = { rl.now(), ... } end)
    local begun = rl.now()
    for i = 1, 5 do save(i, nil, "x") rl.sleep(0.2) end
    t.equal(got, {})
    t.truthy(calls:is_pending())
    rl.sleep(1)
    t.equal(#got, 1)
    t.truthy(math.abs(got[1][1] - begun - 1.3) < 0.002, tostring(got[1][1]))
    t.equal({ got[1][2], got[1][3], got[1][4] }, { 5, nil, "x" })
    save "again"
    rl.sleep(1)
    t.equal(got[2][2], "again")
  end)

  t.it("makes no second call before the first has returned, and loses none", function()
    local running, most, got = 0, 0, {}
    local call = rl.debounce(0.1, function(n)
      running = running + 1
      most = math.max(most, running)
      rl.sleep(1)
      got[#got + 1] = n
      running = running - 1
    end)
    call(1)
    rl.sleep(0.5)
    call(2)
    rl.sleep(3)
    t.equal({ most, got }, { 1, { 1, 2 } })
  end)

  t.it("can be cancelled, or called at once", function()
    local got = {}
    local call, calls = rl.debounce(1, function(n) got[#got + 1] = n end)
    call(1)
    t.truthy(calls:flush())
    t.falsy(calls:flush())
    t.equal(got, { 1 })
    call(2)
    calls:invalidate()
    call(3)
    rl.sleep(3)
    t.equal(got, { 1 })
    t.equal({ calls:is_valid(), calls:is_pending(), tostring(calls) }, { false, false, "rl.debounce (1 s, invalid)" })
  end)

  t.it("continues after an error", function()
    local errors, calls = {}, 0
    local old = rl.on_error(function(message) errors[#errors + 1] = message end)
    local call = rl.debounce(0.1, function() calls = calls + 1 error("no " .. calls, 0) end)
    call() rl.sleep(1)
    call() rl.sleep(1)
    rl.on_error(old)
    t.equal(errors, { "no 1", "no 2" })
  end)
end)

t.describe("rl.throttle", function()
  t.it("calls at once, and then at most once per interval, with the last arguments", function()
    local got = {}
    local call = rl.throttle(1, function(n) got[#got + 1] = { rl.now(), n } end)
    local begun = rl.now()
    for i = 1, 25 do call(i) rl.sleep(0.1) end
    rl.sleep(5)
    local times, values = {}, {}
    for i, each in ipairs(got) do times[i], values[i] = math.floor((each[1] - begun) * 10 + 0.5) / 10, each[2] end
    t.equal(times, { 0.0, 1.0, 2.0, 3.0 })
    t.equal(values, { 1, 10, 20, 25 })
  end)

  t.it("does not keep a loop running without a pending call", function()
    local call = rl.throttle(100, function() end)
    call()
    t.equal(rl.run { mode = "default", timeout = 0 } ~= nil, true)
    t.falsy(rl.why():find "100 s")
  end)

  t.it("names wrong arguments in errors", function()
    refused("rl.throttle: argument #1 must be a number of seconds, 0 or more, got -1", rl.throttle, -1, print)
    refused("rl.debounce: argument #1 must be a number of seconds, 0 or more, got nothing", rl.debounce)
    refused("rl.debounce: argument #2 must be a function, got nothing", rl.debounce, 1)
    local _, calls = rl.debounce(1, print)
    refused("calls:flush: call it with a colon", calls.flush)
  end)
end)

-- The moments at which a job is called, until a time.
local function calls_until(seconds, make)
  local got = {}
  local job <close> = make(function(_, time) got[#got + 1] = time end)
  -- A job that is due at the very end runs, too.
  rl.sleep(seconds + 1)
  return got
end

t.describe("schedule.next_time", function()
  local function sequence(expression, from, count, options)
    local texts, at = {}, from
    for i = 1, count do
      at = schedule.next_time(expression, at, options)
      texts[i] = os.date("!%Y-%m-%d %H:%M", at)
    end
    return texts
  end
  local UTC = { utc = true }

  t.it("reads cron lines", function()
    local from = utc "2024-02-28 23:50"
    t.equal(sequence("*/15 * * * *", from, 3, UTC), { "2024-02-29 00:00", "2024-02-29 00:15", "2024-02-29 00:30" })
    t.equal(sequence("0 0 29 2 *", from, 2, UTC), { "2024-02-29 00:00", "2028-02-29 00:00" })
    t.equal(sequence("30 2 * * mon-fri", from, 3, UTC), { "2024-02-29 02:30", "2024-03-01 02:30", "2024-03-04 02:30" })
    t.equal(sequence("0 12 13 * 5", from, 3, UTC), { "2024-03-01 12:00", "2024-03-08 12:00", "2024-03-13 12:00" })
    t.equal(sequence("0 0 1 jan,JUL sun", from, 1, UTC), { "2024-07-01 00:00" })
    t.equal(sequence("5/20 8-18/5 * * 7", from, 4, UTC),
      { "2024-03-03 08:05", "2024-03-03 08:25", "2024-03-03 08:45", "2024-03-03 13:05" })
    t.equal(sequence("@monthly", from, 2, UTC), { "2024-03-01 00:00", "2024-04-01 00:00" })
    t.equal(schedule.next_time("0 0 31 2 *", from, UTC), nil)
    -- A step that is too large for an integer.
    local huge = "*/" .. ("9"):rep(30) .. " * * * *"
    t.equal(schedule.next_time(huge, from, UTC), schedule.next_time("*/60 * * * *", from, UTC))
  end)

  -- Compares the results with a search minute by minute, which cannot be wrong in the same way.
  t.it("finds the same moments as a search minute by minute", function()
    local function matches(at, minute, hour, day)
      local date = os.date("!*t", at)
      return date.min % minute == 0 and date.hour == hour and date.wday - 1 == day
    end
    for _ = 1, 20 do
      local minute, hour, day = math.random(1, 59), math.random(0, 23), math.random(0, 6)
      local from = utc "2024-01-01 00:00" + math.random(0, 366 * 1440) * 60
      local at = from + 60
      while not matches(at, minute, hour, day) do at = at + 60 end
      t.equal(schedule.next_time(("*/%d %d * * %d"):format(minute, hour, day), from, UTC), at)
    end
  end)

  t.it("names wrong arguments in errors", function()
    refused("schedule.cron: '* * * *' has 4 fields instead of 5", schedule.cron, "* * * *", print)
    refused("schedule.cron: '60 * * * *': the minute must be from 0 to 59; got '60'", schedule.cron, "60 * * * *",
      print)
    refused("the hour's range '5-3' ends before it begins", schedule.cron, "0 5-3 * * *", print)
    refused("the step of the minute must be 1 or more", schedule.cron, "*/0 * * * *", print)
    refused("schedule.cron: '0 0 31 2 *' never comes: there is no such day", schedule.cron, "0 0 31 2 *", print)
    refused("schedule.cron: argument #1 must be a string, got nothing", schedule.cron)
    refused("schedule.cron: argument #2 must be a function, got nothing", schedule.cron, "* * * * *")
    refused("schedule.daily: argument #1 must be a time of day such as \"02:30\", got \"25:00\"", schedule.daily,
      "25:00", print)
    refused("schedule.daily: argument #1 must be a time of day", schedule.daily, 3, print)
    refused("schedule.daily: missed must be \"skip\", \"once\" or \"all\", got 'none'", schedule.daily, "02:30", print,
      { missed = "none" })
    refused("schedule.daily: unknown field 'mode' (did you mean 'modes'?)", schedule.daily, "02:30", print,
      { mode = "x" })
    refused("schedule.daily: field 'name' must be a string, got true", schedule.daily, "02:30", print, { name = true })
    refused("schedule.next_time: argument #1 must be a string, got nothing", schedule.next_time)
    refused("schedule.next_time: argument #2 must be a number, got \"x\"", schedule.next_time, "* * * * *", "x")
    refused("schedule.next_time: argument #2 is not a time", schedule.next_time, "* * * * *", 0 / 0)
  end)
end)

t.describe("jobs", function()
  t.it("are called at each moment, and a day of calls takes no time", function()
    local start = rl.time()
    local got = calls_until(3600, function(fn) return schedule.cron("*/5 * * * *", fn) end)
    t.equal(#got, 12)
    for i, time in ipairs(got) do t.equal(time, start + i * 300) end
  end)

  t.it("are called for the last moment that they missed, or for each", { starts_at = "2026-11-01 00:00:00" }, function()
    local got, jobs = { skip = {}, once = {}, all = {} }, {}
    for missed, times in pairs(got) do
      jobs[#jobs + 1] = schedule.cron("* * * * *", function(_, time)
        times[#times + 1] = time
      end, { missed = missed, utc = true })
    end
    local first = rl.time() + 60
    rl.clock:set_time(rl.time() + 8 * 86400 + 30)
    local now = rl.time()
    rl.sleep(1)
    t.equal(got.once, { now - 30 })
    t.equal({ #got.all, got.all[1], got.all[#got.all] }, { 8 * 1440, first, now - 30 })
    for _, job in ipairs(jobs) do job:invalidate() end
    -- Most months have no match.
    local yearly <close> = schedule.cron("0 0 1 1 *", function(_, time)
      got.year = time
    end, { utc = true, missed = "once" })
    rl.clock:set_time(rl.time() + 400 * 86400)
    rl.sleep(1)
    t.equal(os.date("!%F", got.year), "2027-01-01")
  end)

  t.it("are called for missed moments never, once, or for each", { starts_at = "2024-05-01 00:00:00" }, function()
    local got = { skip = {}, once = {}, all = {} }
    local jobs = {}
    for missed, times in pairs(got) do
      jobs[#jobs + 1] = schedule.daily("12:00", function(_, time)
        times[#times + 1] = time
      end, { missed = missed, utc = true })
    end
    -- The machine sleeps for three days and an hour.
    rl.clock:set_time(utc "2024-05-04 13:00")
    rl.sleep(1)
    local noon = utc "2024-05-01 12:00"
    t.equal(got, { skip = {}, once = { noon + 3 * 86400 },
      all = { noon, noon + 86400, noon + 2 * 86400, noon + 3 * 86400 } })
    rl.sleep(86400)
    t.equal(got.skip, { noon + 4 * 86400 })
    for _, job in ipairs(jobs) do job:invalidate() end
  end)

  t.it("are not repeated when the clock is set back a little", { starts_at = "2024-05-01 00:00:00" }, function()
    local calls = 0
    local job <close> = schedule.daily("12:00", function() calls = calls + 1 end, { utc = true })
    rl.clock:set_time(utc "2024-05-01 12:00")
    rl.sleep(1)
    t.equal(calls, 1)
    rl.clock:set_time(utc "2024-05-01 11:30")
    rl.sleep(3600)
    t.equal(calls, 1)
    t.equal(job:next_time(), utc "2024-05-02 12:00")
  end)

  t.it("are not called again before the first call has returned", function()
    local running, most, calls = 0, 0, 0
    local job <close> = schedule.cron("* * * * *", function()
      running, calls = running + 1, calls + 1
      most = math.max(most, running)
      rl.sleep(150)
      running = running - 1
    end)
    rl.sleep(600)
    t.equal(most, 1)
    t.truthy(calls >= 3)
  end)

  t.it("continue after an error", function()
    local errors, calls = {}, 0
    local old = rl.on_error(function(message) errors[#errors + 1] = message end)
    local job <close> = schedule.cron("* * * * *", function() calls = calls + 1 error("no", 0) end)
    rl.sleep(181)
    rl.on_error(old)
    t.equal({ calls, errors }, { 3, { "no", "no", "no" } })
  end)

  t.it("continue with the other missed moments after an error", { starts_at = "2024-05-01 00:00:00" }, function()
    local calls, ends = 0, 0
    local old = rl.on_error(function() end)
    local all <close> = schedule.daily("12:00", function()
      calls = calls + 1
      error "no"
    end, { missed = "all", utc = true })
    -- The second moment passes while the call for the first one runs.
    local once = schedule.cron("*/10 * * * *", function(job)
      ends = ends + 1
      if ends == 2 then job:invalidate() else rl.sleep(900) end
      error "no"
    end, { missed = "once", utc = true })
    rl.clock:set_time(utc "2024-05-04 13:00")
    rl.sleep(1)
    t.equal({ calls, ends }, { 4, 1 })
    rl.sleep(901)
    t.equal({ ends, once:is_valid() }, { 2, false })
    rl.on_error(old)
  end)

  t.it("have a name and a next time, and end", function()
    local job = schedule.daily("02:30", print, { name = "backup", utc = true, modes = { "default", "work" } })
    t.equal({ job:name(), job:is_valid(), job:next_time() }, { "backup", true, utc "2000-01-01 02:30" })
    t.equal(tostring(job), 'job "backup" (daily at 02:30, next 2000-01-01 02:30:00 UTC)')
    contains(rl.why(), 'timer "backup"')
    job:invalidate()
    t.equal({ job:is_valid(), job:next_time() }, { false, nil })
    t.equal(tostring(job), 'job "backup" (daily at 02:30, over)')
    local hourly <close> = schedule.cron("@hourly", print, { keeps_alive = false })
    t.equal(hourly:name(), "@hourly")
  end)
end)
