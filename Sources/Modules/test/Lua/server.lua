-- Servers for tests: t.server. A server is a program that belongs to no loop, so a running one neither keeps a test
-- alive nor holds its clock. The server's output goes to a file in a directory of its own.

local system = ...
local rl = require "runloop"
local net = require "runloop.net"
local fs = require "runloop.fs"
local process = require "runloop.process"
local programs = require "runloop.process.programs"
local signals = require "runloop.process.signals"

local type, pairs, ipairs, tostring = type, pairs, ipairs, tostring
local setmetatable, getmetatable, io_open, getenv = setmetatable, getmetatable, io.open, os.getenv
local format, concat, unpack, tonumber = string.format, table.concat, table.unpack, tonumber

local Server = { __name = "server" }
Server.__index = Server

local core
local OPTIONS = { arguments = "table", environment = "table", name = "string", within = "number", ready = "string",
  required = "boolean", files = "table", server = "table", pool_mode = "string" }
-- The package of a program whose package has another name.
local PACKAGES = { postgres = "postgresql", initdb = "postgresql" }
-- Programs of servers are often outside of the PATH of ordinary users.
local FOLDERS = "/usr/sbin:/usr/local/sbin:/sbin"
local LAST_LINES = 40
-- Seconds between two checks of a server that starts or ends.
local PAUSE = 0.005

local function find(word)
  if word:find "/" then return system.kind(word) == "file" and word or nil end
  for folder in ((getenv "PATH" or "") .. ":" .. FOLDERS):gmatch "[^:]+" do
    local path = folder .. "/" .. word
    if system.kind(path) == "file" then return path end
  end
end

local function read(path)
  local file <close> = io_open(path, "rb")
  return file and file:read "a" or ""
end

local function user() return math.tointeger(read "/proc/self/status":match "\nUid:%s+(%d+)") end

