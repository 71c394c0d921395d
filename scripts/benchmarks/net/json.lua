-- Encodes and decodes JSON, beside lua-cjson: json.lua SHARE. The work is divided by SHARE.

local json = require "runloop.json"
local has_cjson, cjson = pcall(require, "cjson")
local share = tonumber(arg[1]) or 1
local list = {}
for i = 1, 1000 do
  list[i] = { id = i, name = "item " .. i, tags = { "red", "green", "a longer tag than that" },
    price = i * 1.25, ok = i % 2 == 0,
    nested = { x = i / 7, y = -i, text = "with \"quotes\" and \n lines" } }
end
local text = json.encode(list)

local function time(fn, argument)
  local best = math.huge
  for _ = 1, 5 do
    local before = os.clock()
    for _ = 1, math.max(1, 40 // share) do fn(argument) end
    best = math.min(best, (os.clock() - before) / math.max(1, 40 // share))
  end
  return best * 1e6
end

for _, row in ipairs { { "decode", text }, { "encode", list } } do
  local own = time(json[row[1]], row[2])
  local cell = ("| JSON %s, %d kB, µs | rlhost %.0f"):format(row[1], #text // 1000, own)
  if has_cjson then
    local other = time(cjson[row[1]], row[2])
    cell = cell .. (" · lua-cjson %.0f (%.2f)"):format(other, own / other)
  end
  print(cell .. " |")
end
