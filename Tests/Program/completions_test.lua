-- The table of options (Sources/Program/C/shell/options), and the places that must agree with it: the program, its
-- documents, completions for shells.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local REAL = { real_time = true, timeout = 60 }

local function read(path) return assert(fs.read(ROOT .. "/" .. path)) end

local rows, modules = {}, nil
for line in read "Sources/Program/C/shell/options":gmatch "[^\n]+" do
  local command, option, value = line:match "^([^#:]%S*)  (%S+)  (.-)  %S+  .*$"
  for name in (option or ""):gmatch "[^,]+" do
    table.insert(rows, { command = command, option = name, value = value })
  end
  modules = modules or line:match "^modules  %.  (.*)$"
end

local function options_of(command)
  local set = {}
  for _, row in ipairs(rows) do if row.command == command and row.option ~= "." then set[row.option] = row end end
  return set
end

-- A value that fits.
local VALUES = { FILE = "x.html", SIZE = "64M", SECONDS = "1", DIR = ".", SHELL = "bash", NAME = "x", KEY = "late",
  stat = "x = 1", expr = "1", mod = "string", ["g=mod"] = "g=string",
  zone = "UTC", ["i/n"] = "1/2", ["name=file"] = "tap=x",
  ["best-effort"] = "best-effort" }

local function words(row)
  local sample = VALUES[row.value] or "1"
  if row.value == "-" then return { row.option } end
  return row.option:sub(-1) == "=" and { row.option .. sample } or { row.option, sample }
end

