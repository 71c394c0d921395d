-- net.copy: the bytes that it copies, in each way: between sockets and files in the kernel, between streams in memory
-- by the script.

local rl, net = require "runloop", require "runloop.net"
local t = require "runloop.test"

local DATA = {}
for i = 1, 40000 do DATA[i] = ("%08x the quick brown fox\n"):format(i * 2654435761 & 0xffffffff) end
DATA = table.concat(DATA)

-- Calls a function with a file that has the data, and removes it afterwards.
local function with_file(fn)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(DATA)
  file:close()
  local remove <close> = setmetatable({}, { __close = function() os.remove(path) end })
  fn(path)
end

-- Closes all these objects at the end of a block.
local function all_of(...)
  local streams = { ... }
  return setmetatable({}, { __close = function()
    for _, stream in ipairs(streams) do stream:close() end
  end })
end

local function source(text)
  local near, far = net.pair()
  rl.task(function()
    near:queue(text)
    near:close()
  end)
  return far
end

t.it("net.copy copies between sockets, and waits for a slow reader", function()
  local from, near, far = source(DATA), net.pair()
  local closing <close> = all_of(from, near, far)
  local task = rl.task(function()
    local count = net.copy(from, near)
    near:finish()
    return count
  end)
  local pieces = {}
  for bytes in far:chunks() do
    pieces[#pieces + 1] = bytes
    if #pieces % 5 == 0 then rl.sleep(0.001) end
  end
  t.truthy(table.concat(pieces) == DATA)
  t.equal(task:await(), #DATA)
  t.equal({ from:bytes_read(), near:bytes_written() }, { #DATA, #DATA })
end)

t.it("net.copy copies buffered bytes first, and no more than max", function()
  local from, near, far = source(DATA), net.pair()
  local closing <close> = all_of(from, near, far)
  local first = DATA:match "^[^\n]*\n"
  t.equal(from:read_line() .. "\n", first)
  rl.task(function()
    t.equal(net.copy(from, near, { max = 100000 }), 100000)
    near:write "|"
    t.equal(net.copy(from, near), #DATA - 100000 - #first)
    near:finish()
  end)
  local all = far:read_all()
  t.truthy(all == DATA:sub(#first + 1, #first + 100000) .. "|" .. DATA:sub(#first + 100001))
end)

t.it("net.copy copies a file, in parts and whole", function()
  with_file(function(path)
    local file, near, far = net.open(assert(io.open(path))), net.pair()
    local closing <close> = all_of(file, near, far)
    local task = rl.task(function()
      local first = net.copy(file, near, { max = 1000 })
      local line = file:read_line()
      local rest = net.copy(file, near)
      near:finish()
      return { first, #line, rest }
    end)
    local all = far:read_all()
    local line = DATA:find("\n", 1000, true)
    t.equal(task:await(), { 1000, line - 1001, #DATA - line })
    t.truthy(all == DATA:sub(1, 1000) .. DATA:sub(line + 1))
  end)
end)

t.it("net.copy loses no byte when it is cancelled", function()
  local from, near, far = source(DATA), net.pair()
  local closing <close> = all_of(from, near, far)
  local first = rl.task(function() net.copy(from, near) end)
  rl.sleep(0.01)
  first:cancel()
  rl.task(function()
    net.copy(from, near)
    near:finish()
  end)
  t.truthy(far:read_all() == DATA)
end)

t.it("net.copy returns an error that names the end that has failed", function()
  local from, near, far = source(DATA), net.pair()
  local closing <close> = all_of(from, near)
  far:abort()
  local none, message, code = net.copy(from, near)
  t.equal(none, nil)
  t.truthy(code == "EPIPE" or code == "ECONNRESET", message)
  local broken, other = net.pair()
  broken:write "x"
  local closed, peer = net.pair()
  closed:close()
  peer:close()
  t.equal(select(3, net.copy(other, closed)), "EPIPE")
  t.equal(other:read(), "x")
  broken:close()
  other:close()
end)

t.it("net.copy copies between streams in memory", function()
  local a, b = net.memory { chunk = 1000, latency = 0.0001 }
  local c, d = net.memory()
  local closing <close> = all_of(b, c, d)
  rl.task(function()
    a:write(DATA)
    a:close()
  end)
  local task = rl.task(function()
    local count = net.copy(b, c)
    c:finish()
    return count
  end)
  t.truthy(d:read_all() == DATA)
  t.equal(task:await(), #DATA)
end)

t.it("net.copy rejects wrong arguments", function()
  local a, b = net.pair()
  local closing <close> = all_of(a, b)
  for _, case in ipairs {
    { { 1, b }, "net.copy: argument #1 must be a stream, got 1" },
    { { a }, "net.copy: argument #2 must be a stream, got nothing" },
    { { a, b, { max = 1.5 } }, "net.copy: field 'max' must be a number of bytes, 0 or more, got 1.5" },
    { { a, b, { maximum = 1 } }, "net.copy: unknown field 'maximum' (there are: max, through)" },
  } do
    local _, message = pcall(function() net.copy(table.unpack(case[1], 1, 3)) end)
    t.truthy(message:find(case[2], 1, true), message)
  end
end)
