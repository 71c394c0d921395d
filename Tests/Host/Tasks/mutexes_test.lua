-- rl.mutex.

local rl = require "runloop"
local t = require "runloop.test"

local HERE = "mutexes_test.lua"
local function line() return debug.getinfo(2, "l").currentline end
local function finds(text, pattern) t.truthy(tostring(text):find(pattern), tostring(text)) end

-- Runs a script as a program, and returns its exit status and its output.
local function run(script)
  local process = require "runloop.process"
  local done = assert(process.run { t.rlhost, "-e", script })
  return done.code, done.output .. done.errors
end

t.describe("a mutex", function()
  t.it("lets one task in at a time, in the order in which they came", function()
    local mutex = rl.mutex()
    local inside, order = 0, {}
    local group <close> = rl.group()
    for i = 1, 5 do
      group:task(function()
        local held <close> = mutex:lock()
        inside = inside + 1
        t.equal(inside, 1)
        rl.sleep(0.01)
        inside = inside - 1
        order[#order + 1] = i
      end)
    end
    group:wait()
    t.equal(order, { 1, 2, 3, 4, 5 })
  end)

  t.it("is free again after unlock, an error, and the end of a scope; a second unlock does nothing", function()
    local mutex = rl.mutex()
    local held = mutex:lock()
    t.equal(select("#", held:unlock()), 0)
    local second = mutex:lock(0)
    t.truthy(second)
    held:unlock()
    t.equal({ rl.task(mutex.lock, mutex, 0):await() }, { nil, "timed out" })
    second:unlock()
    second:unlock()
    t.error(function()
      local held <close> = mutex:lock()
      error "broken"
    end, "broken")
    do local held <close> = mutex:lock() end
    do
      local held <close> = mutex:lock()
      held:unlock()
    end
    local a = mutex:lock(0)
    t.truthy(a)
    t.equal({ rl.task(mutex.lock, mutex, 0):await() }, { nil, "timed out" })
    a:unlock()
  end)

  t.it("hands its place to the next waiter, so that no other task overtakes it", function()
    local mutex = rl.mutex()
    local held = mutex:lock()
    local order = {}
    local waiting = rl.task(function() local _ <close> = mutex:lock() order[#order + 1] = "first" end)
    held:unlock()
    rl.task(function() local _ <close> = mutex:lock() order[#order + 1] = "second" end)
    waiting:await()
    rl.sleep(0)
    t.equal(order, { "first", "second" })
  end)

  t.it("ends a wait at its time limit, and that waiter gets no place", function()
    local mutex = rl.mutex()
    local held = mutex:lock()
    local began = rl.now()
    local hasty = rl.task(mutex.lock, mutex, 0.5)
    local patient = rl.task(function() return mutex:lock(5) end)
    t.equal({ hasty:await() }, { nil, "timed out" })
    t.equal(rl.now() - began, 0.5)
    held:unlock()
    local got = patient:await()
    finds(got, "held")
    t.equal({ rl.task(mutex.lock, mutex, 0):await() }, { nil, "timed out" })
    got:unlock()
    mutex:lock():unlock()
  end)

  t.it("passes over a waiter that was cancelled", function()
    local mutex = rl.mutex()
    local held = mutex:lock()
    local tasks = {}
    for i = 1, 3 do tasks[i] = rl.task(function() local _ <close> = mutex:lock() return i end) end
    tasks[1]:cancel()
    t.equal(tasks[1]:status(), "cancelled")
    held:unlock()
    t.equal(tasks[2]:await(), 2)
    t.equal(tasks[3]:await(), 3)
    mutex:lock(0):unlock()
  end)

  t.it("gets its place back from a waiter that is cancelled after the handover", function()
    local mutex = rl.mutex()
    local held = mutex:lock()
    local reached
    local task = rl.task(function()
      local held <close> = mutex:lock()
      reached = true
      rl.sleep(1)
    end)
    held:unlock()
    task:cancel()
    rl.sleep(0)
    t.truthy(reached)
    t.equal(task:status(), "cancelled")
    mutex:lock(0):unlock()
  end)

  t.it("raises an error for the task that holds it already, with the place of its lock", function()
    local mutex = rl.mutex()
    local at = line() + 1
    local held = mutex:lock()
    t.error(function() mutex:lock() end, "mutex:lock: this task holds it already: it was locked at ")
    local _, err = pcall(mutex.lock, mutex, 0)
    finds(err, HERE .. ":" .. at .. "; unlock it first$")
    coroutine.wrap(function() t.error(function() mutex:lock() end, "this task holds it already") end)()
    held:unlock()
    mutex:lock():unlock()
  end)

  t.it("may be unlocked by another task", function()
    local mutex = rl.mutex()
    local channel = rl.channel()
    rl.task(function() channel:send(mutex:lock()) end)
    local held = channel:receive()
    local waiting = rl.task(function() return mutex:lock() end)
    t.equal(waiting:status(), "waiting")
    held:unlock()
    waiting:await():unlock()
  end)

  t.it("stays locked when its place is dropped", function()
    local mutex = rl.mutex()
    rl.task(function() mutex:lock() end)
    collectgarbage() collectgarbage()
    t.equal({ mutex:lock(0.1) }, { nil, "timed out" })
  end)

  t.it("has as many places as the given number", function()
    local places = rl.mutex(3)
    local inside, most = 0, 0
    local group <close> = rl.group()
    for _ = 1, 10 do
      group:task(function()
        local held <close> = places:lock()
        inside = inside + 1
        most = math.max(most, inside)
        rl.sleep(0.1)
        inside = inside - 1
      end)
    end
    group:wait()
    t.equal(most, 3)
    local a, b, c = places:lock(), places:lock(), places:lock()   -- one task may hold several
    finds(places, "^mutex %(3 of 3 places taken, made at ")
    t.equal({ places:lock(0) }, { nil, "timed out" })
    b:unlock()
    b:unlock()
    finds(places, "2 of 3 places taken")
    a:unlock()
    c:unlock()
    finds(places, "0 of 3 places taken")
    local one = rl.mutex(1)
    one:lock()
    t.equal({ one:lock(0.1) }, { nil, "timed out" })
  end)

  t.it("ends waits in the mode that runs when they begin", function()
    local mutex = rl.mutex()
    local held = mutex:lock()
    local got
    rl.perform { function() got = mutex:lock() end, modes = "dialogue" }
    local timer = rl.after(60, print)
    rl.current():add(timer, "dialogue")
    rl.run { mode = "dialogue", timeout = 0.01 }
    held:unlock()
    rl.run { mode = "dialogue", timeout = 0.01 }
    timer:invalidate()
    t.truthy(got)
    got:unlock()
  end)

  t.it("reports its holder, and where it was locked", function()
    local made = line() + 1
    local mutex = rl.mutex()
    finds(mutex, "^mutex %(free, made at .-" .. HERE .. ":" .. made .. "%)$")
    local locked = line() + 1
    local holder = rl.task(function() local held <close> = mutex:lock() rl.sleep(60) end)
    local waits = line() + 1
    local waiting = rl.task(function() mutex:lock() end)
    finds(mutex, "^mutex %(locked, 1 waiting, made at ")
    local told = "waits in mutex:lock at %S-" .. HERE .. ":" .. waits .. ", mutex made at %S-" .. HERE .. ":" .. made
      .. ", locked at %S-" .. HERE .. ":" .. locked .. " by task made at %S-" .. HERE .. ":" .. locked
    finds(waiting:traceback(), told)
    finds(rl.why(), "waiting for other tasks:\n  task made at %S-" .. HERE .. ":" .. waits .. ": " .. told)
    waiting:cancel()
    holder:cancel()
    local several = rl.mutex(6)
    for _ = 1, 6 do several:lock() end
    waiting = rl.task(several.lock, several)
    finds(waiting:traceback(), "by task at .*, and 2 more" and ", and 2 more")
    waiting:cancel()
    local held = mutex:lock()
    finds(held, "^held place of a mutex %(held, locked at ")
    held:unlock()
    finds(held, "released")
  end)

  t.it("rejects invalid arguments", function()
    for _, places in ipairs { 0, -1, 1.5, 0 / 0, "2", math.huge } do
      t.error(function() rl.mutex(places) end,
        "rl.mutex: argument #1 must be the number of places, an integer from 1 on, got ")
    end
    local mutex = rl.mutex()
    for _, limit in ipairs { -1, 0 / 0, "1", true } do
      t.error(function() mutex:lock(limit) end,
        "mutex:lock: argument #1 must be a number of seconds, 0 or more, or nil for no limit, got ")
    end
    t.error(function() mutex.lock() end, "mutex:lock: a mutex is expected as self, got nothing")
    local held = mutex:lock()
    t.error(function() held.unlock(mutex) end, "held:unlock: a held is expected as self, got a mutex")
    t.error(function() mutex:unlock() end, "mutexes have lock(), not unlock()")
    held:unlock()
    t.error(function() rl.thread(print, mutex) end, "cannot send argument #2: mutex")
  end)

  t.it("ends a program that waits for it for ever with status 13, with its holder", { real_time = true }, function()
    local status, text = run [[
      local rl = require "runloop"
      local m = rl.mutex()
      rl.task(function() m:lock() end)
      m:lock()]]
    t.equal(status, 13)
    finds(text, "it still waits in mutex:lock, mutex made at [^\n]*:2, "
      .. "locked at [^\n]*:3 by task made at [^\n]*:3, which has ended")
    status, text = run [[
      local rl = require "runloop"
      local a, b = rl.mutex(), rl.mutex()
      local function both(x, y)
        local hx <close> = x:lock()
        rl.sleep(0.01)
        local hy <close> = y:lock()
      end
      rl.all_of(rl.task(both, a, b), rl.task(both, b, a))]]
    t.equal(status, 13)
    finds(text, "it still waits in rl.all_of")
    finds(text, "other tasks wait, too:\n  task made at [^\n]*:8: waits in mutex:lock at [^\n]*:6, "
      .. "mutex made at [^\n]*:2, locked at [^\n]*:4 by task made at [^\n]*:8")
    status, text = run [[
      local rl = require "runloop"
      local m = rl.mutex()
      local held = m:lock()
      rl.task(function() m:lock() end):await()]]
    t.equal(status, 13)
    finds(text, "locked at [^\n]*:3 by the main chunk")
  end)
end)
