-- A wait is named after the function that the script has called, not after a function called inside it.

local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local http = require "runloop.http"
local t = require "runloop.test"

local REAL = { real_time = true }

local function waits_in(fn, ...)
  local task = rl.task(fn, ...)
  local text = tostring(task)
  task:cancel()
  pcall(task.await, task)
  return text:match "waiting in ([%w_.:]+)"
end

t.describe("the description of a waiting task has the function that the script has called", function()
  t.it("if that is a function of runloop.fs", REAL, function()
    local directory <close> = setmetatable({ path = fs.temporary_directory() }, { __close = function(self)
      fs.remove(self.path, { recursive = true })
    end })
    local path = directory.path .. "/a"
    t.equal(waits_in(fs.write, path, "x"), "fs.write")
    t.equal(waits_in(fs.read, path), "fs.read")
    t.equal(waits_in(fs.list, path), "fs.list")
    t.equal(waits_in(fs.stat, path), "fs.stat")
    t.equal(waits_in(fs.stat, path, { follow = false }), "fs.stat")
    t.equal(waits_in(fs.real_path, path), "fs.real_path")
    t.equal(waits_in(fs.read_link, path), "fs.read_link")
    t.equal(waits_in(fs.symbolic_link, "a", path), "fs.symbolic_link")
    t.equal(waits_in(fs.make_directory, path), "fs.make_directory")
    t.equal(waits_in(fs.rename, path, path), "fs.rename")
    t.equal(waits_in(fs.remove, path), "fs.remove")
    local watcher = assert(fs.watcher { path = directory.path })
    t.equal(waits_in(watcher.next, watcher), "watcher:next")
    watcher:invalidate()
  end)

  t.it("if it waits for a program or a signal", REAL, function()
    t.equal(waits_in(process.run, { "sleep", "9" }), "process.run")
    local pool <close> = rl.pool { threads = 1 }
    local function pause() require("runloop").sleep(9) end
    t.equal(waits_in(rl.blocking, pause), "rl.blocking")
    t.equal(waits_in(pool.run, pool, pause), "pool:run")
    local program = assert(process.start { "sleep", "9" })
    t.equal(waits_in(program.wait, program), "program:wait")
    program:stop()
    t.equal(waits_in(process.wait_signal, "USR1"), "process.wait_signal")
  end)

  t.it("if it waits for a server", REAL, function()
    local seen
    local server <close> = assert(http.serve(0, function(request)
      seen = waits_in(request.read, request)
      rl.sleep(9)
    end))
    local url = "http://" .. server:address() .. "/"
    t.equal(waits_in(http.get, url), "http.get")
    t.equal(waits_in(http.post, url, "x"), "http.post")
    local client <close> = http.client {}
    t.equal(waits_in(client.fetch, client, { url }), "client:fetch")
    local upload <close> = setmetatable({ rl.task(http.post, url, function() rl.sleep(9) end) },
      { __close = function(self) self[1]:cancel() end })
    while not seen do rl.sleep(0.01) end
    t.equal(seen, "request:read")
  end)

  t.it("and a buffered file counts as ready as long as it has buffered data", REAL, function()
    local lines = {}
    local pipe <close> = assert(io.popen "printf 'a\\nb\\nc\\n'")
    local ended = rl.condition()
    local port = rl.on_readable(pipe, function(port)
      local line = pipe:read "l"
      lines[#lines + 1] = line or "end"
      if not line then port:invalidate() ended:broadcast() end
    end)
    t.truthy(not port:is_valid() or ended:wait(5), "the end is reported")
    t.equal(lines, { "a", "b", "c", "end" })
    -- The lines are read in a private mode, while a program still writes, and with one line buffered.
    local other <close> = assert(io.popen "printf '1\\n2\\n3\\n'")
    lines = {}
    local reader = rl.fd_port { fd = other, modes = "modal", callback = function(port)
      lines[#lines + 1] = other:read "l"
      if #lines == 2 then port:invalidate() rl.stop() end
    end }
    t.equal(rl.run { mode = "modal", timeout = 5 }, "stopped")
    local writer = rl.fd_port { fd = other, events = "w", modes = "common", callback = function(_, events)
      t.equal(events:find "r", nil)
    end }
    t.equal(rl.wait_readable(other, 5), "r")
    t.equal({ lines, other:read "l" }, { { "1", "2" }, "3" })
    writer:invalidate()
    -- The bytes are buffered before there is a port. The port is added to a mode afterwards.
    local third <close> = assert(io.popen "printf '1\\n2\\n3\\n'")
    t.equal(third:read "l", "1")
    lines = {}
    local late = rl.fd_port { fd = third, events = "r", callback = function(port)
      lines[#lines + 1] = rl.current():mode() .. third:read "l"
      if #lines == 2 then port:invalidate() end
    end }
    rl.current():add(late, "modal")
    rl.sleep(0.01)
    t.equal(lines, {})
    rl.run { mode = "modal", timeout = 5 }
    t.equal(lines, { "modal2", "modal3" })
  end)

  t.it("if it waits for a condition of the script", REAL, function()
    local condition = rl.condition()
    t.equal(waits_in(condition.wait, condition), "condition:wait")
    local _, message = pcall(rl.condition, "http.get")
    t.equal(message:match "rl%.condition: .*", "rl.condition: no arguments are expected")
  end)
end)

t.describe("delayed requests", function()
  local function named(name)
    return setmetatable({ name = name }, { __eq = function(a, b) return a.name == b.name end })
  end

  t.it("are cancelled by function and equal arguments", function()
    local loop, ran = rl.current(), {}
    local function note(what) ran[#ran + 1] = what.name or what[1] end
    local function other(what) ran[#ran + 1] = "other " .. what.name end
    for _, name in ipairs { "one", "two", "two", "three" } do loop:perform { note, named(name), after = 1 } end
    loop:perform { other, named "two", after = 1 }
    t.equal(rl.cancel_performs(note, named "two"), 2)
    t.equal(rl.cancel_performs(note, named "two"), 0)
    t.equal(rl.cancel_performs(note, named "one", 1), 0)
    rl.sleep(2)
    t.equal(ran, { "one", "three", "other two" })
    loop:perform { note, 1, "x", after = 1 }
    t.equal({ rl.cancel_performs(note, 1), rl.cancel_performs(note, 1.0, "x"), rl.cancel_performs(note) }, { 0, 1, 0 })
  end)

  t.it("stay when a comparison raises, and are counted once when a comparison cancels them", function()
    local loop, ran = rl.current(), 0
    local function count() ran = ran + 1 end
    local meta = { __eq = function() error("cannot compare", 0) end }
    loop:perform { count, setmetatable({}, meta), after = 1 }
    t.error(function() rl.cancel_performs(count, setmetatable({}, meta)) end, "cannot compare")
    meta.__eq = function() rl.sleep(1) end
    t.error(function() rl.cancel_performs(count, setmetatable({}, meta)) end, "cannot wait inside a function called by")
    meta.__eq = function() return rl.cancel_performs(count) == 1 end
    t.equal(rl.cancel_performs(count, setmetatable({}, meta)), 0)
    rl.sleep(2)
    t.equal(ran, 0)
  end)

  t.it("are reported with modes and places", function()
    local requests = { rl.perform(print), rl.perform { print, modes = { "modal", "default" } } }
    for _ = 1, 2 do requests[#requests + 1] = rl.perform(print) end
    local text = rl.why()
    for _, request in ipairs(requests) do request:cancel() end
    t.truthy(text:find "\nperform request %(in common, made at %S*waiting_test.lua:%d+%)\n", text)
    t.truthy(text:find "\nperform request %(in modal, default, made at %S*waiting_test.lua:%d+%)", text)
    t.truthy(text:find "\n2 perform requests %(in common, made at %S*waiting_test.lua:%d+%)", text)
  end)
end)