t.it("the program takes every option of the table", REAL, function()
  t.truthy(#rows > 70, #rows)
  for _, row in ipairs(rows) do
    if row.option:find "^%-%-?%w" then
      local command = { t.rlhost, row.command ~= "rlhost" and row.command or nil, }
      for _, word in ipairs(words(row)) do table.insert(command, word) end
      if not row.option:find "completions" then table.insert(command, "--help") end
      local run = process.run(command)
      t.equal({ run.code, run.errors }, { 0, "" }, table.concat(command, " "))
    end
  end
end)

t.it("the table has every option that the program takes", function()
  local sources = {
    rlhost = "Sources/Program/Swift/CommandLine.swift", attach = "Sources/Attach/Client/AttachClientCommand.swift",
    top = "Sources/Program/Swift/Top/TopCommand.swift", trace = "Sources/Program/Swift/Trace/TraceCommand.swift",
  }
  for command, path in pairs(sources) do
    local known, found = options_of(command), 0
    for names in read(path):gmatch "case ([^\n]-):" do
      for name in names:gmatch '"(%-%-?%w[%w-]*)' do
        found = found + 1
        t.truthy(known[name] or known[name .. "="], command .. " " .. name)
      end
    end
    t.truthy(found > 2, command)
    for letter in read(path):gmatch 'UInt8%(ascii: "(%a)"%)' do
      t.truthy(known["-" .. letter] or ("kMG"):find(letter), letter)
    end
  end
  local known = options_of "test"
  for list in read "Sources/Modules/test/Lua/options.lua":gmatch "local [FV]%u+ = (%b{})" do
    for name in list:gmatch '%[?"?([%a-]+)"?%]? = true' do t.truthy(known["--" .. name], name) end
  end
end)

t.it("docs/cli.md and the manual page have the options of the table, and no others", function()
  local guide, manual = read "docs/cli.md", read "docs/rlhost.1"
  local known = options_of "rlhost"
  local function is_known(name) return known[name] or known[name .. "="] end
  for name in pairs(known) do
    local plain = name:gsub("=$", "")
    if plain ~= "-" and plain ~= "--" then
      t.truthy(guide:find("`" .. plain, 1, true), "docs/cli.md lacks " .. name)
      local dashed = plain:sub(2)
      t.truthy(manual:find("Fl " .. dashed, 1, true), "docs/rlhost.1 lacks " .. name)
    end
  end
  local list = manual:match "a few more:\n(.-)%.Ss Attaching"
  for name in list:gmatch "Fl (%-?[%w-]+)" do t.truthy(is_known("-" .. name), name) end
  for row in guide:match "\n## Options(.-)\n```":gmatch "\n| (.-) |" do
    for name in row:gmatch "`(%-%-?%w[%w-]*)" do t.truthy(is_known(name), name) end
  end
  for _, command in ipairs { "top", "attach", "test" } do
    for name, row in pairs(options_of(command)) do
      if not name:find "^%-h" and name ~= "--help" then
        t.truthy(manual:find("Fl " .. name:sub(2):gsub("=$", ""), 1, true), command .. " " .. row.option)
      end
    end
  end
end)

t.it("the modules of the table are those with annotations", function()
  local found = {}
  for _, entry in ipairs(assert(fs.list(ROOT .. "/docs/lua"))) do
    local name = (type(entry) == "table" and entry.name or entry):match "^(.*)%.lua$"
    if name then table.insert(found, (name:gsub("-", "."))) end
  end
  table.sort(found)
  local row = table.concat(found, " ")
  -- With UPDATE_DOCUMENTS in the environment, the row is corrected.
  if os.getenv "UPDATE_DOCUMENTS" then
    local text = read "Sources/Program/C/shell/options":gsub("\nmodules  [^\n]*", "\nmodules  .  " .. row)
    fs.write(ROOT .. "/Sources/Program/C/shell/options", text)
  else
    t.equal(modules, row, "UPDATE_DOCUMENTS=1 rlhost test Tests/Program/completions_test.lua writes it")
  end
end)

t.it("an unknown option gets a suggestion, and an unknown shell status 64", REAL, function()
  for words, meant in pairs {
    ["--trase=x"] = "--trace=", ["--no-recoder"] = "--no-recorder", ["--compltions=bash"] = "--completions=",
    ["--helpp"] = "--help",
    ["top --onec"] = "--once", ["attach --folow"] = "--follow", ["trace --hepl"] = "--help",
  } do
    local run = process.run { "sh", "-c", '"$1" ' .. words, "sh", t.rlhost }
    t.equal(run.code, 64, words)
    t.truthy(run.errors:find("did you mean '" .. meant .. "'", 1, true), run.errors)
  end
  local run = process.run { t.rlhost, "--completions=csh" }
  t.equal({ run.code, run.output }, { 64, "" })
  t.truthy(run.errors:find("bash, zsh and fish, not 'csh'", 1, true), run.errors)
end)

local place = assert(fs.temporary_directory())
t.after_all(function() fs.remove(place, { recursive = true }) end)

-- Makes a home directory with files to complete, and with the program under its own name.
local function home()
  if not fs.stat(place .. "/bin") then
    for _, name in ipairs { "bin", "files/folder" } do fs.make_directory(place .. "/" .. name, { parents = true }) end
    fs.write(place .. "/files/script.lua", "")
    fs.write(place .. "/files/notes.txt", "")
    fs.symbolic_link(t.rlhost, place .. "/bin/rlhost")
    for shell in ("bash zsh fish"):gmatch "%a+" do
      fs.write(place .. "/" .. shell, process.run { t.rlhost, "--completions=" .. shell }.output)
    end
  end
  return { HOME = place, PATH = place .. "/bin:" .. os.getenv "PATH", TERM = "xterm", XDG_CONFIG_HOME = place,
    ZDOTDIR = place, INPUTRC = "/dev/null" }
end

-- The typed text, and the words to offer; no other word of the second list may be offered.
local CASES = {
  { "rlhost --trace-o", { "--trace-on-error=" } }, { "rlhost --vers", { "--version" } },
  { "rlhost --completions=", { "bash", "zsh", "fish" } }, { "rlhost --trace-on-error=", { "folder" }, { "notes.txt" } },
  { "rlhost scr", { "script.lua" } }, { "rlhost ", { "script.lua", "folder", "attach", "test" }, { "notes.txt" } },
  { "rlhost -l runloop.ne", { "runloop.net" } }, { "rlhost script.lua ", { "notes.txt" } },
  { "rlhost top --sort=lo", { "longest" } }, { "rlhost test --format gi", { "github" } },
  { "rlhost test --format=gi", { "github" } }, { "rlhost -W test --coverage-s", { "--coverage-source" } },
  { "rlhost new ", { "editor" }, { "notes.txt" } }, { "rlhost new editor ", { "folder" }, { "notes.txt" } },
  { "rlhost --trace=", { "folder" }, { "notes.txt" } }, { "rlhost trace -o not", {}, { "notes.txt" } },
  { "rlhost new tool ", {}, { "folder", "script" } },
  { "rlhost bundle ", { "script.lua", "folder" }, { "notes.txt" } },
  { "rlhost bundle script.lua -o not", { "notes.txt" } },
  { "rlhost new editor folder ", {}, { "folder/ ", "script" } },
  { "rlhost -- --ver", {}, { "--version" } }, { "rlhost script.lua --ver", {}, { "--version" } },
}

local function check(shell, offered)
  for _, case in ipairs(CASES) do
    local text = offered(case[1], case[2])
    local shown = ("%s: %q: %s"):format(shell, case[1], text)
    for _, word in ipairs(case[2]) do t.truthy(text:find(word, 1, true), shown) end
    for _, word in ipairs(case[3] or {}) do t.falsy(text:find(word, 1, true), shown) end
  end
end

local function has(program) return os.execute("command -v " .. program .. " >/dev/null") end
local function with(program)
  return has(program) and t.it or function(name, _, body) t.skip(name .. ": needs " .. program, body) end
end

with "fish"("fish completes", REAL, function()
  local environment = home()
  local script = "source $HOME/fish; for q in $argv; complete -C $q; echo ====; end"
  local command = { "fish", "--no-config", "-c", script, environment = environment, directory = place .. "/files" }
  for _, case in ipairs(CASES) do table.insert(command, case[1]) end
  local run = process.run(command)
  t.equal(run.errors, "")
  local answers, number = {}, 0
  for text in run.output:gmatch "(.-)====\n" do
    number = number + 1
    answers[CASES[number][1]] = text
  end
  check("fish", function(typed) return answers[typed] end)
end)

-- Types words and two tabs into a shell, and returns the displayed candidates.
local function typed_into(command, set_up)
  local environment = home()
  command.terminal, command.env, command.directory = { rows = 60, columns = 100 }, environment, place .. "/files"
  local program = t.spawn(command)
  local function shows(text) t.eventually(function() return program:screen():find(text, true) end, { within = 20 }) end
  local number = 0
  program:write(set_up .. "; PS1='> '; echo ready$((1 + 1))\n")
  shows "ready2"
  return function(text, wanted)
    number = number + 1
    program:write("clear; echo round $((" .. number .. " + 0))\n")
    shows("round " .. number)
    program:write(text .. "\t\t")
    local shown
    local function shows_all()
      shown = program:screen():text():gsub("^.*round %d+", "")
      for _, word in ipairs(wanted) do if not shown:find(word, 1, true) then return false end end
      return true
    end
    local limit = rl.now() + 10
    repeat rl.sleep(#wanted == 0 and 0.3 or 0.02) until shows_all() or rl.now() > limit
    program:write "\5\21"
    return shown
  end, program
end

for _, shell in ipairs { "bash", "zsh" } do
  with(shell)(shell .. " completes what is typed", REAL, function()
    local start = shell == "bash" and { "bash", "--norc", "--noprofile", "-i" } or { "zsh", "-f", "-i" }
    local typed, program = typed_into(start, shell == "zsh" and "autoload -Uz compinit; compinit -u; source ~/zsh"
      or "f=/usr/share/bash-completion/bash_completion; [ -e $f ] && . $f; . ~/bash")
    local guard <close> = program
    check(shell, typed)
  end)
end

t.it("the numbers and names of running processes are completed", REAL, function()
  if not has "fish" then t.skip "needs fish" end
  local environment = home()
  environment.XDG_RUNTIME_DIR = place
  local program <close> = t.spawn { t.rlhost, "--attach=completed", "-e", "print 'ready' rl.sleep(30)",
    env = { XDG_RUNTIME_DIR = place } }
  t.eventually(function() return program:output():find "ready" end, { within = 20 })
  local run = process.run { "fish", "--no-config", "-c",
    "source $HOME/fish; complete -C 'rlhost attach '; complete -C 'rlhost trace comp'", environment = environment }
  t.truthy(run.output:find(program:pid() .. "\t", 1, true) and run.output:find "\ncompleted\t", run.output)
end)

t.it("scripts/install writes the completions that the program prints", REAL, function()
  home()
  local run = process.run { ROOT .. "/scripts/install", "--program", t.rlhost, place .. "/installed" }
  t.equal(run.code, 0, run.errors)
  for shell, path in pairs {
    bash = "bash-completion/completions/rlhost", zsh = "zsh/site-functions/_rlhost",
    fish = "fish/vendor_completions.d/rlhost.fish",
  } do
    t.equal(fs.read(place .. "/installed/share/" .. path), fs.read(place .. "/" .. shell))
  end
end)
