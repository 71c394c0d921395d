-- How many system calls streams make.

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local net = require "runloop.net"
local process = require "runloop.process"

local REAL <const> = { real_time = true, timeout = 60 }

-- Starts a script under strace, or its tests. Returns the program, and a function that waits for its end and returns
-- the calls in a list of { name, result }.
local function traced(script, calls, is_test)
  local folder = assert(fs.temporary_directory())
  local log, path = folder .. "/calls", folder .. "/traced_test.lua"
  assert(fs.write(path, script))
  local words = { "strace", "-f", "-e", "trace=" .. calls, "-o", log, fs.real_path(t.rlhost), output = "pipe",
    errors = "null" }
  if is_test then words[#words + 1] = "test" end
  words[#words + 1] = path
  local program = process.start(words)
  if not program then t.skip "strace is not installed" end
  return program, function()
    program:wait()
    local found = {}
    for line in (fs.read(log) or ""):gmatch "[^\n]+" do
      local name, result = line:match "^%d+ +(%w+)%(.* = (%-?%d+)"
      if name then found[#found + 1] = { name, math.tointeger(result) } end
    end
    fs.remove(folder, { recursive = true })
    if #found == 0 then t.skip "strace may not trace here" end
    return found
  end
end

t.it("four TLS records are sent by one system call", REAL, function()
  local folder = assert(fs.temporary_directory())
  local gone <close> = setmetatable({}, { __close = function() fs.remove(folder, { recursive = true }) end })
  local made = process.run { "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
    "-nodes", "-keyout", folder .. "/key.pem", "-out", folder .. "/cert.pem", "-subj", "/CN=localhost" }
  if not made or made.code ~= 0 then t.skip "openssl is not installed" end
  local _, calls = traced(([[
    local rl, net = require "runloop", require "runloop.net"
    local a, b = net.pair()
    rl.task(function()
      assert(a:start_tls { server = true, certificate = %q, key = %q })
      a:write(("x"):rep(8 << 20))
      a:close()
    end)
    assert(b:start_tls { verify = false })
    while b:read() do end
  ]]):format(folder .. "/cert.pem", folder .. "/key.pem"), "sendmsg,sendto,write,writev")
  local count, bytes = 0, 0
  for _, call in ipairs(calls()) do
    -- Calls of handshakes and ends write few bytes, and so do calls for a full socket: leave both out.
    if call[2] > 4096 then count, bytes = count + 1, bytes + call[2] end
  end
  t.truthy(bytes > 8 << 20, bytes)
  t.truthy(bytes / count > 2.5 * 16406, ("%d bytes in %d calls"):format(bytes, count))
end)

t.it("a connection that is accepted, answered and closed takes few system calls", REAL, function()
  local function serve(count)
    local program, calls = traced([[
      local net = require "runloop.net"
      local server = net.serve("127.0.0.1:0", function(stream) stream:write "hello" stream:close() end)
      print(server:port())
      io.stdout:flush()
      require "runloop.process".on_signal("TERM", function() os.exit(0) end)
    ]], "all")
    local address = "127.0.0.1:" .. (program.output:read_line() or t.skip "strace may not trace here")
    for _ = 1, count do
      local stream <close> = assert(net.connect(address))
      assert(stream:read_all() == "hello")
    end
    rl.sleep(0.1)
    process.run { "pkill", "-TERM", "-P", tostring(program:pid()) }
    local own = 0
    -- The number of waits depends on the load of the machine, so waits are not counted.
    for _, call in ipairs(calls()) do if not call[1]:find "wait" and call[1] ~= "poll" then own = own + 1 end end
    return own
  end
  local each = (serve(300) - serve(100)) / 200
  t.truthy(each <= 8, each)
end)

t.it("a jump of virtual time makes few system calls for an idle connection", REAL, function()
  local function jump(count)
    local _, calls = traced(([[
      local rl, net, t = require "runloop", require "runloop.net", require "runloop.test"
      t.it("jumps", { leaks = false }, function()
        local listener <close> = net.serve("127.0.0.1:0", function(stream) stream:read() end)
        local streams = {}
        for i = 1, 50 do streams[i] = assert(net.connect("127.0.0.1:" .. listener:port())) end
        for _ = 1, %d do rl.sleep(1) end
        for _, stream in ipairs(streams) do stream:abort() end
      end)
    ]]):format(count), "all", true)
    local asked = 0
    for _, call in ipairs(calls()) do if not call[1]:find "wait" and call[1] ~= "poll" then asked = asked + 1 end end
    return asked
  end
  local each = (jump(60) - jump(20)) / 40 / 50
  t.truthy(each < 4, each)
end)
