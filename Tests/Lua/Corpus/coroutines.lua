-- Coroutines in all uses, seen from outside and inside.
print(coroutine.isyieldable(), select(2, coroutine.running()), coroutine.status((coroutine.running())))
print(pcall(coroutine.yield, 1))
local main = coroutine.running()
print(coroutine.resume(main))
print(pcall(coroutine.close, main))
print(coroutine.wrap(function()
  return coroutine.isyieldable(), select(2, coroutine.running()), coroutine.status(main), coroutine.resume(main)
end)())
print(pcall(coroutine.wrap(function() coroutine.close(main) end)))

local co = coroutine.create(function(a, b)
  print("start", a, b)
  local c = coroutine.yield(a + b)
  print("got", c)
  local d, e = coroutine.yield()
  print("got", d, e)
  return "end", nil, 3
end)
print(coroutine.status(co), coroutine.resume(co, 1, 2))
print(coroutine.status(co), coroutine.resume(co, "x"))
print(coroutine.status(co), coroutine.resume(co, nil, "y"))
print(coroutine.status(co), coroutine.resume(co))
print(coroutine.resume(coroutine.create(function() error("in it") end)))
print(coroutine.resume(coroutine.create(function() error({}) end)) == false)
print(coroutine.resume(coroutine.create(function() error() end)))

local function range(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i, i * i) end end) end
for i, s in range(4) do io.write(i, ":", s, " ") end
print()
local function permutations(a, n)
  n = n or #a
  if n <= 1 then coroutine.yield(table.concat(a)) end
  for i = 1, n do
    a[n], a[i] = a[i], a[n]
    if n > 1 then permutations(a, n - 1) end
    a[n], a[i] = a[i], a[n]
  end
end
for p in coroutine.wrap(function() permutations { "a", "b", "c" } end) do io.write(p, " ") end
print()

local w = coroutine.wrap(function() return 1 end)
print(w(), pcall(w))
print(pcall(coroutine.wrap(function() error("text") end)))
print(pcall(coroutine.wrap(function() error({ 1 }) end)))
print(pcall(coroutine.wrap(function() error("text", 0) end)))
local self
self = coroutine.wrap(function() return pcall(self) end)
print(self())
local outer
local normal = coroutine.create(function() return coroutine.resume(outer) end)
outer = coroutine.create(function() return coroutine.resume(normal) end)
print(coroutine.resume(outer))
print(pcall(coroutine.wrap, 1))
print(pcall(coroutine.create))
print(pcall(coroutine.resume, 1))
print(pcall(coroutine.status, {}))
print(pcall(coroutine.isyieldable, coroutine.create(print)), coroutine.isyieldable(coroutine.create(print)))

-- Closing.
local log = {}
local function closable(name, fails)
  return setmetatable({}, { __close = function(_, e)
    log[#log + 1] = name .. "(" .. tostring(e) .. ")"
    if fails then error(fails, 0) end
  end })
end
local c = coroutine.create(function()
  local a <close> = closable "a"
  local b <close> = closable("b", "from b")
  coroutine.yield()
end)
coroutine.resume(c)
print(coroutine.close(c), coroutine.status(c))
print(coroutine.close(c))
print(coroutine.close(coroutine.create(print)))
local d = coroutine.create(function() local a <close> = closable "d" coroutine.yield() end)
coroutine.resume(d)
print(coroutine.close(d), coroutine.status(d))
local e = coroutine.wrap(function() local x <close> = closable("e", "from e") error("first") end)
print(pcall(e))
print(pcall(e))
local f = coroutine.create(function() local x <close> = closable "f" error("lost", 0) end)
print(coroutine.resume(f))
print(coroutine.close(f))
local g = coroutine.wrap(function()
  local x <close> = setmetatable({}, { __close = function() coroutine.yield("closing") end })
  return "done"
end)
print(g(), g())
print(table.concat(log, " "))

-- Yields across pcall, metamethods, iterators, sort.
print(coroutine.wrap(function() return pcall(function() return coroutine.yield("inside") end) end)())
local y = coroutine.wrap(function() return pcall(function() error(coroutine.yield("a")) end) end)
print(y(), y("b"))
local mt = setmetatable({}, { __index = function(_, k) return coroutine.yield(k) end, __add = coroutine.yield,
  __call = function(_, v) return coroutine.yield(v) end, __eq = function() return coroutine.yield("eq") end })
local m = coroutine.wrap(function() return mt.x, mt + 1, mt(7), mt == setmetatable({}, getmetatable(mt)) end)
print(m())
print(select("#", m("index")))
print(m("add"))
print(m("call"))
print(m(true))
print(pcall(coroutine.wrap(function() table.sort({ 3, 2, 1 }, coroutine.yield) end)))
print(coroutine.wrap(function() for k in coroutine.yield do return k end end)())
print(coroutine.wrap(function() return xpcall(function() coroutine.yield(1) error("x", 0) end, string.upper) end)())

-- Deep and many.
local function deep(n) if n == 0 then return "bottom" end return coroutine.wrap(deep)(n - 1) end
print(deep(100), (select(2, pcall(deep, 10000)):gsub("^.*: ", "")))
local all = {}
for i = 1, 1000 do all[i] = coroutine.create(function() coroutine.yield(i) end) coroutine.resume(all[i]) end
all = nil
collectgarbage()
print(select("#", coroutine.wrap(function(...) return coroutine.yield(...) end)(table.unpack({}, 1, 200))))
print(debug.traceback(co, "dead"), debug.traceback(coroutine.create(function() end), nil, 0))
local t = coroutine.create(function() local here = 5 coroutine.yield() end)
coroutine.resume(t)
print(debug.traceback(t), debug.getlocal(t, 1, 1))
print(debug.getinfo(t, 1, "l").currentline, debug.getinfo(t, 5))
