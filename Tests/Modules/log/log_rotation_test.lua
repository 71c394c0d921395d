-- log.open { max_size = …, keep = … }: files of limited size, several processes and threads, renames that fail.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local log = require "runloop.log"
local process = require "runloop.process"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local REAL = { real_time = true, timeout = 60 }

local function place()
  local directory = assert(fs.temporary_directory())
  return directory, setmetatable({}, { __close = function() fs.remove(directory, { recursive = true }) end })
end

local function names(directory)
  local list = {}
  for _, entry in ipairs(assert(fs.list(directory))) do list[#list + 1] = entry.name end
  table.sort(list)
  return table.concat(list, " ")
end

local LINE <const> = ("x"):rep(983)  -- 1,000 bytes with "info    " and the line end

t.it("a log renames its file before a line would exceed the limit, and keeps the given number of files", function()
  local directory <const>, gone <close> = place()
  local logger <close> = assert(log.open { to = directory .. "/l", time = false, max_size = 4096, keep = 2 })
  for i = 1, 4 do logger:info(i .. LINE) end
  t.equal(names(directory), "l")
  logger:info(5 .. LINE)
  t.equal(names(directory), "l l.1")
  t.truthy(fs.read(directory .. "/l"):find "^info    5x")
  t.truthy(fs.stat(directory .. "/l.1").size <= 4096)
  for i = 6, 16 do logger:info(i .. LINE) end
  t.equal(names(directory), "l l.1 l.2")
  t.truthy(fs.read(directory .. "/l.2"):find "^info    5x", fs.read(directory .. "/l.2"):sub(1, 12))
  logger:info(("y"):rep(9000))
  t.equal(fs.stat(directory .. "/l").size, 9009)
end)

t.it("keep = 0 leaves no old file, and the default is 5", function()
  local directory <const>, gone <close> = place()
  local logger <close> = assert(log.open { to = directory .. "/l", time = false, max_size = 4096, keep = 0 })
  for i = 1, 20 do logger:info(i .. LINE) end
  t.equal(names(directory), "l")
  local five <close> = assert(log.open { to = directory .. "/five", time = false, max_size = 4096 })
  for i = 1, 60 do five:info(i .. LINE) end
  t.equal(names(directory), "five five.1 five.2 five.3 five.4 five.5 l")
end)

t.it("lines of several processes and threads are complete, and each in one file", REAL, function()
  local directory <const>, gone <close> = place()
  local script = ([[
    local log, rl = require "runloop.log", require "runloop"
    local function write(who)
      local log = require "runloop.log"
      local logger = assert(log.open { to = %q, time = false, max_size = 8192, keep = 1000 })
      for i = 1, 400 do logger:info(who .. " " .. i .. " " .. ("z"):rep(i %% 90) .. ".") end
    end
    local id = require "runloop.process".id()
    local thread = rl.thread(write, id .. "b")
    write(id .. "a")
    thread:join()]]):format(directory .. "/l")
  local programs, writers = {}, {}
  for i = 1, 3 do programs[i] = assert(process.start { t.rlhost, "-e", script }) end
  for _, program in ipairs(programs) do
    writers[program:pid() .. "a"], writers[program:pid() .. "b"] = 0, 0
    t.equal({ program:wait() }, { "exit", 0 })
  end
  local files = {}
  for name in names(directory):gmatch "%S+" do files[#files + 1] = name end
  table.sort(files, function(a, b) return (tonumber(a:match "%d+") or 0) > (tonumber(b:match "%d+") or 0) end)
  local count = 0
  for _, name in ipairs(files) do
    local text = fs.read(directory .. "/" .. name)
    t.truthy(#text <= 8192, name)
    for line in text:gmatch "[^\n]*\n" do
      local who, number, filler = line:match "^info    (%d+[ab]) (%d+) (z*)%.\n$"
      t.truthy(who, line)
      number = tonumber(number)
      t.equal(number, writers[who] + 1, who)
      t.equal(#filler, number % 90)
      writers[who], count = number, count + 1
    end
  end
  t.equal(count, 6 * 400)
end)

t.it("a failed rename is reported on standard error once a minute, and writing continues", REAL, function()
  local directory <const>, gone <close> = place()
  -- A directory that is not empty prevents the rename.
  assert(fs.make_directory(directory .. "/l.1/inside", { parents = true }))
  local script = ([[
    local log = require "runloop.log"
    local logger = assert(log.open { to = %q, time = false, max_size = 4096, keep = 1 })
    for i = 1, 10 do logger:info(i .. %q) end]]):format(directory .. "/l", LINE)
  local run = process.run { t.rlhost, "-e", script }
  t.equal(run.code, 0)
  t.equal(select(2, run.errors:gsub("\n", "")), 1)
  t.truthy(run.errors:find("cannot rename the full log", 1, true), run.errors)
  t.equal(select(2, fs.read(directory .. "/l"):gsub("\n", "")), 10)
end)

t.it("reopen continues in a new file after another program has moved the old one", function()
  local directory <const>, gone <close> = place()
  local logger <close> = assert(log.open { to = directory .. "/l", time = false, max_size = 4096 })
  logger:info "one"
  assert(fs.rename(directory .. "/l", directory .. "/moved"))
  logger:info "two"
  t.equal(fs.read(directory .. "/l"), "info    two\n")
  t.equal(logger:reopen(), true)
  logger:info "three"
  t.equal(fs.read(directory .. "/l"), "info    two\ninfo    three\n")
end)

t.it("wrong options raise errors that name them", function()
  support.raises("log.open: 'max_size' needs a path in 'to'", log.open, { max_size = 5000 })
  support.raises("log.open: 'max_size' needs a path in 'to'", log.open, { to = "journal", max_size = 5000 })
  support.raises("log.open: max_size must be at least 4096 bytes, got 4095", log.open,
    { to = "/tmp/l", max_size = 4095 })
  support.raises("log.open: 'keep' needs 'max_size'", log.open, { to = "/tmp/l", keep = 3 })
  support.raises("log.open: keep must be at most 10000", log.open, { to = "/tmp/l", max_size = 4096, keep = 10001 })
  support.raises("log.open: field 'keep' must be an integer, 0 or more", log.open,
    { to = "/tmp/l", max_size = 4096, keep = -1 })
  rl.sleep(0)
end)

t.it("logs to standard output and standard error share the open file with other output", REAL, function()
  local directory <const>, gone <close> = place()
  local script = [[
    local log, http = require "runloop.log", require "runloop.http"
    local out = log.open { to = "/dev/stdout", time = false }
    local err = log.open { to = "/dev/stderr", time = false }
    local server = http.serve("127.0.0.1:0", { access_log = "/dev/stdout" }, function() return "x" end)
    io.stdout:setvbuf "no"
    for i = 1, 3 do
      print("printed", i)
      out:info("logged " .. i)
      err:info("logged " .. i)
      io.stderr:write("written ", i, "\n")
      http.get("http://" .. server:address() .. "/" .. i)
    end
    assert(out:reopen())
    out:info "again"
    server:stop()
  ]]
  local run = process.run { "sh", "-c", '"$1" -e "$2" >out 2>err', "sh", t.rlhost, script, directory = directory }
  t.equal(run.code, 0)
  local shape = fs.read(directory .. "/out"):gsub("127[^\n]*GET (/%d)[^\n]*", "GET %1")
  local expected = {}
  for i = 1, 3 do expected[i] = ("printed\t%d\ninfo    logged %d\nGET /%d\n"):format(i, i, i) end
  t.equal(shape, table.concat(expected) .. "info    again\n")
  t.equal(fs.read(directory .. "/err"):gsub("%d", "N"), ("info    logged N\nwritten N\n"):rep(3))
  t.error(function() log.open { to = "/dev/stdout", max_size = 8192 } end, "max_size")
end)

t.it("a lost line on standard output shows in the exit status, however the program ends", REAL, function()
  for way, status in pairs { [""] = 1, ["os.exit(0)"] = 1, ["os.exit(true, true)"] = 1, ["rl.shutdown()"] = 1,
    ["rl.after(0, function() os.exit(0) end)"] = 1, ["os.exit(7)"] = 7, ["print 'x'"] = 1 } do
    local run = process.run { "sh", "-c", [["$0" -e "$1" >/dev/full]], fs.real_path(t.rlhost),
      [[require "runloop.log".open { to = "/dev/stdout" }:info "lost" ]] .. way }
    t.equal({ run.code, run.errors }, { status,
      "rlhost: cannot write the log to /dev/stdout: ENOSPC: no space left on device\n" }, way)
  end
end)

t.it("a lost line of a server's log is reported once", REAL, function()
  local run = process.run { "sh", "-c", [["$0" -e "$1" >/dev/full]], fs.real_path(t.rlhost), [[
    local http = require "runloop.http"
    local server = http.serve("127.0.0.1:0", { access_log = "/dev/stdout" }, function() return "x" end)
    for _ = 1, 3 do http.get("http://" .. server:address() .. "/") end
    server:close()
    os.exit(0)
  ]] }
  t.equal(run.code, 1, run.errors)
  t.equal(select(2, run.errors:gsub("No space", "")), 1, run.errors)
  t.truthy(run.errors:find("cannot write the access log: No space left on device\nin http.serve", 1, true), run.errors)
end)

t.it("a process without free descriptors loses no line", REAL, function()
  local directory = assert(fs.temporary_directory())
  local script = ([[
    local logger = require 'runloop.log'.open { to = '%s/l', time = false, max_size = 4096, keep = 3 }
    local files, file = {}, nil
    repeat
      file = io.open '/dev/null'
      files[#files + 1] = file
    until not file
    for i = 1, 300 do logger:info('line ' .. i) end
    for _, each in ipairs(files) do each:close() end
    logger:info 'the last line']]):format(directory)
  local run = process.run { "sh", "-c", 'ulimit -n 30; exec "$0" -e "$1"', t.rlhost, script }
  local _, complaints = run.errors:gsub("\n", "")
  t.equal(complaints, 1, run.errors)
  t.truthy(run.errors:find("EMFILE", 1, true), run.errors)
  local lines = 0
  for _, name in ipairs { "l", "l.1" } do
    for _ in assert(fs.read(directory .. "/" .. name)):gmatch "[^\n]+" do lines = lines + 1 end
  end
  t.equal(lines, 301)
  fs.remove(directory, { recursive = true })
end)

t.it("a log into a pipe needs a program that reads it", REAL, function()
  local directory <const>, gone <close> = place()
  assert(process.run { "mkfifo", directory .. "/pipe" })
  t.equal({ log.open { to = directory .. "/pipe" } },
    { nil, ("ENXIO: no program reads the pipe %s/pipe"):format(directory), "ENXIO" })
  local reader = assert(process.start { "cat", directory .. "/pipe", output = "pipe" })
  local logger <close> = assert(log.open { to = directory .. "/pipe", time = false })
  logger:info "text"
  logger:close()
  t.equal(reader.output:read_all(), "info    text\n")
  t.equal(reader:wait(), "exit")
end)

t.it("a line after a full disk does not continue a torn one", REAL, function()
  local directory <const>, gone <close> = place()
  local script = ([[
    local log = require "runloop.log"
    local directory = %q
    for _, size in ipairs { 0, 1 << 20 } do
      local path = directory .. "/l" .. size
      local logger = assert(log.open { to = path, time = false, max_size = size > 0 and size or nil })
      for i = 1, 10 do logger:info(("x"):rep(983)) end
      os.execute("truncate -s 3500 " .. path)
      logger:info "one"
      logger:info "two"
    end]]):format(directory)
  local run = process.run { "bash", "-c", 'ulimit -f 4; trap "" XFSZ; exec "$0" -e "$1"', t.rlhost, script }
  t.truthy(run.errors:find("EFBIG", 1, true), run.errors)
  for _, name in ipairs { "l0", "l1048576" } do
    local text = fs.read(directory .. "/" .. name)
    t.equal(text:sub(-27), "xx\ninfo    one\ninfo    two\n", name)
  end
end)
