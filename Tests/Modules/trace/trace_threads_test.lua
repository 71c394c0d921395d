-- Recordings of threads that go on meanwhile. Under ThreadSanitizer (scripts/sanitize thread) this finds out whether
-- somebody reads what another thread writes.

local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local process = require "runloop.process"

local SCRIPT <const> = [[
local rl = require "runloop"
local function work()
  local rl = require "runloop"
  local count = 0
  rl.every(0.0005, function() rl.perform(function() count = count + 1 end) end)
  rl.run()
end
local threads = {}
for i = 1, 3 do threads[i] = rl.thread { work, name = "worker " .. i, keeps_alive = false } end
for i = 1, 4 do
  assert(rl.trace.start(("%s/recording%d.json"):format(arg[1], i)))
  rl.sleep(0.01)
  assert(rl.trace.dump(("%s/dump%d.json"):format(arg[1], i)))
  rl.sleep(0.005)
  assert(rl.trace.stop())
end
for _, thread in ipairs(threads) do thread:loop():perform(rl.stop) end
print "done"
os.exit(0, true)
]]

t.it("threads that go on are recorded, and dumped, whole", { real_time = true, timeout = 120 }, function()
  local folder = assert(fs.temporary_directory())
  local gone <close> = setmetatable({}, { __close = function() fs.remove(folder, { recursive = true }) end })
  assert(fs.write(folder .. "/app.lua", SCRIPT))
  local run = process.run { fs.real_path(t.rlhost), folder .. "/app.lua", folder }
  t.equal({ run.output, run.errors, run.code }, { "done\n", "", 0 })
  for i = 1, 4 do
    for _, kind in ipairs { "recording", "dump" } do
      local events = assert(json.decode(assert(fs.read(("%s/%s%d.json"):format(folder, kind, i)))))
      local calls = {}
      for _, event in ipairs(events.traceEvents or events) do
        if event.cat and event.cat:find "timer" then calls[event.tid] = (calls[event.tid] or 0) + 1 end
      end
      local threads = 0
      for _, count in pairs(calls) do if count > 2 then threads = threads + 1 end end
      t.truthy(threads >= 3, ("%s %d: %s"):format(kind, i, json.encode(calls)))
    end
  end
end)
