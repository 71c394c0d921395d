-- The part of the test runner that runs the tests of one file, in a process and a Lua state of its own. What happens is
-- sent to the runner as events: tables, written as Lua.

local system = ...

local error, type, pairs, next, tostring, xpcall, load, loadfile = error, type, pairs, next, tostring, xpcall, load, loadfile
local select, getmetatable, setmetatable, collectgarbage = select, getmetatable, setmetatable, collectgarbage
local pcall, require, assert = pcall, require, assert
local format, concat, string_pack = string.format, table.concat, string.pack
local getinfo, randomseed, floor = debug.getinfo, math.randomseed, math.floor
local global, package_loaded, io_type = _G, package.loaded, io.type

local explain = require "runloop.test.explain"
local leaks = require "runloop.test.leaks"

local worker = {}
local core

-- Events --------------------------------------------------------------------------------------------------------------

local function write_value(out, value)
  local kind = type(value)
  if kind == "table" then
    out[#out + 1] = "{"
    for key, field in next, value do
      out[#out + 1] = "["
      write_value(out, key)
      out[#out + 1] = "]="
      write_value(out, field)
      out[#out + 1] = ","
    end
    out[#out + 1] = "}"
  else
    out[#out + 1] = format("%q", value)
  end
end

local held = ""
local stdout, marks = io.stdout, 0

-- Behind what a test has printed: so the runner knows whose output it is. Answers the mark's number.
local function mark()
  marks = marks + 1
  pcall(stdout.flush, stdout)
  system.write(1, format("\0rlhost:%d\0", marks), 1)
  return marks
end

-- The event of a test that passed waits for the next one: one system call less.
local function emit(event, wait)
  local out = {}
  write_value(out, event)
  held = held .. string_pack("<s4", concat(out))
  if not wait then
    system.emit(held)
    held = ""
  end
end

-- One test ------------------------------------------------------------------------------------------------------------

local function full_name(node)
  local names = {}
  while node.parent do
    names[#names + 1] = node.name
    node = node.parent
  end
  local path = {}
  for i = #names, 1, -1 do path[#path + 1] = names[i] end
  return path
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

local function inherited(node, field)
  while node do
    if node[field] ~= nil then return node[field] end
    node = node.parent
  end
end

local options, file_fds

-- Runs a phase of a test as a task; returns its failure, or nil.
local function run_phase(current, body, seconds, name)
  local failure, is_over
  local outcome = system.run(function()
    local fine, result = xpcall(body, explain.error)
    -- What it says about being ended is not what ended it.
    if not fine and not is_over then failure = result end
  end, seconds)
  is_over = true
  if outcome == "ended" then return failure end
  local errors = system.take_errors()
  if current.exit then
    failure = current.exit
  elseif #errors > 0 then
    failure = explain.uncaught(errors[1])
    for i = 2, #errors do current.more[#current.more + 1] = explain.uncaught(errors[i]) end
  elseif outcome == "time" then
    local frames = failure and failure.frames
    local ran = failure and failure.message == explain.TOO_LONG
    failure = { kind = "timeout", message = format("the %s took longer than %g s", name, seconds),
      details = explain.waits() }
    if ran then
      failure.details[#failure.details + 1] = "it was running at"
      for i = 1, #(frames or {}) do failure.details[#failure.details + 1] = "  " .. frames[i] end
    end
    local kept = require "runloop".why()
    if kept:find "fd_port" then
      failure.details[#failure.details + 1] = "time passed as it really does: a descriptor or a program was waited for"
    end
  elseif outcome == "stuck" then
    failure = { kind = "stuck", message = format("the %s waits for ever: the clock does not move, and nothing else can happen",
      name), details = explain.waits() }
  else
    local unmet = core.unmet(current)
    local waits = explain.waits()
    if #unmet > 0 and waits[1] == "the test waits in t.expect" then
      failure = nil  -- reported as what it is
    else
      failure = { kind = "stuck", message = format("the %s never ended: nothing is left that could wake it", name),
        details = waits }
    end
  end
  system.cancel_waiting()
  return failure
end

local function clean_up(current)
  for _, program in pairs(current.programs) do program:kill() end
  if #system.threads() > 0 then
    local left = system.stop_threads(2)
    if #left > 0 then emit { k = "broken", text = "threads do not stop: " .. concat(left, ", ") } end
  end
  system.cancel_waiting()
  system.reset()
end

local function run_test(number, test)
  local node = test.node
  local seconds = inherited(node, "timeout") or options.timeout
  local current = { expectations = {}, programs = {}, more = {}, body = node.body,
    real_time = options.real_time or inherited(node, "real_time") }
  emit { k = "start", i = number }
  local began = system.real_clock()
  system.real_time(current.real_time)
  randomseed(options.seed)
  core.current = current
  current.stop = function(code, where)
    current.exit = { kind = "exit", message = format("os.exit(%s) was called", code), where = where,
      frames = explain.frames(3) }
    system.stop()
  end
  local before, after = hooks_before(node, {}), hooks_after(node, {})
  local failure = run_phase(current, function()
    for i = 1, #before do before[i]() end
    node.body()
    if not core.is_met(current) then system.park() end
  end, seconds, "test")
  if #after > 0 then
    local first = failure
    failure = run_phase(current, function()
      for i = 1, #after do after[i]() end
    end, seconds, "after_each hook")
    if first then
      if failure and not failure.skip then current.more[#current.more + 1] = failure end
      failure = first
    end
  end
  local skip = failure and failure.skip
  local fds = file_fds
  if not failure then
    system.last_pass()
    local errors = system.take_errors(true)
    if #errors > 0 then
      failure = explain.uncaught(errors[1])
      for i = 2, #errors do current.more[#current.more + 1] = explain.uncaught(errors[i]) end
    end
  end
  if not failure or skip then
    local unmet = core.unmet(current)
    if #unmet > 0 and not skip then
      failure = { kind = "expect", message = "an expected callback did not run as often as it must", details = unmet,
        where = node.where }
    end
  end
  local left
  if not failure then left = leaks.find(current) end
  clean_up(current)
  local descriptors
  descriptors, file_fds = leaks.descriptors(fds)
  if left then
    for i = 1, #descriptors do left[#left + 1] = descriptors[i] end
    if #left > 0 then
      failure = { kind = "leak", message = "the test leaves something behind", details = left, where = node.where }
    end
  end
  core.current = nil
  system.real_time(false)
  local event = { k = "done", i = number, m = mark(), s = failure and not skip and "failed" or skip and "skipped" or "passed",
    t = system.real_clock() - began }
  if skip then event.skip = skip end
  if event.s == "failed" then
    event.failures = { failure }
    for i = 1, #current.more do event.failures[#event.failures + 1] = current.more[i] end
  end
  emit(event, event.s == "passed")
  return event.s
end

-- The plan ------------------------------------------------------------------------------------------------------------

local function has_only(node)
  if node.only then return true end
  for _, child in pairs(node.children) do if has_only(child) then return true end end
  return false
end

local function collect_tests(node, tests, random, alone, skip)
  if random then random(node.children) end
  for i = 1, #node.children do
    local child = node.children[i]
    local chosen = alone or child.only
    local reason = skip or child.skip
    if child.kind == "group" then
      collect_tests(child, tests, random, chosen, reason)
    elseif not core.has_only or chosen then
      local path = full_name(child)
      local name = concat(path, " ")
      if not options.filter or name:find(options.filter) then
        tests[#tests + 1] = { node = child, path = path, skip = reason }
      end
    else
      core.passed_over = (core.passed_over or 0) + 1
    end
  end
end

-- A file --------------------------------------------------------------------------------------------------------------

local function replace_exit()
  function os.exit(code)
    local shown = code == nil and "" or tostring(code)
    local where = core.here()
    local current = core.current
    if current then
      current.stop(shown, where)
    else
      core.exit = { kind = "exit", message = format("os.exit(%s) was called", shown), where = where }
      system.stop()
    end
    -- Whoever catches it: the test is over all the same.
    error((where and where .. ": " or "") .. format("os.exit(%s) was called", shown), 0)
  end
end

local function prepare(path, ...)
  arg = { [0] = path }
  local global_name
  for i = 1, select("#", ...), 2 do
    local kind, text = select(i, ...)
    if kind == "file" then
      assert(loadfile(text))()
    elseif kind:sub(1, 1) == "=" then
      assert(load(text, kind))()
    elseif kind == "require" then
      global_name = require(text)
    elseif kind == "global" then
      global[text] = global_name
    end
  end
end

local function file_failed(failure)
  emit { k = "file_failed", failure = failure }
  return false
end

local function load_tests(path, ...)
  local chunk, message = loadfile(path)
  if not chunk then
    local where, rest = message:match "^([^\n:]+:%d+): (.*)$"
    return file_failed { kind = "syntax", message = rest or message, where = where }
  end
  local arguments = table.pack(...)
  local current = { expectations = {}, programs = {}, more = {} }
  local failure = run_phase(current, function()
    prepare(path, table.unpack(arguments, 1, arguments.n))
    chunk(path)
  end, options.timeout, "file")
  failure = core.exit or failure
  if failure and failure.skip then
    failure = { kind = "error", message = "t.skip with a reason is for tests that run" }
  end
  if failure then
    if failure.kind == "error" or failure.kind == "assertion" then failure.kind = "load" end
    return file_failed(failure)
  end
  system.last_pass()
  local errors = system.take_errors(true)
  if #errors > 0 then return file_failed(explain.uncaught(errors[1])) end
  local left = leaks.find(current)
  if #left > 0 then
    clean_up(current)
    return file_failed { kind = "leak", message = "loading the file leaves something behind: schedule it in a test or in "
      .. "before_each", details = left }
  end
  return true
end

local function coverage(path)
  if not options.coverage then return end
  local found = system.take_lines()
  system.count_lines(false)
  for source in pairs(found) do
    if source == path then found[source] = nil end
  end
  emit { k = "lines", files = found }
end

local function dependencies(path)
  local list = {}
  for name in pairs(package_loaded) do
    local file = package.searchpath(name, package.path)
    if file then list[#list + 1] = file end
  end
  emit { k = "files", files = list }
end

local function run_file(path, first, ...)
  local root = { children = {}, before = {}, after = {} }
  system.reset()
  if options.coverage then system.count_lines(true) end
  core.group = root
  randomseed(options.seed)
  local loaded = load_tests(path, ...)
  core.group = nil
  if not loaded then return end
  local tests = {}
  local random = options.shuffle and require "runloop.test.order"(options.seed, path)
  collect_tests(root, tests, random, false, nil)
  local plan = {}
  for i = 1, #tests do
    plan[i] = { path = tests[i].path, where = tests[i].node.where }
  end
  emit({ k = "plan", tests = plan, only = core.passed_over }, true)
  if options.list then return end
  system.reset()
  file_fds = system.open_fds()
  for i = first, #tests do
    local test = tests[i]
    if test.skip then
      emit({ k = "done", i = i, s = "skipped", skip = test.skip ~= true and test.skip or nil }, true)
    elseif run_test(i, test) == "failed" and options.fail_fast then
      break
    end
  end
end

--- Runs a file's tests from number `first` on.
function worker.run(path, first, settings, ...)
  options = load("return " .. settings, "=settings", "t", {})()
  require "runloop.test"
  core = package_loaded["runloop.test.core"]
  explain.use(core)
  replace_exit()
  leaks.watch_files(core.here)
  run_file(path, floor(first + 0), ...)
  if options.watch then dependencies(path) end
  coverage(path)
  emit { k = "end" }
end

return worker
