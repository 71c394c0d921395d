-- Ports: wrong arguments, full ports, and ports that no longer exist.
local rl = require "runloop"

-- Prints the outcome of a call: its results, or its error without the position.
local function try(what, fn, ...)
  local results = table.pack(pcall(fn, ...))
  for i = 2, results.n do results[i] = tostring(results[i]):gsub("^[^%s:]*%.lua:%d+: ", "") end
  print(what .. ":", results[1] and "" or "raises", table.concat(results, " | ", 2))
end

try("a number", rl.port, 5)
try("capacity 0", rl.port, { capacity = 0 })
try("capacity NaN", rl.port, { capacity = 0 / 0 })
try("capacity 1e19", rl.port, { capacity = 1e19 })
try("callback", rl.port, { callback = 5 })
try("an unknown field", rl.port, { capcity = 5 })

local port = rl.port { capacity = 2, name = "small" }
try("send nothing", port.send, port)
try("send without self", port.send, nil, {})
try("send, an unknown field", port.send, port, { dta = 1 })
try("send, id", port.send, port, { id = "x" })
try("send, id 1.5", port.send, port, { id = 1.5 })
try("send, reply_port", port.send, port, { reply_port = 5 })
try("send, before", port.send, port, { before = "x" })
try("refused messages do not count", port.count, port)
try("one", port.send, port, { id = 2.0 })
try("two", port.send, port, {})
try("full, and a date of the past", port.send, port, { before = rl.now() - 1 })
try("full, and the first date of all", port.send, port, { before = -math.huge })
try("full, until a date", port.send, port, { before = rl.now() + 0.01 })
try("full, inside a coroutine", function()
  local done, message = coroutine.resume(coroutine.create(function() return port:send {} end))
  error(message, 0)
end)
try("full, and then gone", function()
  rl.after(0.01, function() port:invalidate() end)
  return port:send { before = math.huge }
end)
try("gone", port.send, port, {})
try("gone for good", function() port:invalidate() return port:is_valid(), port:count() end)

try("twenty wait for one place", function()
  local log = {}
  local tight
  tight = rl.port { capacity = 1, callback = function(_, message)
    log[#log + 1] = message.data
    if #log == 20 then tight:invalidate() end
  end }
  for i = 1, 20 do rl.task(function() assert(tight:send { data = i }) end) end
  rl.current():add(tight)
  rl.run { timeout = 10 }
  return table.concat(log, " ")
end)
try("gone while threads wait for a place", function()
  local tight, threads = rl.port { capacity = 1 }, {}
  for i = 1, 8 do threads[i] = rl.thread(function() return tight:send {} end) end
  while tight:count() == 0 do rl.sleep(0.001) end
  rl.sleep(0.02)
  tight:invalidate()
  local sent, refused = 0, 0
  for i = 1, 8 do
    local _, result, reason = threads[i]:join()
    if result then sent = sent + 1 elseif reason == "invalid" then refused = refused + 1 end
  end
  return sent, refused
end)
try("in several modes, one after the other", function()
  local loop, log = rl.current(), {}
  local port = rl.port { callback = function(_, message) log[#log + 1] = loop:mode() .. message.data end }
  loop:add(port, { "m1", "m2" })
  for i = 1, 4 do port:send { data = i } end
  loop:run_mode("m1", math.huge)
  loop:run_mode("m2", math.huge)
  loop:remove(port, "m1")
  log[#log + 1] = tostring(loop:run_mode("m1", math.huge))
  loop:run_mode("m2", math.huge)
  loop:remove(port, "m2")
  -- While it is in no mode, the port keeps its messages.
  loop:add(port, "m3")
  loop:run_mode("m3", math.huge)
  port:invalidate()
  return table.concat(log, " ")
end)

--[[ expected:
a number:	raises	rl.port: an options table is expected, got 5
capacity 0:	raises	rl.port: field 'capacity' must be an integer, 1 or more, got 0
capacity NaN:	raises	rl.port: field 'capacity' must be an integer, 1 or more, got nan
capacity 1e19:	raises	rl.port: field 'capacity' must be an integer, 1 or more, got 1e+19
callback:	raises	rl.port: field 'callback' must be a function, got 5
an unknown field:	raises	rl.port: unknown field 'capcity' (did you mean 'capacity'?)
send nothing:	raises	port:send: a message table is expected, got nothing
send without self:	raises	port:send: a port is expected as self, got nothing; call it with a colon
send, an unknown field:	raises	port:send: unknown field 'dta' (did you mean 'data'?)
send, id:	raises	port:send: field 'id' must be an integer, got "x"
send, id 1.5:	raises	port:send: field 'id' must be an integer, got 1.5
send, reply_port:	raises	port:send: field 'reply_port' must be a port, got 5
send, before:	raises	port:send: field 'before' must be a date: a number, as rl.now() returns, got "x"
refused messages do not count:		0
one:		true
two:		true
full, and a date of the past:		nil | timed out
full, and the first date of all:		nil | timed out
full, until a date:		nil | timed out
full, inside a coroutine:	raises	port:send: the port is full: cannot wait inside a coroutine of the script's own: wait in the task that resumes it, or use rl.task
full, and then gone:		nil | invalid
gone:		nil | invalid
gone for good:		false | 0
twenty wait for one place:		1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
gone while threads wait for a place:		1 | 7
in several modes, one after the other:		m11 m22 false m23 m34
]]
