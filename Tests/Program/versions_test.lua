-- The formats that one rlhost writes and another reads have numbers: docs/versions.md. This directory keeps a sample of
-- each format.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local net = require "runloop.net"
local json = require "runloop.json"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local SAMPLES = ROOT .. "/Tests/Program/samples/"
local REAL = { real_time = true, timeout = 60 }

local place = assert(fs.temporary_directory())
t.after_all(function() fs.remove(place, { recursive = true }) end)

local function read(path) return assert(fs.read(path)) end

-- Converts a recording to events. Returns the bytes without the parts that differ between runs, or nil and the problem.
local function events_of(path)
  local target = place .. "/converted.json"
  local run = process.run { t.rlhost, "trace", path, "-o", target }
  if run.code ~= 0 then return nil, run.errors end
  local kinds = {}
  for _, event in ipairs(json.decode(read(target))) do
    kinds[#kinds + 1] = event.ph .. " " .. tostring(event.name)
  end
  return table.concat(kinds, "\n")
end

t.it("samples of recordings of format 1 are read, and both forms have the same content", REAL, function()
  local events, packets = events_of(SAMPLES .. "recording-1.json"), events_of(SAMPLES .. "recording-1.pftrace")
  t.truthy(events and events:find "\nB main chunk\n" or events and events:find "main chunk", events)
  t.truthy(events:find('i mark of the sample', 1, true), events)
  t.equal(packets, events)
  t.equal(read(SAMPLES .. "recording-1.json"):match '"name":"rlhost_format","args":{"format":(%d+)}', "1")
  t.truthy(read(SAMPLES .. "recording-1.pftrace"):sub(1, 24):find("\xC0\xA9\x07\x01", 1, true))
end)

t.it("samples of recordings of format 2 are read, and both forms have the same content", REAL, function()
  local events, packets = events_of(SAMPLES .. "recording-2.json"), events_of(SAMPLES .. "recording-2.pftrace")
  t.truthy(events and events:find "\ns message\n" and events:find "\nf message\n", events)
  t.equal(packets, events)
  t.truthy(read(SAMPLES .. "recording-2.pftrace"):sub(1, 24):find("\xC0\xA9\x07\x02", 1, true))
  local json_text = read(SAMPLES .. "recording-2.json")
  t.truthy(json_text:find '"args":{"format":2,"identity":%d+,"machine":"0x%x+","host":"[^"]+","zero_us":%d+%.%d+}')
end)

t.it("new recordings begin with the format's number", REAL, function()
  for _, ending in ipairs { "json", "pftrace" } do
    local path = place .. "/new." .. ending
    t.equal(process.run { t.rlhost, "--trace=" .. path, "-e", "rl.after(0, print)" }.code, 0)
    if ending == "json" then
      t.truthy(read(path):find '^%[\n{"ph":"M","pid":%d+,"name":"rlhost_format","args":{"format":2,[^\n]*}},\n')
    else
      t.truthy(read(path):sub(1, 24):find("\xC0\xA9\x07\x02", 1, true))
    end
    t.truthy(events_of(path))
  end
end)

t.it("a recording of another number is refused, and nothing is written", REAL, function()
  local text = read(SAMPLES .. "recording-1.json"):gsub('"format":1', '"format":3')
  local packets = read(SAMPLES .. "recording-1.pftrace"):gsub("\xC0\xA9\x07\x01", "\xC0\xA9\x07\x03", 1)
  for name, content in pairs { ["x.json"] = text, ["x.pftrace"] = packets } do
    fs.write(place .. "/" .. name, content)
    local run = process.run { t.rlhost, "trace", place .. "/" .. name, "-o", place .. "/y.html" }
    t.equal({ run.code, run.errors },
      { 1, ("rlhost: trace: %s/%s: recording format 3; this rlhost reads 1 to 2\n"):format(place, name) })
    t.falsy(fs.stat(place .. "/y.html"))
  end
end)

t.it("recordings without a number, of 0.1.0 and of other programs, are read", REAL, function()
  local text = read(SAMPLES .. "recording-1.json"):gsub('{"ph":"M","pid":%d+,"name":"rlhost_format"[^\n]*\n', "")
  fs.write(place .. "/old.json", text)
  t.equal(events_of(place .. "/old.json"), events_of(SAMPLES .. "recording-1.json"))
end)

-- The socket of a message port in this process.
local function connect(name)
  local runtime = os.getenv "XDG_RUNTIME_DIR"
  local directory = runtime and runtime .. "/rlhost" or "/tmp/rlhost-" .. process.run { "id", "-u" }.output:match "%d+"
  return assert(net.connect("unix:" .. directory .. "/" .. name))
end

t.it("the sample of a message of format 1 is answered, and another number is refused by name", REAL, function()
  local name = "versions." .. process.id()
  local port = assert(rl.message_port { name = name, callback = function(_, _, data) return data:upper() end })
  rl.current():add(port)
  local sample = read(SAMPLES .. "message-1.bin")
  local stream = connect(name)
  stream:write(sample)
  local answer = stream:read_exactly(26, { timeout = 10 })
  t.equal(answer, "RL\1\3" .. sample:sub(5, 24) .. "HI")
  stream:close()
  stream = connect(name)
  stream:write(sample:sub(1, 2), "\2", sample:sub(4))
  local bye = stream:read_all { timeout = 10 }
  t.truthy(bye and bye:find("message format 2; this rlhost reads 1", 1, true), bye)
  stream:close()
  port:invalidate()
end)

t.it("docs/versions.md has the numbers of the program", function()
  local text = read(ROOT .. "/docs/versions.md")
  local function number(path, pattern) return read(ROOT .. "/Sources/" .. path):match(pattern) end
  t.equal(text:match "| %[message ports%][^|]* | (%d+) |",
    number("Engine/RunLoops/Messages/MessageFrame.swift", "version: UInt8 = (%d+)"))
  t.equal(text:match "| `rlhost attach`[^|]* | (%d+) |", number("Attach/Server/Attach.swift", "version = (%d+)"))
  local format = number("Modules/trace/Recording/Formats/Recording.Conversion.swift", "format: Int64 = (%d+)")
  t.equal({ text:match "`%.json` | (%d+) |", text:match "`%.pftrace` | (%d+) |" }, { format, format })
  for kind, extensions in pairs { message = { "bin" }, recording = { "json", "pftrace" } } do
    for _, extension in ipairs(extensions) do
      t.truthy(fs.stat(("%s%s-1.%s"):format(SAMPLES, kind, extension)), kind)
    end
  end
end)

t.it("a deprecated call warns once for each place that calls it", function()
  -- The chunk has the name of the host's own code, so that it counts as a private part, which scripts cannot require.
  local part = assert(load(read(ROOT .. "/Sources/Host/Lua/misuse.lua"), "=[rlhost]"))
  local misuse, said = part {}, {}
  t.stub(_G, "warn", function(text) said[#said + 1] = text:gsub("^%S-:%d+", "x.lua:1") end)
  for _ = 1, 3 do misuse.deprecated("http.old", "http.new") end
  misuse.deprecated("http.old", "http.new")
  t.equal(said, { "x.lua:1: http.old is deprecated: use http.new", "x.lua:1: http.old is deprecated: use http.new" })
end)

local with_git = os.execute "command -v git >/dev/null" and t.it or t.skip

with_git("a call that is gone without having been deprecated is found", REAL, function()
  local path = place .. "/project"
  local git = "git -c user.name=x -c user.email=x@example.org -c init.defaultBranch=main "
  local function annotations(...) return "---@meta x\n" .. table.concat({ ... }, "\n") .. "\n" end
  fs.make_directory(path .. "/docs/lua", { parents = true })
  fs.make_directory(path .. "/scripts/tidy.d", { parents = true })
  process.run { "cp", ROOT .. "/scripts/tidy.d/deprecated", path .. "/scripts/tidy.d" }
  fs.write(path .. "/docs/versions.md", "| `x.old` | 0.1.0 | `x.new` |\n")
  fs.write(path .. "/docs/lua/x.lua", annotations("function x.one() end", "---@deprecated", "function x.old() end"))
  local commands = ("cd %s && GIT init -q && GIT add . && GIT commit -qm x && GIT tag v1"):format(path):gsub("GIT", git)
  local run = process.shell(commands)
  t.equal(run.code, 0, run.errors)
  local function findings() return process.run { path .. "/scripts/tidy.d/deprecated" }.output end
  t.equal(findings(), "")
  fs.write(path .. "/docs/lua/x.lua", annotations "function x.two() end")
  t.equal(findings(), "docs/lua/x.lua:1: deprecate x.one for a minor version before you remove it: v1 has it\n")
  fs.write(path .. "/docs/lua/x.lua", annotations("function x.one() end", "---@deprecated", "function x.two() end"))
  t.equal(findings(), "docs/lua/x.lua:4: list the deprecated x.two in docs/versions.md, with its successor\n")
end)
