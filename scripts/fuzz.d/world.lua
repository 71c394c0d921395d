-- The functions that the random programs of scripts/fuzz call. `v[id]` has the results of action `id`, or the last
-- arguments of callback `id`; `kept` has every object that is still alive, so that they can be closed at the end.

rl, v = require "runloop", {}
local threads, kept, calls, depth = {}, setmetatable({}, { __mode = "v" }), 0, 0
local over = rl.now() + tonumber(os.getenv "FUZZ_SECONDS")
local names = {}
for name in os.getenv "FUZZ_MODES":gmatch "%S+" do names[#names + 1] = name end

-- Descriptors of sockets, pipes and files, for which fdinfo(5) has no special fields.
local function descriptors()
  local found = {}
  for n = 3, 250 do
    local file <close> = io.open("/proc/self/fdinfo/" .. n)
    local text = file and file:read "a"
    if text and not text:find "event" and not text:find "tfd:" and not text:find "Pid:" and not text:find "inotify"
      and not text:find "sigmask" and not text:find "clockid" then
      found[#found + 1] = n
    end
  end
  return found
end
local before = #descriptors()

-- The modules, each made when its name is first used: M.net, M.runloop.
M = setmetatable({ runloop = rl }, { __index = function(modules, name)
  local count = #descriptors()
  modules[name] = require("runloop." .. name)
  before = before + math.max(0, #descriptors() - count)
  return modules[name]
end })

-- Strange values -----------------------------------------------------------------------------------------------------

local function no() error "hostile" end
local cyclic, huge = {}, {}
cyclic[1], cyclic.self = cyclic, cyclic
for i = 1, 3000 do huge[i] = i end
local closed, dead = assert(io.open "/dev/null"), coroutine.create(print)
closed:close()
coroutine.close(dead)
local raises = setmetatable({}, { __tostring = function() error {} end })
odd = { 0 / 0, -(0 / 0), 1 / 0, -1 / 0, 1e19, -1e19, 1e308, 5e-324, -0.0, 2 ^ 31, 2 ^ 53, 2 ^ 63, math.maxinteger,
  math.mininteger, -1, 0, 1, 0.5, "", "\0\255", ("x"):rep(3000), "%s%d%n", "\27[2J\u{202e}", print, error,
  coroutine.yield, pcall, rl, M, cyclic, huge, closed, dead, _G, string, true, false, raises, coroutine.wrap(print),
  setmetatable({}, { __index = no, __newindex = no, __len = function() return 2 ^ 53 end, __tostring = no, __eq = no,
    __lt = no, __call = no, __pairs = no, __name = 5, __concat = no, __close = no }) }

-- The parts of programs ----------------------------------------------------------------------------------------------

local function keep(...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if (type(value) == "userdata" or type(value) == "table") and value ~= rl then kept[#kept + 1] = value end
    -- A thread continues to run without references to it.
    if type(value) == "userdata" and tostring(value):find "^thread " then threads[value] = true end
  end
  return table.pack(...)
end

-- Result or argument `i` of an action or callback.
function g(id, i) return v[id] and v[id][i or 1] end

-- Returns a field of an object, such as a program's output.
function f(object, name) return object and object[name] end

function m(object, name, ...) return object[name](object, ...) end

-- Returns the address of a listener or server, or an address at which nothing listens.
function at(object) return object and object:address() or "127.0.0.1:1" end

local function done(id, fine, ...)
  if os.getenv "FUZZ_NOTES" then io.stderr:write(tostring(id), " ", tostring(fine), " ", tostring((...)), "\n") end
  if fine then v[id] = keep(...) end
end

-- Carries out an action; an error ends only this action.
function a(id, act) if rl.now() < over then done(id, pcall(act)) end end

-- These carry out an action, too: in a task that is not awaited, with a time limit, or in a coroutine.
function t(id, act) if rl.now() < over then done(id, pcall(rl.task, function() done(id, pcall(act)) end)) end end
function w(id, seconds, act)
  if rl.now() < over then pcall(rl.timeout, seconds, function() done(id, pcall(act)) end) end
end
function co(id, act) if rl.now() < over then pcall(coroutine.wrap(function() done(id, pcall(act)) end)) end end

-- Begins a callback: keeps its arguments. → whether the callback may do anything
function enter(id, ...)
  v[id], calls = keep(...), calls + 1
  return calls < 2000 and depth < 40 and rl.now() < over
end

-- Goes through an iterator, a few steps.
function each(next, state, fn)
  local n = 0
  for value, other in next, state do
    n = n + 1
    fn(value, other)
    if n > 5 then return n end
  end
end

-- Runs `fn` in a nested run, in a mode.
function nested(mode, seconds)
  depth = depth + 1
  local level <close> = setmetatable({}, { __close = function() depth = depth - 1 end })
  return rl.run { mode = mode, timeout = seconds }
end

-- Returns an object with a descriptor, for calls such as `net.copy`.
function file(kind)
  if kind == 1 then return (io.open("/dev/null", "r+")) end
  if kind == 2 then return (io.open("a.txt", "a+")) end
  if kind == 3 then return { fd = function() return -1 end } end
  if kind == 4 then return (io.popen "echo text; sleep 0.01") end
  return io.tmpfile()
end

-- Returns a listener that answers everything with the same bytes, like a database whose answers are nonsense or partly
-- valid.
function speaker(text)
  return M.net.serve("127.0.0.1:0", { keeps_alive = false }, function(stream)
    while stream:read() do if not stream:write(text) then return end end
  end)
end

-- The end ------------------------------------------------------------------------------------------------------------

local function report(text)
  local file <close> = assert(io.open(os.getenv "FUZZ_VERDICT", "a"))
  file:write(text, "\n")
end

local ENDS = { "abort", "kill", "stop", "cancel", "rollback", "unlock", "invalidate", "close", "finish" }
local function close_all()
  local objects = {}
  for _, object in pairs(kept) do objects[#objects + 1] = object end
  for _, object in ipairs(objects) do
    -- A loop that is stopped ends the program.
    local is_loop = select(2, pcall(function() return object.run_mode end))
    for _, name in ipairs(is_loop and {} or ENDS) do
      local is_there, method = pcall(function() return object[name] end)
      if is_there and type(method) == "function" then pcall(rl.timeout, 2, method, object, 0.05) end
    end
  end
end

-- A callback that was waiting until now may have made another bridge.
local function close_bridges()
  for _, name in ipairs { "luv", "cqueues", "glib" } do
    local bridge = rawget(M, name)
    if bridge then pcall(bridge.invalidate, bridge) end
  end
end

local watch
-- Closes everything, and reports objects that remain nevertheless.
local function check()
  over = 0
  watch:invalidate()
  rl.trace.stop()
  rl.attach(false)
  rl.limit_callbacks()
  for _ = 1, 2 do
    close_all()
    close_bridges()
    rl.sleep(0.002)
  end
  -- Run each mode once: requests for a mode that never runs would stay in the loop.
  for _, name in ipairs(names) do if name ~= "common" then rl.run { mode = name, timeout = 0.001 } end end
  local why, open
  local limit = rl.now() + tonumber(os.getenv "FUZZ_PATIENCE")
  repeat
    -- Calls that have waited may still return an object.
    close_all()
    close_bridges()
    v = {}
    collectgarbage()
    collectgarbage()
    rl.sleep(0.005)
    -- Closed streams stay for a while, since the host waits for their peers: leave them out.
    why, open = rl.why():gsub("\nserved, [^\n]*:", ""), descriptors()
    -- A callback may wait for an event that never comes.
    why = why:gsub("\nwaiting for other tasks:.*$", "")
    why = why:gsub("\n *timer %([^\n]*the host's own%)", ""):gsub("\nmode \"[^\n]*$", "")
  until why == "nothing keeps the loop alive" and #open <= before or rl.now() > limit
  -- A callback may still wait, or this check may run in a nested run of a callback. Such a callback may have any
  -- objects open.
  if why:find "%f[%w]task %(" or why:find "its callback runs now" then return report "checked" end
  if why ~= "nothing keeps the loop alive" then report("rl.why: " .. why) end
  if #open > before then
    local links = {}
    for _, n in ipairs(open) do
      -- In fdinfo, an epoll that watches nothing looks like a pipe.
      local link = M.fs.read_link("/proc/self/fd/" .. n)
      if link and not link:find "^anon_inode" and not link:find "/proc/" then links[#links + 1] = n .. "=" .. link end
    end
    -- The shared client keeps connections, and two sockets for itself.
    if #links > before + (rawget(M, "http") and 4 or 0) then report("descriptors: " .. table.concat(links, " ")) end
  end
  report "checked"
end

-- Ends the program in one of the ways, after all its actions.
function finish(how)
  rl.on_error(how ~= "error" and function() end or nil)
  if how == "return" then return check() end
  if how == "error" then error "the end" end
  if how == "stop" then return rl.stop() end
  if how == "shutdown" then return rl.shutdown() end
  if how ~= "leave" then os.exit(0, how == "close") end
  over = 0
end

rl.on_error(function() end)
if not rl.this_thread() then
  -- The timer ends a program that takes too long, in whatever mode its loop runs.
  watch = rl.timer { delay = tonumber(os.getenv "FUZZ_SECONDS") + 0.5, keeps_alive = false,
    callback = function() os.exit(0) end }
  for _, name in ipairs(names) do rl.current():add(watch, name) end
end
