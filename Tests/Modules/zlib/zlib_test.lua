-- runloop.zlib: whole texts and stages, compared with gzip and Python's zlib, and the results of damaged data.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local process = require "runloop.process"
local zlib = require "runloop.zlib"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of

local FORMATS <const> = { "gzip", "zlib", "raw" }

local function some_text(length)
  local words = {}
  while length > 0 do
    local word = math.random(3) > 1 and ("word %d, "):format(math.random(50)) or tostring(math.random())
    words[#words + 1], length = word, length - #word
  end
  return table.concat(words)
end

t.it("decompress restores compressed data, in each format and at each level", function()
  for _, text in ipairs { "", "x", some_text(100), some_text(100000), ("\0"):rep(1 << 20) } do
    for _, format in ipairs(FORMATS) do
      for level = 0, 9, 3 do
        local bytes = zlib.compress(text, { format = format, level = level })
        t.equal(zlib.decompress(bytes, { format = format }), text)
        if format ~= "raw" then t.equal(zlib.decompress(bytes), text) end
      end
    end
  end
end)

-- Runs a stage over a text in pieces of random lengths.
local function staged(stage, text, most)
  local parts, at = {}, 1
  while at <= #text do
    local count = math.random(1, most)
    local made, more = assert(stage(text:sub(at, at + count - 1)))
    parts[#parts + 1], at = made, at + count
    while more == true do
      made, more = assert(stage "")
      parts[#parts + 1] = made
    end
  end
  parts[#parts + 1] = assert(stage())
  return table.concat(parts)
end

t.it("pieces of any length give the same result", function()
  for _ = 1, 20 do
    local text, format = some_text(math.random(0, 60000)), FORMATS[math.random(3)]
    local bytes = staged(zlib.compressor { format = format }, text, math.random(1, 5000))
    t.equal(zlib.decompress(bytes, { format = format }), text)
    t.equal(staged(zlib.decompressor { format = format }, bytes, math.random(1, 300)), text)
  end
end)

local REAL <const> = { real_time = true }

t.it("gzip, Python and the module read each other's compressed data", { real_time = true, timeout = 60 }, function()
  local text = some_text(300000)
  for _, command in ipairs { { "gzip", "-c", "-9" }, { "gzip", "-c", "-1" } } do
    command.input = text
    local result = assert(process.run(command))
    t.equal(zlib.decompress(result.output), text)
  end
  t.equal(assert(process.run { "gzip", "-dc", input = zlib.compress(text, { level = 1 }) }).output, text)
  local python = "import sys, zlib; sys.stdout.buffer.write(zlib.%s(sys.stdin.buffer.read(), %s))"
  for format, bits in pairs { gzip = 31, zlib = 15, raw = -15 } do
    local script = python:format("decompress", bits)
    local result = assert(process.run { "python3", "-c", script, input = zlib.compress(text, { format = format }) })
    t.equal(result.output, text, result.errors)
  end
  local made = assert(process.run { "python3", "-c", python:format("compress", 9), input = text })
  t.equal(zlib.decompress(made.output), text)
end)

t.it("decompress reads several gzip members in a row", function()
  local bytes = zlib.compress "one" .. zlib.compress "" .. zlib.compress "two"
  t.equal(zlib.decompress(bytes), "onetwo")
  t.equal(zlib.decompress(bytes, { format = "gzip" }), "onetwo")
  t.equal(staged(zlib.decompressor(), bytes, 1), "onetwo")
end)

local function code_of(...) return (select(3, ...)) end

t.it("decompress refuses damaged, cut and lengthened data", function()
  local text = some_text(5000)
  for _, format in ipairs(FORMATS) do
    local bytes, options = zlib.compress(text, { format = format }), { format = format }
    for length = 0, #bytes - 1, 7 do t.equal(code_of(zlib.decompress(bytes:sub(1, length), options)), "EOF") end
    t.equal(code_of(zlib.decompress(bytes .. "x", options)), "EBADMSG")
    t.equal(code_of(zlib.decompress(bytes .. "\0", options)), "EBADMSG")
    local stage = zlib.decompressor(options)
    assert(stage(bytes:sub(1, 50)))
    t.equal({ stage() }, { nil, "EOF: cut off after byte 50", "EOF" })
    t.equal(code_of(stage "x"), "EOF")
  end
  local bytes = zlib.compress(text)
  local damaged = bytes:sub(1, -6) .. string.char(bytes:byte(-5) ~ 1) .. bytes:sub(-4)
  t.equal(code_of(zlib.decompress(damaged)), "EBADMSG")
  t.equal({ zlib.decompress(bytes .. "xyz") },
    { nil, ("EBADMSG: there is data after the end, at byte %d"):format(#bytes + 1), "EBADMSG" })
  t.equal(code_of(zlib.decompress "hello"), "EBADMSG")
  t.equal(code_of(zlib.decompress ""), "EOF")
  t.equal(code_of(zlib.decompress(zlib.compress("x", { format = "zlib" }), { format = "gzip" })), "EBADMSG")
end)

t.it("decompress limits the size of its output", function()
  local bytes = zlib.compress(("\0"):rep(1000))
  t.equal(#zlib.decompress(bytes, { max = 1000 }), 1000)
  t.equal({ zlib.decompress(bytes, { max = 999 }) }, { nil, "EMSGSIZE: more than 999 bytes", "EMSGSIZE" })
  t.equal(code_of(zlib.decompress(bytes, { max = 0 })), "EMSGSIZE")
  t.equal(zlib.decompress(zlib.compress "", { max = 0 }), "")
  local stage = zlib.decompressor { max = 999 }
  t.equal(code_of(stage(bytes)), "EMSGSIZE")
  t.equal(code_of(zlib.decompress(zlib.compress(("\0"):rep((16 << 20) + 1)))), "EMSGSIZE")
  t.equal(#zlib.decompress(zlib.compress(("\0"):rep(16 << 20))), 16 << 20)
end)

t.it("a compressor or decompressor raises an error after its end", function()
  for _, stage in ipairs { zlib.compressor(), zlib.decompressor() } do
    local bytes = stage == nil and "" or zlib.compress "x"
    assert(stage(bytes))
    assert(stage())
    t.equal(stage(), nil)
    t.truthy(problem_of(stage, "x"):find "it has ended %(make another one%)$")
  end
end)

local function memory()
  for line in io.lines "/proc/self/status" do
    local size = line:match "^VmRSS:%s*(%d+) kB"
    if size then return tonumber(size) end
  end
end

-- The size of the bomb in MB.
local BOMB <const> = os.getenv "RLHOST_SOAK" and 1024 or 64

t.it("a decompressor keeps its memory small while a bomb is copied", REAL, function()
  local gz, parts = zlib.compressor { level = 9 }, {}
  local piece = ("\0"):rep(1 << 20)
  for i = 1, BOMB do parts[i] = gz(piece) end
  parts[#parts + 1] = gz()
  local bomb = table.concat(parts)
  local from, feeder = net.pair()
  local sink, drain = net.pair()
  rl.task(function()
    feeder:write(bomb)
    feeder:finish()
  end)
  local received = 0
  local reader = rl.task(function()
    while true do
      local bytes = drain:read(65536)
      if not bytes then return end
      received = received + #bytes
    end
  end)
  collectgarbage()
  local before = memory()
  assert(net.copy(from, sink, { through = zlib.decompressor() }))
  local after = memory()
  sink:finish()
  reader:await()
  t.equal(received, BOMB << 20)
  t.truthy(after - before < 32 << 10, ("%d kB"):format(after - before))
  for _, stream in ipairs { from, feeder, sink, drain } do stream:abort() end
end)

t.it("wrong arguments raise errors that name the function", function()
  t.equal(problem_of(zlib.compress, 5), "zlib.compress: argument #1 must be a string, got 5")
  t.equal(problem_of(zlib.compress, "", { format = "gzp" }),
    "zlib.compress: unknown format 'gzp' (did you mean 'gzip'?)")
  t.equal(problem_of(zlib.compress, "", { format = "any" }),
    "zlib.compress: unknown format 'any' (there are: gzip, raw, zlib)")
  t.equal(problem_of(zlib.compress, "", { level = 10 }),
    "zlib.compress: field 'level' must be an integer from 0 to 9, got 10")
  t.equal(problem_of(zlib.compress, "", { levle = 1 }), "zlib.compress: unknown field 'levle' (did you mean 'level'?)")
  t.equal(problem_of(zlib.decompress, "", { max = -1 }),
    "zlib.decompress: field 'max' must be an integer, 0 or more, got -1")
  t.equal(problem_of(zlib.decompressor, { format = 1 }), "zlib.decompressor: field 'format' must be a string, got 1")
  t.equal(problem_of(zlib.compressor(), 5), "zlib.compressor's stage: argument #1 must be a string, got 5")
end)
