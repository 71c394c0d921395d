-- Values of each type of PostgreSQL go to a real server and back unchanged.

local t = require "runloop.test"
local json = require "runloop.json"
local postgres = require "runloop.postgres"

local random, char = math.random, string.char
local function bytes(most)
  local list = {}
  for i = 1, random(0, most) do list[i] = char(random(0, 255)) end
  return table.concat(list)
end
local function text(most)
  local list = {}
  for i = 1, random(0, most) do
    local code = random() < 0.7 and random(1, 127) or random(128, 0xd7ff)
    list[i] = utf8.char(random() < 0.05 and random(0x10000, 0x10ffff) or code)
  end
  return table.concat(list)
end
local function date() return ("%04d-%02d-%02d"):format(random(1, 9999), random(1, 12), random(1, 28)) end
local function time() return ("%02d:%02d:%02d"):format(random(0, 23), random(0, 59), random(0, 59)) end
local function list(one)
  local result = {}
  for i = 1, random(0, 5) do result[i] = random() < 0.2 and json.null or one() end
  return result
end
-- For each type: a function that returns a parameter, and the expected value if it differs from the parameter.
local types = {
  int2 = function() return random(-32768, 32767) end,
  int4 = function() return random(-1 << 31, (1 << 31) - 1) end,
  int8 = function() return random(0) end,
  oid = function() return random(0, (1 << 32) - 1) end,
  float4 = function() return (("f"):unpack(("f"):pack((random() - 0.5) * 10.0 ^ random(-30, 30)))) end,
  float8 = function() return (random() - 0.5) * 10.0 ^ random(-300, 300) end,
  bool = function() return random() < 0.5 end,
  text = function() return text(30) end,
  mood = function() return ({ "sad", "ok", "very happy" })[random(3)] end,
  uuid = function()
    return ("%08x-%04x-%04x-%04x-%012x"):format(random(0, (1 << 32) - 1), random(0, 65535), random(0, 65535),
      random(0, 65535), random(0, (1 << 48) - 1))
  end,
  bytea = function()
    local value = bytes(30)
    return postgres.bytes(value), value
  end,
  date = date, time = time,
  timestamp = function() return date() .. " " .. time() end,
  interval = function() return ("%d days"):format(random(2, 100000)) end,
  int4range = function()
    local from = random(-1000, 1000)
    return ("[%d,%d)"):format(from, from + random(1, 1000))
  end,
  numeric = function() return ("%d.%06d"):format(random(1, math.maxinteger), random(0, 999999)) end,
  timestamptz = function()
    local seconds = random(-1 << 35, 1 << 35) + random(0, 63) / 64
    return postgres.time(seconds), seconds
  end,
  jsonb = function()
    local value = { a = random(0), b = list(function() return text(5) end), c = random() < 0.5 }
    return postgres.json(value), value
  end,
  ["int8[]"] = function()
    local value = list(function() return random(0) end)
    return postgres.array(value), value
  end,
  ["text[]"] = function()
    local value = list(function() return text(8) end)
    return postgres.array(value), value
  end,
}

t.it("10,000 random values of each type are read back unchanged", { timeout = 120 }, function()
  local db = t.truthy(postgres.open(t.server "postgres":url()))
  t.equal(db:script "create type mood as enum ('sad', 'ok', 'very happy')", true)
  for name, make in pairs(types) do
    local columns = {}
    for i = 1, 100 do columns[i] = ("$%d::%s"):format(i, name) end
    local statement = "select " .. table.concat(columns, ", ")
    for _ = 1, 100 do
      local call, expected = { statement, lists = true, nulls = true }, {}
      for i = 1, 100 do
        local value, other = make()
        call[i + 1] = value
        if other == nil then expected[i] = value else expected[i] = other end
      end
      local row = db:row(call)
      -- Many texts stand for the same number in four bytes, so compare the numbers and not the shortest texts.
      if name == "float4" then for i = 1, 100 do row[i] = ("f"):unpack(("f"):pack(row[i])) end end
      t.equal(row, expected, name)
    end
  end
  t.equal(db:script "drop type mood", true)
  db:close()
end)
