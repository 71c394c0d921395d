-- runloop.redis.fake.hashes: the fake's commands for hashes and sets.

local replies = require "runloop.redis.fake.replies"
local Space = require "runloop.redis.fake.spaces"
local strings = require "runloop.redis.fake.strings"
local generic = require "runloop.redis.fake.generic"

local ipairs, tostring, upper, min = ipairs, tostring, string.upper, math.min
local fail, integer, bulk, text = replies.fail, replies.integer, replies.bulk, replies.text
local read_integer, read_count, OK = replies.read_integer, replies.read_count, replies.OK

local commands = {}

-- Hashes --------------------------------------------------------------------------------------------------------------

local new = Space.Ordered.new

local function hash_of(client, key) return client.space:get(key, "hash") end
local function field_of(client, words)
  local hash = hash_of(client, words[2])
  return hash and hash.values[words[3]]
end

local function set_fields(name, answer)
  return { -4, function(client, words)
    if #words % 2 == 1 then fail("ERR wrong number of arguments for '%s' command", name) end
    local hash, added = client.space:make(words[2], "hash", new), 0
    for at = 3, #words, 2 do if hash:set(words[at], words[at + 1]) then added = added + 1 end end
    client.space:touch(words[2])
    return answer or integer(added)
  end }
end
commands.hset, commands.hmset = set_fields "hset", set_fields("hmset", OK)

commands.hsetnx = { 4, function(client, words)
  if field_of(client, words) then return integer(0) end
  client.space:make(words[2], "hash", new):set(words[3], words[4])
  client.space:touch(words[2])
  return integer(1)
end }

