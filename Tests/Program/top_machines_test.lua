-- `rlhost top --via`: the display, with invented answers, and the command with a real server.

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
-- Scripts do not need the module: only the command uses it.
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/part.lua")
local root = (os.getenv "DOCUMENTS" or "docs/lua") .. "/../../Sources/Program/Lua/"
local function load_part(path, globals)
  return assert(loadfile(root .. path, "t", setmetatable(globals, { __index = _G })))()
end
local top = load_part("top.lua", { require = part })
local machines = load_part("top/machines.lua", { require = function(name)
  return name == "runloop.top" and top or part(name)
end })
local terminal = require "runloop.terminal"

local function new() return { title = "nats:4222", status = function() return "connected" end, rows = {}, count = 0,
  patience = 2.5 } end

local function answer(name, id, host, pid, endpoint)
  return json.encode { name = name, id = id, version = "1.0.0", metadata = { host = host, pid = tostring(pid) },
    endpoints = { endpoint } }
end

local function process_answer(id, host, pid, script, changes)
  local data = { passes = 103.2, p99 = 0.0017, longest = 0.0204, tasks = 12, memory = 25300000, awake = 0.5, late = 0,
    script = script }
  for name, value in pairs(changes or {}) do data[name] = value end
  return answer("rlhost", id, host, pid, { data = data })
end

local function text_of(state, rows, columns)
  local lines, styles, count = machines.lines(state, rows, columns)
  return table.concat(lines, "\n"), styles, count
end

t.it("the screen has a row for each process, and its ports and workers below it", function()
  local state = new()
  machines.take(state, process_answer("b", "web2", 7, "shop.lua", { late = 3, name = "shop-2" }))
  machines.take(state, process_answer("a", "web1", 812, "shop.lua", { awake = 0.95 }))
  machines.take(state, answer("thumbs", "c", "web1", 812, { num_requests = 10, data = { p99 = 0.1, running = 2 } }))
  machines.take(state, answer("alone", "d", "web3", 1, { num_requests = 10 }))
  rl.sleep(2)
  machines.take(state, answer("thumbs", "c", "web1", 812, { num_requests = 30, data = { p99 = 0.1, running = 2,
    longest = 2.5, state = "holds" } }))
  local text, _, count = text_of(state)
  t.equal(count, 2)
  t.equal(text, [[
HOST      PID NAME           RATE      P99  LONGEST  TASKS   MEMORY  STATE
web1      812 shop.lua        103   1.7 ms  20.4 ms     12    25 MB  busy
web1      812   thumbs         10   100 ms   2.50 s      2        -  holds
web2        7 shop-2          103   1.7 ms  20.4 ms     12    25 MB  late 3]])
end)

t.it("a silent process is grey, and disappears after 30 seconds", function()
  local state = new()
  machines.take(state, process_answer("a", "web1", 1, "a.lua"))
  machines.take(state, process_answer("b", "web1", 2, "b.lua"))
  rl.sleep(2)
  machines.take(state, process_answer("b", "web1", 2, "b.lua"))
  rl.sleep(1)
  local text, styles = text_of(state, 24, 100)
  t.truthy(text:find("nats:4222 (connected): 2 processes, 1 silent", 1, true), text)
  t.truthy(text:find "a%.lua .*silent 3 s", text)
  t.equal({ styles[3], styles[4] }, { "grey" })
  for _ = 1, 14 do
    rl.sleep(2)
    machines.take(state, process_answer("b", "web1", 2, "b.lua"))
  end
  t.truthy(not text_of(state):find("a.lua", 1, true))
  t.equal(state.count, 1)
end)

