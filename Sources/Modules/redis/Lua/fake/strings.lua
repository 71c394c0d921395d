-- runloop.redis.fake.strings: the fake's commands for strings. Each function gets the client and the words of the call.

local replies = require "runloop.redis.fake.replies"
local Space = require "runloop.redis.fake.spaces"

local upper, tostring = string.upper, tostring
local fail, integer, bulk, text = replies.fail, replies.integer, replies.bulk, replies.text
local null, read_integer, OK = replies.null, replies.read_integer, replies.OK

local MOST = 512 << 20

local UNITS = { EX = 1000, PX = 1, EXAT = 1000, PXAT = 1 }

-- Returns the time at which a value ends, in milliseconds.
local function end_time(name, option, word)
  local number = read_integer(word)
  local unit = UNITS[option]
  if number <= 0 or number > math.maxinteger // unit then fail("ERR invalid expire time in '%s' command", name) end
  local time = number * unit + 0.0
  if #option == 2 then time = time + Space.now() end
  if time >= 2 ^ 63 then fail("ERR invalid expire time in '%s' command", name) end
  return time
end

-- Reads the options of SET and GETEX after the word at `first`. Returns the options, with the time in `expires`.
local function options_of(name, words, first, known)
  local options, unit, at = {}, nil, first
  while words[at] do
    local option = upper(words[at])
    if UNITS[option] and words[at + 1] and not unit and not options.KEEPTTL and not options.PERSIST then
      unit, options.word = option, words[at + 1]
      at = at + 1
    elseif not known[option] or options[option] or (option == "KEEPTTL" or option == "PERSIST") and unit
      or option == "NX" and options.XX or option == "XX" and options.NX then
      replies.syntax()
    else
      options[option] = true
    end
    at = at + 1
  end
  if unit then options.expires = end_time(name, unit, options.word) end
  return options
end

local commands = {}

local function get(client, words) return text(client, client.space:get(words[2], "string")) end
commands.get = { 2, get }

local SET = { NX = true, XX = true, GET = true, KEEPTTL = true }
commands.set = { -3, function(client, words)
  local space, key = client.space, words[2]
  local options = options_of("set", words, 4, SET)
  local before = options.GET and get(client, words)
  local entry = space:find(key)
  if options.NX and entry or options.XX and not entry then return before or null(client) end
  space:put(key, "string", words[3], options.expires or options.KEEPTTL and entry and entry.expires or nil)
  space:find(key)
  return before or OK
end }

commands.setnx = { 3, function(client, words)
  if client.space:find(words[2]) then return integer(0) end
  client.space:put(words[2], "string", words[3])
  return integer(1)
end }

local function set_with_end(name, unit)
  return { 4, function(client, words)
    client.space:put(words[2], "string", words[4], end_time(name, unit, words[3]))
    return OK
  end }
end
commands.setex, commands.psetex = set_with_end("setex", "EX"), set_with_end("psetex", "PX")

commands.getset = { 3, function(client, words)
  local before = get(client, words)
  client.space:put(words[2], "string", words[3])
  return before
end }

commands.getdel = { 2, function(client, words)
  local before = get(client, words)
  client.space:remove(words[2])
  return before
end }

local GETEX = { PERSIST = true }
commands.getex = { -2, function(client, words)
  local options = options_of("getex", words, 3, GETEX)
  local answer = get(client, words)
  local entry = client.space:find(words[2])
  if entry and (options.expires or options.PERSIST and entry.expires) then
    entry.expires = options.expires
    client.space:touch(words[2])
    client.space:find(words[2])
  end
  return answer
end }

commands.mget = { -2, function(client, words)
  local pieces = {}
  for at = 2, #words do
    local entry = client.space:find(words[at])
    pieces[at - 1] = text(client, entry and entry.kind == "string" and entry.value)
  end
  return replies.list(pieces)
end }

local function set_pairs(client, words)
  for at = 2, #words, 2 do client.space:put(words[at], "string", words[at + 1]) end
end

commands.mset = { -3, function(client, words)
  if #words % 2 == 0 then fail "ERR wrong number of arguments for 'mset' command" end
  set_pairs(client, words)
  return OK
end }

commands.msetnx = { -3, function(client, words)
  if #words % 2 == 0 then fail "ERR wrong number of arguments for 'msetnx' command" end
  for at = 2, #words, 2 do if client.space:find(words[at]) then return integer(0) end end
  set_pairs(client, words)
  return integer(1)
end }

-- Changes a string, which keeps its expiry time.
local function change(client, key, value)
  local entry = client.space:find(key)
  client.space:put(key, "string", value, entry and entry.expires)
end

local function check_length(length)
  if length > MOST then fail "ERR string exceeds maximum allowed size (proto-max-bulk-len)" end
end

commands.append = { 3, function(client, words)
  local value = (client.space:get(words[2], "string") or "") .. words[3]
  check_length(#value)
  change(client, words[2], value)
  return integer(#value)
end }

commands.strlen = { 2, function(client, words) return integer(#(client.space:get(words[2], "string") or "")) end }

commands.getrange = { 4, function(client, words)
  local first, last = read_integer(words[3]), read_integer(words[4])
  local value = client.space:get(words[2], "string") or ""
  if first < 0 and last < 0 and first > last then return bulk "" end
  first, last = replies.from_end(first, #value), replies.from_end(last, #value)
  return bulk(value:sub(math.max(first, 0) + 1, math.max(last, 0) + 1))
end }

commands.setrange = { 4, function(client, words)
  local offset, piece = read_integer(words[3]), words[4]
  if offset < 0 then fail "ERR offset is out of range" end
  local value = client.space:get(words[2], "string") or ""
  if piece == "" then return integer(#value) end
  check_length(offset + #piece)
  value = value .. ("\0"):rep(offset - #value)
  value = value:sub(1, offset) .. piece .. value:sub(offset + #piece + 1)
  change(client, words[2], value)
  return integer(#value)
end }

--- Adds two integers; refuses a sum beyond 64 bits.
local function add(value, step)
  local sum = value + step
  if step > 0 and sum < value or step < 0 and sum > value then fail "ERR increment or decrement would overflow" end
  return sum
end

local function increase(client, key, step)
  local sum = add(read_integer(client.space:get(key, "string") or "0"), step)
  change(client, key, tostring(sum))
  return integer(sum)
end

commands.incr = { 2, function(client, words) return increase(client, words[2], 1) end }
commands.decr = { 2, function(client, words) return increase(client, words[2], -1) end }
commands.incrby = { 3, function(client, words) return increase(client, words[2], read_integer(words[3])) end }
commands.decrby = { 3, function(client, words)
  local step = read_integer(words[3])
  if step == math.mininteger then fail "ERR decrement would overflow" end
  return increase(client, words[2], -step)
end }

local function add_float(value, step)
  local sum = value + step
  if sum ~= sum or sum == math.huge or sum == -math.huge then fail "ERR increment would produce NaN or Infinity" end
  return replies.plain_number(sum)
end

commands.incrbyfloat = { 3, function(client, words)
  local before = client.space:get(words[2], "string") or "0"
  local value = replies.read_float(before)
  local sum = add_float(value, replies.read_float(words[3]))
  change(client, words[2], sum)
  return bulk(sum)
end }

return { commands = commands, add = add, add_float = add_float }
