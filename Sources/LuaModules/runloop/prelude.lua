-- What of the API is written in Lua: called with the table of the functions written in Swift, which it completes and
-- returns, and with the internals it needs for that. Errors have the caller's position: level 3 is the script.

local rl, internals, crossing = ...
local error, type, select, pcall, setmetatable, tostring = error, type, select, pcall, setmetatable, tostring
local io_type, integer_of, pack, unpack = io.type, math.tointeger, table.pack, table.unpack
local value, set_value, kind_of = internals.value, internals.set_value, internals.kind

rl.modes = {
  default = "default", common = "common", event_tracking = "event_tracking", modal = "modal",
  connection_reply = "connection_reply",
}

-- Custom sources: the command buffer ---------------------------------------------------------------------------------

local source_methods = internals.methods "source"
local QUEUE = internals.value_number("source", "queue")

local function queue_of(source, name)
  if kind_of(source) ~= "source" then
    error(name .. ": a source is expected as self, got " .. type(source) .. "; call it with a colon", 3)
  end
  local queue = value(source, QUEUE)
  if not queue then
    queue = { first = 1, last = 0 }
    set_value(source, QUEUE, queue)
  end
  return queue
end

function source_methods:post(...)
  local queue = queue_of(self, "source:post")
  if (...) == nil then error("source:post: argument #1 must be a value other than nil: it ends the loop over commands()", 2) end
  if crossing.is_foreign(self) then return crossing["source:post"](self, ...) end
  if not self:is_valid() then return false end
  queue.last = queue.last + 1
  queue[queue.last] = select("#", ...) == 1 and { n = 1, (...) } or pack(...)
  self:signal()
  self:wake_loops()
  return true
end

function source_methods:commands()
  local queue = queue_of(self, "source:commands")
  if crossing.is_foreign(self) then error("source:commands: this source belongs to another thread", 2) end
  return function()
    local first = queue.first
    local command = queue[first]
    if not command then
      queue.first, queue.last = 1, 0
      return crossing.take_command(self)
    end
    queue[first] = nil
    queue.first = first + 1
    return unpack(command, 1, command.n)
  end
end

-- Descriptors --------------------------------------------------------------------------------------------------------

local GETTERS = { "fd", "getfd", "pollfd", "fileno" }

-- The number of a descriptor, a Lua file, or an object with a method that gives either; or nil and what is wrong.
local function descriptor(object, depth)
  local kind = type(object)
  if kind == "number" then
    local fd = integer_of(object)
    if fd and fd >= 0 and fd <= 0x7fffffff then return fd end
    return nil, "must be a descriptor: an integer, 0 or more, got " .. tostring(object)
  end
  if kind == "userdata" then
    local file = io_type(object)
    if file == "file" then return internals.fileno(object) end
    if file then return nil, "must be an open file, got a closed one" end
  end
  if (kind == "userdata" or kind == "table") and depth < 3 then
    for i = 1, #GETTERS do
      local found, method = pcall(function() return object[GETTERS[i]] end)
      if found and type(method) == "function" then return descriptor(method(object), depth + 1) end
    end
  end
  return nil, "must be a descriptor, a file, or an object with fd(), getfd(), pollfd() or fileno(), got "
    .. (kind == "nil" and "nothing" or kind == "string" and ("%q"):format(object) or "a " .. kind)
end

local new_fd_port = rl.fd_port
local OBJECT = internals.value_number("fd_port", "object")

-- Keeps the object alive as long as the port: a file that is collected closes its descriptor.
local function make_port(options, object)
  local port, message, code = new_fd_port(options)
  if port and (type(object) == "userdata" or type(object) == "table") then set_value(port, OBJECT, object) end
  return port, message, code
end

