---@meta runloop.schedule

-- Every call of the module `runloop.schedule`: calls at moments of the calendar. They stand in the common modes of the loop, and are right
-- when the clock is set, after the machine has slept, and where the clock is put forward or back in spring and autumn.

---@class runloop.schedule
local schedule = {}

---@class runloop.schedule.Options
---@field missed? "skip"|"once"|"all" what becomes of moments that pass while the machine sleeps, the clock is put forward, or the function still runs: nothing ("skip"), one call for the last of them, or one for each
---@field utc? boolean the times are UTC; else local
---@field name? string else the line itself: `.timers` and `rl.why()` show it
---@field modes? string|string[] else the common modes
---@field keeps_alive? boolean false: the loop does not run for its sake

---Calls a function at the moments that a line of cron's names: minute, hour, day of the month, month, day of the week; or "@daily" and its
---kin. As cron has it, with both days restricted either will do. A time that the clock passes over in spring comes at the first moment
---after that; one that it shows twice in autumn comes once, unless the hour is "*". The function gets no second call before it has
---returned.
---@param expression string "*/5 * * * *", "30 2 * * mon-fri"
---@param fn fun(job: runloop.schedule.Job, time: integer) `time`: the moment that it is called for, in seconds since 1970
---@param options? runloop.schedule.Options
---@return runloop.schedule.Job
function schedule.cron(expression, fn, options) end

---Calls a function each day at a time: "02:30".
---@param at string
---@param fn fun(job: runloop.schedule.Job, time: integer)
---@param options? runloop.schedule.Options
---@return runloop.schedule.Job
function schedule.daily(at, fn, options) end

---The first moment of a line of cron's after another (now), in seconds since 1970; nil if there is none within eight years.
---@param expression string
---@param after? number
---@param options? { utc: boolean? }
---@return integer?
function schedule.next_time(expression, after, options) end

---@class runloop.schedule.Job
local job = {}

---No more calls. `<close>` does that, too.
function job:invalidate() end

---@return boolean
function job:is_valid() end

---@return string
function job:name() end

---When it is called next, in seconds since 1970; nil if no more.
---@return integer?
function job:next_time() end

return schedule
