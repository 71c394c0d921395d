-- runloop.redis.fake.lists: the fake's commands for lists, including those that block.

local replies = require "runloop.redis.fake.replies"

local setmetatable, ipairs = setmetatable, ipairs
local upper, max, min = string.upper, math.max, math.min
local fail, integer, bulk, text = replies.fail, replies.integer, replies.bulk, replies.text
local null, read_integer, read_count = replies.null, replies.read_integer, replies.read_count
local from_end, OK = replies.from_end, replies.OK

-- A list has its elements from `first` to `last`.
local List = {}
List.__index = List

local function new() return setmetatable({ first = 1, last = 0 }, List) end
function List:length() return self.last - self.first + 1 end
function List:at(index) return self[self.first + index] end

function List:push(side, value)
  if side == "LEFT" then
    self.first = self.first - 1
    self[self.first] = value
  else
    self.last = self.last + 1
    self[self.last] = value
  end
end

function List:pop(side)
  local place = side == "LEFT" and self.first or self.last
  local value = self[place]
  self[place] = nil
  if side == "LEFT" then self.first = place + 1 else self.last = place - 1 end
  return value
end

-- Replaces all elements.
function List:fill(values)
  for at = self.first, self.last do self[at] = nil end
  for at, value in ipairs(values) do self[at] = value end
  self.first, self.last = 1, #values
end

