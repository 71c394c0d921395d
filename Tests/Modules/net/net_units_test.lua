-- Reads of frames, words, bytes with an ending, and up to one of several ends or patterns: the bytes that these reads
-- return and consume. Neither depends on the pieces in which the bytes arrive.

local rl, net = require "runloop", require "runloop.net"
local t = require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raises = support.raises

-- Returns a stream that delivers these bytes and then its end, unless `stays` is true.
local function stream_of(bytes, stays)
  local near, far = net.memory()
  near:write(bytes)
  if not stays then near:finish() end
  t.finally(function() near:close() far:close() end)
  return far, near
end

local function all(...) return { n = select("#", ...), ... } end

-- The results of a read, and the bytes that it leaves.
local function outcome(stream, read)
  local result = all(read(stream))
  return { result, stream:read_all() }
end

-- The bytes arrive in pieces that end at these places.
local function in_pieces(bytes, cuts, read)
  local near, far = net.memory()
  local sender = rl.task(function()
    local from = 1
    for _, cut in ipairs(cuts) do
      near:write(bytes:sub(from, cut))
      near:flush()
      rl.sleep(0.001)
      from = cut + 1
    end
    near:write(bytes:sub(from))
    near:finish()
  end)
  local found = outcome(far, read)
  sender:await()
  near:close()
  far:close()
  return found
end

