-- The clock of tests is reliable: it never jumps while real work is in progress, and always jumps past waits in virtual
-- time.

local rl = require "runloop"
local t = require "runloop.test"
local net = require "runloop.net"
local redis = require "runloop.redis"
local socket = require "socket"

local flag = os.tmpname()

local function exists()
  local file = io.open(flag)
  if file then file:close() end
  return file ~= nil
end

t.describe("the clock waits for programs", function()
  t.before_each(function() os.remove(flag) end)
  t.after_each(function() os.remove(flag) end)

  t.it("next to one that has ended", function()
    local dead <close> = io.popen "true"
    os.execute "sleep 0.05"
    local works <close> = io.popen("sleep 0.1; touch " .. flag)
    t.eventually(exists)
  end)

  t.it("in the background", function()
    os.execute("(sleep 0.1; touch " .. flag .. ") &")
    t.eventually(exists)
  end)

  t.it("that run as daemons", function()
    os.execute("setsid sh -c 'sleep 0.1; touch " .. flag .. "' >/dev/null 2>&1 &")
    t.eventually(exists)
    rl.sleep(3600)
    t.truthy(rl.now() >= 3600)
  end)

  t.it("and then still has round values", function()
    local p <close> = t.spawn { "sh", "-c", "sleep 0.03; echo x" }
    p:wait_for "x"
    p:wait()
    rl.sleep(60)
    t.equal(rl.now() * 100 % 1, 0)
  end)
end)

-- 0.465 + 0.01 is a little more than 0.475, the time that the clock shows then.
t.each({
  { "rl.sleep", rl.sleep },
  { "a condition", function(left) rl.condition():wait(left) end },
  { "a future", function(left) rl.future():await(left) end },
  { "rl.run", function(left)
    local later = rl.after(1, function() end)
    rl.run { timeout = left }
    later:invalidate()
  end },
  { "a timer", function(left)
    local done = rl.future()
    rl.after(left, function() done:complete() end)
    done:await()
  end },
  { "a stream", function(left)
    local stream <close> = net.memory()
    stream:read { timeout = left }
  end },
}, "%s: a wait again for the rest of a time ends", function(_, wait)
  rl.sleep(0.465)
  local limit, count = rl.now() + 0.01, 0
  while rl.now() < limit and count < 5 do
    wait(limit - rl.now())
    count = count + 1
  end
  t.equal(count, 2)
end)

t.it("a subscription gets no message for exactly the time that it waits", function()
  local db <close> = redis.open(redis.fake())
  local s <close> = db:subscribe "a"
  rl.sleep(0.465 - rl.now())
  t.equal({ s:receive(0.01) }, { nil, "timed out" })
  t.equal(rl.now(), 0.475)
end)

t.describe("descriptors of this process", function()
  local function pair()
    local listener = assert(socket.bind("127.0.0.1", 0))
    local _, number = listener:getsockname()
    local client = socket.tcp()
    client:settimeout(0)
    client:connect("127.0.0.1", number)
    local server = listener:accept()
    listener:close()
    server:settimeout(0)
    return client, server
  end

  t.it("do not keep time from passing", function()
    local client, server = pair()
    local began = os.getenv "HOME" and socket.gettime()
    rl.task(function()
      rl.wait_readable(server)
      rl.sleep(20)
      server:send "pong\n"
    end)
    client:send "ping\n"
    rl.wait_readable(client)
    t.equal(client:receive "*l", "pong")
    t.equal(rl.now(), 20)
    t.truthy(socket.gettime() - began < 10)
    client:close()
    server:close()
  end)

  t.it("such as listeners and ports do not keep time from passing, either", function()
    local listener = assert(socket.bind("127.0.0.1", 0))
    listener:settimeout(0)
    local port = rl.on_readable(listener, print)
    local message_port = rl.message_port { name = "rlhost-test-" .. math.random(1 << 40), callback = print }
    rl.current():add(message_port)
    rl.sleep(3600)
    t.equal(rl.now(), 3600)
    message_port:invalidate()
    port:invalidate()
    listener:close()
  end)

  t.it("whose port rests do not keep time from passing, either", function()
    local p <close> = io.popen "echo hi"
    p:setvbuf "no"
    local port = rl.on_readable(p, function() p:read "l" end)
    rl.sleep(3600)
    port:invalidate()
  end)
end)