t.it("the screen fits any size, and scrolls", function()
  local state = new()
  for i = 1, 100 do machines.take(state, process_answer("id" .. i, "a-host-with-a-long-name-" .. i, i, "s.lua")) end
  for _, size in ipairs { { 24, 80 }, { 50, 200 }, { 10, 40 }, { 5, 20 } } do
    local lines = machines.lines(state, size[1], size[2])
    t.truthy(#lines <= size[1])
    for _, line in ipairs(lines) do t.truthy(terminal.width(line) <= size[2]) end
  end
  state.skip = 1000
  t.truthy(text_of(state, 24, 100):find "silent 0 s" == nil)
  t.equal(state.skip, 78)
end)

t.it("the screen ignores malformed answers", function()
  local state = new()
  for _, text in ipairs { "", "{]", "[]", '{"name":"rlhost","id":"x"}', '{"name":"rlhost","id":"x","endpoints":[7]}',
    '{"name":"rlhost","id":"x","endpoints":[{}]}', '{"name":"rlhost","id":"x","endpoints":[{"data":{"memory":"1"}}]}',
    '{"name":"rlhost","id":"x","endpoints":{"1":1}}', ("["):rep(9999) } do
    machines.take(state, text)
  end
  t.equal(state.count, 0)
  machines.take(state, process_answer("x", "h\27[2J", 1e300, "\27]0;evil\7", { passes = -1, p99 = 1e300, longest = {},
    tasks = "many", late = 1e17 }))
  machines.take(state, answer("p", "y", "h\27[2J", 0, { num_requests = "many", data = { state = "\27[31m" } }))
  local text = text_of(state)
  t.truthy(text:find("late 100000000000000000", 1, true))
  t.truthy(not text:find "[\0-\9\11-\31]", text)
  t.equal(select(2, text:gsub("\n", "")), 2)
end)

t.describe("rlhost top", { real_time = true, timeout = 40 }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)

  local function run(...)
    local program = t.spawn { t.rlhost, "top", "--via", ... }
    return program:wait { within = 20 }, program:output(), program:errors()
  end

  local function start(path)
    local program = t.spawn { t.rlhost, path, server():url() }
    t.finally(function()
      program:signal "CONT"
      program:kill()
    end)
    program:wait_for("ready", { within = 15 })
    return program
  end

  t.it("--once prints a table, or reports that no process answers", function()
    t.equal({ run(server():url(), "--once", "-d", "0.2") }, { 69, "", "rlhost: top: no process answers at "
      .. server():address()
      .. ': those are seen that have connected with nats.connect(…, { expose = { "stats" } })\n' })
    local folder = t.truthy(fs.temporary_directory())
    t.finally(function() fs.remove(folder, { recursive = true }) end)
    local path = folder .. "/shown.lua"
    t.truthy(fs.write(path, [[
      local nats = require "runloop.nats"
      local bus = assert(nats.connect(arg[1], { expose = { "stats" } }))
      require "runloop".every(0.02, function() end)
      bus:flush()
      print "ready" io.flush()
    ]]))
    local first, second = start(path), start(path)
    local code, output, errors = run(server():url(), "--once")
    t.equal({ code, errors }, { 0, "" })
    t.truthy(output:find "^HOST +PID NAME +RATE +P99 +LONGEST +TASKS +MEMORY  STATE\n", output)
    t.equal(select(2, output:gsub("shown%.lua", "")), 2, output)
    second:signal "STOP"
    t.eventually(function()
      code, output = run(server():url(), "--once", "-d", "0.5")
      return code == 0 and select(2, output:gsub("shown%.lua", "")) == 1
    end, { within = 20 })
    -- On a terminal, the row of a stopped process turns grey.
    second:signal "CONT"
    local screen = t.spawn { t.rlhost, "top", "--via", server():url(), "-d", "0.5",
      env = { TERM = "xterm" }, terminal = { rows = 24, columns = 100 } }
    screen:wait_for("2 processes, 0 silent", { within = 15 })
    first:signal "STOP"
    screen:wait_for("2 processes, 1 silent", { within = 15 })
    screen:wait_for("\27%[90m[^\n]*silent %d s", { within = 15 })
    screen:write "q"
    t.equal(screen:wait { within = 10 }, 0)
  end)

  t.it("rejects wrong arguments", function()
    t.equal({ run("1:2:3", "--once") }, { 64, "", 'rlhost: top: a server must be "nats://host:4222", '
      .. '"tls://host:4222", "host:4222" or a port, got "1:2:3"\n' })
    local code, _, errors = run("127.0.0.1:1", "--once")
    t.equal({ code, errors }, { 69, "rlhost: top: ECONNREFUSED: connection refused (127.0.0.1:1)\n" })
    for _, case in ipairs {
      { { "--via" }, "'--via' needs the address of a server of NATS" },
      { { "--via", "--once" }, "'--via' needs the address of a server of NATS" },
      { { "--ca", "x" }, "--ca needs --via URL" }, { { "--credentials", "x" }, "--credentials needs --via URL" },
      { { "--via", "x", "7" }, "--via shows all processes: '7' is for one of this machine" },
      { { "--via", "x", "--tasks" }, "--via shows all processes: '--tasks' is for one of this machine" },
      { { "--via", "x", "--sort=late" }, "--via shows all processes: '--sort' is for one of this machine" },
    } do
      local program = t.spawn { t.rlhost, "top", table.unpack(case[1]) }
      t.equal({ program:wait { within = 10 }, program:errors() }, { 64, "rlhost: top: " .. case[2] .. "\n" })
    end
  end)
end)
