-- Groups, tests, hooks and resources: the functions with which a test file defines its tests.

local error, type, setmetatable, getmetatable = error, type, setmetatable, getmetatable
local pairs, tostring, next, pcall = pairs, tostring, next, pcall
local format, os_time, tonumber = string.format, os.time, tonumber
local unpack, pack, math_type = table.unpack, table.pack, math.type
local values = require "runloop.test.values"
local is_zone = require "runloop.test.zone"

local function nothing() end

-- Removes a function from a list over which a loop may be running: the other functions keep their places.
local function forget(list, body)
  local i = #list
  while i > 0 and list[i] ~= body do i = i - 1 end
  if i > 0 then list[i] = i < #list and nothing or nil end
end

--- Adds the defining functions to the test library.
return function(t, core)

  local misuse, describe_value, check_argument, here = core.misuse, core.describe_value, core.check_argument, core.here

  local OPTIONS = {
    fails = "a boolean or string", leaks = "a boolean or table", only = "a boolean", real_time = "a boolean",
    retries = "a number", skip = "a boolean or string", starts_at = "a number or string or table", tags = "a table",
    time_zone = "a string", timeout = "a number",
  }

  -- Returns the seconds since 1970 of a date: a number as it is, a text like "2024-02-29 12:00:00" in UTC, or a table
  -- as os.time takes it.
  local function date_of(name, value)
    if type(value) == "number" then return value + 0.0 end
    if type(value) == "table" then
      local fine, seconds = pcall(os_time, value)
      if not fine then
        misuse(format("%s: option 'starts_at': %s", name, tostring(seconds):gsub("^[^:]*:%d+: ", "")))
      end
      return seconds + 0.0
    end
    local year, month, day, rest = value:match "^(%d%d%d%d)%-(%d%d)%-(%d%d)(.*)$"
    local hour, minute, second, tail = (rest or ""):match "^[T ](%d%d):(%d%d):?([%d%.]*)(Z?)$"
    if not year or rest ~= "" and not hour or tonumber(month) > 12 or tonumber(day) > 31 or tonumber(month) < 1
      or tonumber(hour or 0) > 24 or tonumber(minute or 0) > 59 or tail and second ~= "" and not tonumber(second) then
      misuse(format('%s: option \'starts_at\' must be a date like "2024-02-29 12:00:00", in UTC, got %q', name, value))
    end
    -- Days since 1970 of a date in the Gregorian calendar. In this formula years begin in March.
    local y, m = tonumber(year), tonumber(month)
    if m <= 2 then y, m = y - 1, m + 12 end
    local days = 365 * y + y // 4 - y // 100 + y // 400 + (153 * (m - 3) + 2) // 5 + tonumber(day) - 719469
    return days * 86400.0 + (tonumber(hour) or 0) * 3600 + (tonumber(minute) or 0) * 60 + (tonumber(second) or 0)
  end

  local function check_options(name, options)
    core.check_options(options, OPTIONS, name)
    if options.timeout and not (options.timeout > 0) then misuse(name .. ": option 'timeout' must be more than 0") end
    if options.retries and (math_type(options.retries) ~= "integer" or options.retries < 0) then
      misuse(name .. ": option 'retries' must be a whole number, 0 or more")
    end
    for _, key in pairs { "tags", "leaks" } do
      for _, word in pairs(type(options[key]) == "table" and options[key] or {}) do
        if type(word) ~= "string" then
          misuse(format("%s: option '%s' must be an array of strings, got %s in it", name, key, describe_value(word)))
        end
      end
    end
  end

  local function bare_node(kind)
    return { kind = kind, before = {}, after = {}, before_all = {}, after_all = {}, children = {} }
  end

  --- Returns the group that contains everything in a file.
  function core.new_root() return bare_node "group" end

  local function new_node(name, kind, title, options, body)
    check_argument(title, "string", name, 1, "a name")
    if type(options) == "function" and body == nil then options, body = nil, options end
    check_argument(options, "table or nil", name, 2, "a function, or a table of options")
    if body ~= nil and type(body) ~= "function" or kind == "group" and body == nil then
      misuse(format("%s: a function is expected after the name, got %s", name, describe_value(body)))
    end
    if core.current then misuse(name .. ": a test cannot define tests while it runs") end
    local parent = core.group
    if not parent then misuse(name .. ": tests must be defined while their file is loaded") end
    options = options or {}
    check_options(name, options)
    local node = bare_node(kind)
    node.name, node.parent, node.body, node.where = title, parent, body, here()
    for key in pairs(OPTIONS) do node[key] = options[key] end
    if options.starts_at then node.starts_at = date_of(name, options.starts_at) end
    if options.time_zone and not is_zone(options.time_zone) then
      misuse(format("%s: option 'time_zone' must be a time zone, like \"Europe/Berlin\", got %q", name,
        options.time_zone))
    end
    if not node.skip then node.skip = nil end
    if node.skip == nil and kind == "test" and body == nil then node.skip = "not written yet" end
    if node.only then core.has_only = node.where or true end
    parent.children[#parent.children + 1] = node
    return node
  end

  --- Groups tests: calls `body` at once, which defines them.
  function t.describe(name, options, body)
    local node = new_node("t.describe", "group", name, options, body)
    local outer = core.group
    core.group = node
    node.body()
    core.group = outer
  end

  --- Defines a test.
  function t.it(name, options, body) new_node("t.it", "test", name, options, body) end

  local Skip = {}
  core.Skip = Skip

  --- Ends the test that runs as skipped, or all tests of the group whose `before_all` runs.
  function core.skip(reason) error(setmetatable({ reason = reason }, Skip), 0) end

  --- Outside of tests, defines a test that does not run. In a test, ends it as skipped, with a reason.
  function t.skip(name, options, body)
    if core.current then
      check_argument(name, "string or nil", "t.skip", 1, "a reason")
      core.skip(name or "")
    end
    local node = new_node("t.skip", "test", name, options, body)
    if node.skip == nil or node.skip == "not written yet" and body then node.skip = true end
  end

  --- Defines a test that excludes the others: if a file has such tests, only these run.
  function t.only(name, options, body)
    local node = new_node("t.only", "test", name, options, body)
    node.only = true
    core.has_only = node.where or true
  end

  -- A test for each case ----------------------------------------------------------------------------------------------

  -- Returns the name of a case: %s and the like stand for its values, $name for its fields.
  local function case_name(name, case, arguments, number)
    local shown = {}
    for i = 1, arguments.n do
      local value = arguments[i]
      shown[i] = type(value) == "table" and values.show(value) or value
    end
    if name:find "%%[%a%.%d]" then
      local fine, text = pcall(format, name, unpack(shown, 1, arguments.n))
      if fine then return text end
      misuse(format("t.each: the name cannot be formatted for case %s: %s", tostring(number), text))
    end
    if name:find "%$[%a_]" and type(case) == "table" then
      return (name:gsub("%$([%a_][%w_]*)", function(field)
        if case[field] ~= nil then return type(case[field]) == "string" and case[field] or values.show(case[field]) end
      end))
    end
    if type(number) == "string" then return name .. " " .. number end
    return format("%s [%d: %s]", name, number, values.show(case))
  end

  --- Defines a test for each element of an array, or for each named field of a table. The body receives the case, or
  --- its elements if the case is an array.
  function t.each(cases, name, options, body)
    check_argument(cases, "table", "t.each", 1, "a table of cases")
    check_argument(name, "string", "t.each", 2, "a name")
    if type(options) == "function" and body == nil then options, body = nil, options end
    if type(body) ~= "function" then
      misuse("t.each: a function is expected after the name, got " .. describe_value(body))
    end
    local keys = {}
    for key in pairs(cases) do keys[#keys + 1] = key end
    if #keys == 0 then misuse "t.each: argument #1 must contain a case, got an empty table" end
    table.sort(keys, function(a, b)
      if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
      return type(a) == "number"
    end)
    for _, key in pairs(keys) do
      local case = cases[key]
      local is_array = type(case) == "table" and getmetatable(case) == nil and (#case > 0 or next(case) == nil)
      local arguments = is_array and pack(unpack(case, 1, case.n or #case)) or pack(case)
      local node = new_node("t.each", "test", case_name(name, case, arguments, key), options, body)
      node.arguments = arguments
    end
  end

  -- Hooks -------------------------------------------------------------------------------------------------------------

  local function hook(name, list)
    return function(body)
      check_argument(body, "function", name, 1, "a function")
      if not core.group or core.current then misuse(name .. ": hooks must be defined while their file is loaded") end
      local hooks = core.group[list]
      hooks[#hooks + 1] = body
      if list == "before_all" or list == "after_all" then core.group.fixtures = true end
    end
  end

  --- Calls a function before each test of the group, after the functions of outer groups.
  t.before_each = hook("t.before_each", "before")
  --- Calls a function after each test of the group, whatever its outcome, before the functions of outer groups.
  t.after_each = hook("t.after_each", "after")
  --- Calls a function once, before the first of the group's tests that run. Everything that it begins lives as long as
  --- the group.
  t.before_all = hook("t.before_all", "before_all")
  --- Calls a function once, after the last of the group's tests that run.
  t.after_all = hook("t.after_all", "after_all")

  --- Calls a function when the test is over, whatever its outcome. The newest runs first.
  function t.finally(body)
    check_argument(body, "function", "t.finally", 1, "a function")
    if not core.current then misuse("t.finally: call it in a test; a group uses t.after_all") end
    core.at_end(body)
  end

  --- Calls a function at the end of the test that runs, or of the group for which something is being made. Returns a
  --- function that revokes this.
  function core.at_end(body)
    local group = core.owner or core.current.group
    local list = group and group.made or core.current.after
    list[#list + 1] = body
    return function() forget(list, body) end
  end

  -- Resources ---------------------------------------------------------------------------------------------------------

  local Resource = { __name = "resource" }
  Resource.__index = Resource

  function Resource:__call()
    if self.is_made then return self.value end
    local current, group = core.current, self.group
    if not current then misuse "resource: it is made for tests: call it in one" end
    local function make()
      self.value = self.make()
      self.is_made = true
    end
    local function free()
      local value = self.value
      self.value, self.is_made = nil, false
      if self.free then return self.free(value) end
      local meta = getmetatable(value)
      if type(meta) == "table" and meta.__close then meta.__close(value) end
    end
    if group then
      core.own(group, make)
      group.made[#group.made + 1] = free
    else
      make()
      current.after[#current.after + 1] = free
    end
    return self.value
  end

  function Resource:__tostring()
    return format("resource (%s, made at %s)", self.is_made and "made" or "not made", self.where)
  end

  --- Returns a resource that the tests of a group share: the first call makes it, and the end of the group frees it. In
  --- a test, the end of the test frees it. Without `free`, the value's `__close` is called.
  function t.resource(make, free)
    check_argument(make, "function", "t.resource", 1, "a function")
    check_argument(free, "function or nil", "t.resource", 2, "a function")
    local group = not core.current and core.group or nil
    if not group and not core.current then misuse "t.resource: it belongs to a group, or to a test that runs" end
    if group then group.fixtures = true end
    return setmetatable({ make = make, free = free, group = group, where = here() }, Resource)
  end

end
