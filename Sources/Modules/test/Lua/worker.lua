-- The part of the test runner that runs the tests of one file, in its own process and Lua state. The worker sends
-- events to the runner.

local system, internals = ...

local error, type, pairs = error, type, pairs
local tostring, load, loadfile = tostring, load, loadfile
local select, assert = select, assert
local format, concat, floor = string.format, table.concat, math.floor
local randomseed, getinfo = math.randomseed, debug.getinfo
local global, package, searchpath = _G, package, package.searchpath
local loaded_parts = internals.loaded

local explain = require "runloop.test.explain"
local leaks = require "runloop.test.leaks"
local events = require "runloop.test.events"
local phase = require "runloop.test.phase"
local run = require "runloop.test.run"
local fixtures = require "runloop.test.fixtures"

local worker = {}
local core, options
local emit = events.emit

-- The plan ------------------------------------------------------------------------------------------------------------

local function matches(name)
  if not options.filters then return true end
  for _, pattern in pairs(options.filters) do
    if name:find(pattern, 1, true) or not options.plain and name:find(pattern) then return true end
  end
  return false
end

-- Returns whether one of the lines is in the test, or in the call that defines it.
local function holds_line(node, lines)
  if not lines then return true end
  local first = tonumber(node.where and node.where:match ":(%d+)$") or 0
  local last = node.body and getinfo(node.body, "S").lastlinedefined or first
  for _, line in pairs(lines) do
    if line >= first and line <= last then return true end
  end
  return node.parent and node.parent.parent and not node.has_hit and holds_line(node.parent, lines)
end

-- If a line is in a group but in none of its tests, all tests of the group are selected.
local function note_hits(node, lines)
  local hit = false
  for _, child in pairs(node.children) do
    if child.kind == "group" then
      hit = note_hits(child, lines) or hit
    else
      child.has_hit = true
      hit = holds_line(child, lines) or hit
    end
  end
  for _, child in pairs(node.children) do child.has_hit = hit end
  return hit
end

local function tagged(node, wanted)
  while node do
    for _, tag in pairs(node.tags or {}) do if wanted[tag] then return true end end
    for tag in (node.name or ""):gmatch "#([%w_%-]+)" do if wanted[tag] then return true end end
    node = node.parent
  end
  return false
end

