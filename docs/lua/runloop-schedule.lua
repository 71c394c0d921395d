---@meta runloop.schedule

-- Every call of the module `runloop.schedule`: calls at calendar times. Jobs are in the common modes of the
-- loop. They run at the right time even if somebody sets the clock, if the machine sleeps, and when daylight saving
-- begins or ends.

---@class runloop.schedule
local schedule = {}

---Options of a job. `missed` decides about times that pass while the machine sleeps, when the clock is put forward,
---or while the function still runs: no call ("skip"), one call for the last of them ("once"), or one call for each
---("all").
---@class runloop.schedule.Options
---@field missed? "skip"|"once"|"all" for times that were missed: no call, one call, a call for each
---@field utc? boolean true: times are UTC; local if absent
---@field name? string the line itself if absent; `.timers` and `rl.why()` show it
---@field modes? string|string[] the common modes if absent
---@field keeps_alive? boolean false: the job does not keep the loop running

---Calls a function at the moments that a cron line names: minute, hour, day of the month, month, day of the week; or
---"@daily" and the like. If both the day of the month and the day of the week are restricted, either of them is enough,
---as in cron. If the clock skips a time in spring, the function is called at the first moment after it. If a time
---occurs twice in autumn, the function is called once, unless the hour is "*". The function is not called again before
---it has returned.
---@param expression string "*/5 * * * *", "30 2 * * mon-fri"
---@param fn fun(job: runloop.schedule.Job, time: integer) `time`: the scheduled moment, in seconds since 1970
---@param options? runloop.schedule.Options
---@return runloop.schedule.Job
function schedule.cron(expression, fn, options) end

---Calls a function each day at a time: "02:30".
---@param at string
---@param fn fun(job: runloop.schedule.Job, time: integer)
---@param options? runloop.schedule.Options
---@return runloop.schedule.Job
function schedule.daily(at, fn, options) end

---Returns the first moment of a cron line after a given time (now), in seconds since 1970; nil if there is none within
---eight years.
---@param expression string
---@param after? number
---@param options? { utc: boolean? }
---@return integer?
function schedule.next_time(expression, after, options) end

---@class runloop.schedule.Job
local job = {}

---Ends the job. `<close>` does the same.
function job:invalidate() end

---@return boolean
function job:is_valid() end

---@return string
function job:name() end

---Returns when it is called next, in seconds since 1970, or nil after the last call.
---@return integer?
function job:next_time() end

return schedule