-- Returns the processes that still run; a zombie does not.
local function alive(pids)
  local list = {}
  for _, pid in ipairs(pids) do
    local state = read(format("/proc/%d/stat", pid)):match "%) (%a)"
    if state and state ~= "Z" and state ~= "X" then list[#list + 1] = pid end
  end
  return list
end

-- Runs a program that prepares something; a failure fails the test.
local function prepare(words)
  local result, problem = process.run(words)
  if not result then core.fail(format("t.server: cannot run %s: %s", words[1], problem)) end
  if result.code ~= 0 then
    core.fail(format("t.server: %s failed with status %s", concat(words, " "), result.code or result.signal),
      { result.output .. result.errors })
  end
  return result.output
end

-- PostgreSQL and pgbouncer refuse to run as root. If this process runs as root, their servers run as the user postgres.
local function as_postgres(words)
  if user() ~= 0 then return words end
  return { "setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", unpack(words) }
end

local function give_to_postgres(path)
  if user() == 0 then prepare { "chown", "-R", "postgres:postgres", path } end
end

-- Returns the directory of the newest PostgreSQL's programs, and its version.
local function postgres_programs()
  local newest, folder = -1, nil
  for _, name in pairs(system.entries "/usr/lib/postgresql" or {}) do
    local version = tonumber(name)
    local path = "/usr/lib/postgresql/" .. name .. "/bin"
    if version and version > newest and system.kind(path .. "/initdb") == "file" then
      newest, folder = version, path
    end
  end
  if folder then return folder, newest end
  local initdb, postgres = find "initdb", find "postgres"
  if initdb and postgres then return initdb:match "(.*)/", "local" end
end

-- Returns the path of a fresh database cluster for this user and version; makes it at the first call. initdb takes
-- seconds, a copy takes a tenth of one. Small files of the write-ahead log make the cluster a quarter smaller.
local function template(folder, version, directory)
  local cache = (getenv "XDG_CACHE_HOME" or (getenv "HOME" or "/tmp") .. "/.cache") .. "/rlhost"
  local path = format("%s/postgres-%s-%d", cache, version, user())
  if system.kind(path .. "/PG_VERSION") == "file" then return path end
  local fresh = directory .. "/template"
  prepare(as_postgres { folder .. "/initdb", "-D", fresh, "-U", "postgres", "--auth=trust", "-E", "UTF8",
    "--no-locale", "-N", "--wal-segsize=1" })
  if not fs.make_directory(cache, { parents = true }) then return fresh end
  -- If another process has made the cluster first, use that one.
  local copy = format("%s.%s", path, directory:match "[^/]+$")
  if process.run { "cp", "-a", fresh, copy } and not fs.rename(copy, path) then
    fs.remove(copy, { recursive = true })
  end
  return fresh
end

local RECIPES = {}

-- A write to the log survives the end of the process by any signal, so the data is there after a restart.
function RECIPES.redis()
  return { "redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{directory}", "--save", "",
    "--appendonly", "yes", "--appendfsync", "no", "--unixsocket", "{socket}" },
    "Ready to accept connections", "redis://127.0.0.1:%d/0"
end

function RECIPES.nats()
  return { "nats-server", "-a", "127.0.0.1", "-p", "{port}", "-js", "-sd", "{directory}" }, "tcp",
    "nats://127.0.0.1:%d"
end

function RECIPES.postgres(self)
  local folder, version = postgres_programs()
  if not folder then return { "postgres" } end
  local data = self.place .. "/data"
  -- SIGTERM waits until all clients have gone, and SIGKILL leaves a segment of shared memory until the machine stops.
  self.restart_by, self.close_by = "INT", "QUIT"
  give_to_postgres(self.place)
  prepare { "cp", "-a", "--reflink=auto", template(folder, version, self.place), data }
  -- With POSIX shared memory, a killed server would leave segments behind. With mmap, it leaves nothing outside its
  -- directory.
  return as_postgres { folder .. "/postgres", "-D", data, "-p", "{port}", "-k", self.place, "-c",
    "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
    "-c", "dynamic_shared_memory_type=mmap" },
    "ready to accept connections", "postgres://postgres@127.0.0.1:%d/postgres"
end

function RECIPES.pgbouncer(self, options)
  local of = options.server
  if getmetatable(of) ~= Server or of.recipe ~= "postgres" then
    core.misuse 't.server: pgbouncer needs the server behind it: t.server("pgbouncer", { server = postgres })'
  end
  options.files = options.files or {}
  options.files["pgbouncer.ini"] = format([[
[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {directory}
auth_type = any
pool_mode = %s
max_client_conn = 1000
]], of.number, options.pool_mode or "session")
  return as_postgres { "pgbouncer", "{directory}/pgbouncer.ini" }, "tcp", "postgres://postgres@127.0.0.1:%d/postgres"
end

-- A free port. Another program may take the port before the server does; the server then reports that.
local function free_port()
  local listener = assert(net.serve("127.0.0.1:0", function() end))
  local port = listener:port()
  listener:invalidate()
  return port
end

local function fill(self, text)
  return (text:gsub("{(%l+)}", function(name)
    return name == "port" and tostring(self.number) or name == "directory" and self.place
      or name == "socket" and self.place .. "/socket" or nil
  end))
end

local MODES = { session = true, transaction = true, statement = true }

-- Raises for options of a pgbouncer that are wrong, or given to another server.
local function check_bouncer(what, options)
  local mode = options.pool_mode
  for _, name in ipairs { "server", "pool_mode" } do
    if options[name] ~= nil and what ~= "pgbouncer" then
      core.misuse(format("t.server: option '%s' is for pgbouncer only", name))
    end
  end
  if mode and not MODES[mode] then
    core.misuse(format('t.server: option \'pool_mode\' must be "session", "transaction" or "statement", got %s',
      core.describe_value(mode)))
  end
end

-- Returns the processes that a process has started, and those that they have started.
local function family(pid, found)
  found = found or {}
  for child in read(format("/proc/%d/task/%d/children", pid, pid)):gmatch "%d+" do
    found[#found + 1] = math.tointeger(child)
    family(found[#found], found)
  end
  return found
end

local function has_ended(self)
  if not self.pid_number then return true end
  local how, value = programs.outcome(self.pid_number)
  if not how then return false end
  system.note_server(self.pid_number, false)
  core.servers[self.pid_number] = nil
  self.pid_number, self.how, self.value = nil, how, how == "signal" and signals.name(value) or value
  return true
end

local function last_lines(self)
  local lines = {}
  for line in self:output():gmatch "[^\n]+" do lines[#lines + 1] = line end
  local first = #lines - LAST_LINES + 1
  return { unpack(lines, first > 1 and first or 1) }
end

local function ended_text(self)
  return format("the server '%s' ended by itself, with %s (made at %s)", self.title,
    self.how == "exit" and "status " .. tostring(self.value) or "signal " .. tostring(self.value), self.where)
end

local function connects(address)
  local stream = net.connect(address, { timeout = 1 })
  if stream then stream:close() end
  return stream ~= nil
end

local function is_ready(self)
  local ready = self.ready
  if ready == "tcp" then return connects("127.0.0.1:" .. self.number) end
  if ready == "unix" then return connects("unix:" .. self.place .. "/socket") end
  return read(self.log):find(ready) ~= nil
end

-- Starts the program and waits until it is ready. While it starts it counts as a program that works, so that the
-- test's clock follows the real one.
local function start(self)
  self.starts = self.starts + 1
  self.log = format("%s/output.%d", self.place, self.starts)
  self.is_stopped, self.is_paused = false, false
  local pid, problem = programs.launch(self.words, self.environment, self.log, self.title)
  if not pid then core.fail(format("t.server: cannot start '%s': %s", self.words[1], problem)) end
  self.pid_number, core.servers[pid] = pid, true
  local file <close> = io_open(self.place .. "/pid", "w")
  if file then file:write(pid, "\n") end
  local limit = system.real_clock() + self.within
  while not is_ready(self) do
    if has_ended(self) then
      self.is_stopped = true
      core.fail(ended_text(self), last_lines(self))
    end
    if system.real_clock() > limit then
      local lines = last_lines(self)
      self:kill()
      core.fail(format("the server '%s' was not ready within %g s (made at %s)", self.title, self.within, self.where),
        lines)
    end
    rl.sleep(PAUSE)
  end
  system.note_server(pid, true)
  return self
end

-- Waits until the server and the processes that it has started have ended.
local function wait_for_end(self, seconds)
  local limit = system.real_clock() + seconds
  if self.pid_number then system.note_server(self.pid_number, false) end
  while not has_ended(self) or #alive(self.members) > 0 do
    if system.real_clock() > limit then return false end
    rl.sleep(PAUSE)
  end
  return true
end

local FOR_ALL = { KILL = true, STOP = true, CONT = true }

local function send(self, name)
  if has_ended(self) then return nil, format("ESRCH: it has ended (%s)", self.title), "ESRCH" end
  local number = signals.numbers[name]
  self.members = family(self.pid_number)
  local done, message, code = system.signal(self.pid_number, number)
  if FOR_ALL[name] then for _, pid in ipairs(self.members) do system.signal(pid, number) end end
  return done, message, code
end

--- Kills the server and everything that it has started, and waits for their end.
function Server:kill()
  self.is_stopped = true
  if not has_ended(self) then
    send(self, "KILL")
    wait_for_end(self, 10)
  end
end

local function end_by(self, name, grace)
  self.is_stopped = true
  if has_ended(self) then return end
  if self.is_paused then self:resume() end
  send(self, name)
  if not wait_for_end(self, grace) then self:kill() end
end

--- Ends the server with SIGTERM, and with SIGKILL after `grace` seconds.
function Server:stop(grace)
  if grace ~= nil and (type(grace) ~= "number" or not (grace >= 0)) then
    core.misuse("server:stop: argument #1 must be a number of seconds, got " .. core.describe_value(grace))
  end
  end_by(self, "TERM", grace or 5)
end

--- Ends the server if it runs, and starts it again with the same port and the same data. Returns when the server is
--- ready.
function Server:restart()
  if self.is_closed then core.misuse "server:restart: the server is closed" end
  end_by(self, self.restart_by or "TERM", 5)
  self.before = self:output()
  self.log = nil
  start(self)
end

--- Stops the server's processes, as Control-Z does: connections stay open, and nothing is answered.
function Server:pause()
  self.is_paused = true
  return send(self, "STOP")
end

function Server:resume()
  self.is_paused = false
  return send(self, "CONT")
end

function Server:url() return format(self.url_format or "127.0.0.1:%d", self.number) end
function Server:address() return "127.0.0.1:" .. self.number end
function Server:port() return self.number end
function Server:directory() return self.place end
function Server:pid() return self.pid_number end
function Server:output() return (self.before or "") .. (self.log and read(self.log) or "") end
function Server:is_running() return not has_ended(self) end

-- Ends the server and removes its directory. If the server has ended by itself, returns a text about its end, and the
-- last lines of its output.
function Server:close()
  if self.is_closed then return end
  local by_itself = self.starts > 0 and not self.is_stopped and has_ended(self)
  local lines = by_itself and last_lines(self)
  if self.close_by then end_by(self, self.close_by, 1) end
  self:kill()
  self.is_closed = true
  self.forget()
  programs.dismiss(self.guard, self.guard_input)
  if self.guard then core.servers[self.guard] = nil end
  fs.remove(self.place, { recursive = true })
  if by_itself then core.fail(ended_text(self), lines) end
end

Server.__close = Server.close

function Server:__tostring()
  local state = self.is_closed and "closed" or has_ended(self) and "ended" or self.is_paused and "paused" or "running"
  return format("server (%s, %s, port %d, made at %s)", self.title, state, self.number, self.where)
end

-- The server ends, and its directory is removed, even if this process is killed: the guard reads until the end of its
-- input, which comes when this process ends. The last argument of the guard's command, the directory, identifies the
-- guard; the one before it is the signal.
local GUARD = [[trap '' HUP INT TERM
read -r _
pid=$(cat "$0/pid" 2>/dev/null) && {
  kill "-$1" "$pid" && kill -CONT "$pid"
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" || break; sleep 0.1; done
  kill -KILL "$pid"
} 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$0" && [ ! -e "$0" ] && exit; sleep 0.2; done]]

local function check(what, options)
  local kind = type(what)
  if kind == "string" then
    core.check_argument(options, "table or nil", "t.server", 2, "a table of options")
    core.check_options(options, OPTIONS, "t.server")
    if not RECIPES[what] then
      core.misuse(format('t.server: there is no recipe for %q (there are: nats, pgbouncer, postgres, redis); '
        .. 'a program is given as a table, as in t.server{ "mosquitto", "-p", "{port}", ready = "tcp" }', what))
    end
    check_bouncer(what, options or {})
    return what, nil, options or {}
  end
  if kind ~= "table" then
    core.misuse("t.server: argument #1 must be the name of a server or a program's words, got "
      .. core.describe_value(what))
  end
  local words, named = {}, {}
  for key, value in pairs(what) do
    if math.type(key) == "integer" then words[key] = tostring(value) else named[key] = value end
  end
  core.check_options(named, OPTIONS, "t.server")
  check_bouncer(nil, named)
  if not words[1] then core.misuse "t.server: which program? Give its name first, then its arguments" end
  if not named.ready then
    core.misuse 't.server: option \'ready\' must say when it is ready: "tcp", "unix", or a pattern of its output'
  end
  return nil, words, named
end

local function check_within(options)
  if options.within and not (options.within > 0) then
    core.misuse "t.server: option 'within' must be a number of seconds above 0"
  end
end

local function missing(word, options)
  local package = PACKAGES[word] or word
  local text = format("%s is not installed (apt install %s)", word, package)
  if options.required then core.fail(text) end
  core.skip(text)
end

-- Sets the words of the command, and writes the files.
local function prepare_start(self, words, program, path, options)
  self.words = {}
  for _, word in ipairs(words) do self.words[#self.words + 1] = fill(self, word == program and path or word) end
  for _, word in ipairs(options.arguments or {}) do self.words[#self.words + 1] = fill(self, tostring(word)) end
  for name, text in pairs(options.files or {}) do
    if type(name) ~= "string" or type(text) ~= "string" or name:find "/" then
      core.misuse "t.server: option 'files' must hold names without '/' and texts"
    end
    assert(fs.write(self.place .. "/" .. name, fill(self, text)))
  end
  if self.recipe == "pgbouncer" then give_to_postgres(self.place) end
end

--- Starts a server and returns it when it is ready.
return function(what, options, library)
  core = library
  if not core.current then core.misuse "t.server: only a test can start a server" end
  local recipe, words
  recipe, words, options = check(what, options)
  check_within(options)
  local self = setmetatable({ where = core.here(), place = assert(fs.temporary_directory "rlhost-server"),
    number = free_port(), recipe = recipe, starts = 0, within = options.within or 15, members = {} }, Server)
  self.forget = core.at_end(function() self:close() end)
  if recipe then words, self.ready, self.url_format = RECIPES[recipe](self, options) end
  self.ready = options.ready or self.ready
  local program = words[1] == "setpriv" and words[5] or words[1]
  local path = find(program)
  if not path then missing(program, options) end
  self.title = options.name or recipe or program:match "[^/]+$"
  self.environment = options.environment
  prepare_start(self, words, program, path, options)
  self.guard, self.guard_input = programs.guard {
    "/bin/sh", "-c", GUARD, self.place, self.close_by or "KILL", "rlhost-guard",
  }
  if self.guard then core.servers[self.guard] = true end
  return start(self)
end
