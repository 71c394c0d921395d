-- Errors name the object in which they happened by the name that the script knows, and not the internal parts of the
-- object.

local rl = require "runloop"
local fs = require "runloop.fs"
local net = require "runloop.net"
local process = require "runloop.process"
local t = require "runloop.test"

local REAL = { real_time = true }
local FILE = "error_places_test.lua"

-- Returns the place of the first error that occurs while `body` runs, without the line numbers.
local function place_of(body)
  local told
  local arrived = rl.condition()
  local before = rl.on_error(function(_, info)
    told = told or info.where or "nowhere"
    arrived:broadcast()
  end)
  local restore <close> = setmetatable({}, { __close = function() rl.on_error(before) end })
  body()
  if not told then t.truthy(arrived:wait(5), "an error comes") end
  return (told:gsub("%S*" .. FILE, FILE):gsub("(%.lua):%d+$", "%1"))
end

local function broken() error "broken" end

-- Each function ends with a tail call; a maker that was written in Lua would not know its caller then.
local MAKERS = {
  function(fd) return rl.on_readable(fd, print) end,
  function(fd) return rl.on_writable(fd, print) end,
  function() return rl.observe("exit", print) end,
  function() return rl.thread(print) end,
  function() return rl.channel() end,
  function() return rl.group() end,
  function() return rl.future() end,
  function() return rl.mutex() end,
  function() return rl.backoff() end,
  function() return rl.pool { threads = 1 } end,
  function() return rl.at(rl.time() + 5, print) end,
}

t.it("objects report where they were made, also in a tail call", REAL, function()
  local file <close> = assert(io.popen "true")
  for index, make in ipairs(MAKERS) do
    local object = make(file)
    local line = debug.getinfo(make, "S").linedefined
    t.truthy(tostring(object):find("/?" .. FILE .. ":" .. line .. "[,)]"),
      ("maker %d: %s"):format(index, tostring(object)))
    local close = object.invalidate or object.join or object.close
    if close then close(object) end
  end
  t.error(function() rl.observe({ "nope" }, print) end, 'rl.observe: unknown activity "nope"')
  t.error(function() rl.observe({}, print) end,
    'rl.observe: argument #1 must be "all" or an array of activity names, got an empty one')
end)

t.describe("the place in an error's report is", function()
  t.it("the watcher", REAL, function()
    local directory = assert(fs.temporary_directory "places")
    local watcher
    t.equal(place_of(function()
      watcher = assert(fs.watch(directory, { latency = 0 }, broken))
      local file <close> = assert(io.open(directory .. "/new", "w"))
    end), ('watcher of "%s" made at %s'):format(directory, FILE))
    watcher:invalidate()
    assert(fs.remove(directory, { recursive = true }))
  end)

  t.it("the program", REAL, function()
    local program
    t.equal(place_of(function()
      program = assert(process.start { "sh", "-c", "exit 3", on_exit = broken })
    end), ('program "sh -c exit 3" (%d) made at %s'):format(program:pid(), FILE))
  end)

  t.it("the function of rl.debounce or rl.throttle that calls later", function()
    t.equal(place_of(function() rl.debounce(0.01, broken)() end), "function of rl.debounce made at " .. FILE)
    t.equal(place_of(function()
      local count = 0
      local function second()
        count = count + 1
        if count == 2 then error "broken" end
      end
      local call = rl.throttle(0.01, second)
      call()
      call()
    end), "function of rl.throttle made at " .. FILE)
  end)

  t.it("the caller of the function of rl.throttle, if it calls at once", function()
    t.equal(place_of(function() rl.after(0, function() rl.throttle(1, broken)() end) end), "timer made at " .. FILE)
  end)

  t.it("the connection", REAL, function()
    local listener = assert(net.listener { host = "127.0.0.1", port = 0, on_data = broken })
    rl.current():add(listener)
    local address = listener:address()
    t.equal(place_of(function()
      local stream <close> = assert(net.connect(address))
      stream:write "x"
    end), ("connection at %s made at %s"):format(address, FILE))
    listener:close()
  end)

  t.it("the handler of keys", REAL, function()
    local program = assert(process.start { fs.real_path "/proc/self/exe", "-e", [[
      local rl = require "runloop"
      local terminal = assert(require "runloop.terminal".open())
      rl.on_error(function(_, info) terminal:write("in ", info.where, ";") end)
      terminal:raw()
      terminal:on_key(function() error "broken" end)
      terminal:write "ready;" ]], terminal = { rows = 10, columns = 80 } })
    t.truthy(program.output:read_until("ready;", { timeout = 10 }))
    program.input:write "k"
    local told = program.output:read_until(";", { timeout = 10 })
    t.equal(told, "in key handler made at (command line):5")
    program:stop()
  end)
end)
