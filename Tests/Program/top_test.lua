-- The display of `rlhost top`, with invented loops.

local t = require "runloop.test"
-- Scripts do not need the module: only the command uses it.
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/part.lua")
local globals = setmetatable({ require = part }, { __index = _G })
local path = (os.getenv "DOCUMENTS" or "docs/lua") .. "/../../Sources/Program/Lua/top.lua"
local top = assert(loadfile(path, "t", globals))()
local terminal = require "runloop.terminal"

local function loops(count)
  local list = {}
  for n = 0, count - 1 do
    list[#list + 1] = {
      loop = n == 0 and "main" or "worker " .. n, number = n, window = 1e9, passes = 2 * n, wakes = n, awake = n * 1e6,
      callbacks = 3 * n,
      late = n == 7 and 2 or 0, longest = (count - n) * 1000, longest_name = 'timer "tick"', since = 0,
      mode = n == 3 and "modal" or "default",
      kinds = { { kind = "timer", count = n, total = n * 1000, late = 0 },
        { kind = "port", count = n, total = n * 10, late = 0 } },
      places = {
        { kind = "timer", name = 'timer "tick"', place = "app.lua:12", count = n, total = n * 1000, longest = 1000,
          late = 0 },
        { kind = "port", name = "fd_port " .. n, place = "app.lua:20", count = n, total = n * 10, longest = 10,
          late = n == 7 and 2 or 0 },
      },
    }
  end
  return list
end

local function shown(count, rows, columns, changes)
  local state = { title = "process 7", loops = loops(count), tasks = {}, sort = "awake" }
  for key, value in pairs(changes or {}) do state[key] = value end
  return top.lines(state, rows, columns)
end

t.describe("the screen of top", function()
  for _, size in ipairs { { 24, 80 }, { 50, 200 }, { 10, 40 }, { 5, 20 } } do
    t.it(("fits into %d rows of %d columns"):format(size[1], size[2]), function()
      for _, count in ipairs { 1, 3, 100 } do
        local lines = shown(count, size[1], size[2])
        t.truthy(#lines <= size[1])
        for _, line in ipairs(lines) do t.truthy(terminal.width(line) <= size[2]) end
      end
    end)
  end

  t.it("reports the number of hidden rows", function()
    local text = table.concat(shown(100, 24, 80), "\n")
    t.truthy(text:find("process 7: 100 loops, 495.0% awake in all, 2 late", 1, true))
    t.truthy(text:find("and 91 loops more", 1, true))
  end)

  t.it("shows further loops with the arrow keys", function()
    local state = { title = "process 7", loops = loops(100), tasks = {}, sort = "awake", skip = 20 }
    local lines = top.lines(state, 24, 80)
    t.truthy(lines[5]:find("^worker 79"))
    t.truthy(table.concat(lines, "\n"):find("and 71 loops more", 1, true))
    state.skip = 1000000
    lines = top.lines(state, 24, 80)
    t.truthy(table.concat(lines, "\n"):find("\nmain "))
    t.falsy(table.concat(lines, "\n"):find("loops more", 1, true))
    t.equal(state.skip, 90)
  end)

  t.it("gives long names enough room", function()
    local list = loops(2)
    list[2].loop = "a worker with a long name"
    t.truthy(shown(0, 24, 80, { loops = list })[5]:find("a worker with a long name", 1, true))
  end)

  t.it("sorts loops by the chosen column", function()
    local function first(sort) return shown(9, nil, nil, { sort = sort })[4]:match "^%S+ ?%d*" end
    t.equal(first "awake", "worker 8")
    t.equal(first "late", "worker 7")
    t.equal(first "longest", "main ")
    t.equal(first "loop", "main ")
  end)

  t.it("adds up the same callbacks of all loops, the busiest first", function()
    local lines = shown(5)
    t.equal(lines[1], "process 7: 5 loops, 1.0% awake in all, 0 late")
    t.equal(lines[2], "by kind: timer 0.0% 10/s   port 0.0% 10/s")
    t.equal(lines[10], "   0.0%       10     0      1 us  timer \"tick\"  app.lua:12")
    t.truthy(lines[11]:find("fd_port 4", 1, true))
  end)

  t.it("shows the mode of a loop, and the callback that holds it", function()
    local list = loops(4)
    list[2].current, list[2].since = "timer \"stuck\"", 4.25e9
    local text = table.concat(shown(0, nil, nil, { loops = list }), "\n")
    t.truthy(text:find('timer "stuck" for 4.25 s', 1, true))
    t.truthy(text:find("[modal]", 1, true))
  end)

  t.it("escapes names that could move the cursor", function()
    local list = loops(1)
    list[1].loop = "\27[2Jevil\n"
    for _, line in ipairs(shown(0, 24, 80, { loops = list })) do t.falsy(line:find "%c") end
  end)

  t.it("shows tasks in place of callbacks", function()
    local tasks = { { thread = "main", text = "task 1: waits in rl.sleep" },
      { thread = "worker", text = "its loop does not answer: it is busy" } }
    local text = table.concat(shown(1, 24, 80, { shows_tasks = true, tasks = tasks }), "\n")
    t.truthy(text:find("main%s+task 1: waits in rl.sleep"))
    t.truthy(text:find("worker%s+its loop does not answer"))
    t.falsy(text:find("CALLBACK", 1, true))
    t.truthy(table.concat(shown(1, 24, 80, { shows_tasks = true }), "\n"):find("no tasks wait", 1, true))
  end)

  t.it("reports the number of hidden tasks", function()
    local tasks = {}
    for n = 1, 100 do tasks[n] = { thread = "main", text = "task " .. n } end
    local lines = shown(1, 24, 80, { shows_tasks = true, tasks = tasks })
    t.equal(#lines, 24)
    t.truthy(lines[24]:find "^and %d+ tasks more")
  end)
end)