local function collect_tests(node, tests, random, alone, skip, part)
  if random then random(node.children) end
  for i = 1, #node.children do
    local child = node.children[i]
    local chosen = alone or child.only
    local reason = skip or child.skip
    if child.kind == "group" then
      collect_tests(child, tests, random, chosen, reason, part)
    elseif core.has_only and not chosen then
      core.passed_over = (core.passed_over or 0) + 1
    else
      core.total = (core.total or 0) + 1
      local path = fixtures.full_name(child)
      if matches(concat(path, " ")) and holds_line(child, options.lines)
        and (not options.tags or tagged(child, options.tags))
        and not (options.skip_tags and tagged(child, options.skip_tags))
        and (not options.names or options.names[concat(path, "\0")])
        and (not part or part[child]) then
        tests[#tests + 1] = { node = child, path = path, skip = reason }
      end
    end
  end
end

-- Returns one part of the tests. Each file is split, so that the parts take about the same time. The part of a test
-- does not depend on the order of the tests, because each machine may shuffle with its own seed.
local function shard(root)
  local tests, part, count = {}, {}, options.shard[2]
  collect_tests(root, tests, nil, false, nil)
  for i = 1, #tests do
    if (i + options.file_number) % count == options.shard[1] % count then part[tests[i].node] = true end
  end
  core.passed_over, core.total = nil, nil
  return part
end

-- A file --------------------------------------------------------------------------------------------------------------

local function replace_exit()
  function os.exit(code)
    local shown = code == nil and "" or tostring(code)
    local where = core.here()
    local current = core.current
    if current and current.stop then
      current.stop(shown, where)
    else
      core.exit = { kind = "exit", message = format("os.exit(%s) was called", shown), where = where }
      system.stop()
    end
    -- If the test catches this error, the test ends nevertheless.
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
      global_name = global.require(text)
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
    local where, rest = explain.whole(message):match "^([^\n:]+:%d+): (.*)$"
    return file_failed { kind = "syntax", message = rest or message, where = where }
  end
  local arguments = table.pack(...)
  local current = phase.context()
  core.loading = current
  local failure = phase.run(current, function()
    prepare(path, table.unpack(arguments, 1, arguments.n))
    chunk(path)
  end, options.timeout, "file")
  core.loading = nil
  failure = core.exit or failure
  if failure and failure.skip then
    failure = { kind = "error", message = "t.skip with a reason is for tests that run" }
  end
  if failure then
    if failure.kind == "error" or failure.kind == "assertion" then failure.kind = "load" end
    return file_failed(failure)
  end
  system.last_pass()
  local errors = phase.take_failures(current, true)
  if #errors > 0 then return file_failed(errors[1]) end
  local left = leaks.find(current, {})
  if #left > 0 then
    phase.clean_up(current)
    return file_failed { kind = "leak",
      message = "loading the file leaves something behind: schedule it in a test or in "
      .. "before_each", details = left }
  end
  return true
end

-- Sends the counts since the last call, so that a crash loses only the latest ones.
local function tell_lines(path, is_end)
  local spawn = loaded_parts["runloop.test.spawn"]
  if spawn then spawn.each_count(function(found) emit({ k = "lines", files = found }, true) end, is_end) end
  local found = system.take_lines()
  found[path] = nil
  if next(found) then emit({ k = "lines", files = found }, true) end
end

-- Warns about a hook of the tested code, which replaces the hook that counts lines.
local function watch_hooks()
  local sethook, told = debug.sethook, false
  function debug.sethook(...)
    local is_set = type((...)) == "function" or type((select(2, ...))) == "function"
    if is_set and not told then
      told = true
      emit({ k = "note", text = "coverage: lines are not counted while debug.sethook is in use ("
        .. (core.here() or "?")
        .. ")" }, true)
    end
    sethook(...)
    if not is_set then system.count_lines(true, (...)) end
  end
end

-- The Lua files that were read while a test file ran, including those that do not compile, and the places at which a
-- missing module may be created.
local read_files = {}

local function dependencies()
  for name in pairs(package.loaded) do read_files[searchpath(name, package.path) or ""] = true end
  read_files[""] = nil
  local list = {}
  for file in pairs(read_files) do list[#list + 1] = file end
  emit { k = "files", files = list }
end

-- Reports the snapshots that no test of the file uses. `unfinished` lists the names of the tests that did not pass.
local function look_for_snapshots(unfinished)
  local snapshots = loaded_parts["runloop.test.snapshot"]
  if not snapshots then
    if system.kind((core.path:gsub("%.lua$", "")) .. ".snap") ~= "file" then return end
    snapshots = require "runloop.test.snapshot"
    snapshots.begin(core)
  end
  local titles = {}
  for i = 1, #unfinished do titles[i] = snapshots.title(unfinished[i]) .. " › " end
  local note = snapshots.finish(titles)
  if note then emit({ k = "note", text = note }, true) end
end

local function run_file(path, first, ...)
  local root = core.new_root()
  system.reset(options.seed)
  system.set_zone(options.tz)
  system.note_state()
  if options.coverage then
    system.count_lines(true)
    watch_hooks()
  end
  core.group = root
  core.path, core.options = path, options
  randomseed(options.seed)
  local loaded = load_tests(path, ...)
  core.group = nil
  if not loaded then return end
  local tests = {}
  local random = options.shuffle and require "runloop.test.order"(options.seed, path)
  if options.lines then note_hits(root, options.lines) end
  collect_tests(root, tests, random, false, nil, options.shard and shard(root))
  if options.recordings then require "runloop.test.recordings".name(options.recordings, tests) end
  local plan = {}
  for i = 1, #tests do
    plan[i] = { path = tests[i].path, where = tests[i].node.where, recording = tests[i].recording }
  end
  emit({ k = "plan", tests = plan, only = core.passed_over, has_only = core.has_only and core.has_only or nil }, true)
  if options.list then return end
  if options.forbid_only and core.has_only then
    return file_failed { kind = "only", message = "some tests are marked 'only', which --forbid-only forbids",
      where = type(core.has_only) == "string" and core.has_only or nil }
  end
  system.reset(options.seed)
  run.note_descriptors()
  local told, unfinished = system.real_clock(), {}
  for i = first, #tests do
    local test = tests[i]
    if test.skip then
      unfinished[#unfinished + 1] = test.path
      emit({ k = "done", i = i, s = "skipped", skip = test.skip ~= true and test.skip or nil }, true)
    else
      local status, is_clean = run.test(i, test)
      if status ~= "passed" or fixtures.inherited(test.node, "fails") then unfinished[#unfinished + 1] = test.path end
      if options.coverage and system.real_clock() - told > 0.2 then
        tell_lines(path)
        told = system.real_clock()
      end
      -- The rest of the file runs in a new process, because remains of this test would disturb the next one.
      if not is_clean then
        if options.coverage then tell_lines(path) end
        emit { k = "stop" }
        return true
      end
      if status == "failed" and options.fail_fast then break end
    end
  end
  run.finish()
  if first == 1 and #tests == core.total and not core.passed_over and not options.fail_fast then
    look_for_snapshots(unfinished)
  end
end

--- Runs the tests of a file from number `first` on.
function worker.run(path, first, settings, ...)
  options = load("return " .. settings, "=settings", "t", {})()
  local stat = io.open "/proc/self/stat"
  emit { k = "begin", pid = stat and stat:read "n" }
  if stat then stat:close() end
  require "runloop.test"
  core = loaded_parts["runloop.test.core"]
  explain.use(core)
  explain.note_file(path)
  events.begin(options.secret)
  run.use(core, options)
  replace_exit()
  leaks.watch(core.here)
  if options.watch then require "runloop.reading"(function(file) read_files[file] = true end) end
  local has_stopped = run_file(path, floor(first + 0), ...)
  if options.watch then dependencies() end
  if options.coverage then
    tell_lines(path, true)
    system.count_lines(false)
  end
  if not has_stopped then emit { k = "end" } end
end

return worker