t.describe("advance and settle", function()
  t.it("with the option quiet let real answers arrive before their time-outs", function()
    local server <close> = t.spawn { "sh", "-c", "while read line; do sleep 0.05; echo answer $line; done" }
    local seen = {}
    for i = 1, 3 do
      local late = rl.after(30, function() seen[#seen + 1] = "time-out" end)
      rl.task(function()
        server:write(i .. "\n")
        seen[#seen + 1] = server:wait_for("answer (%d)\n", { within = 1000 })
        late:invalidate()
      end)
      rl.clock:advance(60, { quiet = 0.5 })
    end
    t.equal(seen, { "1", "2", "3" })
    t.truthy(rl.now() >= 180 and rl.now() < 180.1, rl.now())
    for text, options in pairs { ["option 'quiet' must be a number of seconds, more than 0, got 0"] = { quiet = 0 },
      ["unknown option 'calm' %(there is: quiet%)"] = { calm = 1 }, ["argument #2 must be a table"] = 5 } do
      t.error(function() rl.clock:advance(1, options) end, text)
    end
  end)

  t.it("wait for sources", function()
    local n = 0
    local s = rl.source { perform = function(s) for _ in s:commands() do n = n + 1 end end }
    rl.current():add(s)
    rl.after(5, function() s:post(1) end)
    rl.clock:advance(5)
    t.equal(n, 1)
    s:invalidate()
  end)

  t.it("wait for chains of requests", function()
    local n = 0
    local function chain()
      n = n + 1
      if n < 10 then rl.perform(chain) end
    end
    rl.after(5, chain)
    rl.clock:advance(5)
    t.equal(n, 10)
    n = 0
    rl.perform(chain)
    rl.clock:settle()
    t.equal({ n, rl.now() }, { 10, 5 })
  end)

  t.it("wait for other threads", function()
    local n = 0
    local p = rl.port { callback = function() n = n + 1 end }
    rl.current():add(p)
    local th = rl.thread(function(p)
      local rl = require "runloop"
      rl.sleep(5)
      p:send { id = 1 }
    end, p)
    rl.clock:advance(5)
    t.equal(n, 1)
    th:join()
    p:invalidate()
  end)

  t.it("are refused outside the test's own thread", function()
    local th = rl.thread(function()
      require "runloop.test"
      require "runloop".clock:settle()
    end)
    local _, message = th:join()
    t.truthy(message:find("rl.clock:settle: only the test's own thread moves the clock", 1, true))
  end)
end)

t.describe("threads", function()
  t.it("that block let real time pass", function()
    local listener = assert(socket.bind("127.0.0.1", 0))
    listener:settimeout(0)
    local _, number = listener:getsockname()
    local th = rl.thread(function(number)
      local s = require "socket".tcp()
      s:settimeout(8)
      assert(s:connect("127.0.0.1", number))
      local line = s:receive "*l"
      s:close()
      return line
    end, number)
    rl.wait_readable(listener)
    local client = listener:accept()
    rl.sleep(0.1)
    client:send "pong\n"
    client:close()
    listener:close()
    local _, line = th:join(5)
    t.equal(line, "pong")
  end)

  local function order()
    local journal = {}
    local port = rl.port { callback = function(_, message) journal[#journal + 1] = message.id end }
    rl.current():add(port)
    local threads = {}
    for i = 1, 6 do
      threads[i] = rl.thread(function(port, i)
        local rl = require "runloop"
        for k = 1, 3 do
          rl.sleep(1)
          port:send { id = i * 10 + k }
        end
        return math.random(1 << 40)
      end, port, i)
    end
    for i = 1, 6 do journal[#journal + 1] = select(2, threads[i]:join()) end
    rl.clock:settle()
    port:invalidate()
    return journal
  end

  local first
  for i = 1, 3 do
    t.it("take turns in an order that the seed decides, " .. i, function()
      local found = order()
      first = first or found
      t.equal(found, first)
    end)
  end
end)

t.describe("the wall clock", function()
  t.it("begins at the same date in each test", function()
    t.equal(os.date "%Y-%m-%d %H:%M:%S", "2000-01-01 00:00:00")
    t.equal(os.time(), 946684800)
  end)

  t.it("begins at the date of starts_at", { starts_at = "2024-02-28 23:59:59" }, function()
    rl.sleep(1)
    t.equal(os.date "%F %T", "2024-02-29 00:00:00")
  end)

  t.it("accepts starts_at in seconds", { starts_at = 86400 }, function() t.equal(os.date "%F", "1970-01-02") end)
  t.it("accepts starts_at as a table", { starts_at = { year = 1999, month = 5, day = 4 } }, function()
    t.equal(os.date "%F", "1999-05-04")
  end)
  t.it("has the time zone of the test", { time_zone = "Europe/Berlin" }, function() t.equal(os.date "%H", "01") end)
  t.it("has the default time zone again in the next test", function() t.equal(os.date "%H", "00") end)
  t.it("is the real clock in real time", { real_time = true }, function() t.truthy(os.time() > 1700000000) end)

  for _, date in ipairs { "yesterday", "2024-13-01", "2024-01-01 25:00:00" } do
    local _, message = pcall(t.it, "wrong", { starts_at = date }, print)
    assert(message:find("option 'starts_at' must be a date like", 1, true), message)
  end
end)
