-- Compares the calls of streams for frames, words and pieces with the simpler calls that they replace. See clients.py.

local rl, net = require "runloop", require "runloop.net"
local share = tonumber(arg[1]) or 1
local OPTIONS <const> = { words = true }
local ADJUST <const> = { adjust = -4 }

-- Prints the cost of a call in each of two ways: the best of several times, in seconds. The ways take turns.
local function row(label, goal, count, ours, theirs)
  count = math.max(1000, count * share // 1)
  local best = { math.huge, math.huge }
  for _ = 1, 7 do
    for i, way in ipairs { ours, theirs } do
      collectgarbage()
      best[i] = math.min(best[i], way(count) / count)
    end
  end
  print(("%s\t%.9f\t%.9f\t%g"):format(label, best[1], best[2], goal))
end

-- Returns a stream whose buffer is refilled with `count` times these bytes, and a function that measures the reads.
local function reading(bytes, read)
  return function(count)
    local near, far = net.memory { high_water = 1 << 30 }
    local seconds, at_once = 0, 500
    for _ = 1, count // at_once do
      near:write(bytes:rep(at_once))
      near:flush()
      local start = os.clock()
      for _ = 1, at_once do read(far) end
      seconds = seconds + os.clock() - start
    end
    near:close()
    far:close()
    return seconds
  end
end

-- Returns the two ways to read a head and a body whose length is `more` less than the number in the head.
local function framing(more, options)
  local message = string.pack(">c1 I4", "D", more + 60) .. ("x"):rep(60)
  return reading(message, function(s) local _, body = s:read_frame(">c1 I4", options) return body end),
    reading(message, function(s)
      local _, length = string.unpack(">c1 I4", s:read_exactly(5))
      return s:read_exactly(length - more)
    end)
end

row("head and body by read_frame", 0.6, 50000, framing(0))
row("the same with an options table", 0.8, 50000, framing(4, ADJUST))

local line = "MSG orders.created 42 1024\r\n"
row("words of a line", 0.5, 50000,
  reading(line, function(s) local a, b, c, d = s:read_line(OPTIONS) return a, b, c, d end),
  reading(line, function(s)
    local a, b, c, d = s:read_line():match "^(%S+)%s+(%S+)%s+(%S+)%s+(%S+)$"
    return a, b, c, d
  end))

local function writing(write)
  return function(count)
    local near, far = net.memory { high_water = 1 << 30 }
    local seconds, at_once = 0, 500
    for _ = 1, count // at_once do
      local start = os.clock()
      for _ = 1, at_once do write(near) end
      seconds = seconds + os.clock() - start
      near:flush()
      far:read(1 << 30)
    end
    near:close()
    far:close()
    return seconds
  end
end

local whole = "PUB orders.created reply.to 42\r\nhello, this is the body"
row("write of seven pieces", 1.5, 100000,
  writing(function(s) s:write("PUB ", "orders.created", " ", "reply.to", " 42\r\n", "hello, this is", " the body") end),
  writing(function(s) s:write(whole) end))
