-- Runs one test.

local system = ...

local ipairs, type, randomseed = ipairs, type, math.randomseed
local format, unpack, move = string.format, table.unpack, table.move
local explain = require "runloop.test.explain"
local leaks = require "runloop.test.leaks"
local events = require "runloop.test.events"
local phase = require "runloop.test.phase"
local fixtures = require "runloop.test.fixtures"
local state = require "runloop.test.state"
local inherited, remove = fixtures.inherited, os.remove

local run = {}
local core, options

-- Returns the absolute path of a test's recording, its title, and the path as the report names it.
local function recording_of(test)
  local file = test.recording
  return options.trace_from and options.trace_from .. "/" .. file or file, test.path[#test.path], file
end

local function hooks_before(node, list)
  if node.parent then hooks_before(node.parent, list) end
  for i = 1, #node.before do list[#list + 1] = node.before[i] end
  return list
end

local function hooks_after(node, list)
  while node do
    for i = #node.after, 1, -1 do list[#list + 1] = node.after[i] end
    node = node.parent
  end
  return list
end

local function run_after(current, hooks, seconds, failure)
  local function take(found)
    if not found or found.skip then return end
    if failure then current.more[#current.more + 1] = found else failure = found end
  end
  -- Each function runs as its own phase, so that a failing one does not keep the others from cleaning up.
  for i = #current.after, 1, -1 do take(phase.run(current, current.after[i], seconds, "end of the test")) end
  for i = 1, #hooks do take(phase.run(current, hooks[i], seconds, "after_each hook")) end
  return failure
end

local function body_of(current, node, before)
  return function()
    for i = 1, #before do before[i]() end
    if node.arguments then node.body(unpack(node.arguments, 1, node.arguments.n)) else node.body() end
    if not core.is_met(current) then system.park() end
  end
end

-- Runs a test once, after a reset. Returns "passed", "failed" or "skipped", the failures, the reason to skip, whether
-- this process can go on, and the number of the mark.
local function attempt(test, seed)
  local node = test.node
  local seconds = inherited(node, "timeout") or options.timeout
  local current = phase.context { body = node.body, node = node, seed = seed }
  current.real_time = options.real_time
  if not current.real_time then current.real_time = inherited(node, "real_time") end
  if not system.is_kept() then
    local date = inherited(node, "starts_at")
    if not date and current.real_time then date = false end
    system.reset(seed, date)
  elseif inherited(node, "starts_at") then
    system.set_wall_clock(inherited(node, "starts_at"))
  end
  system.set_zone(inherited(node, "time_zone") or options.tz)
  if options.trace then system.begin_recording(recording_of(test)) end
  system.note_state()
  system.real_time(current.real_time)
  randomseed(seed)
  core.current = current
  current.stop = function(code, where)
    current.exit = { kind = "exit", message = format("os.exit(%s) was called", code), where = where,
      frames = explain.frames(3) }
    system.stop()
  end
  local after = hooks_after(node, {})
  local failure = phase.run(current, body_of(current, node, hooks_before(node, {})), seconds, "test")
  local skip = failure and failure.skip
  if #after > 0 or #current.after > 0 then failure = run_after(current, after, seconds, failure) end
  if failure and not failure.skip then skip = nil end
  local fds, pids = fixtures.descriptors(), fixtures.pids()
  system.cancel_background()
  if not failure then
    system.last_pass()
    leaks.await_pools()
    local errors = phase.take_failures(current, true)
    failure = errors[1]
    for i = 2, #errors do current.more[#current.more + 1] = errors[i] end
  end
  if not failure then
    local unmet = core.unmet(current)
    if #unmet > 0 then
      failure = { kind = "expect", message = "an expected callback did not run as often as it had to", details = unmet,
        where = node.where }
    end
  end
  local allowed, left = inherited(node, "leaks"), nil
  if not failure and allowed ~= false then left = leaks.find(current, pids) end
  if options.trace then system.end_recording() end
  local is_clean = phase.clean_up(current, pids)
  local changed, unset = system.restore_state(), state.restore()
  local descriptors, open = leaks.descriptors(fds)
  fixtures.descriptors(open)
  local number, has_closed = events.mark()
  -- If the test has closed the standard output, C code in this process has lost it, too.
  if has_closed then is_clean = false end
  if left then
    for _, more in ipairs { changed, unset, descriptors } do move(more, 1, #more, #left + 1, left) end
    if has_closed then left[#left + 1] = "descriptor 1 (standard output) is closed, or is now another file" end
    left = leaks.without(left, allowed)
    if #left > 0 then
      failure = { kind = "leak", message = "the test leaves something behind", details = left, where = node.where }
    end
  end
  core.current = nil
  system.real_time(false)
  local failures = { failure }
  move(current.more, 1, #current.more, #failures + 1, failures)
  return failure and not skip and "failed" or skip and "skipped" or "passed", failures, skip, is_clean, number
end

-- Writes a test's recording, and returns the note about it for the report.
local function keep_recording(test)
  local whole, title, file = recording_of(test)
  local done, message = system.write_recording(whole, title)
  return done and "recording: " .. file or "the recording cannot be written: " .. message
end

-- Inverts the outcome of a test that is expected to fail.
local function turn(node, status, failures)
  local why = inherited(node, "fails")
  if not why then return status, failures end
  if status == "failed" then return "passed", {}, type(why) == "string" and why or "" end
  if status == "passed" then
    return "failed", { { kind = "assertion", message = "it passes, although it is expected to fail",
      where = node.where } }
  end
  return status, failures
end

--- Runs a test and sends its outcome to the runner. Returns the test's status, and whether this process can go on.
function run.test(number, test)
  local node = test.node
  local broken = fixtures.go_to(node)
  local hooks = #hooks_after(node, {}) > 0
  local limit = (inherited(node, "timeout") or options.timeout) * (hooks and 2 or 1)
  local began = system.real_clock()
  local retries = inherited(node, "retries") or options.retries or 0
  local status, failures, skip
  local is_clean, mark, expected
  local tries, rounds, first_failures, seed = 0, 0, nil, options.seed
  local flaky, flaky_round
  -- Removes the recording of an earlier run, so that a recording found later belongs to this run.
  if options.trace then remove((recording_of(test))) end
  while true do
    if broken then
      status, is_clean, skip = broken.skip and "skipped" or "failed", true, broken.skip
      failures = skip and {} or { { kind = broken.kind, message = "before_all: " .. broken.message,
        where = broken.where, details = broken.details, frames = broken.frames, note = broken.note } }
      events.emit({ k = "start", i = number, l = limit })
      mark = events.mark()
      break
    end
    events.emit { k = "start", i = number, l = limit }
    status, failures, skip, is_clean, mark = attempt(test, seed)
    status, failures, expected = turn(node, status, failures)
    local recording = options.trace and status == "failed" and keep_recording(test)
    if recording then failures[1].note = (failures[1].note and failures[1].note .. "\n" or "") .. recording end
    tries = tries + 1
    if status ~= "failed" and tries > 1 and not flaky then flaky, flaky_round = tries, rounds + 1 end
    if status == "failed" then
      first_failures = first_failures or failures
      if tries > retries or not is_clean then break end
      seed = seed + 1
    else
      rounds = rounds + 1
      if rounds >= (options["repeat"] or 1) or status == "skipped" or not is_clean then break end
      tries, seed = 0, options.seed + rounds
    end
  end
  local event = { k = "done", i = number, m = mark, s = status, t = system.real_clock() - began, skip = skip }
  if expected then event.expected = expected end
  if status == "failed" then
    event.failures = failures
    if seed ~= options.seed then
      failures[1].note = (failures[1].note and failures[1].note .. "\n" or "")
        .. format("in run %d, with --seed %d", rounds + tries, seed)
    end
  elseif first_failures then
    event.flaky, event.failures = flaky, first_failures
    if options["repeat"] then event.round = flaky_round end
  end
  events.emit(event, status == "passed" and is_clean)
  return status, is_clean
end

--- Begins a file. `settings` are the runner's.
function run.use(library, settings)
  core, options = library, settings
  phase.use(library, settings)
  fixtures.use(library, settings)
end

--- Records the open descriptors and the state of the collector before the first test: a test does not leak these
--- descriptors.
function run.note_descriptors()
  fixtures.descriptors(system.open_fds())
  state.note()
end

--- Ends all groups.
function run.finish() fixtures.go_to(nil) end

return run
