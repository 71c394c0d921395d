-- The libraries: string, utf8, math, os, io, debug, package.
print(("%5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%c|%e|%.3f|%g|%a|%i|%u"):format(42, 42, 42, 42, 255, 255, 255, 8, 65, 1.5, 1 / 3,
  1e20, 1.0, 3, 7))
print(("%q"):format("a\n\0b\"\\\r\200"), ("%q"):format(1 / 3), ("%q"):format(math.mininteger),
  ("%s %10.3s|%-6s|%%"):format(nil, "abcdef", true))
print(("hello world"):find("o w"), ("hello"):find("l+"), ("a.b"):find(".", 1, true), ("x"):find("", 10),
  ("abc"):find("b", -1), ("key = value"):match("^(%w+)%s*=%s*(%w+)$"))
print(("abc"):gsub("%w", "%0%0"), ("hello world"):gsub("o", { o = "0" }), ("abc"):gsub("", "-"),
  ("abc def"):gsub("%f[%w]%w+", string.upper), ("x^y"):gsub("%^", "%%"), ("a b c"):gsub("%s", "", 1))
for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do io.write(k, v, ";") end
print(("(a(b)c)"):match("%b()"), ("  trim "):match("^%s*(.-)%s*$"), ("2024-01-02"):match("(%d+)-(%d+)-(%d+)"),
  ("abc"):match("()b()"))
print(("abc"):byte(1, -1), ("abc"):sub(-2), ("abc"):sub(2, 10), ("abc"):sub(0), ("abc"):rep(3, "-"), ("abc"):reverse(),
  ("aBc"):upper(), ("aBc"):lower(), #"a\0b", ("x"):rep(0), "\x41\u{48}\065\z
   next", [[
long]], [==[a]]b]==])
print(string.pack("<i4", 100):byte(1, -1))
print(string.unpack("<i2 >i2 z s1 d", string.pack("<i2 >i2 z s1 d", 1, 2, "zero", "one", 2.5)))
print(string.packsize("i4i8!8"), pcall(string.packsize, "s"), string.pack(">I3", 0x010203):byte(1, -1))
print(utf8.char(72, 228, 8364, 128512), utf8.len("häß€"), utf8.len("\xff"), utf8.codepoint("€", 1),
  utf8.offset("aä€", 3), utf8.charpattern)
for p, c in utf8.codes("aä€") do io.write(p, ":", c, " ") end
print()
print(math.floor(-3.5), math.ceil(-3.5), math.max(1, 2.5), math.min(3), math.abs(-5), math.fmod(-5, 3), math.modf(3.7),
  math.sqrt(16), math.pi, math.huge, -math.huge, math.tointeger(3.0), math.tointeger("8"), math.exp(0), math.log(8, 2),
  math.log(100, 10), math.sin(0), math.atan(1, 1))
math.randomseed(42) local r = math.random(1, 100) math.randomseed(42)
print(r == math.random(1, 100), math.random(5, 5), math.random() < 1)
print(os.time { year = 2020, month = 1, day = 1, hour = 12 } - os.time { year = 2020, month = 1, day = 1, hour = 11 },
  os.date("!%Y-%m-%d %H:%M:%S", 86400), os.date("!*t", 0).year, os.getenv("NO_SUCH_VARIABLE"), type(os.clock()),
  os.difftime(5, 3), os.setlocale("C"), os.setlocale(nil, "all"), os.tmpname():match("^/tmp/lua_") and true)
print(os.execute("exit 3")) print(os.execute("true")) print(os.execute()) print(os.execute("kill -9 $$"))
print(os.remove("/no/such/file")) print(os.rename("/no/such/file", "/no/other"))
local name = os.tmpname() local f = assert(io.open(name, "w"))
print(io.type(f), io.type(5), f:write("line 1\n", 2, "\n", 3.5, "\nlast"), f:seek("cur"), f:seek("set", 2), f:close(),
  io.type(f), pcall(f.write, f, "x"))
