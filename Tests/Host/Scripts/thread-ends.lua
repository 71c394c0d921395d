-- How threads end: joined by many, cancelled, waiting for each other.
local rl = require "runloop"

-- Prints the outcome of a call: its results, or its error without the position.
local function try(what, fn, ...)
  local results = table.pack(pcall(fn, ...))
  for i = 2, results.n do results[i] = tostring(results[i]):gsub("^[^%s:]*%.lua:%d+: ", "") end
  print(what .. ":", results[1] and "" or "raises", table.concat(results, " | ", 2))
end

try("several wait for one", function()
  local slow = rl.thread(function() rl.sleep(0.03) return "R" end)
  local others = {}
  for i = 1, 10 do others[i] = rl.thread(function() return select(2, slow:join()) end) end
  local count = 0
  for i = 1, 10 do if select(2, others[i]:join()) == "R" then count = count + 1 end end
  return count
end)
try("time is up", function()
  local slow = rl.thread(function() rl.sleep(0.05) return "R" end)
  local first, reason = slow:join(0.001)
  return first, reason, slow:join()
end)
try("cancelled while others wait for it", function()
  local slow = rl.thread(function() rl.sleep(100) end)
  local tasks = {}
  for i = 1, 3 do tasks[i] = rl.task(function() return slow:join() end) end
  rl.sleep(0.01)
  slow:cancel()
  return tasks[1]:await(), select(2, tasks[2]:await()), select(2, tasks[3]:await())
end)
try("the one that waits is cancelled", function()
  local slow = rl.thread(function() rl.sleep(0.05) return "R" end)
  local task = rl.task(function() return slow:join() end)
  rl.sleep(0.01)
  task:cancel()
  return pcall(task.await, task), slow:join()
end)
try("it catches its cancellation", function()
  local stubborn = rl.thread(function() local done, err = pcall(rl.sleep, 100) return done, err, "and goes on" end)
  rl.sleep(0.02)
  stubborn:cancel()
  return stubborn:join()
end)
try("cancelled in its loop", function()
  local looping = rl.thread(function() rl.every(1, print) return rl.run() end)
  while not looping:loop():is_waiting() do rl.sleep(0.001) end
  looping:cancel()
  return looping:join()
end)
try("cancelled while it waits for an answer", function()
  local main = rl.main()
  local asking = rl.thread(function()
    return main:perform { function() rl.sleep(100) end, modes = "never", wait = true }
  end)
  rl.sleep(0.02)
  asking:cancel()
  return asking:join()
end)
try("cancelled while it sends to a full port", function()
  local port = rl.port { capacity = 1 }
  port:send {}
  local sending = rl.thread(function() return port:send {} end)
  rl.sleep(0.02)
  sending:cancel()
  local ended, err = sending:join()
  return ended, err, port:count()
end)
-- A sleep that was cancelled just as another one ended must not end a later wait of its task.
try("a cancelled sleep is forgotten", function()
  local log = {}
  local task = rl.task(function()
    rl.sleep(0.001)
    log[1] = tostring(select(2, pcall(rl.sleep, 0.03)))
    rl.run { timeout = 0.06 }
    rl.sleep(0.001)
    log[2] = "it goes on"
  end)
  rl.sleep(0.01)
  task:cancel()
  task:await()
  return table.concat(log, ", ")
end)
try("two wait for each other", function()
  local caught, inner = 0, 0
  for _ = 1, 20 do
    local ways, ports = {}, {}
    local inbox = rl.port { callback = function(_, message)
      ports[message.id] = message.reply_port
      if ports[1] and ports[2] then rl.stop() end
    end }
    rl.current():add(inbox)
    local function body(number)
      local other
      local port = rl.port { callback = function(_, message) other = message.data rl.stop() end }
      rl.current():add(port)
      inbox:send { id = number, reply_port = port }
      rl.run()
      return other:join()
    end
    local a, b = rl.thread { body, 1, name = "a" }, rl.thread { body, 2, name = "b" }
    rl.run()
    inbox:invalidate()
    ports[1]:send { data = b }
    ports[2]:send { data = a }
    -- Each thread waits for the other: one of the two joins is refused, and the other gets the result.
    for _, thread in ipairs { a, b } do
      local ended, what, why = thread:join(20)
      local text = tostring(ended and why or what)
      if not ended and text:find "waits for the end of this one" then caught = caught + 1 end
      if ended and what == false then inner = inner + 1 end
    end
  end
  return caught, inner
end)

-- The host's Lua parts have the same name in the first thread, which compiles them, and in later threads.
local function traces()
  local rl = require "runloop"
  local trace
  rl.notifications:observe("N", function() trace = debug.traceback() end)
  rl.notifications:post("N")
  local port <close> = rl.on_readable(0, print)
  return select(2, trace:gsub("\n\t%[rlhost%]:", "")), tostring(port):match "ends.lua:(%d+)"
end
for i = 1, 3 do try("the host's part in thread " .. i, function() return rl.thread(traces):join() end) end
--[[ expected:
several wait for one:		10
time is up:		nil | timed out | true | R
cancelled while others wait for it:		false | cancelled | cancelled
the one that waits is cancelled:		false | true | R
it catches its cancellation:		true | false | cancelled | and goes on
cancelled in its loop:		true | stopped
cancelled while it waits for an answer:		false | cancelled
cancelled while it sends to a full port:		false | cancelled | 1
a cancelled sleep is forgotten:		cancelled, it goes on
two wait for each other:		20 | 20
the host's part in thread 1:		true | 2 | 123
the host's part in thread 2:		true | 2 | 123
the host's part in thread 3:		true | 2 | 123
]]
