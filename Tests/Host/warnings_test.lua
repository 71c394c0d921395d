-- The warnings of `rlhost -W` about what holds a loop, and about items that no run has served.

local process = require "runloop.process"
local fs = require "runloop.fs"
local t = require "runloop.test"

local REAL = { real_time = true, timeout = 20 }

-- Runs a script with -W, and returns its warnings without "rlhost: warning: ", and its result. `input` is a shell
-- command whose output the script reads.
local function warnings(script, input)
  local directory = assert(fs.temporary_directory "warnings")
  assert(fs.write(directory .. "/w.lua", 'local rl = require "runloop"\n' .. script))
  local own = assert(fs.real_path "/proc/self/exe")
  local command = { own, "-W", "w.lua", directory = directory, timeout = 15 }
  if input then
    command[1], command[2], command[3] = "/bin/sh", "-c", ("{ %s; } | exec %s -W w.lua"):format(input, own)
  end
  local result = process.run(command)
  local list = {}
  for line in result.errors:gmatch "rlhost: warning: ([^\n]*)" do
    list[#list + 1] = line:gsub("%d[%d.]* m?s", "N s"):gsub(", but was not.-of it", ""):gsub("; %d+ timers? w.*", "")
  end
  return list, result
end

t.describe("a mode that never ran", REAL, function()
  t.it("is named at the end, with its items", function()
    t.equal((warnings [[
      rl.timer { delay = 0.01, modes = { "moddal" }, callback = print, name = "poll" }
      rl.source { modes = { "defualt" } }
      rl.observer { activities = "exit", modes = { "other", "another" }, callback = print }
      rl.timer { delay = 0.01, modes = { "default", "moddal" }, callback = print }
      rl.after(0.02, function() rl.run { mode = "seen", timeout = 0.01 } end)
      rl.timer { delay = 0.005, modes = { "seen" }, callback = print }
      rl.timer { delay = 10, modes = { "seen" }, callback = print }
    ]]), {
      'timer "poll" made at w.lua:2 was in mode "moddal" only, which never ran (did you mean "modal"?)',
      'source made at w.lua:3 was in mode "defualt" only, which never ran (did you mean "default"?)',
      'observer made at w.lua:4 was in modes "other" and "another" only, which never ran',
    })
  end)

  t.it("is named for ten items, and further items are counted", function()
    local list = warnings [[for _ = 1, 15 do rl.timer { delay = 1, modes = { "modal" }, callback = print } end]]
    t.equal(#list, 11)
    t.equal(list[1], 'timer made at w.lua:2 was in mode "modal" only, which never ran')
    t.equal(list[11], "5 more were only in modes that never ran")
  end)

  t.it("is named in a thread, too", function()
    t.equal(#warnings [[rl.thread(function()
      require "runloop".timer { delay = 1, modes = { "moddal" }, callback = print }
    end)]], 1)
  end)

  t.it("is not named without -W, or after an error", function()
    t.equal(warnings("rl.timer { delay = 1, modes = { 'moddal' }, callback = print } error 'no'"), {})
    local own = fs.real_path "/proc/self/exe"
    local silent = 'require"runloop".timer { delay = 1, modes = { "moddal" }, callback = print }'
    t.equal(process.run({ own, "-e", silent }).errors, "")
  end)
end)

t.it("rl.why() names the timer whose callback runs", REAL, function()
  local _, result = warnings [[
    rl.every(0.01, function(timer)
      timer:invalidate()
    end)
    rl.timer { delay = 0.02, interval = 5, callback = function(timer)
      rl.after(0, function() print(rl.why()) timer:invalidate() end)
      rl.run { timeout = 0.05 }
    end, modes = { "default" } }
  ]]
  t.truthy(result.output:find("made at w.lua:5) (its callback runs now)", 1, true), result.output)
end)

