-- The language: closures, goto, varargs, integers and floats, metamethods, constants.
local fs = {} for i = 1, 3 do local j = i fs[i] = function() j = j + i return j end end
print(fs[1](), fs[1](), fs[2](), fs[3]())
for i = 1, 3 do for j = 1, 3 do if j == 2 then goto continue end io.write(i, j, " ") ::continue:: end end print()
do local k = 0 ::top:: k = k + 1 if k < 5 then goto top end print(k) end
local function va(...) local a, b = ... return select("#", ...), a, b, ... end
print(va()) print(va(nil)) print(va(1, nil, 3)) print((va(1, 2))) print(({ va(1) })[5], #{ va(1, 2) })
print(table.pack(va()).n)
print(1 // 0.0, -1 // 0.0, 0 / 0 ~= 0 / 0, 5 // -3, -5 // 3, 5 % -3, -5 % 3, 5.5 % -2, 2^0.5, 7 // 2.0, 1e15, 1e16,
  2^53, 2^63, -0.0)
print(math.maxinteger + 1 == math.mininteger, math.maxinteger * 2.0, math.ult(1, -1), 3 | 4, 7 & 2, 5 ~ 1, ~0, 1 << 63,
  1 << 64, -1 >> 1, "10" + 5, "0x10" * 2, 10 .. 20)
print(0x7fffffffffffffff, 0xffffffffffffffff, 0x1p4, 1e308 * 10, -1e308 * 10, 100000000000000, 1e100, 123456.789e3, .5,
  3., 0x.8p1)
print(tostring(1e15), tostring(2^31), 1e3 == 1000, math.type(1), math.type(1.0), math.type("1"), 3 == 3.0,
  ({ [3] = "x" })[3.0], tonumber("  12  "), tonumber("1e1"), tonumber("0x"), tonumber("z", 36), tonumber("7", 8),
  tonumber("8", 8), tonumber(""), tonumber("1 2"))
local mt = {}
local EVENTS = { "add", "sub", "mul", "div", "mod", "pow", "unm", "idiv", "band", "bor", "bxor", "shl", "shr", "bnot",
  "concat", "len", "eq", "lt", "le", "call" }
for _, n in ipairs(EVENTS) do
  mt["__" .. n] = function(a, b) return n .. ":" .. type(a) .. type(b) end
end
local o, p = setmetatable({}, mt), setmetatable({}, mt)
print(o + 1, 1 - o, o * o, o / 2, o % 2, o ^ 2, -o, o // 2, o & 1, 1 | o, o ~ 1, o << 1, o >> 1, ~o, o .. "x", "x" .. o,
  #o, o == p, o ~= p, o < p, o <= 1, o > p, o(5))
local log = {}
local proxy = setmetatable({}, { __index = function(_, k) log[#log + 1] = "get " .. k return k .. "!" end,
  __newindex = function(_, k, v) log[#log + 1] = "set " .. k rawset(_, k, v) end,
  __pairs = function() return function(_, k) if not k then return 1, "paired" end end end,
  __tostring = function() return "proxy" end, __name = "Named" })
print(proxy.a, rawget(proxy, "a")) proxy.b = 1 proxy.b = 2
for k, v in pairs(proxy) do print(k, v) end
print(tostring(proxy), table.concat(log, ","))
print((tostring(setmetatable({}, { __name = "Named" })):gsub("0x%x+", "")), getmetatable("x").__index == string,
  getmetatable(setmetatable({}, { __metatable = "locked" })))
local Base = {}
Base.__index = Base
function Base.new(x) return setmetatable({ x = x }, Base) end
function Base:get() return self.x end
local Derived = setmetatable({}, { __index = Base })
Derived.__index = Derived
function Derived:get() return "derived " .. Base.get(self) end
print(Base.new(1):get(), setmetatable({ x = 2 }, Derived):get())
do local x <const>, y <close> = 5, setmetatable({}, { __close = function() print("closed") end }) print(x) end
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end print(fib(20))
local function count(n) if n == 0 then return "tail" end return count(n - 1) end print(count(100000))
local env = { print = print }
print(load("x = 1 return x, y", "c", "t", env)(), env.x) do local _ENV = { print = print } y = 3 print(y, z) end
print(load(string.dump(function(a) return a, _ENV == nil end))(4)) print(#string.dump(function() end) > 10)
local weak = setmetatable({}, { __mode = "k" }) weak[{}] = 1 collectgarbage() print(next(weak))
local order = {}
for i = 1, 3 do setmetatable({}, { __gc = function() order[#order + 1] = i end }) end
collectgarbage() print(table.concat(order, ","))
print(collectgarbage("count") > 0, collectgarbage("isrunning"), collectgarbage("incremental", 100, 200),
  collectgarbage("generational", 20, 100), collectgarbage("stop"), collectgarbage("isrunning"),
  collectgarbage("restart"), collectgarbage("step"), collectgarbage("setpause", 150), collectgarbage("setstepmul", 300),
  collectgarbage())
setmetatable({}, { __gc = function() error("in a finalizer") end }) collectgarbage()
local s = 0
for k, v in pairs { 10, 20, 30, a = 1, b = 2 } do s = s + v end
print(s, #{ 1, 2, nil, 4 } > 0, next({}), rawlen { 1, 2 }, rawlen "abc", rawequal("a", "a"))
do
  local t = {}
  for i = 1, 10 do t[i] = (i * 7) % 11 end
  table.sort(t)
  print(table.concat(t, " "))
  table.sort(t, function(a, b) return a > b end)
  print(table.concat(t, " ", 2, 5))
  print(table.remove(t), table.remove(t, 1), #t, table.unpack(table.move({ 1, 2, 3 }, 1, 3, 2)))
end
