-- Errors, levels, tracebacks and the stack.
local function show(...) print(select("#", ...), ...) end
show(pcall(error)) show(pcall(error, nil)) show(pcall(error, "x")) show(pcall(error, "x", 0)) show(pcall(error, 42))
show(pcall(function() error("one") end)) show(pcall(function() error("two", 2) end))
show(pcall(function() error("three", 3) end))
local function l1() error("up", 2) end
local function l2() l1() end
show(pcall(l2))
show(pcall(function() local x = nil return x.y end)) show(pcall(function() return undefined_global.y end))
show(pcall(function() local t = {} t.a.b = 1 end)) show(pcall(function() return #5 end))
show(pcall(function() return {} < {} end))
show(pcall(function() return 1 < "2" end)) show(pcall(function() return 1 + {} end))
show(pcall(function() return "a" + 1 end))
show(pcall(function() return "a" .. {} end)) show(pcall(function() return 1 // 0 end))
show(pcall(function() return 1 & 1.5 end))
show(pcall(function() return 2^53 | 0 end)) show(pcall(function() return "x" | 1 end))
show(pcall(function() for i = 1, 10, 0 do end end))
show(pcall(function() for i = "a", 2 do end end))
show(pcall(function() local t = setmetatable({}, { __newindex = 5 }) t.x = 1 end))
show(pcall(string.rep)) show(pcall(string.rep, "x", -1)) show(pcall(string.char, 256)) show(pcall(("x").rep, "x", 1e10))
show(pcall(setmetatable, 1, {})) show(pcall(setmetatable, setmetatable({}, { __metatable = 1 }), {}))
show(pcall(rawset, {}, nil, 1))
show(pcall(next, {}, 1)) show(pcall(select, 0)) show(pcall(tonumber, "z", 99)) show(pcall(ipairs))
show(pcall(table.concat, { {} }))
show(pcall(table.insert, {}, 5, 1)) show(pcall(table.unpack, {}, 1, 1e8)) show(pcall(load, 5)) show(load("x ="))
show(load("return 1", "=name", "b"))
show(load("goto x")) show(load("break")) show(load("local x <const> = 1; x = 2")) show(load("::a:: ::a::"))
show(load("x = 'a\n'"))
show(load("x = [[a")) show(load("x = '\\q'")) show(load("x = 0x")) show(load("for")) show(load("local t = {1,2"))
show(load("return ..."))
show(load(function() error("reader") end)) show(load(("x = 1 "):rep(3) .. "$")) show(pcall(assert))
show(pcall(assert, false))
show(pcall(assert, nil, "message")) show(pcall(assert, false, { 1 } and 7)) show(assert(1, 2, 3))
show(xpcall(function() error("a") end, function(e) return "handled " .. e end))
show(xpcall(function(...) return ... end, print, 1, nil))
show(xpcall(function() error("a") end, function() error("b") end)) show(pcall(pcall)) show(pcall(xpcall))
show(pcall(xpcall, print))
show(pcall(error, setmetatable({}, { __tostring = function() return "described" end })) == false)
show(pcall(require, "no.such.module"))
show(pcall(string.format, "%d", 1.5)) show(pcall(string.format, "%d", "x")) show(pcall(string.format, "%y", 1))
show(pcall(string.format, "%s"))
show(pcall(utf8.char, -1)) show(pcall(utf8.codepoint, "\xff")) show(pcall(os.time, {})) show(pcall(os.date, "%Ez", 0))
show(pcall(io.lines, "/no/such"))
show(pcall(debug.getinfo, 1, "?")) show(pcall(debug.sethook, 1)) show(pcall(collectgarbage, "what"))
show(pcall(math.random, 2, 1))
show(pcall(string.pack, "i17", 1)) show(pcall(string.unpack, "i4", "abc")) show(pcall(math.tointeger, {}))
show(pcall(math.floor, "x"))

local function overflow() return 1 + overflow() end
local ok, message = pcall(overflow)
print(ok, (message:gsub("\n.*", "")))
print(pcall(string.gsub, ("x"):rep(10), "x", function() error("in gsub") end))
local function nest(n)
  if n == 0 then error("deep", 0) end
  local x <close> = setmetatable({}, { __close = function() end })
  return (nest(n - 1))
end
print(pcall(nest, 150))

print(debug.traceback("message")) print(debug.traceback("message", 2))
print(debug.traceback({}) ~= nil, debug.traceback(nil))
local function a() print(debug.traceback()) end
local function b() a() end
local t = { method = function() b() end }
t.method() t:method() setmetatable(t, { __index = function() b() end }) print(t.missing)
table.sort({ 1, 2 }, function() b() return false end)
local function tail() return a() end
tail()
for i = 0, 4 do
  local info = debug.getinfo(i, "Slnutr")
  print(i, info and info.short_src, info and info.currentline, info and info.what, info and info.name,
    info and info.namewhat,
    info and info.istailcall, info and info.nups, info and info.nparams, info and info.isvararg)
end
do
  local log = {}
  local function c(n, fails)
    return setmetatable({}, { __close = function(_, e)
      log[#log + 1] = n .. tostring(e)
      if fails then error(fails, 0) end
    end })
  end
  print(pcall(function() local x <close> = c("x") local y <close> = nil error("body", 0) end))
  print(pcall(function() local x <close> = c("x", "cx") local y <close> = c("y", "cy") end))
  print(pcall(function() local x <close> = 5 end))
  for i in (function(_, i) i = (i or 0) + 1 if i < 4 then return i end end), nil, nil,
    c "loop" do if i == 2 then break end end
  print(table.concat(log, " "))
end
warn("@on") warn("one", "two") warn("@off") warn("hidden") warn("@on") warn("@unknown") warn("x", "@off") warn("end")
error(setmetatable({}, { __tostring = function() return "described at the end" end }))
