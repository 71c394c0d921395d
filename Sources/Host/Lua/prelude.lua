-- The Lua-written part of the API. The chunk gets two arguments: the table of the functions written in Swift, which it
-- completes and returns, and internal functions.

local rl, internals, crossing, make_notifications = ...
local error, type, select, pcall = error, type, select, pcall
local setmetatable, tostring, next = setmetatable, tostring, next
local ipairs, rawequal, rawlen, package = ipairs, rawequal, rawlen, package
local io_type, integer_of, pack, unpack = io.type, math.tointeger, table.pack, table.unpack
local require = require
local value, set_value, kind_of = internals.value, internals.set_value, internals.kind
-- If a script calls a Lua function as `return f()`, a tail call, the stack does not contain the script's call, so an
-- object made in `f` would have no creation site. `framed` wraps such functions in a C function, which has the site.
local framed = internals.framed

-- The module with the error texts is loaded at the first wrong call, since few scripts make one.
local function raise(...) require "runloop.misuse".raise(...) end

local function wrong(...) require "runloop.misuse".wrong(...) end
local function wrong_self(...) require "runloop.misuse".wrong_self(...) end

local function expect_function(name, number, value)
  if type(value) ~= "function" then wrong(name, "argument #" .. number, "a function", value) end
end

rl.modes = {
  default = "default", common = "common", event_tracking = "event_tracking", modal = "modal",
  connection_reply = "connection_reply",
}

rl.version = internals.version

-- The functions that this program adds.
for _, functions in next, { select(5, ...) } do
  for name, added in next, functions do rl[name] = added end
end

-- Custom sources: the command buffer ---------------------------------------------------------------------------------

local source_methods = internals.methods "source"
local QUEUE = internals.value_number("source", "queue")

local function queue_of(source, name)
  if kind_of(source) ~= "source" then wrong_self(name, "source", source) end
  local queue = value(source, QUEUE)
  if not queue then
    queue = { first = 1, last = 0 }
    set_value(source, QUEUE, queue)
  end
  return queue
end

function source_methods:post(...)
  local queue = queue_of(self, "source:post")
  if (...) == nil then
    raise "source:post: argument #1 must be a value other than nil: it ends the loop over commands()"
  end
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
  if crossing.is_foreign(self) then raise "source:commands: this source belongs to another thread" end
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

local function method_of(object, name)
  local found, method = pcall(function() return object[name] end)
  return found and type(method) == "function" and method or nil
end

-- Returns the descriptor for a number, a Lua file, or an object with a method that returns a number or a Lua file.
-- Returns nil and the problem for any other object.
local function find_descriptor(object, depth)
  local kind = type(object)
  if kind == "number" then
    local fd = integer_of(object)
    if fd and fd >= 0 and fd <= 0x7fffffff then return fd end
    return nil, "must be a descriptor: an integer, 0 or more, got " .. require "runloop.misuse".describe(object)
  end
  if kind == "userdata" then
    local file = io_type(object)
    if file == "file" then return internals.fileno(object) end
    if file then return nil, "must be an open file, got a closed one" end
  end
  if (kind == "userdata" or kind == "table") and depth < 3 then
    for i = 1, #GETTERS do
      local method = method_of(object, GETTERS[i])
      if method then
        local given, reason = method(object)
        if given ~= nil then return find_descriptor(given, depth + 1) end
        return nil, ("must have a descriptor, but its %s() gave nil%s"):format(GETTERS[i],
          reason ~= nil and ": " .. tostring(reason) or "")
      end
    end
  end
  return nil, "must be a descriptor, a file, or an object with fd(), getfd(), pollfd() or fileno(), got "
    .. require "runloop.misuse".describe(object)
end

internals.find_descriptor = find_descriptor

local function descriptor(name, what, object)
  local fd, reason = find_descriptor(object, 0)
  if not fd then raise("%s: %s %s", name, what, reason) end
  return fd