function rl.fd_port(options)
  if type(options) ~= "table" then
    error("rl.fd_port: an options table is expected, got " .. (options == nil and "nothing" or type(options)), 2)
  end
  local object = options.fd
  if type(object) == "number" and integer_of(object) then return make_port(options) end
  local fd, wrong = descriptor(object, 0)
  if not fd then error("rl.fd_port: field 'fd' " .. wrong, 2) end
  local copy = {}
  for name, field in next, options do copy[name] = field end
  copy.fd = fd
  return make_port(copy, object)
end

local function watch(name, events)
  return function(object, callback)
    local fd, wrong = descriptor(object, 0)
    if not fd then error(name .. ": argument #1 " .. wrong, 2) end
    if type(callback) ~= "function" then
      error(name .. ": argument #2 must be a function, got " .. type(callback), 2)
    end
    local port, message, code = make_port({ fd = fd, events = events, callback = callback }, object)
    if not port then return nil, message, code end
    rl.current():add(port, "common")
    return port
  end
end

rl.on_readable = watch("rl.on_readable", "r")
rl.on_writable = watch("rl.on_writable", "w")

-- Tasks --------------------------------------------------------------------------------------------------------------

-- The error of a task that is cancelled: one value, which no error of a script's own is.
local cancelled = setmetatable({}, {
  __name = "cancelled",
  __tostring = function() return "cancelled" end,
  __concat = function(a, b) return tostring(a) .. tostring(b) end,
})
rl.cancelled = cancelled
crossing.set_cancelled(cancelled)

function rl.is_cancelled(err) return rawequal(err, cancelled) end

local start = rl.task
local wait_for_timeout, wait_for_first, wait_for_all = crossing["rl.timeout"], crossing["rl.first_of"], crossing["rl.all_of"]

local function wait_for(name)
  local wait_for_descriptor = crossing[name]
  return function(object, timeout)
    local fd, wrong = descriptor(object, 0)
    if not fd then error(name .. ": argument #1 " .. wrong, 2) end
    -- Not a tail call: the object must not be collected, and so closed, meanwhile.
    local events, message, code = wait_for_descriptor(fd, timeout)
    if events then return events end
    if not message then return nil, "timed out" end
    return nil, message, code
  end
end

rl.wait_readable = wait_for "rl.wait_readable"
rl.wait_writable = wait_for "rl.wait_writable"

function rl.timeout(seconds, fn, ...)
  if type(seconds) ~= "number" or not (seconds >= 0) then
    error("rl.timeout: argument #1 must be a number of seconds, 0 or more, got " .. tostring(seconds), 2)
  end
  if type(fn) ~= "function" then error("rl.timeout: argument #2 must be a function, got " .. type(fn), 2) end
  -- Closing cancels: when the time is over, and when whoever waits here is cancelled.
  local task <close> = start(fn, ...)
  if wait_for_timeout({ task }, seconds) then return true, task:await() end
  return nil, "timed out"
end

local cancel_all = { __close = function(tasks)
  for i = 1, #tasks do tasks[i]:cancel() end
end }

