-- runloop.schedule: calls functions at calendar times, given in cron's notation or as a daily time.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local schedule = {}
local raise, describe = misuse.raise, misuse.describe
local format, match, gmatch, lower = string.format, string.match, string.gmatch, string.lower
local time, date, tointeger = os.time, os.date, math.tointeger

local MONTHS = {
  jan = 1, feb = 2, mar = 3, apr = 4, may = 5, jun = 6,
  jul = 7, aug = 8, sep = 9, oct = 10, nov = 11, dec = 12,
}
local DAYS = { sun = 0, mon = 1, tue = 2, wed = 3, thu = 4, fri = 5, sat = 6 }
local FIELDS = {
  { "minute", 0, 59 },
  { "hour", 0, 23 },
  { "day of the month", 1, 31 },
  { "month", 1, 12, MONTHS },
  { "day of the week", 0, 7, DAYS },
}
local SHORT = {
  ["@yearly"] = "0 0 1 1 *",
  ["@annually"] = "0 0 1 1 *",
  ["@monthly"] = "0 0 1 * *",
  ["@weekly"] = "0 0 * * 0",
  ["@daily"] = "0 0 * * *",
  ["@midnight"] = "0 0 * * *",
  ["@hourly"] = "0 * * * *",
}
-- Seconds by which a call may be late before it counts as missed: the clock was set, or the machine slept.
local GRACE = 60
-- Seconds between two checks of the clock if the system cannot report that it was set.
local LOOK = 1
local DAY = 86400

-- Times ---------------------------------------------------------------------------------------------------------------

-- Reads "*/15", "1-5", "mon,wed" or "8-18/2" as a set of numbers. Returns nil and the mistake otherwise.
local function field(text, description)
  local name, low, high, words = description[1], description[2], description[3], description[4]
  local set, is_any = {}, match(text, "^%*") ~= nil
  local function number(word)
    local value = words and words[lower(word)] or match(word, "^%d+$") and tointeger(tonumber(word))
    if not value or value < low or value > high then
      return nil, format("the %s must be from %d to %d; got '%s'", name, low, high, word)
    end
    return value
  end
  for part in gmatch(text .. ",", "([^,]*),") do
    local range, step = match(part, "^([^/]+)/(%d+)$")
    range, step = range or part, tointeger(tonumber(step or "1")) or math.maxinteger
    local from, to
    if range == "*" then
      from, to = low, high
    else
      local first, second = match(range, "^(%w+)%-(%w+)$")
      local message
      from, message = number(first or range)
      if not from then return nil, message end
      to = from
      if second then
        to, message = number(second)
        if not to then return nil, message end
      elseif step > 1 then
        to = high
      end
    end
    if step < 1 then return nil, format("the step of the %s must be 1 or more", name) end
    if to < from then return nil, format("the %s's range '%s' ends before it begins", name, range) end
    for value = from, to, step do set[value] = true end
  end
  return set, is_any
end

