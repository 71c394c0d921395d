-- Perform requests between threads: in all directions, nested, and to threads that end.
local rl = require "runloop"

-- Prints the outcome of a call: its results, or its error without the position.
local function try(what, fn, ...)
  local results = table.pack(pcall(fn, ...))
  for i = 2, results.n do results[i] = tostring(results[i]):gsub("^[^%s:]*%.lua:%d+: ", "") end
  print(what .. ":", results[1] and "" or "raises", table.concat(results, " | ", 2))
end

local function server(name)
  return rl.thread { function() rl.current():add(rl.port {}) return rl.run() end, name = name }
end
local a, b = server "a", server "b"
local A, B, here = a:loop(), b:loop(), rl.current()

try("results", function()
  return select("#", A:perform { function(...) return ... end, 1, nil, 3, nil, wait = true })
end)
try("no results", function() return select("#", A:perform { function() end, wait = true }) end)
try("an error", function() return A:perform { function() error "boo" end, wait = true } end)
try("an error that is a table", function()
  local done, err = pcall(A.perform, A, { function() error { code = 3 } end, wait = true })
  return done, err.code
end)
try("an error that is nil", function() return A:perform { function() error() end, wait = true } end)
try("a result that cannot cross", function()
  return A:perform { function() return 1, { c = coroutine.create(print) } end, wait = true }
end)
try("an argument that cannot cross", function()
  return A:perform { print, 1, { c = coroutine.create(print) }, wait = true }
end)
try("one that waits itself", function()
  return A:perform { function() rl.sleep(0.01) return "slept" end, wait = true }
end)
try("at home", function() return here:perform { function(n) return n * 2 end, 21, wait = true } end)
try("at home, by way of another", function()
  return A:perform { function(own)
    return own:perform { function() return "inner" end, wait = true }
  end, A, wait = true }
end)
try("there and back", function()
  return A:perform { function(back)
    return back:perform { function() return "from here" end, wait = true }
  end, here, wait = true }
end)
try("in a circle", function()
  local function around(n, first, second, third)
    if n == 0 then return "around" end
    return first:perform { around, n - 1, second, third, first, wait = true }
  end
  return around(9, A, B, here)
end)
try("each waits for the other", function()
  -- Each thread is busy with its own request when the request of the other one arrives.
  local function ask(other, port)
    return other:perform { function() rl.sleep(0.01) return "answer" end, wait = true }
  end
  local first = rl.task(function() return A:perform { ask, B, wait = true } end)
  local second = rl.task(function() return B:perform { ask, A, wait = true } end)
  return first:await(), second:await()
end)

-- Keeps a thread busy until the port `gate` has received a message.
local function hold(begun, gate)
  begun:send {}
  repeat until gate:count() > 0
end

-- A pass handles a queued request together with the events that come before the request runs. So wait until it runs.
local function hold_busy(thread, gate)
  local begun = rl.port {}
  thread:perform(hold, begun, gate)
  repeat until begun:count() > 0
end

try("order", function()
  local port, log = nil, {}
  port = rl.port { callback = function(_, message)
    log[#log + 1] = message.data
    if #log == 5 then rl.stop() end
  end }
  here:add(port)
  -- All requests are queued while the other thread is busy; they run by order, then by age.
  local gate = rl.port {}
  hold_busy(A, gate)
  local function say(text) port:send { data = text } end
  A:perform { say, "order 2", order = 2 }
  A:perform { say, "order 0, first" }
  A:perform { say, "order 1", order = 1 }
  A:perform { say, "order 0, second" }
  A:perform { say, "order -1", order = -1 }
  gate:send {}
  rl.run()
  port:invalidate()
  return table.concat(log, "; ")
end)

try("cancelled in the queue", function()
  local gate = rl.port {}
  hold_busy(A, gate)
  local request = A:perform(error, "this must never run")
  local results = table.pack(request:is_valid(), request:cancel(), request:cancel(), request:is_valid())
  gate:send {}
  return table.unpack(results, 1, results.n)
end)
try("cancelled while delayed: nothing keeps the loop alive", function()
  local thread = rl.thread(function()
    local gate = rl.port { callback = function(port) port:invalidate() end }
    rl.current():add(gate)
    own_gate = gate
    return rl.run()
  end)
  local request = thread:loop():perform { error, "this must never run", after = 1000 }
  -- The first `perform` waits until the request has become a timer of the other thread; the second one opens the gate.
  thread:loop():perform { function() end, wait = true }
  local was = request:cancel()
  thread:loop():perform(function() own_gate:send {} end)
  return was, thread:join(20)
end)

try("its thread ends before", function()
  local thread = rl.thread(function() rl.sleep(0.02) end)
  return thread:loop():perform { print, modes = "a mode that never runs", wait = true }
end)
-- Requests of other threads keep a thread alive like its own, unless it is cancelled.
try("its thread ends meanwhile", function()
  local thread = rl.thread(function() rl.sleep(0.02) rl.this_thread():cancel() end)
  return thread:loop():perform { function() rl.sleep(100) end, wait = true }
end)
try("delayed, and its thread ends", function()
  local thread = rl.thread(function() rl.sleep(0.02) rl.this_thread():cancel() end)
  local request = thread:loop():perform { print, after = 100 }
  thread:join()
  return request:is_valid(), request:cancel(), tostring(request)
end)
try("the one that waits is cancelled", function()
  local task = rl.task(function() return A:perform { function() rl.sleep(0.05) end, wait = true } end)
  rl.sleep(0.01)
  task:cancel()
  return task:await()
end)

A:perform(rl.stop)
B:perform(rl.stop)
try("a", a.join, a)
try("b", b.join, b)

--[[ expected:
results:		3
no results:		0
an error:	raises	boo
an error that is a table:		false | 3
an error that is nil:	raises	nil
a result that cannot cross:	raises	loop:perform: cannot send result #2 → field 'c': a coroutine
an argument that cannot cross:	raises	loop:perform: cannot send argument #3 → field 'c': a coroutine
one that waits itself:		slept
at home:		42
at home, by way of another:		inner
there and back:		from here
in a circle:		around
each waits for the other:		answer | answer
order:		order -1; order 0, first; order 0, second; order 1; order 2
cancelled in the queue:		true | true | false | false
cancelled while delayed: nothing keeps the loop alive:		true | true | finished
its thread ends before:	raises	loop:perform: the thread of this loop ended before the request was done
its thread ends meanwhile:	raises	cancelled
delayed, and its thread ends:		false | false | request (done or cancelled, on another thread's loop)
the one that waits is cancelled:	raises	cancelled
a:		true | stopped
b:		true | stopped
]]