-- The tasks among the arguments; functions become tasks, which are added to `own`.
local function tasks_of(name, own, ...)
  local tasks = { ... }
  for i = 1, select("#", ...) do
    local value = tasks[i]
    if type(value) == "function" then
      value = start(value)
      own[#own + 1] = value
      tasks[i] = value
    elseif kind_of(value) ~= "task" then
      error(name .. ": argument #" .. i .. " must be a task or a function, got " .. (value == nil and "nil" or type(value)), 3)
    end
  end
  return tasks
end

function rl.first_of(...)
  if select("#", ...) == 0 then error("rl.first_of: argument #1 must be a task or a function, got nothing", 2) end
  local own <close> = setmetatable({}, cancel_all)
  local tasks = tasks_of("rl.first_of", own, ...)
  local first = wait_for_first(tasks)
  return first, tasks[first]:await()
end

function rl.all_of(...)
  local own <close> = setmetatable({}, cancel_all)
  local tasks = tasks_of("rl.all_of", own, ...)
  local failed = wait_for_all(tasks)
  if failed > 0 then tasks[failed]:await() end
  local results, count = {}, select("#", ...)
  for i = 1, count do results[i] = (tasks[i]:await()) end
  return unpack(results, 1, count)
end

-- What few scripts use is compiled when it is first called.
local parts = {}
local function later(part, name)
  return function(...)
    if not parts[part] then parts[part] = internals.part("runloop." .. part)(rl, internals, crossing) end
    return parts[part][name](...)
  end
end

rl.condition, rl.channel, rl.group = later("channels", "condition"), later("channels", "channel"), later("channels", "group")

-- Observers ----------------------------------------------------------------------------------------------------------

function rl.observe(activities, callback)
  if type(callback) ~= "function" then
    error("rl.observe: argument #2 must be a function, got " .. type(callback), 2)
  end
  local observer = rl.observer { activities = activities, callback = callback }
  rl.current():add(observer, "common")
  return observer
end

-- Threads ------------------------------------------------------------------------------------------------------------

-- Suggests nothing here: the names are few.
local function check_fields(name, options, known)
  for field in next, options do
    if integer_of(field) == nil and not known[field] then
      local names = {}
      for other in next, known do names[#names + 1] = other end
      table.sort(names)
      error(("%s: unknown field '%s' (there are: %s)"):format(name, tostring(field), table.concat(names, ", ")), 3)
    end
  end
end

local function positional(options)
  local last = 0
  for key in next, options do
    if integer_of(key) and key > last then last = key end
  end
  return last
end

local THREAD = { name = true }

function rl.thread(fn, ...)
  local name
  if type(fn) == "table" then
    local options = fn
    check_fields("rl.thread", options, THREAD)
    name = options.name
    if name ~= nil and type(name) ~= "string" then
      error("rl.thread: field 'name' must be a string, got " .. type(name), 2)
    end
    if type(options[1]) ~= "function" then
      error("rl.thread: the first element must be a function, got " .. type(options[1]), 2)
    end
    return crossing["rl.thread"](name, package.path, package.cpath, unpack(options, 1, positional(options)))
  end
  if type(fn) ~= "function" then error("rl.thread: argument #1 must be a function, got " .. type(fn), 2) end
  return crossing["rl.thread"](name, package.path, package.cpath, fn, ...)
end

-- Ports --------------------------------------------------------------------------------------------------------------

local MESSAGE = { id = true, data = true, reply_port = true, before = true }

local port_methods = internals.methods "port"

function port_methods:send(message)
  if kind_of(self) ~= "port" then
    error("port:send: a port is expected as self, got " .. type(self) .. "; call it with a colon", 2)
  end
  if type(message) ~= "table" then
    error("port:send: a message table is expected, got " .. (message == nil and "nothing" or type(message)), 2)
  end
  check_fields("port:send", message, MESSAGE)
  local id, reply_port, before = message.id, message.reply_port, message.before
  if id == nil then id = 0 end
  if integer_of(id) == nil then error("port:send: field 'id' must be an integer, got " .. tostring(id), 2) end
  if reply_port ~= nil and kind_of(reply_port) ~= "port" then
    error("port:send: field 'reply_port' must be a port, got " .. type(reply_port), 2)
  end
  if before ~= nil and (type(before) ~= "number" or before ~= before) then
    error("port:send: field 'before' must be a date: a number, as of rl.now(), got " .. tostring(before), 2)
  end
  return crossing["port:send"](self, before, { id = integer_of(id), data = message.data, reply_port = reply_port })
end

-- Notifications ------------------------------------------------------------------------------------------------------

local notifications = {}
rl.notifications = notifications

local observers = {}  -- by name, in the order in which they were added

-- What is queued: sets of entries, by name and sender, and by sender. Coalescing looks at what it is about and no more, however
-- much else is queued.
local by_name, by_sender = {}, {}
local NOBODY = {}     -- the sender of those without one

local function check_name(call, name)
  if type(name) ~= "string" then
    error(call .. ": argument #1 must be the name of a notification, got " .. type(name), 3)
  end
end

local function check_self(call, self)
  if self ~= notifications then error(call .. ": call it with a colon, as rl.notifications:" .. call:match ":(.*)", 3) end
end

local Observation = {}
Observation.__index = Observation
Observation.__name = "notification_observer"

function Observation:invalidate()
  if not self.valid then return end
  self.valid = false
  local list = observers[self.notification]
  for i = 1, #list do
    if list[i] == self then
      -- A new list: somebody may be walking along the old one.
      local shorter = {}
      for j = 1, #list do
        if j ~= i then shorter[#shorter + 1] = list[j] end
      end
      observers[self.notification] = #shorter > 0 and shorter or nil
      break
    end
  end
end

Observation.__close = Observation.invalidate
function Observation:is_valid() return self.valid end
function Observation:name() return self.notification end
function Observation:__tostring()
  return ("notification_observer %q (%s)"):format(self.notification, self.valid and "valid" or "invalid")
end

-- fn(name, info, sender) is called for each notification of that name; with `sender`, only for those from it.
function notifications:observe(name, fn, sender)
  check_self("notifications:observe", self)
  check_name("notifications:observe", name)
  if type(fn) ~= "function" then error("notifications:observe: argument #2 must be a function, got " .. type(fn), 2) end
  local observation = setmetatable({ notification = name, fn = fn, sender = sender, valid = true }, Observation)
  local list = observers[name]
  local longer = {}
  for i = 1, list and #list or 0 do longer[i] = list[i] end
  longer[#longer + 1] = observation
  observers[name] = longer
  return observation
end

-- Every observer is told, whatever happens to those before it; the first error is raised at the end.
local function deliver(name, info, sender)
  local list = observers[name]
  local failed, failure = false, nil
  for i = 1, list and #list or 0 do
    local observation = list[i]
    if observation.valid and (observation.sender == nil or rawequal(observation.sender, sender)) then
      local done, err = pcall(observation.fn, name, info, sender)
      if not done and not failed then failed, failure = true, err end
    end
  end
  if failed then error(failure, 0) end
end

function notifications:post(name, info, sender)
  check_self("notifications:post", self)
  check_name("notifications:post", name)
  deliver(name, info, sender)
end

local function remember(entry)
  local name, sender = entry.name, entry.sender
  local senders = by_name[name] or {}
  by_name[name] = senders
  senders[sender] = senders[sender] or {}
  by_sender[sender] = by_sender[sender] or {}
  senders[sender][entry] = true
  by_sender[sender][entry] = true
end

local function forget(entry)
  local name, sender = entry.name, entry.sender
  local senders, all = by_name[name], by_sender[sender]
  local own = senders[sender]
  own[entry], all[entry] = nil, nil
  if next(own) == nil then
    senders[sender] = nil
    if next(senders) == nil then by_name[name] = nil end
  end
  if next(all) == nil then by_sender[sender] = nil end
end

-- Takes back one set of entries, or none. Returns how many they were.
local function withdraw_all(entries)
  local count = 0
  for entry in next, entries or {} do
    forget(entry)
    entry.cancel()
    count = count + 1
  end
  return count
end

local function withdraw(name, sender, is_by_name, is_by_sender)
  if not is_by_name then return is_by_sender and withdraw_all(by_sender[sender]) or 0 end
  local senders = by_name[name] or {}
  if is_by_sender then return withdraw_all(senders[sender]) end
  local count = 0
  for _, entries in next, senders do count = count + withdraw_all(entries) end
  return count
end

-- The modes as an array, or nil if they are not modes.
local function modes_of(modes)
  if type(modes) == "string" then modes = { modes } end
  if type(modes) ~= "table" then return nil end
  for _, mode in next, modes do
    if type(mode) ~= "string" then return nil end
  end
  return modes
end

local ENQUEUE = { style = true, coalesce = true, modes = true, sender = true }
local STYLES = { now = true, asap = true, idle = true }

local function includes(modes, mode)
  for _, name in ipairs(modes) do
    if name == mode then return true end
    if name == "common" then
      for _, common in ipairs(rl.current():inspect().common_modes) do
        if common == mode then return true end
      end
    end
  end
  return false
end

local function check_sender(call, what, sender)
  if sender ~= sender then error(call .. ": " .. what .. " must not be NaN, which is nobody", 3) end
end

function notifications:enqueue(name, info, options)
  check_self("notifications:enqueue", self)
  check_name("notifications:enqueue", name)
  options = options or {}
  if type(options) ~= "table" then
    error("notifications:enqueue: argument #3 must be an options table, got " .. type(options), 2)
  end
  check_fields("notifications:enqueue", options, ENQUEUE)
  local style, sender, modes = options.style or "asap", options.sender, modes_of(options.modes or "default")
  if not STYLES[style] then
    error("notifications:enqueue: field 'style' must be \"now\", \"asap\" or \"idle\", got " .. tostring(style), 2)
  end
  if not modes then
    error("notifications:enqueue: field 'modes' must be the name of a mode, or an array of them, got "
      .. (type(options.modes) == "table" and "a table with something else in it" or type(options.modes)), 2)
  end
  check_sender("notifications:enqueue", "field 'sender'", sender)
  local coalesce = options.coalesce
  if coalesce == nil then coalesce = { "name", "sender" } end
  if type(coalesce) ~= "table" then
    error("notifications:enqueue: field 'coalesce' must be an array of \"name\" and \"sender\", got " .. type(coalesce), 2)
  end
  local is_by_name, is_by_sender = false, false
  for key, what in next, coalesce do
    if integer_of(key) == nil then
      error("notifications:enqueue: field 'coalesce' must be an array, as in { \"name\" }, got a key " .. tostring(key), 2)
    elseif what == "name" then is_by_name = true
    elseif what == "sender" then is_by_sender = true
    else error("notifications:enqueue: field 'coalesce' holds \"name\" and \"sender\" only, got " .. tostring(what), 2)
    end
  end
  local who = sender == nil and NOBODY or sender
  withdraw(name, who, is_by_name, is_by_sender)
  local loop = rl.current()
  if style == "now" then
    local mode = loop:mode()
    if mode == nil or includes(modes, mode) then deliver(name, info, sender) end
    return
  end
  if #modes == 0 then return end
  local entry = { name = name, sender = who }
  local function post()
    forget(entry)
    deliver(name, info, sender)
  end
  if style == "asap" then
    local request = loop:perform { post, modes = modes }
    entry.cancel = function() request:cancel() end
  else
    -- The source keeps the mode alive; the loop looks again afterwards, since the observers may have made work.
    local keep = rl.source { name = "idle notification" }
    local observer = rl.observer { activities = { "before_waiting" }, repeats = false, name = "idle notification",
      callback = function()
        keep:invalidate()
        loop:wake_up()
        post()
      end }
    entry.cancel = function()
      keep:invalidate()
      observer:invalidate()
    end
    loop:add(keep, modes)
    loop:add(observer, modes)
  end
  remember(entry)
end

-- Takes back what is queued: by name and sender if both are given, otherwise by the one that is. Returns how many.
function notifications:dequeue(name, sender)
  check_self("notifications:dequeue", self)
  if name == nil and sender == nil then
    error("notifications:dequeue: give the name of a notification, or a sender, or both", 2)
  end
  if name ~= nil then check_name("notifications:dequeue", name) end
  check_sender("notifications:dequeue", "argument #2", sender)
  return withdraw(name, sender, name ~= nil, sender ~= nil)
end

return rl
