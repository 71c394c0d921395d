-- Values that can be sent between threads, and values that are refused, with the path to them.
local rl = require "runloop"

-- Prints the outcome of a call: its results, or its error without the position.
local function try(what, fn, ...)
  local results = table.pack(pcall(fn, ...))
  for i = 2, results.n do results[i] = tostring(results[i]):gsub("^[^%s:]*%.lua:%d+: ", "") end
  print(what .. ":", results[1] and "" or "raises", table.concat(results, " | ", 2))
end

local function there(fn, ...)
  local results = table.pack(rl.thread(fn, ...):join())
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

try("numbers keep their kind", function()
  return math.type(there(function() return 1.0 end)), math.type(there(function() return 1 end))
end)
try("nils among others", function() return select("#", there(function(...) return ... end, nil, 1, nil)) end)
try("5000 values", function()
  local values = {}
  for i = 1, 5000 do values[i] = i end
  return select("#", there(function(...) return ... end, table.unpack(values)))
end)
try("16 MB", function() return #there(function(text) return text .. text end, ("x"):rep(1 << 24)) end)
try("zeros in strings", function() return #there(function(text) return text end, "a\0b\0") end)
try("a cycle", function()
  local t = {}
  t.t, t[t] = t, t
  local copy = there(function(t) assert(t.t == t and t[t] == t) return t end, t)
  return copy ~= t, copy.t == copy, copy[copy] == copy
end)
try("shared parts", function()
  local part = {}
  local a, b = there(function(a, b) assert(a[1] == b[1]) return a, b end, { part }, { part })
  return a[1] == b[1]
end)
try("metatables stay", function() return getmetatable(there(function(t) return t end, setmetatable({}, {}))) end)
try("a chain of 4000", function()
  local first = {}
  local last = first
  for _ = 1, 4000 do last.next = {} last = last.next end
  local copy, n = there(function(t) return t end, first), 0
  while copy do copy, n = copy.next, n + 1 end
  return n
end)
local function chain(n) local t = {} for _ = 1, n do t = { t } end return t end
local function chain_of_keys(n) local t = {} for _ = 1, n do t = { [t] = 1 } end return t end
try("a chain of 100000", there, function() end, chain(100000))
try("a chain of keys", there, function() end, chain_of_keys(100000))

try("a variable of two functions", function()
  local n = 0
  local function inc() n = n + 1 end
  local function get() return n end
  return there(function() inc() inc() return get() end), n
end)
try("a function that calls itself", function()
  local function factorial(n) return n < 2 and 1 or n * factorial(n - 1) end
  return there(factorial, 10)
end)
try("two that call each other", function()
  local even, odd
  function even(n) return n == 0 or odd(n - 1) end
  function odd(n) return n ~= 0 and even(n - 1) end
  return there(even, 10)
end)
try("200 upvalues", function()
  local text = {}
  for i = 1, 200 do text[#text + 1] = ("local a%d = %d"):format(i, i) end
  text[#text + 1] = "return function() return 0"
  for i = 1, 200 do text[#text + 1] = " + a" .. i end
  return there(load(table.concat(text, "\n") .. " end")())
end)
try("a function as a key", function()
  local f = function() end
  return there(function(t) return t[f] end, { [f] = 9 })
end)
try("an environment of its own", function() return there(load("return y", "chunk", "t", { y = 6 })) end)
try("stripped code", function() return there(load(string.dump(function() return 4 end, true))) end)
global = 5
try("globals stay", function() return there(function() return global end) end)

try("a function of C", function() return there(string.rep, "x", 3) end)
try("functions of modules", function()
  local now, format = rl.now, string.format
  return there(function() return math.type(now()), format == string.format end)
end)
package.loaded["a.module"] = { own = function() return "here" end, data = { 1 } }
package.preload["a.module"] = function() return package.loaded["a.module"] end
try("a module that only this thread has", function()
  local ended, err = rl.thread(print, require "a.module"):join()
  return ended, (err:match "^[^\n]*")
end)
try("a file that every thread has", function() return there(function() return io.type(io.stdout) end) end)

try("handles", function()
  local port, source, loop = rl.port {}, rl.source {}, rl.current()
  local p, s, l = there(function(...) return ... end, port, source, loop)
  return p == port, s == source, l == loop
end)
try("a task", function()
  local task = rl.task(function() require "runloop".sleep(0.05) return 42 end)
  local copy, text, asked, awaited = there(function(task)
    local rl = require "runloop"
    return task, tostring(task), select(2, pcall(task.status, task)), select(2, pcall(rl.first_of, task))
  end, task)
  return copy == task, copy:await(), (text:gsub("[^ ]*:", "")), (asked:gsub("^.*lua:%d+: ", "")),
    (awaited:gsub("^.*lua:%d+: ", ""))
end)
try("the thread itself", function()
  local thread = rl.thread(function() return rl.this_thread() end)
  local _, copy = thread:join()
  return copy == thread
end)
try("a thread's loop, port and source after its end", function()
  local loop, port, source = there(function()
    local port = rl.port { callback = print, keeps_alive = false }
    local source = rl.source { perform = print, keeps_alive = false }
    rl.current():add(port)
    rl.current():add(source)
    return rl.current(), port, source
  end)
  return tostring(loop), port:send {}, port:is_valid(), source:post(1), source:is_valid()
end)

local file <close> = io.tmpfile()
try("a file", rl.thread, function() return file end)
try("a coroutine", rl.thread, print, { { co = coroutine.create(print) } })
try("as a key", rl.thread, print, { [coroutine.create(print)] = 1 })
try("at a key", rl.thread, print, { [{}] = coroutine.create(print) })
try("a timer", rl.thread, print, rl.timer { delay = 1, callback = print })
try("a channel", rl.thread, print, { rl.channel() })
try("a group", rl.thread, print, rl.group())
try("a result", there, function() return 1, { x = { y = coroutine.create(print) } } end)
local port = rl.port {}
try("in a message", port.send, port, { data = { x = coroutine.create(print) } })
local source = rl.source {}
try("in a command, from afar", there, function() return source:post(1, coroutine.create(print)) end)
try("in a command, at home", function() return source:post(coroutine.create(print)) end)

local function fails(value) local ended, err = rl.thread(function() error(value, 0) end):join() return ended, err end
try("an error that is a table", function() local ended, err = fails { code = 7 } return ended, type(err), err.code end)
try("an error that is nil", fails, nil)
try("an error that cannot cross", function()
  local ended, err = rl.thread(function() error { io.stdout, coroutine.create(print) } end):join()
  return ended, (err:match("^[^\n]*"):gsub("0x%x+", "0x1")), err:match "in thread.*"
end)

--[[ expected:
numbers keep their kind:		float | integer
nils among others:		3
5000 values:		5000
16 MB:		33554432
zeros in strings:		4
a cycle:		true | true | true
shared parts:		true
metatables stay:		nil
a chain of 4000:		4001
a chain of 100000:	raises	rl.thread: values nested more than 5000 deep cannot be sent: send them in pieces
a chain of keys:	raises	rl.thread: values nested more than 5000 deep cannot be sent: send them in pieces
a variable of two functions:		2 | 0
a function that calls itself:		3628800
two that call each other:		true
200 upvalues:		20100
a function as a key:		9
an environment of its own:		6
stripped code:		4
globals stay:		nil
a function of C:		xxx
functions of modules:		float | true
a module that only this thread has:		false | module 'a.module' not found:
a file that every thread has:		file
handles:		true | true | true
a task:		true | 42 | task (of another thread, made at 104) | task:status: this task belongs to another thread; only that thread can use it | rl.first_of: only a task's own thread can wait for it
the thread itself:		true
a thread's loop, port and source after its end:		loop "thread" (gone) | nil | false | false | false
a file:	raises	rl.thread: cannot send upvalue 'file': FILE*
a coroutine:	raises	rl.thread: cannot send argument #2 → field [1] → field 'co': a coroutine
as a key:	raises	rl.thread: cannot send argument #2 → a key: a coroutine
at a key:	raises	rl.thread: cannot send argument #2 → field [a table]: a coroutine
a timer:	raises	rl.thread: cannot send argument #2: timer
a channel:	raises	rl.thread: cannot send argument #2 → field [1]: channel
a group:	raises	rl.thread: cannot send argument #2: group
a result:	raises	thread "thread 27": cannot send result #2 → field 'x' → field 'y': a coroutine
in a message:	raises	port:send: cannot send argument #1 → field 'data' → field 'x': a coroutine
in a command, from afar:	raises	source:post: cannot send argument #2: a coroutine
in a command, at home:		true
an error that is a table:		false | table | 7
an error that is nil:		false | nil
an error that cannot cross:		false | { file (0x1), thread 0x1 suspended } | in thread "thread 31"
]]
