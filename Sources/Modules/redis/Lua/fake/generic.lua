-- runloop.redis.fake.generic: the fake's commands for keys of every kind.

local replies = require "runloop.redis.fake.replies"
local Space = require "runloop.redis.fake.spaces"

local upper, lower, ipairs, floor = string.upper, string.lower, ipairs, math.floor
local fail, integer, bulk, read_integer = replies.fail, replies.integer, replies.bulk, replies.read_integer
local OK = replies.OK

local commands = {}

-- Counts the keys for which a function is true.
local function count_keys(fn)
  return { -2, function(client, words)
    local count = 0
    for at = 2, #words do if fn(client.space, words[at]) then count = count + 1 end end
    return integer(count)
  end }
end

local function remove(space, key) return space:find(key) ~= nil and space:remove(key) end
local function exists(space, key) return space:find(key) ~= nil end
commands.del, commands.unlink = count_keys(remove), count_keys(remove)
commands.exists, commands.touch = count_keys(exists), count_keys(exists)

commands.type = { 2, function(client, words)
  local entry = client.space:find(words[2])
  return "+" .. (entry and entry.kind or "none") .. "\r\n"
end }

-- Times ---------------------------------------------------------------------------------------------------------------

-- Reads NX, XX, GT and LT.
local function conditions_of(words)
  local options = {}
  for at = 4, #words do
    local option = upper(words[at])
    if option ~= "NX" and option ~= "XX" and option ~= "GT" and option ~= "LT" then
      fail("ERR Unsupported option %s", words[at])
    end
    options[option] = true
  end
  if options.NX and (options.XX or options.GT or options.LT) then
    fail "ERR NX and XX, GT or LT options at the same time are not compatible"
  end
  if options.GT and options.LT then fail "ERR GT and LT options at the same time are not compatible" end
  return options
end

local function expire(name, unit, is_date)
  return { -3, function(client, words)
    local options = conditions_of(words)
    local number, space, key = read_integer(words[3]), client.space, words[2]
    if number > math.maxinteger // unit or number < math.mininteger // unit then
      fail("ERR invalid expire time in '%s' command", name)
    end
    local time = number * unit + (is_date and 0.0 or Space.now())
    if time >= 2 ^ 63 then fail("ERR invalid expire time in '%s' command", name) end
    local entry = space:find(key)
    if not entry then return integer(0) end
    local before = entry.expires
    if options.NX and before or options.XX and not before or options.GT and (not before or time <= before)
      or options.LT and before and time >= before then
      return integer(0)
    end
    entry.expires = time
    space:touch(key)
    space:find(key)
    return integer(1)
  end }
end
commands.expire, commands.pexpire = expire("expire", 1000), expire("pexpire", 1)
commands.expireat, commands.pexpireat = expire("expireat", 1000, true), expire("pexpireat", 1, true)

local function time_left(unit, is_date)
  return { 2, function(client, words)
    local entry = client.space:find(words[2])
    if not entry then return integer(-2) end
    if not entry.expires then return integer(-1) end
    return integer(floor((entry.expires - (is_date and 0 or Space.now())) / unit + 0.5))
  end }
end
commands.ttl, commands.pttl = time_left(1000), time_left(1)
commands.expiretime, commands.pexpiretime = time_left(1000, true), time_left(1, true)

commands.persist = { 2, function(client, words)
  local entry = client.space:find(words[2])
  if not entry or not entry.expires then return integer(0) end
  entry.expires = nil
  client.space:touch(words[2])
  return integer(1)
end }

-- Names ---------------------------------------------------------------------------------------------------------------

local function rename(client, words, is_new)
  local space, from, to = client.space, words[2], words[3]
  local entry = space:find(from)
  if not entry then fail "ERR no such key" end
  if is_new and space:find(to) then return false end
  if from == to then return true end
  space:remove(from)
  space:remove(to)
  space.entries:set(to, entry)
  space:touch(to)
  if entry.kind == "list" or entry.kind == "zset" then space.on_ready(space, to) end
  return true
end
commands.rename = { 3, function(client, words) return rename(client, words) and OK end }
commands.renamenx = { 3, function(client, words) return integer(rename(client, words, true) and 1 or 0) end }

commands.keys = { 2, function(client, words)
  local pattern, found = replies.pattern(words[2]), {}
  for _, key in ipairs(client.space.entries:list()) do
    if client.space:find(key) and key:find(pattern) then found[#found + 1] = key end
  end
  return replies.texts(found)
end }

commands.dbsize = { 1, function(client) return integer(client.space.entries.count) end }

commands.randomkey = { 1, function(client)
  local space = client.space
  local key
  repeat key = space.entries:random() until not key or space:find(key)
  return replies.text(client, key)
end }

local function flush(clear)
  return { -1, function(client, words)
    local how = words[2] and upper(words[2])
    if #words > 2 or how and how ~= "ASYNC" and how ~= "SYNC" then replies.syntax() end
    clear(client)
    return OK
  end }
end
commands.flushdb = flush(function(client) client.space:clear() end)
commands.flushall = flush(function(client) for _, space in ipairs(client.fake._spaces) do space:clear() end end)

-- Scans ---------------------------------------------------------------------------------------------------------------

-- Reads the options of a scan after the cursor at `at`. Returns the pattern, the count and the kind.
local function scan_options(words, at, has_kind)
  local pattern, count, kind = nil, 10, nil
  for index = at + 1, #words, 2 do
    local option, value = upper(words[index]), words[index + 1]
    if not value then replies.syntax() end
    if option == "COUNT" then
      count = read_integer(value)
      if count < 1 then replies.syntax() end
    elseif option == "MATCH" then
      pattern = replies.pattern(value)
    elseif option == "TYPE" and has_kind then
      kind = lower(value)
    else
      replies.syntax()
    end
  end
  return pattern, count, kind
end

--- Returns the answer of a scan: the next cursor, and the list to which `add` adds. `kind` is the kind of the value
--- that is scanned; nil for the keys themselves.
local function scan_answer(client, words, kind, add)
  local at = kind and 3 or 2
  local cursor = words[at]:find "^%d+$" and math.tointeger(tonumber(words[at])) or fail "ERR invalid cursor"
  local ordered = client.space.entries
  if kind then ordered = client.space:get(words[2], kind) end
  if not ordered then return replies.list { bulk "0", replies.EMPTY } end
  local pattern, count, wanted = scan_options(words, at, not kind)
  local keys, after = ordered:scan(cursor, count)
  local found = {}
  for _, key in ipairs(keys) do
    if not pattern or key:find(pattern) then add(found, key, ordered.values[key], wanted) end
  end
  return replies.list { bulk(("%d"):format(after)), replies.texts(found) }
end

commands.scan = { -2, function(client, words)
  return scan_answer(client, words, nil, function(found, key, _, wanted)
    local entry = client.space:find(key)
    if entry and (not wanted or entry.kind == wanted) then found[#found + 1] = key end
  end)
end }

return { commands = commands, scan_answer = scan_answer }
