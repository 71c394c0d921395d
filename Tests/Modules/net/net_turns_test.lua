-- runloop.net and runloop.http: a task whose stream never makes it wait lets timers and others have their turns.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local process = require "runloop.process"
local socket = require "runloop.socket"

local REAL = { real_time = true, timeout = 60 }

-- Calls a function until a timer has fired twice, or until `seconds` (5 if absent) of processor time have passed.
-- Returns whether the timer has fired twice.
local function lets_timers_fire(fn, seconds)
  local ticks, start = 0, os.clock()
  local timer <close> = rl.every(0.001, function() ticks = ticks + 1 end)
  repeat fn() until ticks >= 2 or os.clock() - start > (seconds or 5)
  return ticks >= 2
end

-- Calls `lets_timers_fire` with a function that uses a connection to a program. The program does `work` with the
-- connection.
local function with_program(work, fn)
  local listener = assert(net.listener { host = "127.0.0.1", port = 0 })
  rl.current():add(listener)
  local script = 'local stream = assert(require "runloop.net".connect "%s") while %s do end'
  local program <close> = assert(process.start { t.rlhost, "-e", script:format(listener:address(), work),
    errors = "null" })
  local stream = assert(listener:accept(20))
  local fires = lets_timers_fire(function() for _ = 1, 256 do fn(stream) end end)
  stream:abort()
  listener:close()
  program:stop(5)
  return fires
end

t.describe("a task lets timers fire", function()
  for what, read in pairs {
    lines = function(stream) stream:read_line() end,
    ["pieces of a byte"] = function(stream) stream:read_exactly(1) end,
    ["pieces of 64 bytes"] = function(stream) stream:read_exactly(64) end,
  } do
    t.it("while it reads " .. what .. " from a fast program", REAL, function()
      t.truthy(with_program('stream:write(("y\\n"):rep(1 << 19))', read))
    end)
  end

  t.it("while it reads buffers of many pieces", function()
    local SIZE <const> = 262144
    local near, far = net.memory()
    near:queue(("x"):rep(SIZE))
    rl.sleep(1)
    local turns = 0
    local counter = rl.task(function()
      while true do
        rl.sleep(0)
        turns = turns + 1
      end
    end)
    -- 65536 reads of a byte empty a buffer.
    for _ = 1, SIZE do far:read_exactly(1) end
    counter:cancel()
    t.truthy(turns >= 3, turns)
  end)

  t.it("while it talks to another one without the kernel", REAL, function()
    local near <close>, far = net.memory()
    local echo = rl.task(function() for bytes in far:chunks() do far:write(bytes) end end)
    t.truthy(lets_timers_fire(function()
      near:write "x"
      near:read()
    end))
    near:close()
    echo:await()
  end)

  t.it("and lets descriptors be served while it does that", REAL, function()
    local near <close>, far = net.memory()
    local echo = rl.task(function() for bytes in far:chunks() do far:write(bytes) end end)
    local one <close>, other = assert(net.pair())
    local seen
    rl.task(function() seen = other:read() end)
    one:write "y"
    one:flush()
    local start = os.clock()
    repeat
      near:write "x"
      near:read()
    until seen or os.clock() - start > 5
    t.equal(seen, "y")
    near:close()
    echo:await()
    other:close()
  end)

  for what, piece in pairs { ["small pieces"] = "x", ["large pieces"] = ("x"):rep(5000) } do
    t.it("while it writes " .. what .. " to a fast program", REAL, function()
      t.truthy(with_program("stream:read(1 << 20)", function(stream) stream:write(piece) end))
    end)
  end

  t.it("while it writes and flushes", REAL, function()
    t.truthy(with_program("stream:read(1 << 20)", function(stream)
      stream:write "x"
      stream:flush()
    end))
  end)

  t.it("while it sends small pieces as with LuaSocket", REAL, function()
    local master = assert(socket.bind("127.0.0.1", 0))
    local _, port = master:getsockname()
    local script = 'local s = require "runloop.net".connect(%d) while s:read(1 << 20) do end'
    local program <close> = assert(process.start { t.rlhost, "-e", script:format(port), errors = "null" })
    local client = assert(master:accept())
    t.truthy(lets_timers_fire(function() for _ = 1, 100 do client:send "x" end end))
    client:close()
    master:close()
    program:stop(5)
  end)

  t.it("while it writes an answer that is compressed to few bytes", REAL, function()
    local fired
    local server = assert(http.serve("memory", { compress = true }, function(request)
      local response = request:respond()
      fired = lets_timers_fire(function() for _ = 1, 100 do response:write(("x"):rep(1000)) end end, 0.5)
    end))
    local near, far = net.memory()
    server:accept(far)
    near:write "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    t.truthy(near:read_all():find("content-encoding: gzip", 1, true))
    t.equal(fired, true)
  end)
end)
