-- Calls everything that runloop.net, runloop.http and runloop.json have with values drawn at random. Prints what is neither a result, nor
-- nil with a message and a code, nor an error that begins with the function's name.
-- Usage: module-misuse.lua SEED ROUNDS DIRECTORY-OF-ANNOTATIONS

local rl, net, http, json = require "runloop", require "runloop.net", require "runloop.http", require "runloop.json"
local seed, rounds, annotations = tonumber(arg[1]), tonumber(arg[2]), arg[3]
math.randomseed(seed)
rl.on_error(function(message) print("uncaught", tostring(message)) end)

local FIELDS = { "host", "port", "path", "timeout", "max", "tls", "name", "order", "on_data", "on_connection", "on_error", "on_end", "mode",
  "backlog", "max_connections", "bind", "owns", "family", "verify", "certificate", "key", "sni", "protocols", "latency", "bandwidth",
  "chunk", "url", "method", "headers", "body", "json", "form", "follow", "status", "event", "data", "id", "retry", "keep_alive", "indent",
  "idle", "interval", "count", "peer", "modes", "cookies", "compress", "max_message", "nonsense", 1, "query", "unix", "proxy",
  "version", "max_body", "decompress" }

local VALUES = {
  function() return nil end, function() return true end, function() return false end, function() return 0 end, function() return -1 end,
  function() return 1.5 end, function() return 0 / 0 end, function() return math.huge end, function() return math.mininteger end,
  function() return math.maxinteger end, function() return 1e308 end, function() return 3 end, function() return "" end,
  function() return "x\0y" end, function() return ("\xff"):rep(5) end, function() return "127.0.0.1:1" end,
  function() return "unix:@no-such-thing" end, function() return "http://127.0.0.1:1/" end, function() return function() end end,
  function() return coroutine.create(print) end, function() return (net.pair()) end, rl.current, function() return { [1] = 1, [3] = 2 } end,
  function() return setmetatable({}, { __tostring = function() return 5 end, __name = 7 }) end,
}

local function value(depth)
  local number = math.random(#VALUES + 4)
  if number <= #VALUES then return VALUES[number]() end
  local options = {}
  for _ = 1, depth < 3 and math.random(0, 4) or 0 do options[FIELDS[math.random(#FIELDS)]] = value(depth + 1) end
  return options
end

local function judge(name, is_good, first, second, third)
  if not is_good then
    if type(first) ~= "string" then return end
    local text = first:gsub("^[^ ]+:%d+: ", "")
    if text:sub(1, #name + 1) ~= name .. ":" then print("an error without the name", name, first) end
  elseif first == nil and second ~= nil then
    if type(second) ~= "string" then print("a reason that is no text", name, tostring(second)) end
    if second ~= "timed out" and type(third) ~= "string" then print("a reason without a code", name, second, tostring(third)) end
  end
end

local function attack(name, fn, ...)
  local arguments = table.pack(...)
  for _ = 1, math.random(0, 4) do
    arguments.n = arguments.n + 1
    arguments[arguments.n] = value(0)
  end
  local task = rl.task(function()
    local results = table.pack(pcall(fn, table.unpack(arguments, 1, arguments.n)))
    judge(name, table.unpack(results, 1, 4))
    for i = 2, results.n do
      if type(results[i]) == "userdata" or type(results[i]) == "table" then pcall(function() results[i]:close() end) end
    end
  end)
  -- Those that wait have waited long enough.
  rl.sleep(0.001)
  task:cancel()
end

-- Objects whose peers do nothing.
local kept = {}
local function fed(a, b)
  b:write "hello\nworld"
  kept[#kept + 1] = b
  return a
end
local OBJECTS = {
  stream = { function() return fed(net.pair()) end, function() return fed(net.memory()) end,
    function()
      local stream = net.pair()
      stream:close()
      return stream
    end,
    function() return net.stream { host = "127.0.0.1", port = 1 } end },
  listener = { function() return net.listener { host = "127.0.0.1", port = 0 } end, function() return net.serve("127.0.0.1:0", print) end },
  datagram = { function() return net.datagram { port = 0 } end },
}

local LEFT_OUT = { input = true, output = true, errors = true }
local calls = {}
for module, functions in pairs { ["net."] = net, ["http."] = http, ["json."] = json } do
  for name, fn in pairs(functions) do
    if type(fn) == "function" and not LEFT_OUT[name] then calls[#calls + 1] = { module .. name, fn } end
  end
end
local file <close> = assert(io.open(annotations .. "/runloop-net.lua"))
for class, method in file:read "a":gmatch "\nfunction (%u%a+):([%w_]+)" do
  for number = 1, #OBJECTS[class:lower()] do calls[#calls + 1] = { class:lower() .. ":" .. method, method, class:lower(), number } end
end
table.sort(calls, function(a, b) return a[1] .. (a[4] or 0) < b[1] .. (b[4] or 0) end)

for round = 1, rounds do
  local call = calls[math.random(#calls)]
  if call[3] then
    local object = OBJECTS[call[3]][call[4]]()
    attack(call[1], object[call[2]], math.random(8) == 1 and value(0) or object)
    pcall(object.close, object)
  else
    attack(call[1], call[2])
  end
  if round % 50 == 0 then
    kept = {}
    collectgarbage()
  end
end
print "done"
os.exit(0)