local function parse(expression)
  local words = {}
  for word in gmatch(SHORT[lower(expression)] or expression, "%S+") do words[#words + 1] = word end
  if #words ~= 5 then
    return nil, format("'%s' has %d fields instead of 5: minute, hour, day of the month, month, day of the week",
      expression, #words)
  end
  local sets, any = {}, {}
  for index, description in ipairs(FIELDS) do
    local set, more = field(words[index], description)
    if not set then return nil, format("'%s': %s", expression, more) end
    sets[index], any[index] = set, more
  end
  if sets[5][7] then sets[5][0] = true end
  local hours, minutes = {}, {}
  for hour = 0, 23 do if sets[2][hour] then hours[#hours + 1] = hour end end
  for minute = 0, 59 do if sets[1][minute] then minutes[#minutes + 1] = minute end end
  return { sets = sets, hours = hours, minutes = minutes, any_hour = words[2] == "*",
    -- As in cron: if both kinds of days are restricted, either may match.
    either = not any[3] and not any[5] }
end

local function day_matches(plan, at)
  local sets = plan.sets
  if not sets[4][at.month] then return false end
  local month_day, week_day = sets[3][at.day], sets[5][at.wday - 1]
  if plan.either then return month_day or week_day end
  return month_day and week_day
end

-- The calendar: local time, or UTC.
local LOCAL = {
  split = function(t) return date("*t", t) end,
  join = function(year, month, day, hour, minute)
    return time { year = year, month = month, day = day, hour = hour, min = minute, sec = 0 }
  end,
}

local function days_from_1970(year, month, day)
  if month <= 2 then year = year - 1 end
  local era, of_era = year // 400, year % 400
  local of_year = (153 * (month + (month > 2 and -3 or 9)) + 2) // 5 + day - 1
  return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
end
local UTC = {
  split = function(t) return date("!*t", t) end,
  join = function(year, month, day, hour, minute)
    return days_from_1970(year, month, day) * DAY + hour * 3600 + minute * 60
  end,
}

-- Returns the moment of a day at which the clock shows a time: the first one if the clock shows the time twice. If the
-- time is skipped because the clock is put forward, returns the first moment after the gap.
local function moment(calendar, year, month, day, hour, minute)
  local t = calendar.join(year, month, day, hour, minute)
  local found = calendar.split(t)
  if found.hour == hour and found.min == minute then
    for _, earlier in ipairs { 3600, 1800 } do
      local before = calendar.split(t - earlier)
      if before.day == found.day and before.hour == hour and before.min == minute then return t - earlier end
    end
    return t
  end
  local wanted = hour * 60 + minute
  local low, high = t - 4 * 3600, t + 4 * 3600  -- `low` is before the moment, `high` after it.
  while high - low > 1 do
    local middle = (low + high) // 2
    local at = calendar.split(middle)
    local is_behind = at.year ~= year and at.year > year
      or at.year == year and (at.month > month
        or at.month == month and (at.day > day or at.day == day and at.hour * 60 + at.min >= wanted))
    if is_behind then high = middle else low = middle end
  end
  return high
end

-- Returns the first matching moment after `after`, in whole minutes; nil if there is none within eight years.
local function next_time(plan, after, calendar)
  local start = tointeger(after // 1)
  local at = calendar.split(start)
  local noon = calendar.join(at.year, at.month, at.day, 12, 0)
  for _ = 1, 8 * 366 do
    at = calendar.split(noon)
    if day_matches(plan, at) then
      if plan.any_hour then
        -- Every real hour counts, including the one that the clock shows twice.
        local first = moment(calendar, at.year, at.month, at.day, 0, 0)
        local t = math.max(first, start - start % 60 + 60)
        while true do
          local now = calendar.split(t)
          if now.day ~= at.day or now.month ~= at.month then break end
          if plan.sets[1][now.min] then return t end
          t = t + 60
        end
      else
        for _, hour in ipairs(plan.hours) do
          for _, minute in ipairs(plan.minutes) do
            local t = moment(calendar, at.year, at.month, at.day, hour, minute)
            if t > start then return t end
          end
        end
      end
    end
    noon = calendar.join(at.year, at.month, at.day + 1, 12, 0)
  end
  return nil
end

-- Jobs ----------------------------------------------------------------------------------------------------------------

local Job = objects.class("runloop.schedule.Job", { __name = "job", __stays = true })

local function stamp(job, t)
  return date(job._calendar == UTC and "!%Y-%m-%d %H:%M:%S UTC" or "%Y-%m-%d %H:%M:%S", t)
end

local arm, run

-- Runs the function for each due moment: those in the queue, or those from `next` to `last`. No call begins before the
-- previous one has returned.
function run(job)
  if job._running then return end
  job._running = true
  while job._queue[1] and job._valid do
    local moment = job._queue[1]
    if type(moment) == "table" then
      local range = moment
      moment, range.next = range.next, next_time(job._plan, range.next, job._calendar)
      if not range.next or range.next > range.last then table.remove(job._queue, 1) end
    else
      table.remove(job._queue, 1)
    end
    -- An error leaves this function and is reported like an error of any callback. The job continues: the moments that
    -- are still queued have calls of their own.
    local guard <close> = setmetatable({}, {
      __close = function(_, failure)
        if not failure then return end
        job._running = false
        if job._queue[1] and job._valid then
          rl.timer { delay = 0, name = job._name, modes = job._modes, keeps_alive = job._keeps_alive,
            callback = function() run(job) end }
        end
      end,
    })
    job._fn(job, moment)
  end
  job._running = false
end

-- Returns the last moment that has passed. Searches a short time back first, because there may be a month's worth of
-- minutes.
local function last_moment(job, now)
  for _, seconds in ipairs { 7200, 86400, 7 * 86400, 31 * 86400, 366 * 86400 } do
    local moment = next_time(job._plan, math.max(job._next - 1, now - seconds), job._calendar)
    if moment and moment <= now then
      local later = moment
      while later and later <= now do moment, later = later, next_time(job._plan, later, job._calendar) end
      return moment
    end
  end
  return job._next
end

local function due(job)
  if not job._valid then return end
  local now = rl.time()
  if job._next > now then return arm(job, now) end
  local policy, queue = job._missed, job._queue
  if policy == "all" then
    queue[#queue + 1] = { next = job._next, last = now }
  else
    local last = last_moment(job, now)
    if policy == "once" then
      if job._running then queue[1] = last else queue[#queue + 1] = last end
    elseif now - last <= GRACE and not job._running then
      queue[#queue + 1] = last
    end
  end
  arm(job, now)
  run(job)
end

-- A clock that was put back reaches the same moments again. Moments that have been handled are not repeated.
function arm(job, after)
  job._after = math.max(after, job._after or after)
  if after < job._after - 2 * 3600 then job._after = after end
  job._next = next_time(job._plan, job._after, job._calendar)
  if not job._next then
    job._valid = false
    return
  end
  job._timer = rl.at(job._next, function() due(job) end, {
    name = job._name, modes = job._modes, keeps_alive = job._keeps_alive,
    -- If the clock is put back, the next moment may come sooner.
    when_set = true,
  })
  -- rl.at fails if no descriptor is free to watch whether the wall clock is set. The job then reads the clock every
  -- second.
    or rl.timer { delay = LOOK, name = job._name, modes = job._modes, keeps_alive = job._keeps_alive,
      callback = function() due(job) end }
end

function Job:invalidate()
  self._valid = false
  self._queue = {}
  if self._timer then self._timer:invalidate() end
  self._timer = nil
end
Job.__close = Job.invalidate
function Job:is_valid() return self._valid end
function Job:name() return self._name end
function Job:next_time() return self._valid and self._next or nil end
function Job:__tostring()
  local name = self._name ~= "" and format(" %q", self._name) or ""
  return format("job%s (%s, %s)", name, self._text, self._valid and "next " .. stamp(self, self._next) or "over")
end
objects.methods(Job, "job")

local OPTIONS = {
  missed = "string", name = "string", utc = "boolean", modes = { "string", "table" }, keeps_alive = "boolean",
}
local POLICIES = { skip = true, once = true, all = true }

local function make(what, text, expression, fn, options)
  misuse.argument(fn, "function", what, 2)
  options = misuse.options(options, OPTIONS, what, 3)
  local missed = options.missed or "skip"
  if not POLICIES[missed] then raise("%s: missed must be \"skip\", \"once\" or \"all\", got '%s'", what, missed) end
  local plan, message = parse(expression)
  if not plan then raise("%s: %s", what, message) end
  local job = setmetatable({
    _plan = plan, _fn = fn, _text = text, _missed = missed, _queue = {}, _name = options.name or text,
    _modes = objects.modes(options.modes, what), _keeps_alive = options.keeps_alive,
    _calendar = options.utc and UTC or LOCAL, _valid = true,
  }, Job)
  arm(job, rl.time())
  if not job._valid then raise("%s: '%s' never comes: there is no such day", what, expression) end
  return job
end

function schedule.cron(expression, fn, options)
  misuse.argument(expression, "string", "schedule.cron", 1)
  return make("schedule.cron", expression, expression, fn, options)
end

function schedule.daily(at, fn, options)
  local hour, minute = match(type(at) == "string" and at or "", "^(%d%d?):(%d%d)$")
  hour, minute = tonumber(hour), tonumber(minute)
  if not hour or hour > 23 or minute > 59 then
    raise("schedule.daily: argument #1 must be a time of day such as \"02:30\", got %s", describe(at))
  end
  return make("schedule.daily", "daily at " .. at, format("%d %d * * *", minute, hour), fn, options)
end

function schedule.next_time(expression, after, options)
  misuse.argument(expression, "string", "schedule.next_time", 1)
  if after ~= nil and type(after) ~= "number" then
    raise("schedule.next_time: argument #2 must be a number, got %s", describe(after))
  end
  if after and not (after > -1e12 and after < 1e12) then
    raise("schedule.next_time: argument #2 is not a time: " .. after)
  end
  local plan, message = parse(expression)
  if not plan then raise("schedule.next_time: " .. message) end
  return next_time(plan, after or rl.time(), type(options) == "table" and options.utc and UTC or LOCAL)
end

return schedule
