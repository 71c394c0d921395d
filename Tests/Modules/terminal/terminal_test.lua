-- runloop.terminal and runloop.log, in a separate terminal.

local process = require "runloop.process"
local rl = require "runloop"
local terminal = require "runloop.terminal"
local t = require "runloop.test"

local REAL = { real_time = true }

-- Runs a script in a terminal.
local function run(script, options)
  local words = { arg and arg[-1] or "rlhost", "-e", script, terminal = { rows = 10, columns = 40 },
    environment = { TERM = "xterm-256color", NO_COLOR = false, COLORTERM = false } }
  words[1] = require "runloop.fs".real_path "/proc/self/exe"
  for name, value in pairs(options or {}) do words[name] = value end
  return assert(process.start(words))
end

t.describe("a terminal", function()
  t.it("has a size, reports when it changes, and names keys", REAL, function()
    local program = run [[
      local terminal = require "runloop.terminal"
      local t = assert(terminal.open())
      do
        local raw <close> = assert(t:raw { mouse = true })
        local screen <close> = t:alternate_screen()
        t:on_resize(function(rows, columns) t:write("size ", rows, "x", columns, ";") end)
        local rows, columns = t:size()
        t:write("size ", rows, "x", columns, ";ready;")
        for key in t:keys() do
          t:write("<", key.name, key.text and "=" .. key.text or "", key.paste and "=" .. key.paste or "",
            key.mouse and " " .. key.mouse.action .. " " .. key.mouse.row .. " " .. key.mouse.column or "", ">")
          if key.name == "q" then break end
        end
      end
      t:close()
      print "over"
      os.exit(0) ]]
    t.truthy(program.output:read_until("size 10x40;ready;", { timeout = 10 }))
    for _, pair in ipairs { { "a", "<a=a>" }, { "\27[A", "<up>" }, { "\27[1;5C", "<ctrl-right>" }, { "\3", "<ctrl-c>" },
      { "\27OP", "<f1>" },
      { "\27[15~", "<f5>" }, { "\27", "<escape>" }, { "\27\27", "<escape><escape>" }, { "\27[", "<alt-[>" },
      { "\27O", "<alt-O>" }, { "\27x", "<alt-x>" }, { "\27[Z", "<shift-tab>" },
      { "\27[200~two\nlines\27[201~", "<paste=two\nlines>" },
      { "\27[<0;5;7M", "<mouse press 7 5>" }, { "\27[<64;5;7M", "<mouse wheel_up 7 5>" }, { "é", "<é=é>" },
      { "\r", "<enter>" }, { " ", "<space= >" },
      { "\127", "<backspace>" }, { "\27[3~", "<delete>" } } do
      program.input:write(pair[1])
      t.truthy(program.output:read_until((pair[2]:gsub("\n", "\r\n")), { timeout = 10 }) or program.output:peek(1),
        pair[2])
    end
    program:resize(20, 60)
    t.truthy(program.output:read_until("size 20x60;", { timeout = 10 }))
    program.input:write "q"
    t.truthy(program.output:read_until("\27[?1049l", { timeout = 10 }), "the screen comes back")
    t.truthy(program.output:read_until("\27[?2004l", { timeout = 10 }))
    t.truthy(program.output:read_until("over", { timeout = 10 }))
    t.equal({ program:wait(10) }, { "exit", 0 })
    program.input:close()
  end)

  t.it("keeps a mode until the last object for it is closed", REAL, function()
    local program = run [[
      local t = assert(require "runloop.terminal".open())
      local outer = assert(t:raw { mouse = true })
      local hidden = t:hide_cursor()
      do
        local raw <close> = assert(t:raw { signals = true, mouse = true })
        local cursor <close> = t:hide_cursor()
        os.execute "stty -a | grep -o -e -isig || echo +isig"
      end
      t:write "inner;"
      os.execute "stty -a | grep -o -e -isig || echo +isig"
      hidden:close()
      t:write "shown;"
      outer:close()
      os.execute "stty -a | grep -o -e -isig || echo +isig"
      t:write "end;" ]]
    local function before(text) return program.output:read_until(text, { timeout = 10 }) end
    local first = before "inner;"
    t.truthy(first:find "%+isig", first)
    t.falsy(first:find("[?25h", 1, true) or first:find("[?1002l", 1, true) or first:find("[?2004l", 1, true), first)
    local second = before "shown;"
    t.truthy(second:find "%-isig" and second:find("[?25h", 1, true), second)
    local third = before "end;"
    t.truthy(third:find("[?1002l", 1, true) and third:find("[?2004l", 1, true) and third:find "%+isig", third)
    program:wait(10)
    program.input:close()
  end)

  t.it("is restored when the script fails, or is ended", REAL, function()
    for _, how in ipairs { "error 'x'", "os.exit(3)",
      "require 'runloop.process'.id() os.execute('kill -TERM ' .. require 'runloop.process'.id()) rl.sleep(5)" } do
      local program = run("local t = require 'runloop.terminal'.open() t:raw() t:alternate_screen() t:write 'begun;' "
        .. how)
      t.truthy(program.output:read_until("begun;", { timeout = 10 }), how)
      t.truthy(program.output:read_until("\27[?1049l", { timeout = 10 }), how)
      program:wait(10)
      program.input:close()
    end
  end)

  t.it("is restored whatever signal ends the script", { real_time = true, timeout = 60 }, function()
    local own = require "runloop.fs".real_path "/proc/self/exe"
    for _, name in ipairs { "HUP", "QUIT", "ABRT", "SEGV", "BUS", "USR1", "PIPE", "ALRM", "XCPU", "16", "34", "64" } do
      -- A handler that was set and then removed has no effect. The host handles QUIT and PIPE itself: it reports what
      -- it does, and continues.
      local ends = name ~= "QUIT" and name ~= "PIPE"
      local program = assert(process.start { "/bin/sh", "-c",
        [["$0" -e "$1"; echo "status $?;"; stty -a; echo over]], own, ([[
        local rl, process, t = require "runloop", require "runloop.process", require "runloop.terminal".open()
        if not ("SEGV BUS 16 34 64"):find(%q, 1, true) then process.on_signal(%q, print):invalidate() end
        t:raw { mouse = true } t:alternate_screen() t:hide_cursor() t:write "begun;"
        os.execute("kill -%s " .. process.id())
        rl.sleep(%s)]]):format(name, name, name, ends and 20 or 0.3), terminal = {},
        -- Swift's crash reporter would ask the user on the terminal.
        environment = { SWIFT_BACKTRACE = "enable=no" } })
      local text = assert(program.output:read_until("over", { timeout = 20 }), name)
      program:wait(10)
      program.input:close()
      local _, begun = text:find("begun;", 1, true)
      for _, sequence in ipairs { "\27[?25h", "\27[?1049l", "\27[?1006l", "\27[?2004l" } do
        t.truthy(text:find(sequence, begun, true), name .. ": " .. text:gsub("\27", "^["))
      end
      t.truthy(text:find(" icanon", begun, true) and text:find(" echo ", begun, true), name .. ": " .. text)
      t.equal(text:find("status 0;", 1, true) == nil, ends, name .. ": " .. text)
    end
  end)

  t.it("is restored before the error is printed", REAL, function()
    for _, ending in ipairs { "local rl = require 'runloop' rl.after(0, function() error 'the reason' end) rl.run()",
      "error 'the reason'" } do
      local program = run("local t = require 'runloop.terminal'.open() t:raw() t:alternate_screen() t:write 'begun;' "
        .. ending)
      local text = program.output:read_all()
      t.truthy(text:find("\27[?1049l", 1, true) < text:find("the reason", 1, true), text)
      program:wait(10)
      program.input:close()
    end
  end)

  t.it("is taken back from a program when a signal ends the host", { real_time = true, timeout = 60 }, function()
    local own = require "runloop.fs".real_path "/proc/self/exe"
    for _, name in ipairs { "TERM", "INT", "HUP", "USR1" } do
      local program = assert(process.start { "/bin/sh", "-c",
        [[trap : INT; "$0" -e "$1"; stty -a; read -r x; echo "got $x;"]], own, ([[
        local rl, process = require "runloop", require "runloop.process"
        local p = assert(process.start { "sh", "-c", "stty raw -echo; echo begun; exec sleep 77", foreground = true })
        rl.sleep(0.3)
        process.run { "kill", "-%s", tostring(process.id()) }
        p:wait()]]):format(name), terminal = {} })
      local text = assert(program.output:read_until("echoke", { timeout = 20 }), name)
      t.truthy(text:find(" icanon", 1, true) and text:find(" echo ", 1, true), name .. ": " .. text)
      program.input:write "line\n"
      t.truthy(program.output:read_until("got line;", { timeout = 10 }), name)
      program:wait(10)
      program.input:close()
    end
  end)

  t.it("is restored while the script is stopped, and drawn again when it continues", REAL, function()
    local own = require "runloop.fs".real_path "/proc/self/exe"
    local program = assert(process.start { "/bin/bash", "-c",
      [[set -m; "$0" -e "$1"; echo stopped; stty -a; echo over; read -r x; fg; echo "end $?;"]], own, [[
      local rl, t = require "runloop", require "runloop.terminal".open()
      t:raw { signals = true } t:alternate_screen() t:hide_cursor()
      t:on_resize(function() t:write "drawn;" end)
      t:write "begun;"
      t:write("key ", t:read_key(20).name, ";")
      os.exit(5) ]], terminal = {} })
    t.truthy(program.output:read_until("begun;", { timeout = 10 }))
    program.input:write "\26"
    local text = assert(program.output:read_until("over", { timeout = 10 }))
    local stopped = assert(text:find("stopped", 1, true))
    t.truthy(text:find("\27[?1049l", 1, true) < stopped and text:find("\27[?25h", 1, true) < stopped, text)
    t.truthy(text:find(" icanon", stopped, true), text)
    program.input:write "\n"
    text = assert(program.output:read_until("drawn;", { timeout = 10 }))
    t.truthy(text:find("\27[?1049h", 1, true) and text:find("\27[?25l", 1, true), text)
    program.input:write "k"
    t.truthy(program.output:read_until("key k;", { timeout = 10 }), "it is raw again")
    t.truthy(program.output:read_until("end 5;", { timeout = 10 }))
    program:wait(10)
    program.input:close()
  end)

  t.it("can be lent to a program, and is taken back at its end", { real_time = true, timeout = 60 }, function()
    local own = require "runloop.fs".real_path "/proc/self/exe"
    local program = assert(process.start { "/bin/bash", "-c",
      [[set -m; "$0" -e "$1"; echo stopped; read -r x; fg; echo "end $?;"]], own, [[
      local rl, process = require "runloop", require "runloop.process"
      local p = assert(process.start { "sh", "-c", "read go; echo asking; read x; echo hello $x; read y; echo and $y", foreground = true })
      print(select(3, process.start { "true", foreground = true }))
      print(p:wait(20))
      print(select(3, process.start { "frobnicate", foreground = true }))
      p = assert(process.start { "sh", "-c", "trap '' TERM; stty -echo; read x", foreground = true })
      rl.sleep(0.2)
      print(p:stop(0.1))
      print("mine", io.read()) ]], terminal = {} })
    t.truthy(program.output:read_until("EBUSY", { timeout = 10 }))
    program.input:write "\n"
    t.truthy(program.output:read_until("asking", { timeout = 10 }))
    program.input:write "ada\n"
    t.truthy(program.output:read_until("hello ada", { timeout = 10 }))
    program.input:write "\26"
    t.truthy(program.output:read_until("stopped", { timeout = 10 }), "Control-Z shows the shell")
    program.input:write "\n"
    program.input:write "bob\n"
    t.truthy(program.output:read_until("and bob", { timeout = 10 }))
    t.truthy(program.output:read_until("exit\t0", { timeout = 10 }))
    t.truthy(program.output:read_until("ENOENT", { timeout = 10 }))
    t.truthy(program.output:read_until("signal\tKILL", { timeout = 10 }))
    program.input:write "line\n"
    t.truthy(program.output:read_until("line\r\nmine\tline", { timeout = 10 }), "with its echo")
    t.truthy(program.output:read_until("end 0;", { timeout = 10 }))
    program:wait(10)
    program.input:close()
    t.error(function() process.start { "cat", foreground = true, detached = true } end, "process.start: foreground: ")
  end)

  t.it("reads no key while a handler waits, or while a program has the terminal", REAL, function()
    local program = run [[
      local rl, process = require "runloop", require "runloop.process"
      local t = assert(require "runloop.terminal".open())
      local raw = assert(t:raw { paste = false })
      rl.on_error(function(message) t:write("error ", message, ";") end)
      local function say(name, key) t:write(name, " ", key.name, ";") end
      t:on_key(function(key)
        say("first", key)
        if key.name == "w" then
          rl.sleep(0.2)
          local dialogue <close> = t:on_key(function(key) say("dialogue", key) end)
          rl.sleep(0.2)
        elseif key.name == "escape" then
          rl.sleep(0.1)
          error("mistake", 0)
        elseif key.name == "a" then
          say("asked", t:read_key())
        elseif key.name == "p" then
          raw:close()
          rl.task(function()
            local p = assert(process.start { "sh", "-c", "sleep 0.3; read x; echo got $x", foreground = true })
            t:write("begun ", select(3, t:raw()), ";")
            p:wait()
            raw = assert(t:raw())
            t:write "raw again;"
          end)
        end
      end)
      t:write "ready;"
      rl.sleep(20) ]]
    local function expect(text)
      local before, problem = program.output:read_until(text, { timeout = 10 })
      t.truthy(before, problem or text)
      return before
    end
    expect "ready;"
    program.input:write "wxy"
    expect "first w;"
    t.equal(expect "dialogue y;", "dialogue x;")
    rl.sleep(0.4)
    program.input:write "ab"
    expect "asked b;"
    program.input:write "\27\27"
    for _, text in ipairs { "first escape;", "first escape;", "error mistake;", "error mistake;" } do expect(text) end
    program.input:write "p"
    expect "begun EBUSY;"
    program.input:write "mine\n"
    expect "got mine"
    expect "raw again;"
    program.input:write "z"
    t.equal(expect "first z;", "")
    program:stop()
    program.input:close()
  end)

  t.it("has its former state while a program has it, and is drawn again afterwards", REAL, function()
    local program = run [[
      local rl, process = require "runloop", require "runloop.process"
      local t = assert(require "runloop.terminal".open())
      local raw = assert(t:raw())
      local screen = t:alternate_screen()
      t:on_resize(function() t:write "drawn;" end)
      local state = "stty -a | grep -o -e -icanon || echo cooked"
      process.start { "frobnicate", foreground = true }
      os.execute(state)
      local p = process.start { "sh", "-c", state .. "; kill -WINCH $PPID; read x; echo got $x", foreground = true }
      p:wait()
      rl.sleep(0.2)
      os.execute(state)
      p = process.start { "sh", "-c", "read x", foreground = true }
      screen:close()
      raw:close()
      p:wait()
      os.execute(state)
      t:write "end;" ]]
    local function before(text)
      local found, problem = program.output:read_until(text, { timeout = 10 })
      return t.truthy(found, problem) or found
    end
    before "-icanon"
    t.truthy((before "cooked"):find("\27[?2004l", 1, true))
    rl.sleep(0.1)
    program.input:write "ada\n"
    local meanwhile = before "got ada"
    t.falsy(meanwhile:find("drawn;", 1, true), meanwhile)
    local back = before "-icanon"
    t.truthy(back:find("\27[?1049h", 1, true) and back:find("drawn;", 1, true), back)
    program.input:write "\n"
    before "cooked"
    before "end;"
    program:wait(10)
    program.input:close()
  end)

  t.it("is taken from the prompt by a program in the foreground, and comes back at its end", REAL, function()
    local prompt <close> = t.spawn { t.rlhost, "-i", terminal = { rows = 24, columns = 110 },
      env = { TERM = "dumb", RLHOST_HISTORY = "" } }
    prompt:wait_for "> $"
    prompt:write "start = require 'runloop.process'.start\n"
    prompt:wait_for "> $"
    prompt:write "function ask(text) return start { 'sh', '-c', text, foreground = true } end\n"
    prompt:wait_for "> $"
    prompt:write "ask 'sleep 0.2; read x; echo got $x; read x; echo and $x':wait()\n"
    rl.sleep(0.1)
    prompt:write "one\n"
    prompt:wait_for "got one"
    prompt:write "two\n"
    prompt:wait_for '"exit"%s+0.*> $'
    -- A callback starts the program while the user types.
    prompt:write "rl.after(0.2, function() ask 'echo asking; sleep 0.2; read x; echo hello $x' end)\n"
    prompt:write "1 + "
    prompt:wait_for "[\r\n]asking"
    prompt:write "ada\n"
    prompt:wait_for "hello ada"
    prompt:write "2\n"
    prompt:wait_for "\n3\r?\n"
    prompt:write "select(3, start { 'frobnicate', foreground = true })\n"
    prompt:wait_for "ENOENT.*> $"
    prompt:write "\4"
    t.equal(prompt:wait(), 0)
  end)

  t.it("cannot be opened in a process without a terminal", REAL, function()
    local words = { require "runloop.fs".real_path "/proc/self/exe", "-e", "print(require 'runloop.terminal'.open())" }
    local result = process.run { "setsid", "-w", words[1], words[2], words[3] }
    t.equal(result.output, "nil\tENXIO: this process has no terminal\tENXIO\n")
  end)

  t.it("measures the width of a text", function()
    t.equal(terminal.width "abc", 3)
    t.equal(terminal.width "日本", 4)
    t.equal(terminal.width "e\u{301}\27[31mx\27[0m", 2)
    t.error(function() terminal.width(5) end, "terminal.width: argument #1 must be a string, got 5")
  end)

  t.it("uses colours only on a terminal that shows them", function()
    t.equal(terminal.colors(), 0)
    t.equal(terminal.style("bold red", "x"), "x")
    t.error(function() terminal.style("pink", "x") end, "unknown style 'pink'")
  end)

  t.it("draws progress, or one line if the output is not a terminal", REAL, function()
    local script = [[local p = require "runloop.terminal".progress { total = 4, text = "copying" }
      for _ = 1, 4 do p:add() require "runloop".sleep(0.15) end p:finish()]]
    local program = run(script)
    t.truthy(program.output:read_until("#] 100 %", { timeout = 10 }))
    program:wait(10)
    program.input:close()
    local result = process.run { require "runloop.fs".real_path "/proc/self/exe", "-e", script }
    t.equal(result.errors, "copying: 4 of 4 in 0:00\n")
  end)

  t.it("draws progress of any numbers and texts in one line", REAL, function()
    local program = run [[local p = require "runloop.terminal".progress { text = ("wide "):rep(40) }
      p:set(1.5) require "runloop".sleep(0.25) p:write "between" p:finish()
      for _, n in ipairs { 1e-300, -1, 1e308, math.huge } do
        local q <close> = require "runloop.terminal".progress { total = n == math.huge and n or 30, text = "a\nb" } q:set(n)
      end print "over"]]
    local text = assert(program.output:read_until("over", { timeout = 10 }))
    program:wait(10)
    t.truthy(text:find("1.5", 1, true), text)
    t.truthy(text:find("\r\27[Kbetween\r\n", 1, true), text)
    t.truthy(text:find("a b", 1, true), text)
    for piece in text:gmatch "[^\r\n]+" do t.truthy(#piece:gsub("\27%[K", "") < 80, piece) end
  end)
end)

t.describe("a log", function()
  local log = require "runloop.log"

  t.it("contains the fields of tables, and is always valid JSON", function()
    local name, json = os.tmpname(), require "runloop.json"
    local fields = { t = { 1, 2, { a = 1 } }, b = "\255ok", time = "mine", [1] = 2, f = print, n = 0 / 0 }
    local logger <close> = assert(log.open { to = name, format = "json" })
    logger:info("\128!", fields)
    local text <close> = assert(log.open { to = name, time = false })
    text:info("\128!", fields)
    local lines = {}
    for line in io.lines(name) do lines[#lines + 1] = line end
    local line = assert(json.decode(lines[1]))
    t.equal({ line.message, line.t, line.b, line.time_, line["1"], line.n },
      { "\u{FFFD}!", { 1, 2, { a = 1 } }, "\u{FFFD}ok", "mine", 2, line.n })
    t.truthy(line.f:find "^builtin" or line.f:find "^function", line.f)
    t.truthy(line.n == "nan" or line.n == "-nan", line.n)
    t.truthy(lines[2]:find([[info    \x80! 1=2 b=\xffok f=]], 1, true), lines[2])
    t.truthy(lines[2]:find([[t=[1,2,{"a":1}] time=mine]], 1, true), lines[2])
    os.remove(name)
  end)

  t.it("closes its file when it is dropped, and ignores an invalid RLHOST_LOG", function()
    local name = os.tmpname()
    local function count()
      collectgarbage()
      collectgarbage()
      return #require "runloop.fs".list "/proc/self/fd"
    end
    local before = count()
    for _ = 1, 50 do log.open { to = name }:with { a = 1 } end
    -- Meanwhile another descriptor may have been closed, so there may be fewer.
    t.truthy(count() <= before, before)
    os.remove(name)
    local result = process.run { require "runloop.fs".real_path "/proc/self/exe", "-e",
      [[local log = require "runloop.log" log.debug "no" log.info "one"]],
      environment = { RLHOST_LOG = "bogus" } }
    t.truthy(result.errors:find('RLHOST_LOG must be debug, info, warning, error or off, got "bogus"', 1, true),
      result.errors)
    t.truthy(result.errors:find "info +one\n", result.errors)
  end)

  t.it("has levels and fields, and keeps a message on one line", function()
    local name = os.tmpname()
    local logger = assert(log.open { to = name, level = "info", time = false, name = "app" })
    logger:debug "not this"
    logger:info("started", { port = 80, host = "a b", tag = "x" })
    logger:with({ request = 7 }):error("two\nlines \27[2J", { ok = false })
    logger:close()
    local file <close> = assert(io.open(name))
    t.equal(file:read "a",
      'info    app: started host="a b" port=80 tag=x\nerror   app: two\\nlines \\x1b[2J request=7 ok=false\n')
    os.remove(name)
  end)

  t.it("may consist of JSON, and continues in a new file after a rotation", function()
    local json = require "runloop.json"
    local name = os.tmpname()
    local logger <close> = assert(log.open { to = name, format = "json" })
    logger:warning("disk \"full\"", { free = 0.5 })
    os.rename(name, name .. ".1")
    logger:reopen()
    logger:info "again"
    local function first(path)
      local file <close> = assert(io.open(path))
      return json.decode(file:read "l")
    end
    local entry = first(name .. ".1")
    t.equal({ entry.level, entry.message, entry.free }, { "warning", 'disk "full"', 0.5 })
    t.equal(first(name).message, "again")
    os.remove(name)
    os.remove(name .. ".1")
  end)

  t.it("names wrong arguments in errors", function()
    t.error(function() log.open { level = "loud" } end, "the level must be")
    t.error(function() log.open { lvel = "info" } end, "unknown field 'lvel'")
    t.error(function() log.info("x", 5) end, "log.info: the fields must be a table, got 5")
    t.equal(select(3, log.open { to = "/nowhere/x.log" }), "ENOENT")
  end)
end)
