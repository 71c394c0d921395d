-- Many clients for a minute, including slow ones and some that vanish: afterwards no memory of them remains. The minute
-- passes in virtual time. CROWD is the number of clients of each kind; the default is 200, or 1,000 with RLHOST_SOAK=1,
-- or fewer if descriptors are short: a client takes five.

local rl, net, fs = require "runloop", require "runloop.net", require "runloop.fs"
local t = require "runloop.test"

local limit = tonumber((io.open "/proc/self/limits":read "a"):match "Max open files%s+(%d+)") or 1024
local CROWD = math.min(tonumber(os.getenv "CROWD") or os.getenv "RLHOST_SOAK" and 1000 or 200, limit // 5)

local function descriptors() return #assert(fs.list "/proc/self/fd") end

local function resident()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end

-- Ways in which a client can be a burden for a server.
local WAYS = {
  function(stream) stream:abort() end,
  function(stream) stream:close() end,
  function(stream)
    stream:write "half a li"
    stream:abort()
  end,
  function(stream)
    stream:write "a line\nhalf"
    stream:close()
  end,
  function(stream)
    stream:write(("line\n"):rep(1000))
    stream:abort()
  end,
  function(stream)
    stream:finish()
    stream:read(1)
    stream:abort()
  end,
}

t.it("a crowd of clients leaves no descriptor, byte or task behind", { timeout = 300 }, function()
  local server
  local function round(count)
    local began = rl.now()
    local served, ended, heard = 0, 0, 0
    server = assert(net.serve("127.0.0.1:0", { high_water = 65536 }, function(stream)
      served = served + 1
      local leaving <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
      for line in stream:lines { max = 4096 } do
        if not stream:write(line, "\n", ("x"):rep(2000), "\n") then break end
      end
    end))
    local where = server:address()
    local group = rl.group()
    for i = 1, count do
      group:task(function()
        local stream = assert(net.connect(where))
        WAYS[i % #WAYS + 1](stream)
      end)
      group:task(function()
        -- Requests more than it reads, and reads slowly.
        local stream <close> = assert(net.connect(where))
        stream:queue(("line\n"):rep(40))
        for _ = 1, 5 do
          rl.sleep(12)
          heard = heard + #(stream:read(1000) or "")
        end
      end)
      if i % 20 == 0 then rl.sleep(1000 / count) end
    end
    group:wait()
    t.eventually(function() return served == 2 * count and ended == served and server:connections() == 0 end)
    t.truthy(heard > 0)
    t.truthy(count < 20 or rl.now() - began >= 60)
    t.equal(server:stop(1), true)
  end
  -- The first round allocates memory that is kept for good.
  round(10)
  local before, memory = descriptors(), resident()
  round(CROWD)
  t.eventually(function() return descriptors() <= before end)
  server = nil
  -- Memory such as coroutines' tables may be kept for the next crowd, but streams may not: each stream has kilobytes of
  -- buffers.
  t.truthy(resident() < memory + 50 + CROWD // 2, ("%d kB before, %d kB afterwards"):format(memory // 1,
    resident() // 1))
end)
