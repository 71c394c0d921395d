-- The fixtures of a group: before_all, after_all and resources. What fixtures make lives as long as tests of the group
-- run; the clean-up of a single test does not remove it.

local system = ...

local pairs, table_insert, concat = pairs, table.insert, table.concat
local leaks = require "runloop.test.leaks"
local phase = require "runloop.test.phase"
local events = require "runloop.test.events"

local fixtures = {}
local core, options, file_fds

--- Begins a file. `settings` are the runner's.
function fixtures.use(library, settings)
  core, options = library, settings
  leaks.keep_databases()
  core.own = fixtures.own
end

local entered = {}

local function inherited(node, field)
  while node do
    if node[field] ~= nil then return node[field] end
    node = node.parent
  end
end
fixtures.inherited = inherited

local function full_name(node)
  local names = {}
  while node.parent do
    table_insert(names, 1, node.name)
    node = node.parent
  end
  return names
end
fixtures.full_name = full_name

-- Returns the ids of the programs that belong to groups, not to the test.
function fixtures.pids()
  local pids = {}
  for i = 1, #entered do
    for _, pid in pairs(entered[i].pids or {}) do pids[pid] = true end
  end
  for pid in pairs(core.servers) do pids[pid] = true end
  return pids
end

local function group_phase(group, name, list, backwards)
  local seconds = inherited(group, "timeout") or options.timeout
  group.current = group.current or phase.context { programs = {}, group = group }
  core.current = group.current
  local failure
  for i = backwards and #list or 1, backwards and 1 or #list, backwards and -1 or 1 do
    local found = phase.run(group.current, list[i], seconds, name)
    if found and not failure then failure = found end
    if failure and not backwards then break end
  end
  core.current = nil
  return failure
end

--- Calls a function that makes something for the lifetime of a group. The group then owns all items in the loop and all
--- open descriptors that the call has added.
function fixtures.own(group, make)
  local before, fds, current, databases = system.programs(), system.open_fds(), core.current, leaks.databases()
  system.keep_from()
  local programs = current and current.programs
  if current and current ~= group.current then current.programs = group.current.programs end
  local outer = core.owner
  core.owner = group
  local function done(...)
    core.owner = outer
    if programs then current.programs = programs end
    group.keep = group.keep or system.keep()
    system.keep(group.keep)
    leaks.keep_databases(group, databases)
    group.pids = group.pids or {}
    local old = {}
    for _, pid in pairs(before) do old[pid] = true end
    for _, pid in pairs(system.programs()) do if not old[pid] then group.pids[#group.pids + 1] = pid end end
    local opened = {}
    local after = system.open_fds()
    for i = 1, #after do opened[i] = after:byte(i) ~= 0 and fds:byte(i) == 0 and "\1" or file_fds:sub(i, i) end
    file_fds = concat(opened)
    return ...
  end
  return done(make())
end

local function leave(group)
  entered[#entered] = nil
  if not group.fixtures then return end
  local failure = group_phase(group, "after_all hook", group.after_all, true)
  local freed = group_phase(group, "end of a resource", group.made or {}, true)
  failure = failure or freed
  if group.keep then system.unkeep(group.keep) end
  local current = group.current or phase.context()
  core.current = current
  system.last_pass()
  leaks.release_databases(group)
  local left = not failure and inherited(group, "leaks") ~= false and leaks.find(current, fixtures.pids()) or {}
  if #left > 0 then
    failure = { kind = "leak", message = "the group leaves something behind", details = left, where = group.where }
  end
  phase.clean_up(current, fixtures.pids())
  local _
  _, file_fds = leaks.descriptors(file_fds)
  core.current = nil
  group.keep, group.pids, group.current, group.made = nil, nil, nil, nil
  if failure then
    events.emit { k = "file_failed", failure = failure, title = concat(full_name(group), " › ") }
  end
end

--- Ends all groups that do not contain the node, and begins those that do. Returns the failure of a before_all hook, or
--- nil.
function fixtures.go_to(node)
  local path = {}
  local group = node and node.parent
  while group do
    table_insert(path, 1, group)
    group = group.parent
  end
  while #entered > 0 and entered[#entered] ~= path[#entered] do leave(entered[#entered]) end
  for i = #entered + 1, #path do
    group = path[i]
    entered[i] = group
    if group.fixtures then
      group.made = {}
      group.current = phase.context { group = group }
      local failure
      if #group.before_all > 0 then
        fixtures.own(group, function() failure = group_phase(group, "before_all hook", group.before_all) end)
      end
      group.failure = failure
    end
    if group.failure then return group.failure end
  end
  for i = 1, #path do if path[i].failure then return path[i].failure end end
end

--- Returns the descriptors that may be open: those from before the test, and those of groups. With `new`, replaces them
--- first.
function fixtures.descriptors(new)
  file_fds = new or file_fds
  return file_fds
end

return fixtures