end

-- Refuses standard input at a prompt: a waiting task and the prompt would each get some of the keys.
function internals.refuse_keys(name, fd)
  if fd == 0 and crossing.prompt_has_keys() then
    raise("%s: standard input is the terminal whose keys the prompt reads: io.read() reads a line of it, "
      .. "here and in callbacks", name)
  end
end
local refuse_keys = internals.refuse_keys

local function is_object(value) return type(value) == "userdata" or type(value) == "table" end

-- Whether an object has buffered bytes that it has not handed out, as LuaSocket's objects and Lua's files may have.
-- Such an object is ready even if its descriptor is not.
local function is_dirty(object)
  if io_type(object) then return internals.has_read_ahead(object) end
  local dirty = is_object(object) and method_of(object, "dirty")
  return dirty and dirty(object)
end

local new_fd_port = rl.fd_port
local OBJECT = internals.value_number("fd_port", "object")

local read_ahead

-- Makes a port that keeps the object alive: when a file is collected, it closes its descriptor.
local function make_port(options, object)
  local reads_ahead = is_object(object) and type(options.callback) == "function"
    and (io_type(object) or method_of(object, "dirty"))
  if reads_ahead then read_ahead = read_ahead or internals.part "runloop.buffered_files" end
  local begin = reads_ahead and read_ahead(rl, is_dirty, options, object)
  local port, message, code = new_fd_port(options)
  if not port then return nil, message, code end
  if begin then begin(port) end
  if is_object(object) then set_value(port, OBJECT, object) end
  return port
end

rl.fd_port = framed(function(options)
  if type(options) ~= "table" then
    raise("rl.fd_port: an options table is expected, got %s", require "runloop.misuse".describe(options))
  end
  local object = options.fd
  if object == 0 then refuse_keys("rl.fd_port", 0) end
  if type(object) == "number" and integer_of(object) then return make_port(options) end
  local fd = descriptor("rl.fd_port", "field 'fd'", object)
  refuse_keys("rl.fd_port", fd)
  local copy = {}
  for name, field in next, options do copy[name] = field end
  copy.fd = fd
  return make_port(copy, object)
end)

local function watch(name, events)
  return framed(function(object, callback)
    local fd = descriptor(name, "argument #1", object)
    expect_function(name, 2, callback)
    if events == "r" then refuse_keys(name, fd) end
    local port, message, code = make_port({ fd = fd, events = events, callback = callback }, object)
    if not port then return nil, message, code end
    rl.current():add(port, "common")
    return port
  end)
end

rl.on_readable = watch("rl.on_readable", "r")
rl.on_writable = watch("rl.on_writable", "w")

-- Tasks --------------------------------------------------------------------------------------------------------------

-- The error value of a cancelled task. The error is a unique table, so no error of a script equals it.
local cancelled = setmetatable({}, {
  __name = "cancelled",
  __tostring = function() return "cancelled" end,
  __concat = function(a, b) return tostring(a) .. tostring(b) end,
})
rl.cancelled = cancelled
crossing.set_cancelled(cancelled)

-- Returns the script's directory, in which a script finds its other files.
function rl.script_directory()
  local script = crossing.script()
  return script and crossing.directory_of(script)
end

function rl.is_cancelled(err) return rawequal(err, cancelled) end

-- Starts a task for which the running task waits. The new task keeps the loop alive if the running task does.
local start = crossing.child_task
internals.child_task = start
internals.is_background, internals.set_background = crossing.is_background, crossing.set_background
local wait_for_timeout, wait_for_first = crossing["rl.timeout"], crossing["rl.first_of"]
local wait_for_all = crossing["rl.all_of"]

