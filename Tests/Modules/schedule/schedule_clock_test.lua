-- runloop.schedule when the clock changes: by daylight saving time, and when it is set.

local t = require "runloop.test"
local rl = require "runloop"
local schedule = require "runloop.schedule"

local utc = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua").utc

-- The moments at which a job is called, until a time.
local function calls_until(seconds, make)
  local got = {}
  local job <close> = make(function(_, time) got[#got + 1] = time end)
  -- A job that is due at the very end runs, too.
  rl.sleep(seconds + 1)
  return got
end

-- In Berlin the clock goes from 02:00 to 03:00 on 2026-03-29 (01:00 UTC), and from 03:00 to 02:00 on 2026-10-25 (01:00
-- UTC).
t.describe("in a zone with daylight saving,", { time_zone = "Europe/Berlin" }, function()
  t.it("a job for a skipped time runs at the first moment after it", { starts_at = "2026-03-28 12:00:00" }, function()
    local got = calls_until(2 * 86400, function(fn) return schedule.daily("02:30", fn) end)
    t.equal(got, { utc "2026-03-29 01:00", utc "2026-03-30 00:30" })
  end)

  t.it("a job for a time that the clock shows twice runs once", { starts_at = "2026-10-24 12:00:00" }, function()
    local got = calls_until(2 * 86400, function(fn) return schedule.daily("02:30", fn) end)
    t.equal(got, { utc "2026-10-25 00:30", utc "2026-10-26 01:30" })
  end)

  t.it("an hourly job runs every real hour", { starts_at = "2026-10-24 22:30:00" }, function()
    local got = calls_until(6 * 3600, function(fn) return schedule.cron("0 * * * *", fn) end)
    local expected = {}
    for i = 1, 6 do expected[i] = utc "2026-10-24 22:00" + i * 3600 end
    t.equal(got, expected)
    got = calls_until(3600, function(fn) return schedule.cron("*/20 * * * *", fn) end)
    t.equal(#got, 3)
  end)

  -- Makes a job that records its moments, and the time of the call for each moment.
  local function noting(missed, at)
    local got = {}
    return got, schedule.daily(at or "02:30", function(_, time)
      got[#got + 1] = { time, rl.time() }
    end, { missed = missed })
  end

  t.it("a job follows its rule for moments missed over the gap", { starts_at = "2026-03-29 00:00:00" }, function()
    for _, missed in ipairs { "skip", "once", "all" } do
      rl.clock:set_time(utc "2026-03-29 00:00")
      local got, job = noting(missed)
      rl.clock:set_time(utc "2026-03-30 06:00")
      rl.sleep(1)
      local now = utc "2026-03-30 06:00"
      t.equal(got, missed == "skip" and {} or missed == "once" and { { utc "2026-03-30 00:30", now } }
        or { { utc "2026-03-29 01:00", now }, { utc "2026-03-30 00:30", now } }, missed)
      t.equal(job:next_time(), utc "2026-03-31 00:30")
      job:invalidate()
    end
  end)

  t.it("a job misses no moment if the clock is set to that second", { starts_at = "2026-03-28 23:00:00" }, function()
    local got, job = noting "skip"
    rl.clock:set_time(utc "2026-03-29 01:00")
    rl.sleep(1)
    t.equal(got, { { utc "2026-03-29 01:00", utc "2026-03-29 01:00" } })
    t.equal(job:next_time(), utc "2026-03-30 00:30")
    job:invalidate()
  end)

  t.it("a clock that is set back by hours in autumn repeats no call", { starts_at = "2026-10-24 12:00:00" }, function()
    local got, job = noting "once"
    rl.sleep(13 * 3600)
    t.equal(#got, 1)
    rl.clock:set_time(utc "2026-10-24 23:50")
    rl.sleep(3 * 3600)
    t.equal(#got, 1)
    t.equal(job:next_time(), utc "2026-10-26 01:30")
    job:invalidate()
  end)

  t.it("a change of the zone's offset loses no moment", { starts_at = "2026-10-20 00:00:00" }, function()
    local got = calls_until(10 * 86400, function(fn) return schedule.daily("12:00", fn) end)
    t.equal(#got, 10)
    for i, time in ipairs(got) do t.equal(os.date("%H:%M", time), "12:00", i) end
  end)
end)

t.describe("a clock that is set", function()
  t.it("back by years makes jobs continue from the new time", { starts_at = "2036-01-01 00:00:00" }, function()
    local calls = {}
    local job <close> = schedule.daily("12:00", function(_, time) calls[#calls + 1] = time end, { utc = true })
    rl.sleep(86400)
    t.equal(#calls, 1)
    rl.clock:set_time(utc "2026-05-01 00:00")
    rl.sleep(2 * 86400)
    t.equal({ calls[2], calls[3], #calls }, { utc "2026-05-01 12:00", utc "2026-05-02 12:00", 3 })
  end)

  t.it("again and again causes one call for each moment", { starts_at = "2026-05-01 00:00:00" }, function()
    local calls = {}
    local job <close> = schedule.cron("0 * * * *", function(_, time)
      calls[#calls + 1] = time
    end, { utc = true, missed = "all" })
    for hour = 1, 20 do
      rl.sleep(1800)
      rl.clock:set_time(utc "2026-05-01 00:00" + hour * 3600 + 60)
      rl.sleep(1)
      rl.clock:set_time(utc "2026-05-01 00:00" + hour * 3600 - 600)
      rl.sleep(900)
    end
    local expected = {}
    for hour = 1, 20 do expected[hour] = utc "2026-05-01 00:00" + hour * 3600 end
    t.equal(calls, expected)
  end)
end)

t.describe("rl.at", function()
  t.it("calls as soon as the clock is set, with when_set", function()
    local calls = {}
    local function note(timer) calls[#calls + 1] = { timer:name(), rl.now() } end
    local plain <close> = rl.at(rl.time() + 3600, note, { name = "plain" })
    local told <close> = rl.at(rl.time() + 3600, note, { name = "told", when_set = true })
    rl.sleep(10)
    rl.clock:set_time(rl.time() - 86400)
    rl.sleep(1)
    t.equal(calls, { { "told", 10 } })
    t.equal({ told:is_valid(), plain:is_valid() }, { false, true })
    rl.sleep(2 * 86400)
    t.equal(calls[2], { "plain", 3600 + 86400 })
    t.error(function() rl.at(0, print, { when_set = 1 }) end, "rl.at: field 'when_set' must be a boolean, got 1")
  end)
end)