commands.hget = { 3, function(client, words) return text(client, field_of(client, words)) end }
commands.hexists = { 3, function(client, words) return integer(field_of(client, words) and 1 or 0) end }
commands.hstrlen = { 3, function(client, words) return integer(#(field_of(client, words) or "")) end }
commands.hlen = { 2, function(client, words)
  local hash = hash_of(client, words[2])
  return integer(hash and hash.count or 0)
end }

commands.hmget = { -3, function(client, words)
  local hash, pieces = hash_of(client, words[2]), {}
  for at = 3, #words do pieces[at - 2] = text(client, hash and hash.values[words[at]]) end
  return replies.list(pieces)
end }

commands.hdel = { -3, function(client, words)
  local hash, removed = hash_of(client, words[2]), 0
  for at = 3, #words do if hash and hash:remove(words[at]) then removed = removed + 1 end end
  if removed > 0 then client.space:changed(words[2], hash.count) end
  return integer(removed)
end }

commands.hgetall = { 2, function(client, words)
  local hash, pieces = hash_of(client, words[2]), {}
  for _, field in ipairs(hash and hash:list() or {}) do
    pieces[#pieces + 1], pieces[#pieces + 2] = bulk(field), bulk(hash.values[field])
  end
  return replies.map(client, pieces)
end }

commands.hkeys = { 2, function(client, words)
  local hash = hash_of(client, words[2])
  return replies.texts(hash and hash:list() or {})
end }

commands.hvals = { 2, function(client, words)
  local hash = hash_of(client, words[2])
  local list = hash and hash:list() or {}
  for index, field in ipairs(list) do list[index] = hash.values[field] end
  return replies.texts(list)
end }

-- Changes a field by a function of its value.
local function increase(client, words, sum_of)
  local value = sum_of(field_of(client, words) or "0")
  client.space:make(words[2], "hash", new):set(words[3], value)
  client.space:touch(words[2])
  return value
end

commands.hincrby = { 4, function(client, words)
  local step = read_integer(words[4])
  return integer(increase(client, words, function(value)
    return tostring(strings.add(read_integer(value, "ERR hash value is not an integer"), step))
  end))
end }

commands.hincrbyfloat = { 4, function(client, words)
  local step = replies.read_float(words[4])
  return bulk(increase(client, words, function(value)
    return strings.add_float(replies.read_float(value, "ERR hash value is not a float"), step)
  end))
end }

commands.hscan = { -3, function(client, words)
  return generic.scan_answer(client, words, "hash", function(found, field, value)
    found[#found + 1], found[#found + 2] = field, value
  end)
end }

-- Sets ----------------------------------------------------------------------------------------------------------------

local function set_of(client, key) return client.space:get(key, "set") end

commands.sadd = { -3, function(client, words)
  local set, added = client.space:make(words[2], "set", new), 0
  for at = 3, #words do if set:set(words[at], true) then added = added + 1 end end
  if added > 0 then client.space:touch(words[2]) end
  return integer(added)
end }

commands.srem = { -3, function(client, words)
  local set, removed = set_of(client, words[2]), 0
  for at = 3, #words do if set and set:remove(words[at]) then removed = removed + 1 end end
  if removed > 0 then client.space:changed(words[2], set.count) end
  return integer(removed)
end }

commands.scard = { 2, function(client, words)
  local set = set_of(client, words[2])
  return integer(set and set.count or 0)
end }

commands.sismember = { 3, function(client, words)
  local set = set_of(client, words[2])
  return integer(set and set.values[words[3]] and 1 or 0)
end }

commands.smismember = { -3, function(client, words)
  local set, pieces = set_of(client, words[2]), {}
  for at = 3, #words do pieces[at - 2] = integer(set and set.values[words[at]] and 1 or 0) end
  return replies.list(pieces)
end }

commands.smove = { 4, function(client, words)
  local space, from, to = client.space, words[2], words[3]
  local source, target = set_of(client, from), nil
  if not source then return integer(0) end
  target = set_of(client, to)
  if not source.values[words[4]] then return integer(0) end
  if from == to then return integer(1) end
  source:remove(words[4])
  space:changed(from, source.count)
  target = target or space:make(to, "set", new)
  if target:set(words[4], true) then space:touch(to) end
  return integer(1)
end }

commands.spop = { -2, function(client, words)
  if #words > 3 then replies.syntax() end
  local count = words[3] and read_count(words[3])
  local set, popped = set_of(client, words[2]), {}
  if not set then return count and replies.set(client, {}) or replies.null(client) end
  for at = 1, min(count or 1, set.count) do
    popped[at] = set:random()
    set:remove(popped[at])
  end
  if #popped > 0 then client.space:changed(words[2], set.count) end
  return count and replies.set(client, popped) or bulk(popped[1])
end }

commands.srandmember = { -2, function(client, words)
  if #words > 3 then replies.syntax() end
  local count = words[3] and read_integer(words[3])
  local set, found = set_of(client, words[2]), {}
  if not set then return count and replies.EMPTY or replies.null(client) end
  if not count then return bulk(set:random()) end
  if count < 0 then
    for at = 1, -count do found[at] = set:random() end
    return replies.texts(found)
  end
  local rest = set:list()
  for at = 1, min(count, #rest) do found[at] = table.remove(rest, math.random(#rest)) end
  return replies.texts(found)
end }

-- Operations on several sets ------------------------------------------------------------------------------------------

local OPERATIONS = {}

function OPERATIONS.sinter(sets)
  local found = {}
  for _, member in ipairs(sets[1] and sets[1]:list() or {}) do
    local is_in_all = true
    for at = 2, sets.count do is_in_all = is_in_all and sets[at] and sets[at].values[member] end
    if is_in_all then found[#found + 1] = member end
  end
  return found
end

function OPERATIONS.sunion(sets)
  local all = new()
  for at = 1, sets.count do
    for _, member in ipairs(sets[at] and sets[at]:list() or {}) do all:set(member, true) end
  end
  return all:list()
end

function OPERATIONS.sdiff(sets)
  local found = {}
  for _, member in ipairs(sets[1] and sets[1]:list() or {}) do
    local is_elsewhere
    for at = 2, sets.count do is_elsewhere = is_elsewhere or sets[at] and sets[at].values[member] end
    if not is_elsewhere then found[#found + 1] = member end
  end
  return found
end

local function sets_of(client, words, first, last)
  local sets = { count = last - first + 1 }
  for at = first, last do sets[at - first + 1] = set_of(client, words[at]) end
  return sets
end

for name, operation in pairs(OPERATIONS) do
  commands[name] = { -2, function(client, words)
    return replies.set(client, operation(sets_of(client, words, 2, #words)))
  end }
  commands[name .. "store"] = { -3, function(client, words)
    local space, members = client.space, operation(sets_of(client, words, 3, #words))
    if #members == 0 then
      if space:find(words[2]) then space:remove(words[2]) end
      return integer(0)
    end
    local set = new()
    for _, member in ipairs(members) do set:set(member, true) end
    space:put(words[2], "set", set)
    return integer(#members)
  end }
end

commands.sintercard = { -3, function(client, words)
  local number = read_integer(words[2], "ERR numkeys should be greater than 0")
  if number <= 0 then fail "ERR numkeys should be greater than 0" end
  if number > #words - 2 then fail "ERR Number of keys can't be greater than number of args" end
  local limit, option = nil, words[number + 3]
  if option then
    if upper(option) ~= "LIMIT" or #words ~= number + 4 then replies.syntax() end
    limit = read_integer(words[#words], "ERR LIMIT can't be negative")
    if limit < 0 then fail "ERR LIMIT can't be negative" end
  end
  local count = #OPERATIONS.sinter(sets_of(client, words, 3, number + 2))
  return integer(limit and limit > 0 and min(limit, count) or count)
end }

commands.smembers = { 2, function(client, words)
  local set = set_of(client, words[2])
  return replies.set(client, set and set:list() or {})
end }

commands.sscan = { -3, function(client, words)
  return generic.scan_answer(client, words, "set", function(found, member) found[#found + 1] = member end)
end }

return { commands = commands }