local function wait_for(name)
  local wait_for_descriptor = crossing[name]
  return function(object, timeout)
    local fd = descriptor(name, "argument #1", object)
    if fd == 0 and name == "rl.wait_readable" then refuse_keys(name, fd) end
    if type(object) ~= "number" and name == "rl.wait_readable" and is_dirty(object) then return "r" end
    -- Not a tail call: the object must not be collected, and so closed, during the wait.
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
    wrong("rl.timeout", "argument #1", "a number of seconds, 0 or more", seconds)
  end
  expect_function("rl.timeout", 2, fn)
  -- As a to-be-closed variable, the task is cancelled when the time is over, and when the waiting task is cancelled.
  local task <close> = start(fn, ...)
  local has_ended = wait_for_timeout({ task }, seconds)
  -- The task has received the result of its wait, which would be lost if it were cancelled now. So it goes on until it
  -- ends or waits again. A nested rl.timeout waits for its task first, so that each level needs one more turn.
  for _ = 1, 8 do
    if has_ended ~= false then break end
    has_ended = wait_for_timeout({ task }, 0)
  end
  if has_ended then return true, task:await() end
  return nil, "timed out"
end

local cancel_all = { __close = function(tasks)
  for i = 1, #tasks do tasks[i]:cancel() end
end }

-- If the only argument is a list, returns its elements.
local function elements(...)
  if select("#", ...) == 1 and type((...)) == "table" then return unpack((...), 1, rawlen((...))) end
  return ...
end

