-- t.server: real servers on free ports, each in its own directory.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local fs = require "runloop.fs"

-- Sends a command to a redis-server and returns the first line of its answer.
local function ask(server, command)
  local stream <close>, problem = net.connect(server:address(), { timeout = 5 })
  if not stream then return nil, problem end
  stream:write(command .. "\r\n")
  return stream:read_line { timeout = 5 }
end

t.describe("a redis-server", function()
  t.it("is ready when the call returns, and ends with the test", function()
    local server = t.server "redis"
    t.equal(ask(server, "PING"), "+PONG")
    t.equal(server:url(), "redis://127.0.0.1:" .. server:port() .. "/0")
    t.truthy(server:is_running())
    t.truthy(fs.stat(server:directory()))
    t.truthy(tostring(server):find("server (redis, running, port " .. server:port(), 1, true))
  end)

  t.it("keeps its port and its data when it starts again, even after a kill", function()
    local server = t.server "redis"
    t.equal(ask(server, "SET a 1"), "+OK")
    local port, pid = server:port(), server:pid()
    server:kill()
    t.equal(server:is_running(), false)
    t.equal(select(2, ask(server, "PING")):match "^%u+", "ECONNREFUSED")
    server:restart()
    t.equal(server:port(), port)
    t.truthy(server:pid() ~= pid)
    t.equal(ask(server, "GET a"), "$1")
    server:stop()
    t.equal(server:is_running(), false)
  end)

  t.it("does not answer while it is paused", function()
    local server = t.server "redis"
    local stream <close> = t.truthy(net.connect(server:address()))
    server:pause()
    stream:write "PING\r\n"
    t.equal(select(2, stream:read_line { timeout = 0.2 }), "timed out")
    server:resume()
    t.equal(stream:read_line { timeout = 5 }, "+PONG")
  end)

  t.it("does not stop the clock", function()
    local server = t.server "redis"
    local real = os.clock
    rl.sleep(3600)
    t.equal(ask(server, "PING"), "+PONG")
    t.truthy(rl.now() >= 3600, real)
  end)

  t.it("gets its arguments, with the port filled in", function()
    local server = t.server("redis", { arguments = { "--requirepass", "{port}" } })
    t.equal(ask(server, "PING"):match "^%-NOAUTH", "-NOAUTH")
  end)
end)

t.describe("a server of a group", function()
  local server
  t.before_all(function() server = t.server("redis", { name = "shared" }) end)
  t.it("serves a first test", function() t.equal(ask(server, "SET group yes"), "+OK") end)
  t.it("serves a second test with a new process", function()
    server:restart()
    t.equal(ask(server, "GET group"), "$3")
  end)
  t.it("serves a third test", function() t.equal(ask(server, "GET group"), "$3") end)
end)

t.describe("a server as a resource", function()
  local server = t.resource(function() return t.server "redis" end)
  t.it("is started when a test asks for it", function() t.equal(ask(server(), "SET x 1"), "+OK") end)
  t.it("is shared by further tests", function() t.equal(ask(server(), "GET x"), "$1") end)
end)

t.it("t.server starts a program with a configuration file", function()
  local server = t.server {
    "mosquitto", "-c", "{directory}/m.conf", ready = "tcp", files = { ["m.conf"] = "listener {port} 127.0.0.1\n" },
  }
  t.equal(server:url(), "127.0.0.1:" .. server:port())
  t.truthy(net.connect(server:address())):close()
end)

t.it("a program counts as ready when its output matches the pattern", function()
  local server = t.server { "sh", "-c", "echo starting; sleep 0.1; echo up on {port}; exec sleep 60",
    ready = "up on %d+" }
  t.equal(server:output(), "starting\nup on " .. server:port() .. "\n")
end)

t.it("a program counts as ready when its socket answers", function()
  local server = t.server { "redis-server", "--port", "0", "--unixsocket", "{socket}", ready = "unix" }
  t.truthy(net.connect("unix:" .. server:directory() .. "/socket")):close()
end)

t.it("t.server starts PostgreSQL, and PgBouncer in front of it", { timeout = 30 }, function()
  local server = t.server "postgres"
  local bouncer = t.server("pgbouncer", { server = server, pool_mode = "transaction" })
  for _, one in ipairs { server, bouncer } do
    local result = require "runloop.process".run { "psql", "-X", "-t", "-A", "-c", "select 6 * 7", one:url() }
    if not result then t.skip "psql is not installed (apt install postgresql-client)" end
    t.equal(result.output, "42\n", result.errors)
  end
  server:kill()
  server:restart()
end)

t.it("t.server starts NATS", function()
  local server = t.server "nats"
  local stream <close> = t.truthy(net.connect(server:address()))
  t.equal(stream:read_line { timeout = 5 }:match "^%u+", "INFO")
end)

