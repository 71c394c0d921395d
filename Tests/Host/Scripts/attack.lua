-- Calls everything with random values, from everywhere a script can call from: callbacks, tasks, coroutines,
-- finalizers, debug hooks, error handlers, threads, and while the state is closed. Whatever errors result, the process
-- must print "survived", or end with a status of its own.
--
--   rlhost attack.lua SEED [CALLS [trace]]
--
-- With an odd seed a finalizer runs in each collection, and requests objects while others are being returned to Lua.

local seed, calls, traced = tonumber(arg and arg[1] or 1), tonumber(arg and arg[2] or 3000), arg and arg[3]
math.randomseed(seed)
local rl = require "runloop"
local random, remove, unpack = math.random, table.remove, table.unpack
local depth, made, pool = 0, 0, {}
local over = rl.now() + 2
local act, value

local function note(...) if traced then io.stderr:write(table.concat({ ... }, " "), "\n") end end

-- The functions to call: all functions of the library, and all methods and metamethods of its objects.
local functions, names = {}, {}
local function learn(name, f)
  -- `rl.on_error` is left out, since the first error would end the process if its handler were replaced.
  if type(f) == "function" and not names[f] and name ~= "rl.on_error" then
    functions[#functions + 1] = f
    names[f] = name
  end
end
local function learn_all(prefix, t)
  local sorted = {}
  for name in pairs(t) do sorted[#sorted + 1] = tostring(name) end
  table.sort(sorted)
  for _, name in ipairs(sorted) do
    if type(t[name]) == "table" and name ~= "__index" then learn_all(prefix .. name .. ".", t[name])
    else learn(prefix .. name, t[name]) end
  end
end
learn_all("rl.", rl)

-- The functions of modules that touch neither files nor other machines. The methods of their objects are added below,
-- when objects exist.
local net, json = require "runloop.net", require "runloop.json"
learn_all("json.", json)
learn("net.memory", net.memory)
learn("net.pair", net.pair)
learn("net.listener", function(options) return net.listener(options) end)

local learned = {}
local function keep(object)
  local meta = debug.getmetatable(object)
  if type(object) == "userdata" and meta and not learned[meta] then
    learned[meta] = true
    learn_all(tostring(meta.__name) .. ".", meta)
    if type(meta.__index) == "table" then learn_all(tostring(meta.__name) .. ":", meta.__index) end
  end
  if #pool < 60 then pool[#pool + 1] = object else pool[random(60)] = object end
  return object
end

-- The bodies of callbacks.
local function overflow() return rl.now() > over and 0 or 1 + overflow() end
local deeds = {
  function() end,
  function(...) return ... end,
  function() error(value()) end,
  function() act() end,
  function() act() act() act() end,
  function() rl.sleep(random() * 0.002) end,
  function() coroutine.yield(value()) end,
  function() rl.run { timeout = random() * 0.003 } end,
  function() rl.current():run { mode = value(), timeout = 0.001, return_after_source = true } end,
  function() collectgarbage() end,
  function() overflow() end,
  function() local s = setmetatable({}, { __tostring = function() error(value()) end }) error(s) end,
  function() error(setmetatable({}, { __tostring = function() return value() end })) end,
  function() error(setmetatable({}, { __tostring = overflow })) end,
  function() setmetatable({}, { __gc = function() act() end }) collectgarbage() end,
  function() setmetatable({}, { __gc = function() error(value()) end }) end,
  function() local c <close> = setmetatable({}, { __close = function() act() end }) act() end,
  function()
    local c <close> = setmetatable({}, { __close = function() rl.sleep(0) error(value()) end })
    error(value())
  end,
  function() coroutine.wrap(function() act() end)() end,
  function() pcall(coroutine.wrap(function() pcall(act) coroutine.yield() act() end)) end,
  function() debug.sethook(function() debug.sethook() act() end, "crl", random(100)) end,
  function() table.sort({ 3, 1, 2, 5, 4 }, function(a, b) act() return a < b end) end,
  function() ("abc"):gsub(".", function() act() end) end,
  function() xpcall(act, function(e) act() return e end) end,
  function() for i = 1, 3 do rl.after(0, function() act() end) end end,
  function() rl.perform(function() act() end) end,
  function() local o = pool[random(#pool)] if o then o:invalidate() end end,
  function() rl.stop() end,
  function() rl.on_error(function(e, info) pcall(act) pcall(tostring, e) end) end,
  function()
    local function nest() if rl.now() < over then rl.after(0, nest) rl.run { timeout = 0.001 } end end
    nest()
  end,
  function() string.rep("x", -1)() end,
}

local function deed()
  local chosen = deeds[random(#deeds)]
  return function(...)
    if rl.now() > over then return end
    depth = depth + 1
    local d <close> = setmetatable({}, { __close = function() depth = depth - 1 end })
    return chosen(...)
  end
end

local hostile = setmetatable({}, { __index = function() error "hostile" end, __len = function() return 2^53 end,
  __tostring = function() error "hostile" end, __eq = error, __lt = error, __call = error, __pairs = error,
  __name = 5 })
local cyclic = {} cyclic[1], cyclic.self = cyclic, cyclic
local huge = {} for i = 1, 3000 do huge[i] = i end
local closed = io.tmpfile() closed:close()
local dead = coroutine.create(print) coroutine.close(dead)
local fixed = { true, false, 0, 1, 2, -1, 0.5, 0 / 0, -(0 / 0), 1 / 0, -1 / 0, 1e19, -1e19, 1e308, -1e308, 5e-324, -0.0,
  2^31, 2^53,
  2^63, math.maxinteger, math.mininteger, "", "default", "common", "a", "b", "r", "w", "rw", "rwhe", "documented",
  "core_foundation", "waiting", "asap", "idle", "now", "all", "entry", "exit", "before_waiting", "\0\255", "org.attack",
  ("x"):rep(3000), "%s%d%n", print, error, coroutine.yield, coroutine.wrap(print), pcall, rl, rl.modes, hostile, cyclic,
  huge,
  closed, io.stdout, dead, _G, string, package.loaded }
local fields = { "callback", "delay", "fire_date", "interval", "tolerance", "order", "name", "activities", "repeats",
  "fd", "events",
  "once", "perform", "schedule", "cancel", "modes", "wait", "after", "mode", "timeout", "return_after_source",
  "capacity", "id",
  "data", "reply_port", "before", "send_timeout", "reply_timeout", "reply_mode", "style", "coalesce", "sender",
  "nonsense", 1, 2, 3, 300 }
local pipes = {}

local nesting = 0
function value()
  local n = random(100)
  if n <= 35 then return fixed[random(#fixed)] end
  if n <= 38 then return nil end
  if n <= 60 and #pool > 0 then return pool[random(#pool)] end
  if n <= 80 or nesting > 3 then return deed() end
  if n <= 83 then return random() * 0.003 end
  if n == 84 then return coroutine.create(deed()) end
  if n == 85 then return rl.now() + random() * 0.003 end
  if n == 86 then return setmetatable({}, { __gc = deed(), __close = deed(), __tostring = deed() }) end
  nesting = nesting + 1
  local t = {}
  for _ = 1, random(0, 4) do t[fields[random(#fields)]] = value() end
  nesting = nesting - 1
  return t
end

-- Calls with sensible arguments, now and then, so that objects work.
local makers = {
  function()
    return rl.timer { delay = random() * 0.003, interval = random(2) == 1 and 0.001 or nil, callback = deed() }
  end,
  function() return rl.after(random() * 0.002, deed(), value()) end,
  function() return rl.every(random() * 0.002 + 0.0005, deed()) end,
  function() return rl.source { perform = deed(), schedule = deed(), cancel = deed(), order = random(-2, 2) } end,
  function() return rl.observer { activities = "all", callback = deed(), repeats = random(2) == 1 } end,
  function() return rl.observe({ "before_timers", "exit" }, deed()) end,
  function() return rl.perform(deed(), value()) end,
  function() return rl.perform { deed(), after = random() * 0.002, order = random(3) } end,
  function() return rl.task(deed(), value()) end,
  function() return rl.port { callback = deed(), capacity = random(4) } end,
  function()
    pipes[#pipes + 1] = assert(io.popen "echo hello; exec sleep 0.01")
    if #pipes > 4 then remove(pipes, 1):close() end
    return rl.fd_port { fd = pipes[random(#pipes)], callback = deed(), once = random(2) == 1 }
  end,
  function() return rl.on_readable(pipes[1], deed()) end,
  function() return rl.message_port { name = "org.attack." .. seed .. "." .. random(3), callback = deed() } end,
  function() return rl.remote_port("org.attack." .. seed .. "." .. random(3)) end,
  function() return rl.notifications:observe("n" .. random(3), deed()) end,
  function()
    if made > 12 then return end
    made = made + 1
    return rl.thread(function(x)
      local rl = require "runloop"
      rl.after(0.002, function() rl.stop() end)
      pcall(rl.run, { timeout = 0.01 })
      return x
    end, fixed[random(#fixed)])
  end,
  function() return rl.current() end,
  function() return rl.condition() end,
  function() return rl.channel(random(3)) end,
  function() return rl.group() end,
  function()
    local a, b = net.memory()
    keep(a)
    rl.task(function() pcall(a.write, a, "text\n") pcall(a.read_line, a, { timeout = 0.01 }) act() end)
    return b
  end,
  function()
    local a, b = net.pair()
    keep(a)
    rl.task(function() pcall(b.write, b, "text\n") act() end)
    return b
  end,
}

local function arm()
  setmetatable({}, { __gc = function()
    if rl.now() > over then return end
    arm()
    pcall(makers[random(#makers)])
    rl.current()
  end })
end

-- Functions that are called only in tasks that can be cancelled, because they may wait without an end.
local calm = { ["rl.run"] = true, ["loop:run"] = true, ["loop:run_until"] = true, ["loop:run_mode"] = true }

local count = 0
function act()
  count = count + 1
  if count > calls * 30 or depth > 150 then return end
  local n = random(12)
  if n <= 3 then
    local ok, object = pcall(makers[random(#makers)])
    if ok and object then
      keep(object)
      if type(object) == "userdata" then
        pcall(function() rl.current():add(object, random(3) > 1 and "common" or value()) end)
      end
    end
    return
  end
  local f = functions[random(#functions)]
  local name = names[f]
  if calm[name] and random(4) > 1 then return end
  local arguments, total = {}, random(0, 5)
  for i = 1, total do arguments[i] = value() end
  if name:find "[:.]__" or name:find ":" and random(5) > 1 then
    arguments[1] = pool[random(math.max(1, #pool))]
    -- In some calls, the method gets an object of its own kind.
    local kind = name:match "^[%w_]+"
    for _ = 1, 10 do
      local meta = debug.getmetatable(arguments[1])
      if meta and meta.__name == kind then break end
      arguments[1] = pool[random(math.max(1, #pool))]
    end
  elseif name:find "notifications" then
    arguments[1] = rl.notifications
  end
  note(count, depth, name, tostring(total))
  if random(3) == 1 then
    local ok, result = pcall(f, unpack(arguments, 1, total))
    if ok and type(result) == "userdata" then keep(result) end
  else
    -- The call runs in a task of its own, so that an endless wait does not block the others.
    pcall(rl.task, pcall, f, unpack(arguments, 1, total))
  end
end

for _, maker in ipairs(makers) do
  local ok, object = pcall(maker)
  if ok and object then keep(object) end
end
rl.on_error(function() end)

local function main()
  if seed % 2 == 1 then arm() end
  for mode = 1, 2 do rl.current():add_common_mode(mode == 1 and "a" or "b") end
  for i = 1, calls do
    -- Errors of the attacking code itself, such as a stack overflow while it makes a value, are expected.
    pcall(act)
    if i % 50 == 0 then pcall(rl.run, { timeout = 0.002 }) end
    if rl.now() > over then break end
  end
end

local function finish()
  debug.sethook()
  rl.on_error(function() end)
  io.stdout:setvbuf "no" print "survived"
  -- Closes the state with everything that is scheduled, and its finalizers.
  if random(2) == 1 then setmetatable({}, { __gc = function() pcall(act) end }) end
  os.exit(0, random(2) == 1)
end

-- Cancels everything that still waits, in any mode.
local watch = rl.timer { delay = 2.3, interval = 0.1, callback = finish }
for _, mode in ipairs(fixed) do
  if type(mode) == "string" then rl.current():add(watch, mode) end
end
rl.task(main)
rl.run()
finish()
