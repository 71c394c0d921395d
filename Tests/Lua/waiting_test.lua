-- What a task waits in is told by what the script has called, not by what that has called in turn.

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

t.describe("a task waits", function()
  t.it("in functions of runloop.fs", REAL, function()
    local directory <close> = setmetatable({ path = fs.temporary_directory() }, { __close = function(self) fs.remove(self.path, { recursive = true }) end })
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

  t.it("for programs and signals", REAL, function()
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

  t.it("for what servers answer", REAL, function()
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
    local upload <close> = setmetatable({ rl.task(http.post, url, function() rl.sleep(9) end) }, { __close = function(self) self[1]:cancel() end })
    while not seen do rl.sleep(0.01) end
    t.equal(seen, "request:read")
  end)

  t.it("for a condition, when it is the script's own", REAL, function()
    local condition = rl.condition()
    t.equal(waits_in(condition.wait, condition), "condition:wait")
    local _, message = pcall(rl.condition, "http.get")
    t.equal(message:match "rl%.condition: .*", "rl.condition: no arguments are expected")
  end)
end)
