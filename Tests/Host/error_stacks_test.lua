-- Errors keep their stack across waits.

local rl = require "runloop"
local t = require "runloop.test"

-- Returns the parts of a text: its message and, for each further heading, the heading and the script's frames below it,
-- as "line" or "line name".
local function parts_of(text)
  local parts, current = {}, nil
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local frame = line:match "^\t(.*)$"
    if not frame then
      current = { (line:gsub("%S*error_stacks_test%.lua", "q.lua"):gsub("0x%x+", "0x1")) }
      parts[#parts + 1] = current
    else
      local source, name = frame:match "error_stacks_test%.lua:(%d+): in (.*)$"
      if source then current[#current + 1] = source .. " " .. (name:match "'([^']*)'$" or "?") end
    end
  end
  return parts
end

local function line_of(level) return debug.getinfo((level or 1) + 1, "l").currentline end

local function deep() error "boom" end
local DEEP = debug.getinfo(deep, "S").linedefined
local function fetch()
  rl.sleep(0.01)
  deep()
end
local function fail() deep() end

-- Runs `body` with the handler, and returns the parts of the text.
local function caught(body)
  local fine, text = xpcall(body, rl.traceback)
  t.equal(fine, false)
  return parts_of(text), text
end

-- Each function waits for `fn`, which fails: the wait is one line of a function called `waiter`.
local WAITS = {
  ["task:await"] = function(fn) local function waiter() rl.task(fn):await() end waiter() end,
  ["group:wait"] = function(fn)
    local function waiter() local group <close> = rl.group() group:task(fn) group:wait() end
    waiter()
  end,
  ["rl.all_of"] = function(fn)
    local function waiter() return (rl.all_of(function() rl.sleep(1) end, fn)) end
    waiter()
  end,
  ["rl.first_of"] = function(fn)
    local function waiter() return (rl.first_of(function() rl.sleep(1) end, fn)) end
    waiter()
  end,
  ["rl.timeout"] = function(fn) local function waiter() return (rl.timeout(1, fn)) end waiter() end,
}

for name, wait in pairs(WAITS) do
  for how, fn in pairs { ["has waited"] = fetch, ["fails at once"] = fail } do
    t.it(name .. " passes on the error of a task that " .. how, function()
      local parts, text = caught(function() wait(fn) end)
      t.equal(parts[1][1], ("q.lua:%d: boom"):format(DEEP))
      t.equal(parts[2][1], "stack traceback:")
      t.equal(parts[2][2], DEEP .. " deep")
      t.truthy(#parts[2] >= 3, "the function that has called it")
      t.truthy(parts[3][1]:find "^in task made at q%.lua:%d+$", text)
      t.truthy(parts[4][1]:find "^awaited at q%.lua:%d+$", text)
      t.truthy(table.concat(parts[4], "\n", 2):find "waiter", text)
      t.equal(#parts, 4)
    end)
  end
end

t.it("a wait raises the same error value that the task has raised", function()
  local err = { code = 7 }
  for _, wait in pairs(WAITS) do
    local fine, got = pcall(wait, function() rl.sleep(0) error(err) end)
    t.equal(fine, false)
    t.truthy(rawequal(got, err))
  end
end)

t.describe("another thread's error", { real_time = true }, function()
  local WORK = {
    ["rl.blocking"] = function(fn) rl.blocking(fn) end,
    ["pool:run"] = function(fn) local pool <close> = rl.pool { threads = 1, name = "workers" } pool:run(fn) end,
    ["pool:map"] = function(fn)
      local pool <close> = rl.pool { threads = 1, name = "workers" }
      pool:map({ 1, 2 }, fn)
    end,
    ["loop:perform"] = function(fn)
      local thread <close> = rl.thread { function() require "runloop".sleep(5) end, name = "workers" }
      thread:loop():perform { fn, wait = true }
    end,
  }
  for name, wait in pairs(WORK) do
    t.it("keeps its stack across " .. name, function()
      local parts, text = caught(function()
        wait(function()
          local function inner() error { code = 8 } end
          inner()
        end)
      end)
      t.equal(parts[1][1], "{ code = 8 }")
      t.truthy(table.concat(parts[2], " "):find "^stack traceback: %d+ inner %d+ %?", text)
      t.truthy(parts[3][1]:find '^in thread "%w+"', text)
      t.truthy(parts[4][1]:find "^awaited at q%.lua:%d+$", text)
    end)
  end

  t.it("keeps its stack across thread:join", function()
    local made = line_of() + 1
    local thread = rl.thread { function()
      local rl = require "runloop"
      local function inner() rl.sleep(0.01) error "no" end
      local task = rl.task(inner)
      task:await()
    end, name = "worker" }
    local fine, err = thread:join()
    local joined = line_of() - 1
    t.equal(fine, false)
    local text = rl.traceback(err)
    local parts = parts_of(text)
    t.equal(parts[1][1], ("q.lua:%d: no"):format(made + 2))
    t.equal(parts[3][1], ("in task made at q.lua:%d"):format(made + 3))
    t.equal(parts[4][1], ("awaited at q.lua:%d"):format(made + 4))
    t.equal(parts[5][1], ('in thread "worker" made at q.lua:%d'):format(made))
    t.equal(parts[6][1], ("awaited at q.lua:%d"):format(joined))
    t.equal(#parts, 6)
  end)

  t.it("may be a table, nil, or a value that cannot cross", function()
    local function join(fn) return select(2, rl.thread(fn):join()) end
    t.truthy(rl.traceback(join(function() error { a = 1 } end)):find "^{ a = 1 }\nstack traceback:")
    t.truthy(rl.traceback(join(function() error(nil) end)):find "in thread")
    t.truthy(rl.traceback(join(function() error { io.stdout } end)):find "in thread")
  end)
end)

t.it("a stack shows each wait of a chain, and counts the middle ones of a long chain", function()
  local function chain(length)
    local task = rl.task(fetch)
    for _ = 2, length do
      local before = task
      task = rl.task(function() before:await() end)
    end
    local fine, err = pcall(task.await, task)
    t.equal(fine, false)
    return rl.traceback(err)
  end
  t.equal(select(2, chain(3):gsub("\nawaited at ", "")), 3)
  local ten = chain(10)
  t.equal(select(2, ten:gsub("\nawaited at ", "")), 10)
  t.falsy(ten:find "skipping")
  local text = chain(25)
  t.equal(select(2, text:gsub("\nawaited at ", "")), 10)
  t.truthy(text:find "\n%.%.%.\t%(skipping 15 waits%)\n")
end)

t.it("a stack has at most 22 frames", function()
  local function recurse(n)
    if n > 0 then recurse(n - 1) else error "end" end
    return n
  end
  for _, depth in ipairs { 5, 19, 20, 21, 500 } do
    local _, err = pcall(function() rl.task(recurse, depth):await() end)
    local text = rl.traceback(err)
    local frames, shown = text:match "stack traceback:\n(.-)\nin task"
    shown = select(2, frames:gsub("%.lua:%d+: in", ""))
    if depth + 2 <= 22 then
      t.equal(shown, depth + 1)
      t.falsy(frames:find "skipping")
    else
      t.equal(select(2, (frames:gsub("[^\n]*skipping[^\n]*\n", "")):gsub("[^\n]+", "")), 21)
      t.equal(tonumber(frames:match "skipping (%d+) levels"), depth + 2 - 21)
    end
  end
end)

t.it("rl.traceback returns the text of debug.traceback for an error that no wait has passed on", function()
  local function both(err) return rl.traceback(err), debug.traceback(err) end
  for _, err in ipairs { "text", 5, "two\nlines" } do
    local ours, theirs = both(err)
    t.equal(ours, theirs)
  end
  t.equal((rl.traceback(nil)), (debug.traceback(nil)))
  local _, ours = xpcall(deep, rl.traceback)
  local _, theirs = xpcall(deep, debug.traceback)
  t.equal((ours:gsub(":%d+:", "")), (theirs:gsub(":%d+:", "")))
  t.truthy(rl.traceback({ a = { b = { c = 1 } } }):find "^{ a = { b = {…} } }\nstack traceback:\n")
end)

t.it("a new error with the text of an awaited one has its own stack", function()
  local task = rl.task(function() error("closed", 0) end)
  pcall(task.await, task)
  local text
  rl.task(function()
    local function elsewhere() error("closed", 0) end
    text = select(2, xpcall(elsewhere, rl.traceback))
  end)
  t.truthy(text:find "elsewhere" or text:find "error_stacks_test")
  t.falsy(text:find "awaited at")
end)

t.it("each task that awaits the same error gets its own stack, and may raise the error again", function()
  local task = rl.task(fetch)
  local texts = {}
  local here = line_of()
  local function first() task:await() end
  local function second()
    local fine, err = pcall(task.await, task)
    if not fine then error(err, 0) end
  end
  for i, fn in ipairs { first, second } do
    rl.task(function() texts[i] = select(2, xpcall(fn, rl.traceback)) end)
  end
  rl.sleep(0.02)
  for i, line in ipairs { here + 1, here + 3 } do
    t.equal(select(2, texts[i]:gsub("\nawaited at ", "")), 1)
    t.truthy(texts[i]:find("\nawaited at [^\n]*:" .. line .. "\n"), texts[i])
  end
end)

t.it("errors may be values of any kind", function()
  local bad = setmetatable({}, { __tostring = function() error "worse" end })
  local odd = setmetatable({}, { __tostring = function() return {} end })
  local good = setmetatable({}, { __tostring = function() return "good" end })
  local HEADS = {
    { nil, "(error object is a nil value)" }, { true, "(error object is a boolean value)" }, { 5.5, "5.5" },
    { io.stdout, "file (" }, { bad, "<table 0x1: error in __tostring: q.lua:" },
    { odd, "<table 0x1: error in __tostring: " },
    { good, "good" }, { setmetatable({ 1 }, { __name = "Point" }), "Point { 1 }" },
    { print, "(error object is a function value)" },
    { rl.current(), "loop" },
  }
  for i = 1, #HEADS do
    local value, head = HEADS[i][1], HEADS[i][2]
    local task = rl.task(function() rl.sleep(0) error(value, 0) end)
    local fine, err = pcall(task.await, task)
    t.equal(fine, false)
    t.truthy(rawequal(err, value))
    local parts = parts_of(rl.traceback(err))
    t.equal(parts[1][1]:sub(1, #head), head)
    t.equal(parts[2][1], "stack traceback:")
    t.truthy(parts[3][1]:find "^in task made at ")
    -- As in lua, an error value with __tostring has no traceback.
    local describes = (getmetatable(value) or {}).__tostring or io.type(value) or value == rl.current()
    t.truthy(task:traceback():find("stack traceback:", 1, true) or describes)
  end
end)

t.it("a cancellation has no stack", function()
  local task = rl.task(rl.sleep, 1)
  local waiter = rl.task(function() task:await() end)
  task:cancel()
  local fine, err = pcall(waiter.await, waiter)
  t.equal(fine, false)
  t.truthy(rl.is_cancelled(err))
  t.falsy(rl.traceback(err):find "awaited at")
  t.equal(task:traceback(), nil)
end)

t.it("task:traceback() still returns the stack after the error was awaited", function()
  local task = rl.task(fetch)
  pcall(task.await, task)
  t.truthy(task:traceback():find "deep")
  t.truthy(task:traceback():find "boom")
end)

t.it("the host keeps the stacks of the last 32 errors", function()
  local errors = {}
  for i = 1, 40 do
    local task = rl.task(function() error { i } end)
    errors[i] = select(2, pcall(task.await, task))
  end
  for i = 9, 40 do t.truthy(rl.traceback(errors[i]):find "awaited at", i) end
  t.falsy(rl.traceback(errors[1]):find "awaited at")
end)

t.it("an error in closing a variable is shown with the error before it", function()
  local task = rl.task(function()
    local _ <close> = setmetatable({}, { __close = function() error("second", 0) end })
    rl.sleep(0)
    error("first", 0)
  end)
  local _, err = pcall(task.await, task)
  t.equal(err, "second")
  t.truthy(rl.traceback(err):find "^second, in closing a variable after: first\nstack traceback:")
end)

t.it("rl.on_error gets the complete stack with all waits, which rl.traceback returns there, too", function()
  local told, text
  rl.on_error(function(err, info) told, text = info, rl.traceback(err) end)
  local task = rl.task(fetch)
  rl.after(0, function() task:await() end)
  rl.sleep(0.05)
  rl.on_error(nil)
  t.truthy(told.where:find "^timer made at ")
  local parts = parts_of(told.traceback)
  t.equal(parts[2][2], DEEP .. " deep")
  t.truthy(parts[3][1]:find "^in task made at q.lua:")
  t.truthy(parts[4][1]:find "^awaited at q.lua:")
  t.equal(text, told.traceback)
end)

t.describe("a future", function()
  t.it("passes on its error with the stack of the failing call, to each waiter", function()
    local future = rl.future()
    local texts, here = {}, line_of()
    local function refuse() future:fail { code = 9 } end
    for i = 1, 2 do rl.task(function() texts[i] = select(2, xpcall(future.await, rl.traceback, future)) end) end
    rl.task(function()
      rl.sleep(0.01)
      refuse()
    end)
    rl.sleep(0.02)
    texts[3] = select(2, xpcall(function() future:await() end, rl.traceback))
    for i = 1, 3 do
      local parts = parts_of(texts[i])
      t.equal(parts[1][1], "{ code = 9 }")
      t.equal(parts[2][2], here + 1 .. " refuse")
      t.equal(parts[3][1], ("in task made at q.lua:%d"):format(here + 3))
      t.equal(parts[4][1], ("awaited at q.lua:%d"):format(i < 3 and here + 2 or here + 8))
      t.equal(#parts, 4)
    end
  end)

  t.it("that fails is not shown with the stack of another error of the same text", function()
    local function failed(text)
      local future = rl.future()
      future:fail(text)
      return future
    end
    local first, second = failed "same", rl.task(function() error("same", 0) end)
    pcall(second.await, second)
    local _, text = xpcall(first.await, rl.traceback, first)
    t.truthy(text:find "in upvalue 'failed'" or text:find "in local 'failed'", text)
    t.equal(select(2, text:gsub("\nawaited at ", "")), 1)
  end)
end)

t.it("tasks that fail leave no memory behind", function()
  local function round(count)
    for _ = 1, count do
      local task = rl.task(function() rl.sleep(0) error { 1 } end)
      pcall(task.await, task)
    end
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end
  local before = round(500)
  t.truthy(round(3000) - before < 64)
end)

t.it("an object with which a future has failed can be collected", function()
  local objects = setmetatable({}, { __mode = "k" })
  do
    local object, future = rl.source { perform = function() end }, rl.future()
    objects[object] = true
    future:fail(object)
  end
  collectgarbage()
  collectgarbage()
  t.equal(next(objects), nil)
end)