local function values_of(list, first, last)
  local values = {}
  for index = first or 0, last or list:length() - 1 do values[#values + 1] = list:at(index) end
  return values
end

local function changed(client, key, list) client.space:changed(key, list:length()) end

local function push(client, key, side, value)
  local list = client.space:make(key, "list", new)
  list:push(side, value)
  client.space:touch(key)
  client.space.on_ready(client.space, key)
  return list
end

local function pop(client, key, list, side)
  local value = list:pop(side)
  changed(client, key, list)
  return value
end

local function side_of(word)
  local side = upper(word)
  if side ~= "LEFT" and side ~= "RIGHT" then replies.syntax() end
  return side
end

local commands = {}

local function push_command(side, must_exist)
  return { -3, function(client, words)
    local list = client.space:get(words[2], "list")
    if must_exist and not list then return integer(0) end
    for at = 3, #words do list = push(client, words[2], side, words[at]) end
    return integer(list:length())
  end }
end
commands.lpush, commands.rpush = push_command "LEFT", push_command "RIGHT"
commands.lpushx, commands.rpushx = push_command("LEFT", true), push_command("RIGHT", true)

local function pop_command(name, side)
  return { -2, function(client, words)
    if #words > 3 then fail("ERR wrong number of arguments for '%s' command", name) end
    local count = words[3] and read_count(words[3])
    local key = words[2]
    local list = client.space:get(key, "list")
    if not list then return count and replies.null_list(client) or null(client) end
    if not count then return bulk(pop(client, key, list, side)) end
    local values = {}
    for at = 1, min(count, list:length()) do values[at] = list:pop(side) end
    if count > 0 then changed(client, key, list) end
    return replies.texts(values)
  end }
end
commands.lpop, commands.rpop = pop_command("lpop", "LEFT"), pop_command("rpop", "RIGHT")

commands.llen = { 2, function(client, words)
  local list = client.space:get(words[2], "list")
  return integer(list and list:length() or 0)
end }

-- Returns the indexes of a range; the last one is before the first if it is empty.
local function range_of(words, list)
  local first, last = from_end(read_integer(words[3]), list:length()), from_end(read_integer(words[4]), list:length())
  return max(first, 0), min(last, list:length() - 1)
end

local NONE = new()

commands.lrange = { 4, function(client, words)
  local first, last = range_of(words, NONE)
  local list = client.space:get(words[2], "list")
  if not list then return replies.EMPTY end
  first, last = range_of(words, list)
  return replies.texts(values_of(list, first, last))
end }

commands.ltrim = { 4, function(client, words)
  local first, last = range_of(words, NONE)
  local list = client.space:get(words[2], "list")
  if not list then return OK end
  first, last = range_of(words, list)
  list:fill(values_of(list, first, last))
  changed(client, words[2], list)
  return OK
end }

commands.lindex = { 3, function(client, words)
  local list = client.space:get(words[2], "list")
  if not list then return null(client) end
  return text(client, list:at(from_end(read_integer(words[3]), list:length())))
end }

commands.lset = { 4, function(client, words)
  local list = client.space:get(words[2], "list")
  if not list then fail "ERR no such key" end
  local index = from_end(read_integer(words[3]), list:length())
  if not list:at(index) then fail "ERR index out of range" end
  list[list.first + index] = words[4]
  client.space:touch(words[2])
  return OK
end }

commands.lrem = { 4, function(client, words)
  local count = read_integer(words[3])
  local list = client.space:get(words[2], "list")
  if not list then return integer(0) end
  local values, kept, removed = values_of(list), {}, 0
  local first, last, step = 1, #values, 1
  if count < 0 then first, last, step = last, first, -1 end
  for at = first, last, step do
    if values[at] == words[4] and (count == 0 or removed < math.abs(count)) then
      values[at], removed = false, removed + 1
    end
  end
  if removed == 0 then return integer(0) end
  for _, value in ipairs(values) do if value then kept[#kept + 1] = value end end
  list:fill(kept)
  changed(client, words[2], list)
  return integer(removed)
end }

commands.linsert = { 5, function(client, words)
  local where = upper(words[3])
  if where ~= "BEFORE" and where ~= "AFTER" then replies.syntax() end
  local list = client.space:get(words[2], "list")
  if not list then return integer(0) end
  local values = values_of(list)
  for at, value in ipairs(values) do
    if value == words[4] then
      table.insert(values, where == "BEFORE" and at or at + 1, words[5])
      list:fill(values)
      client.space:touch(words[2])
      return integer(list:length())
    end
  end
  return integer(-1)
end }

-- Reads the options of LPOS.
local function position_options(words)
  local options = { RANK = 1 }
  for at = 4, #words, 2 do
    local option, value = upper(words[at]), words[at + 1]
    if not value or option ~= "RANK" and option ~= "COUNT" and option ~= "MAXLEN" then replies.syntax() end
    local number = read_integer(value)
    if option == "RANK" and number == 0 then
      fail("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
        .. "or use negative to start from the end of the list")
    end
    if option ~= "RANK" and number < 0 then fail("ERR %s can't be negative", option) end
    options[option] = number
  end
  return options
end

commands.lpos = { -3, function(client, words)
  local options = position_options(words)
  local list = client.space:get(words[2], "list") or NONE
  local length, found, skipped = list:length(), {}, math.abs(options.RANK) - 1
  local most = options.COUNT or 1
  local looks = options.MAXLEN and options.MAXLEN > 0 and min(options.MAXLEN, length) or length
  for look = 0, looks - 1 do
    local index = options.RANK > 0 and look or length - 1 - look
    if list:at(index) == words[3] then
      if skipped > 0 then skipped = skipped - 1 else found[#found + 1] = integer(index) end
    end
    if most > 0 and #found == most then break end
  end
  if options.COUNT then return replies.list(found) end
  return found[1] or null(client)
end }

-- Moving and blocking -------------------------------------------------------------------------------------------------

-- Moves an element; returns nil if the list is empty.
local function move(client, from, to, from_side, to_side)
  local list = client.space:get(from, "list")
  if not list then return nil end
  client.space:get(to, "list")
  local value = pop(client, from, list, from_side)
  push(client, to, to_side, value)
  return bulk(value)
end

commands.lmove = { 5, function(client, words)
  local from_side, to_side = side_of(words[4]), side_of(words[5])
  return move(client, words[2], words[3], from_side, to_side) or null(client)
end }
commands.rpoplpush = { 3, function(client, words)
  return move(client, words[2], words[3], "RIGHT", "LEFT") or null(client)
end }

commands.blmove = { 6, function(client, words)
  local from_side, to_side = side_of(words[4]), side_of(words[5])
  return client.fake:_block(client, { words[2] }, replies.read_timeout(words[6]), function()
    return move(client, words[2], words[3], from_side, to_side)
  end, null(client))
end }
commands.brpoplpush = { 4, function(client, words)
  return client.fake:_block(client, { words[2] }, replies.read_timeout(words[4]), function()
    return move(client, words[2], words[3], "RIGHT", "LEFT")
  end, null(client))
end }

-- Returns the words from one index to another.
local function words_from(words, first, last) return { table.unpack(words, first, last) } end

local function block_pop(side)
  return { -3, function(client, words)
    local seconds = replies.read_timeout(words[#words])
    return client.fake:_block(client, words_from(words, 2, #words - 1), seconds, function(key)
      local list = client.space:get(key, "list")
      return list and replies.texts { key, pop(client, key, list, side) }
    end)
  end }
end
commands.blpop, commands.brpop = block_pop "LEFT", block_pop "RIGHT"

--- Reads "numkeys key … SIDE [COUNT n]" from the word at `at`. Returns the keys, the side and the count.
local function several(words, at, sides)
  local number = replies.read_integer(words[at], "ERR numkeys should be greater than 0")
  if number <= 0 then fail "ERR numkeys should be greater than 0" end
  local side = words[at + number + 1] and upper(words[at + number + 1])
  if not sides[side] then replies.syntax() end
  local option, count = words[at + number + 2], 1
  if option then
    if upper(option) ~= "COUNT" or #words ~= at + number + 3 then replies.syntax() end
    count = replies.read_integer(words[#words], "ERR count should be greater than 0")
    if count <= 0 then fail "ERR count should be greater than 0" end
  end
  return words_from(words, at + 1, at + number), side, count
end

local SIDES = { LEFT = true, RIGHT = true }

local function pop_several(client, side, count)
  return function(key)
    local list = client.space:get(key, "list")
    if not list then return nil end
    local values = {}
    for at = 1, min(count, list:length()) do values[at] = list:pop(side) end
    changed(client, key, list)
    return replies.list { bulk(key), replies.texts(values) }
  end
end

commands.lmpop = { -4, function(client, words)
  local keys, side, count = several(words, 2, SIDES)
  local attempt = pop_several(client, side, count)
  for _, key in ipairs(keys) do
    local answer = attempt(key)
    if answer then return answer end
  end
  return replies.null_list(client)
end }
commands.blmpop = { -5, function(client, words)
  local seconds = replies.read_timeout(words[2])
  local keys, side, count = several(words, 3, SIDES)
  return client.fake:_block(client, keys, seconds, pop_several(client, side, count))
end }

return { commands = commands, several = several, words_from = words_from }
