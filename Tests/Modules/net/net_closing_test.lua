-- Closing does not destroy sent data, and makes no unnecessary system calls.

local rl, net, fs = require "runloop", require "runloop.net", require "runloop.fs"
local t = require "runloop.test"

local REAL <const> = { real_time = true }
local LONG <const> = ("0123456789abcdef"):rep(1 << 16)  -- a megabyte

-- Returns the client's end of a connection to a server that calls `serve(stream)`.
local function connected(serve, options)
  local server = assert(net.serve({ host = "127.0.0.1", port = 0 }, options or {}, serve))
  t.finally(function() server:close() end)
  local client = assert(net.connect(tostring(server:address())))
  t.finally(function() client:close() end)
  return client
end

t.describe("a server that closes", function()
  t.it("lets a slow reader read everything, whatever the server has left unread", REAL, function()
    local client = connected(function(stream)
      stream:read(1)
      stream:write(LONG)
      stream:close()
    end)
    client:write(("x"):rep(100000))
    local got = {}
    repeat
      rl.sleep(0.002)
      local piece, problem = client:read(100000)
      t.equal(problem, nil)
      got[#got + 1] = piece
    until not piece
    t.truthy(table.concat(got) == LONG)
  end)

  t.it("lets a peer read everything that continues to send", REAL, function()
    local client = connected(function(stream) stream:write "hello\n" end)
    for _ = 1, 20 do
      client:write(("x"):rep(1000))
      rl.sleep(0.002)
    end
    t.equal(client:read_all(), "hello\n")
  end)

  t.it("ends the connection of a peer that has ended its own output", REAL, function()
    for _, text in ipairs { "", "unread" } do
      local client = connected(function(stream)
        stream:write(LONG)
        rl.sleep(0.01)
      end)
      if text ~= "" then client:write(text) end
      client:finish()
      rl.sleep(0.05)
      t.truthy(client:read_all { max = 1 << 21 } == LONG)
    end
  end)

  t.it("ends at once if nothing was sent and nothing is unread", REAL, function()
    local function descriptors() return #assert(fs.list "/proc/self/fd") end
    local closed
    descriptors()  -- the first listing starts a thread, which opens descriptors, too
    local client = connected(function(stream)
      local before = descriptors()
      stream:close()
      closed = descriptors() - before
    end)
    t.equal(client:read_all(), "")
    t.eventually(function() return closed end)
    t.equal(closed, -1)
  end)
end)

t.it("sockets that a thread has not added to its loop are closed with it", { real_time = true }, function()
  local function sockets()
    local count = 0
    for _, entry in ipairs(fs.list "/proc/self/fd") do
      local target = fs.read_link("/proc/self/fd/" .. entry.name)
      if target and target:find "^socket:" then count = count + 1 end
    end
    return count
  end
  local before = sockets()
  for _ = 1, 3 do
    local thread = rl.thread(function()
      local net = require "runloop.net"
      listener, datagram = net.listener { port = 0 }, net.datagram { port = 0 }
      removed = net.datagram { port = 0, on_message = print }
      local loop = require "runloop".current()
      loop:add(removed)
      loop:remove(removed)
      return listener:address()
    end)
    local is_good, address = thread:join()
    t.equal(is_good, true)
    t.equal(select(3, net.connect(address)), "ECONNREFUSED")
  end
  t.eventually(function() return sockets() == before end)
end)