local function random_cuts(random, length)
  local cuts, at = {}, 0
  while true do
    at = at + random(1, math.max(1, random(1, 9)))
    if at >= length then return cuts end
    cuts[#cuts + 1] = at
  end
end

local function every_byte(length)
  local cuts = {}
  for i = 1, length - 1 do cuts[i] = i end
  return cuts
end

t.describe("read_frame", function()
  t.it("returns the values of the head and the body, and consumes both", function()
    local s = stream_of("D\0\0\0\9hello" .. "Z\0\0\0\5I" .. "\0\3dns" .. "\0\0")
    t.equal(all(s:read_frame(">c1 I4", { adjust = -4 })), { "D", "hello", n = 2 })
    t.equal(all(s:read_frame(">c1 I4", { adjust = -4 })), { "Z", "I", n = 2 })
    t.equal(all(s:read_frame ">I2"), { "dns", n = 1 })
    t.equal(all(s:read_frame ">I2"), { "", n = 1 })
    t.equal(all(s:read_frame ">I2"), { nil, n = 1 })
  end)

  t.it("supports every format of a fixed size, as string.pack does", function()
    local values = {
      b = -3, B = 250, h = -300, H = 65000, i3 = -70000, I3 = 16000000, i = -5, I = 4000000000, l = -1, L = 7,
      j = math.mininteger, J = -2, T = 9, i7 = -1, I8 = -1, f = 1.5, d = -2.25, n = 1e300, c5 = "ab\0de", c0 = "",
    }
    for option, value in pairs(values) do
      for _, order in ipairs { "<", ">", "=", "!4<", "!8>", "<!", ">!2" } do
        for _, rest in ipairs { " I2", "x I1", "Xi4 i4", " xx!4 J" } do
          local format = order .. option .. rest
          local is_right, head = pcall(string.pack, format, value, 3)
          local s = stream_of((is_right and head or "") .. "bodyrest")
          if is_right then
            t.equal(all(s:read_frame(format)), { string.unpack(format, head), "bod", n = 2 }, format)
            t.equal(s:read_all(), "yrest", format)
          else
            raises("asks for an alignment", s.read_frame, s, format)
          end
        end
      end
    end
    local many = stream_of(("\7"):rep(31) .. "\1x")
    t.equal(select("#", many:read_frame(("B"):rep(32))), 32)
  end)

  t.it("refuses invalid lengths of the peer, and consumes nothing", function()
    local s = stream_of "\x04\x2c\x1d\x80rest"
    local message = "frame of 70000000 bytes, longer than "
    t.equal(all(s:read_frame ">I4"), { nil, message .. 1048576, "EMSGSIZE", n = 3 })
    t.equal(all(s:read_frame(">I4", { max = 10 })), { nil, message .. 10, "EMSGSIZE", n = 3 })
    t.equal(s:read_exactly(4), "\x04\x2c\x1d\x80")
    s = stream_of "\x80\0\0\0rest"
    t.equal(all(s:read_frame ">I4"), { nil, "frame of 2147483648 bytes, longer than 1048576", "EMSGSIZE", n = 3 })
    t.equal(all(s:read_frame ">i4"), { nil, "frame of -2147483648 bytes, a negative length", "EBADMSG", n = 3 })
    s = stream_of "\255\255\255\255\255\255\255\255rest"
    t.equal(select(3, s:read_frame ">J"), "EBADMSG")
    t.equal(select(3, s:read_frame(">J", { adjust = 2 ^ 31 - 1 })), "EMSGSIZE")
    t.equal(select(3, s:read_frame("B", { adjust = -256 })), "EBADMSG")
    t.equal(all(s:read_frame("B", { adjust = -255 })), { "", n = 1 })
    s = stream_of "\x7f\255\255\255\255\255\255\255rest"
    t.equal(select(3, s:read_frame(">j", { adjust = 1 })), "EMSGSIZE")
    t.equal(select(3, s:read_frame(">j", { max = math.maxinteger })), "EOF")
  end)

  t.it("reports where the input has ended", function()
    t.equal(all(stream_of "":read_frame ">I4"), { nil, n = 1 })
    t.equal(all(stream_of "ab":read_frame ">I4"), { nil, "end of input after 2 of 4 bytes", "EOF", n = 3 })
    local s = stream_of "\0\0\0\9hello"
    t.equal(all(s:read_frame ">I4"), { nil, "end of input after 9 of 13 bytes", "EOF", n = 3 })
    t.equal(s:read_all(), "\0\0\0\9hello")
  end)

  t.it("consumes nothing when its time is over, or when it is cancelled", function()
    local s, near = stream_of("\0\5he", true)
    t.equal(all(s:read_frame(">I2", { timeout = 0.1 })), { nil, "timed out", n = 2 })
    t.equal(all(s:read_frame(">I2", { timeout = 0 })), { nil, "timed out", n = 2 })
    local task = rl.task(function() s:read_frame ">I2" end)
    near:write "l"
    rl.sleep(0.01)
    task:cancel()
    near:write "lo"
    t.equal(s:read_frame ">I2", "hello")
  end)

  t.it("raises an error for a format that is not a head with a length", function()
    local s = stream_of("", true)
    raises("stream:read_frame: argument #1 must be a format of string.pack, got nothing", s.read_frame, s)
    raises("stream:read_frame: argument #1 must be a format of string.pack, got 1", s.read_frame, s, 1)
    local function refuses(text, format)
      raises("stream:read_frame: argument #1, the format of the head, " .. text, s.read_frame, s, format)
    end
    refuses("must end with an integer, the length of the body", "")
    refuses("must end with an integer", "I4 d")
    refuses("must end with an integer", "I4 c1")
    refuses("must end with an integer", ">")
    refuses("must have a fixed size", "s4 I4")
    refuses("must have a fixed size", "z I4")
    refuses("may have integers of at most 8 bytes", "I9")
    refuses("may have integers of at most 8 bytes", "I0")
    refuses("may have at most 1024 bytes", "c1025 I4")
    refuses("may have at most 1024 bytes", "c99999999999 I4")
    refuses("may have at most 32 values", ("B"):rep(33))
    refuses("may have at most 48 bytes", (" "):rep(48) .. "B")
    refuses("lacks a number after 'c'", "c I4")
    refuses("has an option that string.pack does not know", "q I4")
    refuses("asks for an alignment other than a power of 2", "!8 B I3")
    refuses("lacks an option with an alignment after 'X'", "X")
    refuses("may align to 1 to 16 bytes", "!17 I4")
    local function refuses_options(text, options)
      raises("stream:read_frame: " .. text, s.read_frame, s, "B", options)
    end
    refuses_options("field 'adjust' must be an integer from -2147483648 to 2147483647, got 0.5", { adjust = 0.5 })
    refuses_options("field 'max' must be an integer, 0 or more, got -1", { max = -1 })
    refuses_options("field 'timeout' must be", { timeout = 0 / 0 })
    refuses_options("field 'timeout' must be", { timeout = -1 })
    refuses_options("unknown field 'adjusts' (did you mean 'adjust'?)", { adjusts = 1 })
  end)
end)

t.describe("read_line with words", function()
  local function words(text) return all(stream_of(text):read_line { words = true }) end

  t.it("returns the words between blanks and tabs", function()
    t.equal(words "PING\r\n", { "PING", n = 1 })
    t.equal(words "  MSG  a.b\t12 \t 5  \r\n", { "MSG", "a.b", "12", "5", n = 4 })
    t.equal(words "\n", { "", n = 1 })
    t.equal(words " \t \r\n", { "", n = 1 })
    t.equal(words "last word", { "last", "word", n = 2 })
    t.equal(words "", { nil, n = 1 })
  end)

  t.it("leaves the rest of the line in word 64", function()
    local list = {}
    for i = 1, 70 do list[i] = "w" .. i end
    local found = words(table.concat(list, " ") .. " \n")
    t.equal(found.n, 64)
    t.equal(found[63], "w63")
    t.equal(found[64], "w64 w65 w66 w67 w68 w69 w70 ")
    list = { table.unpack(list, 1, 64) }
    t.equal(words(table.concat(list, " ") .. "\n")[64], "w64")
  end)

  t.it("has the limits of read_line, also for long lines", function()
    local s = stream_of(("word "):rep(1000) .. "\nnext\n")
    t.equal(all(s:read_line { words = true, max = 100 }), { nil, "line longer than 100 bytes", "EMSGSIZE", n = 3 })
    local found = all(s:read_line { words = true })
    t.equal(found.n, 64)
    t.equal(#found[64], 937 * 5)
    t.equal(s:read_line { words = false }, "next")
    local quiet = stream_of("half", true)
    t.equal(all(quiet:read_line { words = true, timeout = 0.01 }), { nil, "timed out", n = 2 })
    t.equal(quiet:buffered(), 4)
    raises("stream:read_line: field 'words' must be a boolean, got 1", quiet.read_line, quiet, { words = 1 })
    raises("stream:read_line: unknown field 'word' (did you mean 'words'?)", quiet.read_line, quiet, { word = true })
  end)

  t.it("survives finalizers that read other streams", function()
    local s, near = stream_of("", true)
    local other = stream_of(("x"):rep(200000), true)
    for i = 1, 300 do
      setmetatable({}, { __gc = function() other:read(3) end })
      local expected = {}
      for j = 1, 20 do expected[j] = "word" .. i .. "of" .. j end
      near:write(table.concat(expected, " "), "\n")
      expected.n = 20
      t.equal(all(s:read_line { words = true }), expected)
      if i % 50 == 0 then collectgarbage() end
    end
  end)
end)

t.describe("read_exactly with skip", function()
  t.it("consumes the bytes that follow", function()
    local s = stream_of "hello\r\nab--cd"
    t.equal(s:read_exactly(5, { skip = "\r\n" }), "hello")
    t.equal(s:read_exactly(2, { skip = 2 }), "ab")
    t.equal(s:read_exactly(0, { skip = "c" }), "")
    t.equal(s:read_exactly(1, { skip = 0 }), "d")
    t.equal(all(s:read_exactly(1, { skip = "x" })), { nil, n = 1 })
  end)

  t.it("reports a missing text, and consumes nothing", function()
    local s = stream_of "0123456789abcdefxyz"
    t.equal(all(s:read_exactly(16, { skip = "\r\n" })),
      { nil, [["\r\n" expected after 16 bytes, found "xy"]], "EBADMSG", n = 3 })
    t.equal(all(s:read_exactly(18, { skip = "\r\n" })), { nil, "end of input after 19 of 20 bytes", "EOF", n = 3 })
    t.equal(s:read_all(), "0123456789abcdefxyz")
    s = stream_of("a\0\"\\\255" .. ("y"):rep(100))
    t.equal(select(2, s:read_exactly(1, { skip = ("z"):rep(40) })), '"' .. ("z"):rep(32)
      .. [["… expected after 1 bytes, found "\x00\"\\\xff]] .. ("y"):rep(28) .. '"…')
  end)

  t.it("consumes nothing before everything has arrived", function()
    local s, near = stream_of("hello\r", true)
    t.equal(all(s:read_exactly(5, { skip = "\r\n", timeout = 0.01 })), { nil, "timed out", n = 2 })
    near:write "\n"
    t.equal(s:read_exactly(5, { skip = "\r\n" }), "hello")
    local message = "stream:read_exactly: field 'skip' must be a text, or a number of bytes, 0 or more, got "
    raises(message .. "-1", s.read_exactly, s, 1, { skip = -1 })
    raises(message .. "true", s.read_exactly, s, 1, { skip = true })
    t.equal(select(3, s:read_exactly(100, { max = 10, skip = 2 })), "EMSGSIZE")
    near:finish()
    t.equal(all(s:read_exactly(math.maxinteger, { skip = math.maxinteger })), { nil, n = 1 })
  end)
end)

t.describe("read_until with a list", function()
  t.it("returns the bytes before the text that is complete first", function()
    local s = stream_of "one\ntwo\r\nthree\0four"
    t.equal(all(s:read_until { "\r\n", "\n", "\0" }), { "one", 2, n = 2 })
    t.equal(all(s:read_until { "\r\n", "\n", "\0" }), { "two", 1, n = 2 })
    t.equal(all(s:read_until { "\r\n", "\n", "\0" }), { "three", 3, n = 2 })
    t.equal(all(s:read_until { "\r\n", "\n" }),
      { nil, "end of input after 4 bytes, before the end was found", "EOF", n = 3 })
    t.equal(s:read_all(), "four")
    t.equal(all(s:read_until { "x" }), { nil, n = 1 })
    t.equal(all(stream_of "xabcd":read_until { "abcd", "bc" }), { "xa", 2, n = 2 })
    t.equal(all(stream_of "xabcd":read_until { "bcd", "abcd" }), { "xa", 1, n = 2 })
    t.equal(all(stream_of "xabcd":read_until { "abcd", "bcd" }), { "x", 1, n = 2 })
    t.equal(all(stream_of "a;b":read_until ";"), { "a", n = 1 })
  end)

  t.it("has the limits of read_until, and rejects invalid lists", function()
    local s, near = stream_of(("x"):rep(100) .. "ab", true)
    t.equal(all(s:read_until({ "abc", "y" }, { max = 99 })),
      { nil, "the end is not within 99 bytes", "EMSGSIZE", n = 3 })
    t.equal(all(s:read_until({ "abc", "y" }, { max = 100, timeout = 0.01 })), { nil, "timed out", n = 2 })
    near:write "c"
    t.equal(all(s:read_until({ "abc", "y" }, { max = 100 })), { ("x"):rep(100), 1, n = 2 })
    local function refuses(text, ...) raises("stream:read_until: " .. text, s.read_until, s, ...) end
    refuses("argument #1 must be a string that is not empty, got nothing")
    refuses("argument #1 must be a string that is not empty, got \"\"", "")
    refuses("argument #1 must be a list of 1 to 64 texts, got 0", {})
    local many = {}
    for i = 1, 65 do many[i] = "x" .. i end
    refuses("argument #1 must be a list of 1 to 64 texts, got 65", many)
    many[65] = nil
    t.equal(all(stream_of "ax64":read_until(many)), { "a", 6, n = 2 })
    refuses("element 2 of argument #1 must be a text that is not empty, got \"\"", { "a", "" })
    refuses("element 2 of argument #1 must be a text that is not empty, got 1", { "a", 1 })
    refuses("unknown field 'patern' (did you mean 'pattern'?)", "x", { patern = true })
  end)
end)

t.describe("read_until with patterns", function()
  local P = { pattern = true }

  t.it("returns the bytes before the match, the number of the pattern, and its captures", function()
    local s = stream_of "GET /x HTTP/1.1\r\nkey: value\r\n\r\n"
    t.equal(all(s:read_until("HTTP/(%d)%.(%d)\r\n", P)), { "GET /x ", 1, "1", "1", n = 4 })
    t.equal(all(s:read_until({ "\r\n\r\n", ":%s" }, P)), { "key", 2, ": ", n = 3 })
    t.equal(all(s:read_until({ "()\r?\n" }, P)), { "value", 1, 6, n = 3 })
    t.equal(s:read_all(), "\r\n")
  end)

  t.it("does not count an empty match", function()
    t.equal(all(stream_of "ab12;":read_until("%d*;", P)), { "ab", 1, "12;", n = 3 })
    t.equal(all(stream_of "ab12;":read_until("%d*", P)), { "ab", 1, "12", n = 3 })
    local nothing = { nil, "end of input after 2 bytes, before the end was found", "EOF", n = 3 }
    t.equal(all(stream_of "ab":read_until("%d*", P)), nothing)
    t.equal(all(stream_of "ab":read_until("^%d*", P)), nothing)
    t.equal(all(stream_of "12":read_until("^%d*", P)), { "", 1, "12", n = 3 })
    t.equal(all(stream_of "":read_until("^%d*", P)), { nil, n = 1 })
  end)

  t.it("tries again when more bytes have arrived", function()
    local s, near = stream_of("a", true)
    local task = rl.task(function() return all(s:read_until({ "b;", "c;" }, P)) end)
    for piece in ("bbc" .. ";rest"):gmatch "." do
      rl.sleep(0.01)
      near:write(piece)
    end
    t.equal(task:await(), { "abb", 2, "c;", n = 3 })
    rl.sleep(0.01)
    t.equal(s:read(), "rest")
  end)

  t.it("has limits, and consumes nothing", function()
    local s, near = stream_of(("x"):rep(10), true)
    t.equal(all(s:read_until("y", { pattern = true, timeout = 0.01 })), { nil, "timed out", n = 2 })
    t.equal(all(s:read_until("y", { pattern = true, max = 9 })),
      { nil, "the end is not within 9 bytes", "EMSGSIZE", n = 3 })
    s:set_timeout(0.01)
    t.equal(all(s:read_until("y", P)), { nil, "timed out", n = 2 })
    s:set_timeout()
    local task = rl.task(function() s:read_until("y", P) end)
    raises("stream:read_until: one reader at a time", s.read_until, s, "y", P)
    raises("stream:read: one reader at a time", s.read, s)
    t.truthy(tostring(task):find("waiting in stream:read_until", 1, true))
    task:cancel()
    near:write(("x"):rep(65526))
    t.equal(all(s:read_until("y", { pattern = true, timeout = 0.01 })), { nil, "timed out", n = 2 })
    near:write "y"
    t.equal(all(s:read_until("y", P)), { nil, "the end is not within 65536 bytes", "EMSGSIZE", n = 3 })
    t.equal(#s:read_until("y", { pattern = true, max = 65537 }), 65536)
    -- A trickle does not prolong the time limit.
    local start = rl.now()
    local trickle = rl.task(function() while true do near:write "x" rl.sleep(0.1) end end)
    t.equal(all(s:read_until("y", { pattern = true, timeout = 0.35 })), { nil, "timed out", n = 2 })
    t.truthy(rl.now() - start < 0.4)
    trickle:cancel()
  end)

  t.it("raises an error for a broken pattern before it waits", function()
    local s = stream_of("", true)
    local function refuses(text, pattern)
      local message = "stream:read_until: the pattern %q is broken: %s"
      raises(message:format(pattern, text), s.read_until, s, pattern, P)
      raises("is broken: " .. text, s.read_until, s, { "good", pattern }, P)
      t.equal(pcall(string.match, ("ab1"):rep(20), pattern), false, pattern)
    end
    refuses("it ends with '%'", "a%")
    refuses("']' is missing", "[a")
    refuses("']' is missing", "[]")
    refuses("']' is missing", "[^]")
    refuses("']' is missing", "[a%]")
    refuses("')' is missing", "(ab")
    refuses("')' has no '('", "ab)")
    refuses("'%b' needs two characters", "%bx")
    refuses("'%f' needs a set: [...]", "%fa")
    refuses("'%1' has no capture before it", "a%1")
    refuses("'%1' has no capture before it", "(a%1)")
    refuses("it has more than 32 captures", ("()"):rep(33))
    for good in ("[]] [^]] [%]] %( () (a)%1 %bxy %f[%w] [a-] ^^ $ %% .- a? (()) %f[^%]]"):gmatch "%S+" do
      string.match(("ab1"):rep(20), good)
      t.equal(all(s:read_until(good, { pattern = true, timeout = 0 })), { nil, "timed out", n = 2 }, good)
    end
    raises('element 2 of argument #1 must be a pattern that is not empty, got ""', s.read_until, s, { "a", "" }, P)
    raises("argument #1 must be a pattern that is not empty, or a list of them, got 1", s.read_until, s, 1, P)
    raises("field 'pattern' must be a boolean, got 1", s.read_until, s, "a", { pattern = 1 })
  end)
end)

-- Reads, and the bytes that exercise them.
local READS = {
  { "ab\r\n ", function(s) return s:read_line { words = true } end },
  { "ab\r\n ", function(s) return s:read_line { words = true, max = 6 } end },
  { "ab\r\n", function(s) return s:read_exactly(4, { skip = "\r\n" }) end },
  { "ab", function(s) return s:read_exactly(3, { skip = 4 }) end },
  { "\0\1\2\3\4\5", function(s) return s:read_frame ">I2" end },
  { "\0\1\2\3\4\5", function(s) return s:read_frame("<c1 I2", { adjust = -2, max = 6 }) end },
  { "\0\1\2\3\4\5\255", function(s) return s:read_frame("bB i1", { adjust = 1 }) end },
  { "ab", function(s) return s:read_until { "aab", "ab", "bba" } end },
  { "abc", function(s) return s:read_until { "abca", "bc", "cab", "aaa" } end },
  { "abc", function(s) return s:read_until({ "abca", "bcb", "ccc" }, { max = 5 }) end },
  { "abc", function(s) return s:read_until({ "abcabc", "ccba" }, { max = 3 }) end },
  { "ab\n", function(s) return s:read_until("\n", { max = 4 }) end },
  { "abc", function(s) return s:read_until({ "a(b)c", "cc", "b.a" }, { pattern = true }) end },
  { "abc", function(s) return s:read_until({ "a()bc", "cc" }, { pattern = true, max = 6 }) end },
}

t.it("the results do not depend on the pieces in which the bytes arrive", { timeout = 60 }, function()
  local rounds = os.getenv "RLHOST_SOAK" and 3000 or 60
  for number, read in ipairs(READS) do
    for round = 1, rounds do
      local bytes = {}
      for i = 1, math.random(0, 14) do
        local at = math.random(#read[1])
        bytes[i] = read[1]:sub(at, at)
      end
      bytes = table.concat(bytes)
      local near, far = net.memory()
      near:write(bytes)
      near:finish()
      rl.sleep(0.001)
      local whole = outcome(far, read[2])
      near:close()
      far:close()
      local remark = ("read %d of %q"):format(number, bytes)
      t.equal(in_pieces(bytes, every_byte(#bytes), read[2]), whole, remark)
      t.equal(in_pieces(bytes, random_cuts(math.random, #bytes), read[2]), whole, remark)
      -- The refused bytes are still there.
      if whole[1][1] == nil then t.equal(whole[2], bytes, remark) end
    end
  end
end)

t.it("long frames arrive whole, over sockets and in pieces", { real_time = true }, function()
  local a, b = net.pair()
  local sizes = { 0, 1, 100, 16383, 65536, 70000, 300000, 1 << 20 }
  local sender = rl.task(function()
    for i, size in ipairs(sizes) do a:write(string.pack(">c2 I4", "h" .. i, size), (string.char(64 + i)):rep(size)) end
    a:finish()
  end)
  for i, size in ipairs(sizes) do
    local name, body = b:read_frame ">c2 I4"
    t.equal({ name, #body }, { "h" .. i, size })
    t.truthy(body == (string.char(64 + i)):rep(size))
  end
  t.equal(b:read_frame ">c2 I4", nil)
  sender:await()
  a:close()
  b:close()
end)

t.describe("net.copy through stages", function()
  local function copy(bytes, options)
    local from = stream_of(bytes)
    local out, far = net.memory { high_water = 1 << 30 }
    local results = all(net.copy(from, out, options))
    out:finish()
    local copied = far:read_all { max = 1 << 30 }
    out:close()
    far:close()
    return copied, results
  end

  t.it("passes pieces, and the end, to the stages", function()
    local largest, ends = 0, 0
    local function upper(bytes)
      if not bytes then ends = ends + 1 return nil end
      largest = math.max(largest, #bytes)
      return bytes:upper()
    end
    local copied, results = copy(("ab"):rep(50000), { through = upper })
    t.equal(results, { 100000, n = 1 })
    t.truthy(copied == ("AB"):rep(50000))
    t.equal({ largest, ends }, { 16384, 1 })
  end)

  t.it("passes the output of a stage at its end to the next stages", function()
    local kept = ""
    local function keeping(bytes)
      if not bytes then return kept end
      kept = kept .. bytes
      return ""
    end
    local function framing(bytes) return bytes and "<" .. bytes .. ">" or "!" end
    local callable = setmetatable({}, { __call = function(_, bytes) return bytes end })
    t.equal({ copy("abc", { through = { keeping, framing, callable } }) }, { "<abc>!", { 3, n = 1 } })
    t.equal({ copy("", { through = framing }) }, { "!", { 0, n = 1 } })
  end)

  t.it("may wait in a stage", function()
    t.equal(copy("abc", { through = function(bytes) rl.sleep(0.1) return bytes end }), "abc")
  end)

  t.it("ends with a stage's refusal or error, and returns the number of copied bytes", function()
    local count = 0
    local function refusing(bytes)
      count = count + 1
      if count == 3 then return nil, "EBADMSG: damaged", "EBADMSG" end
      return bytes
    end
    t.equal(select(2, copy(("x"):rep(100000), { through = refusing })),
      { nil, "EBADMSG: damaged", "EBADMSG", 32768, n = 4 })
    local function endless(bytes)
      if bytes then return bytes end
      return nil, "no end", "EOF"
    end
    t.equal(select(2, copy("abc", { through = endless })), { nil, "no end", "EOF", 3, n = 4 })
    raises("oh no", copy, "abc", { through = function() error "oh no" end })
    raises("net.copy: stage 2 must return a string, or nil and a reason, got 1", copy, "abc",
      { through = { function(bytes) return bytes end, function() return 1 end } })
    raises("net.copy: stage 1 must return a string, or nil and a reason, got nothing", copy, "abc",
      { through = function() end })
  end)

  t.it("counts the bytes that are read against the maximum", function()
    local function doubling(bytes) return bytes and bytes .. bytes or "end" end
    local copied, results = copy(("ab"):rep(50000), { max = 20001, through = doubling })
    t.equal({ #copied, results }, { 40005, { 20001, n = 1 } })
    t.equal({ copy("abc", { max = 0, through = doubling }) }, { "end", { 0, n = 1 } })
  end)

  t.it("refuses invalid stages", function()
    local message = "net.copy: field 'through' must be a function, or a list of functions, got "
    raises(message .. "1", copy, "", { through = 1 })
    raises(message .. "an empty list", copy, "", { through = {} })
    raises("net.copy: element 2 of field 'through' must be a function, got 2", copy, "", { through = { print, 2 } })
    raises("net.copy: unknown field 'trough'", copy, "", { trough = print })
  end)

  t.it("returns the count when the input or the output fails", { real_time = true }, function()
    local listener = assert(net.listener { host = "127.0.0.1", port = 0 })
    local accepting = rl.task(listener.accept, listener)
    local a = assert(net.connect(listener:address()))
    local b = accepting:await()
    listener:close()
    local c, d = net.pair()
    local reader = rl.task(function() d:read_exactly(100000) end)
    local copied = rl.task(function() return all(net.copy(b, c)) end)
    a:write(("x"):rep(100000))
    reader:await()
    a:abort()
    local results = copied:await()
    t.equal({ results[1], results[3], results[4] }, { nil, "ECONNRESET", 100000 })
    for _, stream in ipairs { b, c, d } do stream:close() end
    local near, far = net.memory()
    local out, gone = net.memory()
    near:write "abc"
    copied = rl.task(function() return all(net.copy(far, out)) end)
    rl.sleep(0.05)
    gone:abort()
    -- Bytes that are written before the loop has noticed the end are lost.
    near:write "def"
    rl.sleep(0.05)
    near:write "ghi"
    results = copied:await()
    t.equal({ results[1], results[4], results.n }, { nil, 6, 4 })
    for _, stream in ipairs { near, far, out } do stream:close() end
  end)
end)

t.it("pieces of a write arrive in their order", function()
  local near, far = net.memory()
  for count = 0, 20 do
    local pieces = {}
    for i = 1, count do pieces[i] = i % 3 == 0 and i or i % 3 == 1 and "" or ("piece" .. i) end
    near:write(table.unpack(pieces, 1, count))
    near:queue(table.unpack(pieces, 1, count))
    local expected = table.concat(pieces)
    if expected ~= "" then t.equal(far:read_exactly(2 * #expected), expected .. expected) end
  end
  near:write(1.5, "|", -7, "|", math.mininteger, "|", 1e300, "\n")
  t.equal(far:read_line(), "1.5|-7|-9223372036854775808|1e+300")
  raises("stream:write: argument #3 must be a string or a number, got nothing", near.write, near, "a", "b", nil, "c")
  raises("stream:write: argument #9 must be a string or a number, got a table", near.write, near,
    1, 2, 3, 4, 5, 6, 7, 8, {})
  near:write(("x"):rep(100000), ("y"):rep(100000))
  t.equal(#far:read_exactly(200000), 200000)
  near:close()
  far:close()
end)