t.describe("a loop that is held", REAL, function()
  t.it("is not reported for a pool's thread", function()
    t.equal((warnings [[
      rl.blocking(function() os.execute "sleep 0.2" end)
      local pool <close> = rl.pool { setup = function() return 1 end }
      pool:run(function() os.execute "sleep 0.2" end)
      pool:map({ 1, 2 }, function() os.execute "sleep 0.15" end)
    ]]), {})
  end)

  t.it("is reported with the main chunk, and the call that has held it", function()
    t.equal((warnings([[
      os.execute "sleep 0.2"
      rl.sleep(0.01)
      local line = io.read()
      rl.sleep(0.01)
      local done = rl.now() + 0.2 repeat until rl.now() > done
      rl.sleep(0.01)
      io.popen("sleep 0.2"):read()
    ]], "sleep 0.7; echo x")), {
      "the main chunk held the loop for N s, in os.execute at w.lua:2",
      "the main chunk held the loop for N s, in io.read at w.lua:4",
      "the main chunk held the loop for N s",
      "the main chunk held the loop for N s, in file:read at w.lua:8",
    })
  end)

  t.it("is reported with the calls that have held it one after the other", function()
    t.equal((warnings [[
      os.execute "sleep 0.1"
      io.popen("sleep 0.4"):read "a"
      rl.sleep(0.01)
      for _ = 1, 20 do os.execute "sleep 0.01" end
      rl.sleep(0.01)
      os.execute "sleep 0.02"
      local done = rl.now() + 0.5 repeat until rl.now() > done
    ]]), {
      "the main chunk held the loop for N s, in file:read at w.lua:3",
      "the main chunk held the loop for N s, in os.execute at w.lua:5",
      "the main chunk held the loop for N s",
    })
    t.equal((warnings [[
      os.execute "sleep 0.5"
      local done = rl.now() + 0.3 repeat until rl.now() > done
      io.popen("sleep 0.25"):read "a"
    ]]), { "the main chunk held the loop for N s, in os.execute at w.lua:2 and file:read at w.lua:4" })
  end)

  t.it("is reported with the thread, and the place where the item was made", function()
    t.equal((warnings [[
      local thread = rl.thread { function()
        os.execute "sleep 0.2"
        require "runloop".sleep(1)
      end, name = "worker" }
      rl.sleep(0.4)
      thread:loop():perform(function() os.execute "sleep 0.2" end)
      rl.sleep(0.4)
      thread:loop():perform { function() require "runloop".sleep(0) os.execute "sleep 0.2" end, wait = true }
      thread:cancel()
    ]]), {
      'the function made at w.lua:2 in thread "worker" held the loop for N s, in os.execute at w.lua:3',
      'request made at w.lua:7 in thread "worker" held the loop for N s, in os.execute at w.lua:7',
      'request made at w.lua:9 in thread "worker" held the loop for N s, in os.execute at w.lua:9',
    })
  end)
end)

t.it("a held loop is reported with the route of the request", REAL, function()
  local list = warnings [[
    local http = require "runloop.http"
    local app = http.routes()
    app:get("/items/:id", function() os.execute "sleep 0.2" return "x" end)
    local server = assert(http.serve("127.0.0.1:0", app))
    -- The recorder, which knows the routes, begins after a second.
    rl.sleep(1.5)
    http.get("http://" .. server:address() .. "/items/7")
    server:stop()
  ]]
  local expected = "task made at w.lua:5 (GET /items/:id) held the loop for N s, in os.execute at w.lua:4"
  t.truthy(table.concat(list, "\n"):find(expected, 1, true), table.concat(list, "\n"))
end)

t.describe("a busy loop", REAL, function()
  local BUSY = [[
    local function compute(seconds) local done = rl.now() + seconds repeat until rl.now() > done end
    rl.task(function() while true do compute(0.02) rl.sleep(0) end end)
    rl.every(0.02, function() compute(0.01) end)
    rl.after(2.6, function() os.exit() end)
  ]]

  t.it("is reported once in ten seconds, with the items that keep it busy", function()
    local list, result = warnings(BUSY)
    -- On a busy machine callbacks may be slow as well, which is also reported.
    t.equal(select(2, table.concat(list, "\n"):gsub("the loop was %d+ %% busy", "")), 1)
    local share, most = result.errors:match "the loop was (%d+) %% busy for 1 s; most of it: ([^\n]*)"
    t.truthy(share, result.errors)
    local task, timer = most:match "^task made at w.lua:3 %((%d+) %%%), timer made at w.lua:4 %((%d+) %%%)$"
    t.truthy(task, most)
    t.truthy(tonumber(share) >= 90 and tonumber(task) > 50 and tonumber(timer) > 20)
    t.truthy(tonumber(task) + tonumber(timer) <= 101)
  end)

  t.it("is reported once in ten seconds, also if a callback is slow meanwhile", function()
    local list = warnings [[
      local function compute(seconds) local done = rl.now() + seconds repeat until rl.now() > done end
      rl.task(function() while true do compute(0.02) rl.sleep(0) end end)
      rl.after(1.3, function() compute(0.3) end)
      rl.after(3.4, function() os.exit() end)
    ]]
    t.equal(select(2, table.concat(list, "\n"):gsub("the loop was %d+ %% busy", "")), 1)
  end)

  t.it("is not reported if it sleeps for a third of the time", function()
    t.equal((warnings [[
      rl.every(0.01, function() local done = rl.now() + 0.005 repeat until rl.now() > done end)
      rl.after(2.2, function() os.exit() end)
    ]]), {})
  end)
end)