for l in io.lines(name) do io.write("[", l, "]") end
for l in io.lines(name, "L") do io.write("<", l, ">") end
for a, b in io.lines(name, 1, 2) do io.write("{", a, b or "nil", "}") end
print()
f = io.open(name) print(f:read("l", "n", "n", "l", "a", "a", "l", "n", 0))
print(f:seek("set"), f:read(0), f:read(3), f:read("L"), f:seek("end"), f:read("a"), f:read("l"), f:read(1)) f:close()
f = io.open(name, "r+") f:setvbuf("full", 1024) f:write("LINE") f:seek("set") print(f:read("a")) f:close()
f = io.open(name, "a") f:write("!") f:flush() f:close()
print(#io.open(name):read("a")) do local g <close> = io.open(name) print(g:read(4)) end
print(io.open("/no/such/file")) print(pcall(io.open, name, "bad"))
print(io.output() == io.stdout, io.input() == io.stdin) io.input(name) print(io.read("n"), io.read("l"))
io.close(io.input()) io.input(io.stdin) print(pcall(io.read, "bad format"))
local p = io.popen("echo from a pipe; exit 4") print(p:read("a"), p:close()) p = io.popen("cat >/dev/null", "w")
print(p:write("x") == p, p:close()) os.remove(name) print(tostring(p), (tostring(io.stdout):gsub("0x%x+", "")))
print(io.read()) print(io.read("n", "l")) print(io.read("a")) print(io.read("l"), io.read("a"), io.read(0))
local hooks = {} debug.sethook(function(e, l) hooks[#hooks + 1] = e:sub(1, 1) .. (l or "") end, "crl")
local function traced(a) local b = a return b end
traced(1) debug.sethook() print(table.concat(hooks, " "), debug.gethook())
local n = 0 debug.sethook(function() n = n + 1 end, "", 100) for i = 1, 10000 do end debug.sethook() print(n > 50)
local up = 5
local function u() return up end
print(debug.getupvalue(u, 1)) debug.setupvalue(u, 1, 6)
print(u(), debug.getlocal(traced, 1), debug.getlocal(1, 1), debug.upvalueid(u, 1) == debug.upvalueid(u, 1),
  debug.getmetatable("").__index == string, debug.getregistry() ~= nil,
  debug.setmetatable(5, { __index = function(_, k) return k end }), (5).five)
debug.setmetatable(5, nil)
do
  local a, b = 1, 2
  print(debug.setlocal(1, select(2, (function()
    for i = 1, 250 do local k, v = debug.getlocal(3, i) if k == "b" then return k, i end end
  end)()) or 1, "changed") ~= nil)
end
local info = debug.getinfo(traced, "SLlnu")
print(info.short_src, info.linedefined == info.lastlinedefined, info.what, info.nparams,
  info.source == "@" .. info.short_src)
print(debug.getinfo(print).what, debug.getinfo(1, "S").what, debug.getinfo(1, "l").currentline, debug.getinfo(100))
package.preload["made.up"] = function(...) print(...) return { 1 } end
print(require("made.up")[1], select(2, require("made.up")), package.loaded["made.up"] ~= nil, #package.searchers,
  package.config:sub(1, 1), package.searchpath("no", "./?.x;./?/y"))
package.loaded["made.up"] = nil
print(pcall(load, "return 1", "=x", "t")) print(dofile == nil, loadfile("/no/such/file"))
print(type(_G), _G._G == _G, _VERSION, select(-1, 1, 2), select("#"), type(next), tostring(nil), tostring(true),
  ipairs({}) ~= nil)
local names = {}
for k in pairs(_G) do names[#names + 1] = k end
table.sort(names) print(table.concat(names, " "))
for _, lib in ipairs { "string", "table", "math", "io", "os", "coroutine", "debug", "utf8", "package" } do
  local t = {}
  for k in pairs(_G[lib]) do t[#t + 1] = k end
  table.sort(t)
  print(lib, table.concat(t, " "))
end
io.stdout:setvbuf("no") io.write("unbuffered ") io.stderr:write("on stderr\n") io.stdout:setvbuf("line")
io.write("no end of line")
setmetatable({}, { __gc = function() print("collected at the end") end })
local left <close> = setmetatable({}, { __close = function() print("closed at the end") end })
os.exit(7, true)
