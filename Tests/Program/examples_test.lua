-- The examples that need a terminal, or files that change.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local http = require "runloop.http"

local EXAMPLES = assert(os.getenv "EXAMPLES", "EXAMPLES: the directory of the examples")
local REAL = { real_time = true, timeout = 60 }

local function start(name, ...)
  return t.spawn { t.rlhost, EXAMPLES .. "/" .. name, terminal = { rows = 16, columns = 60 }, env = { TERM = "xterm" },
    ... }
end

local function shows(program, text)
  t.eventually(function() return program:screen():find(text, true) end, { within = 20 })
end

local function directory()
  return setmetatable({ path = assert(fs.temporary_directory()) }, { __close = function(self)
    fs.remove(self.path, { recursive = true })
  end })
end

t.it("dashboard.lua draws, follows the window's size, and gives the terminal back", REAL, function()
  local program <close> = start "dashboard.lua"
  shows(program, "processor")
  shows(program, "q ends this")
  t.equal(program:screen()[1], "dashboard")
  t.truthy(program:screen():find "memory.*%d %%")
  program:resize(10, 40)
  shows(program, "memory")
  program:write "q"
  t.equal(program:wait { within = 20 }, 0)
  t.truthy(program:output():find("\27[?1049l", 1, true))
end)

t.it("modal.lua asks in its own mode, in which the clock stops and the heart beats", REAL, function()
  local program <close> = start "modal.lua"
  shows(program, "apples")
  shows(program, "clock 1")
  program:write "\27[B"
  program:write "d"
  shows(program, "delete bread? (y/n)")
  local function clock() return program:screen():text():match "clock (%d+)" end
  local stood = clock()
  -- Neither a key for the list nor the clock changes the screen.
  program:write "q"
  rl.sleep(1.6)
  t.truthy(program:is_running())
  t.equal(clock(), stood)
  local beats = select(2, program:output():gsub("heart", ""))
  rl.sleep(0.8)
  t.truthy(select(2, program:output():gsub("heart", "")) > beats)
  program:write "y"
  t.eventually(function() return not program:screen():find("bread", true) end, { within = 20 })
  t.truthy(program:screen():find("cheese", true))
  -- Both keys are typed at once: the first opens the dialogue, and the dialogue gets the second.
  program:write "dy"
  t.eventually(function() return not program:screen():find("cheese", true) end, { within = 20 })
  program:write "dn"
  program:write "q"
  t.equal(program:wait { within = 20 }, 0)
end)

t.it("develop.lua builds on save, serves the site, and notifies the browsers", REAL, function()
  local place <close> = directory()
  local path = place.path
  fs.make_directory(path .. "/src")
  fs.make_directory(path .. "/out")
  fs.write(path .. "/src/page.txt", "one")
  local program = assert(process.start { t.rlhost, EXAMPLES .. "/develop.lua", path .. "/src",
    ("grep -v bad %s/src/page.txt > %s/page.new && mv %s/page.new %s/out/index.html"):format(path, path, path, path),
    path .. "/out", "0",
    output = "pipe", errors = "output" })
  t.truthy(program.output:read_until("build 1 took", { timeout = 20 }))
  t.truthy(program.output:read_until("http://", { timeout = 20 }))
  local url = "http://" .. program.output:read_line():gsub("/$", "")
  t.equal(http.get(url .. "/index.html").body, "one\n")
  t.truthy(http.get(url .. "/reload.js").body:find("EventSource", 1, true))
  local browser = assert(http.open { url .. "/reload" })
  local events = browser:events()
  fs.write(path .. "/src/page.txt", "two")
  t.truthy(program.output:read_until("build 2 took", { timeout = 20 }))
  t.equal(events().data, "2")
  t.equal(http.get(url .. "/index.html").body, "two\n")
  fs.write(path .. "/src/page.txt", "bad")
  t.truthy(program.output:read_until("the build has failed", { timeout = 20 }))
  t.equal(http.get(url .. "/index.html").body, "two\n")
  browser:close()
  t.equal(program:stop(10), "signal")
  program.output:abort()
end)

t.it("tail.lua follows a file through rotation, as tail -F does", REAL, function()
  local place <close> = directory()
  local path = place.path .. "/log"
  local function append(text)
    local file <close> = assert(io.open(path, "a"))
    file:write(text)
  end
  append "one\n"
  local program = assert(process.start { t.rlhost, EXAMPLES .. "/tail.lua", path, output = "pipe" })
  local function line() return program.output:read_line { timeout = 20 } end
  t.equal(line(), "one")
  append "two\n"
  t.equal(line(), "two")
  -- This line is written after the last check, and the file is moved away at once.
  append "three\n"
  os.rename(path, path .. ".1")
  append "four\n"
  t.equal(line(), "three")
  t.truthy(line():find "is another file; from its start:$")
  t.equal(line(), "four")
  os.remove(path)
  rl.sleep(0.3)
  append "five\n"
  t.equal(line(), "five")
  program:stop()
  program.output:abort()
end)

t.it("plugins.lua calls three plugins in sandboxes, one of which misbehaves in five ways", REAL, function()
  local answer = process.run { t.rlhost, EXAMPLES .. "/plugins.lua", "to be", timeout = 50 }
  t.equal(answer.output .. answer.errors, [[
shout: TO BE
count: 2 words
rogue: I am harmless.
shout: READ
count: 1 word
rogue: EACCES: not allowed by the sandbox: --allow-read=/etc (/etc/passwd)
shout: CONNECT
count: 1 word
rogue: EACCES: not allowed by the sandbox: --allow-connect=127.0.0.1:22 (127.0.0.1:22)
shout: NONSENSE
count: 1 word
rogue: failed: its answer makes no sense
shout: MEMORY
count: 1 word
rogue: failed: not enough memory
shout: FOREVER
count: 1 word
rogue: failed: timed out
]])
end)