-- Runs a file of tests in another process and returns its status and output.
local function run_tests(text, ...)
  local directory = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(directory, { recursive = true }) end)
  fs.write(directory .. "/inner_test.lua", 'local t = require "runloop.test"\n' .. text)
  local result = t.truthy(require "runloop.process".run {
    t.rlhost, "test", directory .. "/inner_test.lua", environment = { TMPDIR = directory, ... } })
  return result.code, result.output .. result.errors, directory
end

t.it("a server that is not installed skips the test, or fails it", function()
  local code, text = run_tests [[
    t.it("a", function() t.server { "frobnicated", ready = "tcp" } end)
    t.describe("g", function()
      t.before_all(function() t.server { "frobnicated", ready = "tcp" } end)
      t.it("b", function() error "not reached" end)
    end)]]
  t.equal(code, 0, text)
  t.truthy(text:find "frobnicated is not installed %(apt install frobnicated%)", text)
  t.truthy(text:find "2 skipped", text)
  code, text = run_tests [[t.it("a", function() t.server { "frobnicated", ready = "tcp", required = true } end)]]
  t.equal(code, 1)
  t.truthy(text:find "frobnicated is not installed", text)
end)

t.it("a server that is not ready, or ends by itself, fails the test with its last lines", function()
  local code, text = run_tests [[
    t.it("a", function() t.server { "sh", "-c", "for i in $(seq 100); do echo line $i; done; exit 3", ready = "tcp" } end)
    t.it("b", function() t.server { "sh", "-c", "echo waits; sleep 60", ready = "tcp", within = 0.3 } end)
    t.it("c", function()
      t.server { "sh", "-c", "echo up; sleep 0.2; echo gone", ready = "up" }
      require "runloop.process".run { "sleep", "0.5" }
    end)]]
  t.equal(code, 1)
  t.truthy(text:find "the server 'sh' ended by itself, with status 3", text)
  t.truthy(text:find "line 61\n", text)
  t.equal(text:find "line 60\n", nil)
  t.truthy(text:find "the server 'sh' was not ready within 0.3 s", text)
  t.truthy(text:find "waits", text)
  t.truthy(text:find "ended by itself, with status 0", text)
end)

t.it("a killed runner leaves neither server nor directory", { real_time = true, timeout = 20 }, function()
  local directory = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(directory, { recursive = true }) end)
  fs.write(directory .. "/inner_test.lua", [[
    local t = require "runloop.test"
    t.it("a", { timeout = 60 }, function()
      local server = t.server "redis"
      io.open(server:directory() .. "/../pid", "w"):write(server:pid()):close()
      require "runloop.process".run { "sleep", "60" }
    end)]])
  local runner = t.spawn { t.rlhost, "test", directory .. "/inner_test.lua", env = { TMPDIR = directory } }
  local pid
  t.eventually(function()
    local file <close> = io.open(directory .. "/pid")
    pid = file and file:read "n"
    return pid
  end, { within = 10 })
  runner:kill()
  t.eventually(function()
    local file <close> = io.open(("/proc/%d/stat"):format(pid))
    return not file or file:read "a":find "%) Z"
  end, { within = 10 })
  t.eventually(function()
    for entry in fs.walk(directory) do if entry:find "rlhost%-server" then return false end end
    return true
  end, { within = 10 })
end)

t.it("t.finally in before_all is called after the group", function()
  local code, text = run_tests [[
    t.describe("g", function()
      t.before_all(function() t.finally(function() print "LAST" end) end)
      t.it("a", function() print "FIRST" end)
    end)]]
  t.equal(code, 0, text)
  t.truthy(text:find "FIRST.*LAST", text)
end)

t.each({
  ["nothing"] = { function() t.server() end, "t.server: argument #1 must be the name of a server" },
  ["an unknown name"] = { function() t.server "oracle" end,
    'there is no recipe for "oracle" (there are: nats, pgbouncer, postgres, redis)' },
  ["no program"] = { function() t.server {} end, "t.server: which program" },
  ["no way to be ready"] = { function() t.server { "x" } end, "t.server: option 'ready'" },
  ["an unknown option"] = { function() t.server("redis", { prot = 1 }) end, "unknown option 'prot'" },
  ["no table"] = { function() t.server("redis", 1) end, "argument #2" },
  ["a wrong time"] = { function() t.server("redis", { within = 0 / 0 }) end, "option 'within'" },
  ["a bouncer alone"] = { function() t.server "pgbouncer" end, "pgbouncer needs the server behind it" },
  ["a bouncer of another kind"] = { function() t.server("pgbouncer", { pool_mode = "all" }) end,
    'option \'pool_mode\' must be "session", "transaction" or "statement", got "all"' },
  ["an option of a bouncer"] = { function() t.server("redis", { pool_mode = "session" }) end,
    "option 'pool_mode' is for pgbouncer only" },
  ["a wrong file"] = { function() t.server("redis", { files = { ["a/b"] = "" } }) end, "option 'files'" },
}, "t.server raises an error for:", function(call, text) t.error(call, text) end)