-- Returns the tasks and futures among the arguments. Functions become tasks, which are added to `own`.
local function tasks_of(name, own, ...)
  local tasks = { ... }
  for i = 1, select("#", ...) do
    local value = tasks[i]
    if type(value) == "function" then
      value = start(value)
      own[#own + 1] = value
      tasks[i] = value
    elseif kind_of(value) ~= "task" and kind_of(value) ~= "future" then
      wrong(name, "argument #" .. i, "a task, a future or a function", value)
    end
  end
  return tasks
end

local function first_of(...)
  if select("#", ...) == 0 then wrong("rl.first_of", "argument #1", "a task, a future or a function") end
  local own <close> = setmetatable({}, cancel_all)
  local tasks = tasks_of("rl.first_of", own, ...)
  local first = wait_for_first(tasks)
  return first, tasks[first]:await()
end

function rl.first_of(...) return first_of(elements(...)) end

local function all_of(...)
  local own <close> = setmetatable({}, cancel_all)
  local tasks = tasks_of("rl.all_of", own, ...)
  local failed = wait_for_all(tasks)
  if failed > 0 then tasks[failed]:await() end
  local results, count = {}, select("#", ...)
  for i = 1, count do results[i] = (tasks[i]:await()) end
  return unpack(results, 1, count)
end

function rl.all_of(...) return all_of(elements(...)) end

local function has_ended(task)
  if kind_of(task) == "future" then return task:is_done() end
  return not task:is_valid()
end

-- Returns the outcome of a task or future; the arguments are the results of `pcall(task.await, task)`. If the waiting
-- task itself was cancelled, raises that error.
local function settled(task, ok, ...)
  if ok then return { ok = true, n = select("#", ...), ... } end
  if not has_ended(task) then error(..., 0) end
  return { ok = false, error = (...), ... }
end

function rl.settle_all(list)
  if type(list) ~= "table" then
    wrong("rl.settle_all", "argument #1", "a list of tasks, futures and functions", list)
  end
  local own <close> = setmetatable({}, cancel_all)
  local tasks = tasks_of("rl.settle_all", own, unpack(list, 1, rawlen(list)))
  local results = {}
  for i = 1, #tasks do results[i] = settled(tasks[i], pcall(tasks[i].await, tasks[i])) end
  return results
end

-- Functions that few scripts use are compiled when they are first called.
local parts = {}
local function later(part, name)
  return framed(function(...)
    if not parts[part] then parts[part] = internals.part("runloop." .. part)(rl, internals, crossing) end
    return parts[part][name](...)
  end)
end

rl.locals = internals.locals()
internals.open_bare_futures = crossing.open_bare_futures
rl.future, rl.mutex = internals.lazy(crossing.open_futures), internals.lazy(crossing.open_mutexes)
rl.backoff = internals.lazy(function() return internals.part "runloop.backoff"(rl, internals, crossing) end)
rl.condition, rl.channel = later("channels", "condition"), later("channels", "channel")
rl.group = later("channels", "group")
rl.traceback, rl.inspect = later("errors", "traceback"), later("errors", "inspect")
rl.on_shutdown, rl.shutdown = later("shutdown", "on_shutdown"), later("shutdown", "shutdown")
rl.blocking, rl.pool, rl.worker = later("pool", "blocking"), later("pool", "pool"), later("pool", "worker")
internals.refusal = crossing.refusal
rl.sandbox = later("sandbox", "sandbox")
rl.at, rl.debounce, rl.throttle = later("timing", "at"), later("timing", "debounce"), later("timing", "throttle")
-- Recording begins with the first use.
local function of_trace(name) return function(...) return require "runloop.trace"[name](...) end end
rl.trace = {
  dump = of_trace "dump", start = of_trace "start", stop = of_trace "stop", span = of_trace "span",
  mark = of_trace "mark",
}
internals.on_missing(rl.trace, "runloop.trace")

-- Threads ------------------------------------------------------------------------------------------------------------

local function check_fields(name, options, known)
  for field in next, options do
    if integer_of(field) == nil and not known[field] then require "runloop.hints".unknown(name, field, known) end
  end
end

local function positional(options)
  local last = 0
  for key in next, options do
    if integer_of(key) and key > last then last = key end
  end
  return last
end

local THREAD = { name = true, keeps_alive = true, memory = true, cpu = true }

rl.thread = framed(function(fn, ...)
  local name
  if type(fn) == "table" then
    local options = fn
    check_fields("rl.thread", options, THREAD)
    name = options.name
    if name ~= nil and type(name) ~= "string" then wrong("rl.thread", "field 'name'", "a string", name) end
    if type(options[1]) ~= "function" then wrong("rl.thread", "the first element", "a function", options[1]) end
    local keeps_alive = options.keeps_alive
    if keeps_alive ~= nil and type(keeps_alive) ~= "boolean" then
      wrong("rl.thread", "field 'keeps_alive'", "a boolean", keeps_alive)
    end
    local arguments = positional(options)
    return crossing["rl.thread"](name, keeps_alive, package.path, package.cpath, options.memory, options.cpu,
      unpack(options, 1, arguments))
  end
  expect_function("rl.thread", 1, fn)
  return crossing["rl.thread"](name, true, package.path, package.cpath, nil, nil, fn, ...)
end)

-- Ports --------------------------------------------------------------------------------------------------------------

local MESSAGE = { id = true, data = true, reply_port = true, before = true }

local port_methods = internals.methods "port"

function port_methods:send(message)
  if kind_of(self) ~= "port" then wrong_self("port:send", "port", self) end
  if type(message) ~= "table" then
    raise("port:send: a message table is expected, got %s", require "runloop.misuse".describe(message))
  end
  check_fields("port:send", message, MESSAGE)
  local id, reply_port, before = message.id, message.reply_port, message.before
  if id == nil then id = 0 end
  if type(id) ~= "number" or not integer_of(id) then wrong("port:send", "field 'id'", "an integer", id) end
  if reply_port ~= nil and kind_of(reply_port) ~= "port" then
    wrong("port:send", "field 'reply_port'", "a port", reply_port)
  end
  if before ~= nil and (type(before) ~= "number" or before ~= before) then
    wrong("port:send", "field 'before'", "a date: a number, as rl.now() returns", before)
  end
  return crossing["port:send"](self, before, { id = integer_of(id), data = message.data, reply_port = reply_port })
end

make_notifications(rl, internals, check_fields, raise, wrong, crossing.is_idle)

return rl
