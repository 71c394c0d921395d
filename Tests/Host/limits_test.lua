-- Limits of memory, processor time, and of callbacks that hold the loop.

local rl, process, fs = require "runloop", require "runloop.process", require "runloop.fs"
local t = require "runloop.test"

local REAL <const> = { real_time = true, timeout = 30 }
local RLHOST <const> = fs.real_path "/proc/self/exe"

local function raises(text, fn, ...)
  local failed, message = pcall(fn, ...)
  t.falsy(failed, "no error")
  t.truthy(tostring(message):find(text, 1, true), tostring(message))
end

local function run(options, code)
  local words = { RLHOST }
  for option in options:gmatch "%S+" do words[#words + 1] = option end
  words[#words + 1] = "-"
  words.input = code
  local answer = assert(process.run(words))
  answer.errors = answer.errors:gsub(RLHOST, "rlhost")
  return answer
end

local function use_processor(seconds)
  local deadline = os.clock() + seconds
  repeat until os.clock() > deadline
end

t.describe("the limit of a thread's memory", function()
  t.it("ends the code that exceeds it, and no other code", REAL, function()
    local thread = rl.thread { function()
      local bytes = 0
      local fine, message = pcall(function()
        local kept = {}
        while true do
          kept[#kept + 1] = ("x"):rep(10000) .. #kept
          bytes = math.max(bytes, collectgarbage "count")
        end
      end)
      return fine, message, bytes, #("y"):rep(100000)
    end, memory = 4 << 20 }
    local results = { thread:join() }
    local bytes = table.remove(results, 4)
    t.equal(results, { true, false, "not enough memory", 100000 })
    t.truthy(bytes <= 4096 and bytes > 3000, bytes)
  end)

  t.it("does not count garbage", REAL, function()
    local thread = rl.thread { function()
      local length = 0
      for i = 1, 500 do
        local parts = {}
        for k = 1, 100 do parts[k] = ("%d %d"):format(i, k):rep(10) end
        length = length + #table.concat(parts):rep(100)
      end
      return length > 0
    end, memory = 4 << 20 }
    t.equal({ thread:join() }, { true, true })
  end)

  t.it("is the reason for the thread's end if no code catches the error", REAL, function()
    local fine, message = rl.thread { function() return ("x"):rep(1 << 24) end, memory = 1 << 20 }:join()
    t.equal(fine, false)
    t.truthy(tostring(message):find "not enough memory", message)
  end)
end)

t.describe("the limit of a thread's processor time", function()
  t.it("ends a thread that computes", REAL, function()
    local start = os.clock()
    local thread = rl.thread { function() while true do end end, cpu = 0.1 }
    t.equal({ thread:join(20) }, { false, "limit: 0.1 s of processor time" })
    t.equal(thread:is_alive(), false)
    t.truthy(os.clock() - start < 5)
  end)

  t.it("ends a thread that catches the error", REAL, function()
    local thread = rl.thread { function() while true do pcall(function() while true do end end) end end, cpu = 0.1 }
    t.equal({ thread:join(20) }, { false, "limit: 0.1 s of processor time" })
  end)

  t.it("counts the callbacks, too", REAL, function()
    local thread = rl.thread { function()
      local rl = require "runloop"
      rl.every(0.001, function() for _ = 1, 100000 do end end)
      rl.sleep(60)
    end, cpu = 0.1 }
    t.equal({ thread:join(20) }, { false, "limit: 0.1 s of processor time" })
  end)

  t.it("applies to the thread's own threads, too, and so does the memory limit", REAL, function()
    local thread = rl.thread { function()
      local rl = require "runloop"
      return rl.thread { function() return #("x"):rep(1 << 24) end, memory = 1 << 26 }:join()
    end, memory = 1 << 20 }
    local results = { thread:join() }
    t.equal({ results[1], results[2] }, { true, false })
    t.truthy(tostring(results[3]):find "not enough memory", results[3])
    t.equal({ rl.thread { function()
      return require "runloop".thread(function() while true do end end):join(20)
    end, cpu = 0.1 }:join(25) }, { true, false, "limit: 0.1 s of processor time" })
  end)

  t.each({
    { "a finalizer", function()
      setmetatable({}, { __gc = function() while true do end end })
      collectgarbage()
      while true do end
    end },
    { "the last finalizer", function()
      setmetatable({}, { __gc = function() while true do end end })
    end },
    { "the closing of a variable", function()
      local _ <close> = setmetatable({}, { __close = function() while true do end end })
      while true do end
    end },
    { "the closing of a coroutine's variable", function()
      coroutine.wrap(function()
        local _ <close> = setmetatable({}, { __close = function() while true do end end })
        while true do end
      end)()
    end },
    { "a message handler", function()
      xpcall(function() while true do end end, function() while true do end end)
    end },
    { "a hook", function()
      debug.sethook(function() while true do end end, "", 1)
      while true do end
    end },
  }, "ends %s", REAL, function(_, fn)
    t.equal({ rl.thread { fn, cpu = 0.1 }:join(25) }, { false, "limit: 0.1 s of processor time" })
  end)

  t.it("ends many tasks that catch the error", REAL, function()
    t.equal({ rl.thread { function()
      local rl = require "runloop"
      for _ = 1, 10 do rl.task(function() while true do pcall(function() while true do end end) end end) end
    end, cpu = 0.1 }:join(25) }, { false, "limit: 0.1 s of processor time" })
  end)

  t.it("is an error for the caller of a blocking function that exceeds it", REAL, function()
    local answer = run("", [[
      local rl = require "runloop"
      print(rl.thread { function()
        local rl = require "runloop"
        local pool <close> = rl.pool { threads = 1, setup = function() end }
        local function forever() while true do end end
        local function call(object, fn) return select(2, pcall(object.run, object, fn)) end
        return select(2, pcall(rl.blocking, forever)), rl.blocking(function() return 1 end), call(pool, forever),
          call(pool, function() return 2 end)
      end, cpu = 0.2 }:join(25))
      print "goes on"
    ]])
    t.equal({ answer.code, answer.errors }, { 0, "" })
    t.equal(answer.output, "true\tlimit: 0.2 s of processor time\t1\tlimit: 0.2 s of processor time\t2\ngoes on\n")
  end)

  t.it("does not count waiting", REAL, function()
    t.equal({ rl.thread { function() require "runloop".sleep(0.3) return 5 end, cpu = 0.2 }:join(20) }, { true, 5 })
  end)
end)

t.describe("a callback that holds the loop", function()
  t.it("gets an error with its place, and the loop goes on", REAL, function()
    local answer = run("--callback-limit=0.1", [[
      local rl = require "runloop"
      rl.on_error(function(err, info) print(err, (info.traceback:find "stack traceback")) end)
      rl.after(0.01, function()
        while true do end
      end)
      rl.after(0.02, function() print "later" end)
    ]])
    t.equal(answer.code, 0, answer.errors)
    t.truthy(answer.output:find "^stdin:4: limit: held the loop for 0.1 s\t%d+\nlater\n$", answer.output)
  end)

  t.it("gets the error again if it catches it in a loop", REAL, function()
    local answer = run("--callback-limit=0.05", [[
      local rl = require "runloop"
      rl.after(0.01, function() while true do pcall(function() while true do end end) end end)
    ]])
    t.equal(answer.code, 1)
    t.truthy(answer.errors:find "limit: held the loop for 0.05 s", answer.errors)
  end)

  t.each({
    { "a finalizer", "setmetatable({}, { __gc = function() while true do end end }) collectgarbage()", "goes on\n", 0 },
    { "the closing of a variable",
      "local _ <close> = setmetatable({}, { __close = function() while true do end end }) while true do end", "", 1 },
    { "a message handler", "local function forever() while true do end end xpcall(forever, forever)", "goes on\n", 0 },
  }, "gets it in %s, too", REAL, function(_, code, output, status)
    local answer = run("--callback-limit=0.05",
      ("local rl = require 'runloop' rl.after(0.01, function() %s print 'goes on' end)"):format(code))
    t.equal({ answer.code, answer.output }, { status, output }, answer.errors)
  end)

  t.it("is neither the main chunk nor a series of short callbacks", REAL, function()
    local answer = run("--callback-limit=0.1", [[
      local rl = require "runloop"
      local done = rl.now() + 0.3
      repeat until rl.now() > done
      local function again() if rl.now() < done + 0.3 then rl.after(0, again) end end
      again()
      rl.sleep(0.4)
      print "fine"
    ]])
    t.equal({ answer.code, answer.output, answer.errors }, { 0, "fine\n", "" })
  end)

  t.it("can be limited by the script, in each thread", REAL, function()
    local fine, message = rl.thread(function()
      local rl = require "runloop"
      rl.limit_callbacks(0.05)
      rl.sleep(0)
      while true do end
    end):join(20)
    t.equal(fine, false)
    t.truthy(tostring(message):find "limits_test.lua:%d+: limit: held the loop for 0.05 s", message)
  end)

  t.it("has no limit after the limit was set to nil", REAL, function()
    t.equal({ rl.thread(function()
      local rl = require "runloop"
      rl.limit_callbacks(0.05)
      rl.limit_callbacks(nil)
      rl.sleep(0)
      local done = rl.now() + 0.2
      repeat until rl.now() > done
      return 3
    end):join(20) }, { true, 3 })
  end)
end)

t.describe("the main state", function()
  t.it("has a memory limit, which its threads share", REAL, function()
    local answer = run("--memory=8M", [[
      local rl = require "runloop"
      print(pcall(string.rep, "x", 1 << 24))
      print(select(2, pcall(function() assert(rl.thread(function() return #("x"):rep(1 << 24) end):join()) end)))
      print(rl.thread(function() return #("x"):rep(1 << 21) end):join())
    ]])
    t.truthy(answer.output:find "^false\tnot enough memory\n[^\n]*not enough memory\ntrue\t2097152\n$", answer.output
      .. answer.errors)
  end)

  t.it("shares its memory limit with threads that fill it a little at a time", REAL, function()
    local answer = run("--memory=8M", [[
      local rl = require "runloop"
      local main, threads = rl.current(), {}
      local function fill(limit, main)
        local rl, kept = require "runloop", {}
        local fine, message = pcall(function()
          while collectgarbage "count" < limit do kept[#kept + 1] = ("%9d"):format(#kept):rep(100) end
        end)
        local kilobytes = collectgarbage "count"
        if main then main:perform(function() full = (full or 0) + 1 end) end
        while main and not ended do rl.sleep(0.01) end
        return fine, message, kilobytes
      end
      for i = 1, 3 do threads[i] = rl.thread(fill, 2000, main) end
      while (full or 0) < 3 do rl.sleep(0.01) end
      local _, fine, message, kilobytes = rl.thread(fill, 1 << 20):join()
      print(fine, message, kilobytes > 500 and kilobytes < 8192 - 3 * 2000 + 64 or kilobytes)
      for _, thread in ipairs(threads) do
        thread:loop():perform(function() ended = true end)
        print(select(2, thread:join()))
      end
      -- The memory of the threads is free again.
      print(#("x"):rep(2 << 20))
    ]])
    local output = answer.output:gsub("(true\tnil)\t20%d%d%.%d+", "%1")
    t.equal({ answer.code, output },
      { 0, "false\tnot enough memory\ttrue\n" .. ("true\tnil\n"):rep(3) .. "2097152\n" }, answer.errors)
  end)

  t.it("goes on if a message exceeds it", REAL, function()
    local program <close> = t.spawn { RLHOST, "--memory=8M", "-e", [[
      local rl = require "runloop"
      local name = "limits-test-" .. require "runloop.process".id()
      local port = rl.message_port { name = name, callback = function(_, _, data) return "length " .. #data end }
      rl.current():add(port, "common")
      print(name)
    ]] }
    local remote = assert(rl.remote_port(program:wait_for "limits%-test%-%d+"))
    for _ = 1, 3 do
      t.equal({ remote:request(1, ("x"):rep(10 << 20)) },
        { nil, "transport error: not enough memory for the message" })
    end
    t.equal(remote:request(1, "small"), "length 5")
  end)

  t.it("ends when its processor time is over", REAL, function()
    local answer = run("--cpu=0.1", "while true do end")
    t.equal(answer.code, 1)
    t.truthy(answer.errors:find "stdin:1: limit: 0.1 s of processor time\nstack traceback:", answer.errors)
  end)

  t.it("ends if its threads use the processor time while it waits", REAL, function()
    for _, waits in ipairs { "thread:join()", "rl.sleep(600)", "rl.run()" } do
      local answer = run("--cpu=0.3", [[
        local rl = require "runloop"
        local thread = rl.thread(function() while true do end end)
      ]] .. waits)
      t.equal({ answer.code, answer.errors }, { 1, "rlhost: limit: 0.3 s of processor time\n" }, waits)
    end
  end)

  t.it("ends even in a C function that does not return", { real_time = true, timeout = 120 }, function()
    local answer = run("--cpu=0.1", [[print(string.find(("a"):rep(3000), ("a-"):rep(12) .. "b"))]])
    t.equal({ answer.code, answer.errors },
      { 1, "rlhost: limit: 0.1 s of processor time, and a function of C goes on\n" })
  end)

  t.it("ends even if it goes on after the error", REAL, function()
    local answer = run("--cpu=0.1", [[
      require "runloop".on_error(function() end)
      local n = 0
      local function go_on() n = n + 1 pcall(function() while true do end end) go_on() end
      go_on()
    ]])
    t.equal(answer.code, 1)
    t.truthy(answer.errors:find "limit: 0.1 s of processor time", answer.errors)
  end)
end)

t.it("invalid limits are rejected with a description of valid ones", REAL, function()
  for _, bad in ipairs { 0, -1, 5, 0 / 0, 1.5, "1M" } do
    raises("rl.thread: field 'memory' must be a whole number of bytes, 524288 or more, got", rl.thread,
      { print, memory = bad })
  end
  for _, bad in ipairs { 0, -1, 0 / 0, math.huge, "1" } do
    raises("rl.thread: field 'cpu' must be a number of seconds, 0.01 or more, got", rl.thread, { print, cpu = bad })
    raises("rl.limit_callbacks: argument #1 must be a number of seconds, 0.01 or more, got", rl.limit_callbacks, bad)
  end
  for option, text in pairs {
    ["--memory=0"] = "--memory=SIZE needs a size, 512k or more, such as 64M, not '0'",
    ["--memory=-1"] = "--memory=SIZE needs a size, 512k or more, such as 64M, not '-1'",
    ["--memory=100k"] = "--memory=SIZE needs a size, 512k or more, such as 64M, not '100k'",
    ["--cpu=0"] = "--cpu=SECONDS needs a number of seconds, 0.01 or more, not '0'",
    ["--cpu=nan"] = "--cpu=SECONDS needs a number of seconds, 0.01 or more, not 'nan'",
    ["--callback-limit=-2"] = "--callback-limit=SECONDS needs a number of seconds, 0.01 or more, not '-2'",
  } do
    local answer = run(option, "")
    t.equal({ answer.code, answer.errors }, { 64, "rlhost: " .. text .. "\n" })
  end
end)
