-- runloop.redis.fake.sorted: the fake's commands for sorted sets.

local replies = require "runloop.redis.fake.replies"
local Space = require "runloop.redis.fake.spaces"
local generic = require "runloop.redis.fake.generic"
local lists = require "runloop.redis.fake.lists"

local setmetatable, ipairs, upper = setmetatable, ipairs, string.upper
local sort, min, max = table.sort, math.min, math.max
local fail, integer, bulk = replies.fail, replies.integer, replies.bulk
local double, read_integer, from_end = replies.double, replies.read_integer, replies.from_end

-- A sorted set is a table with an order whose values are scores; `sorted` is made when it is needed.
local Sorted = setmetatable({}, { __index = Space.Ordered })
Sorted.__index = Sorted

local function new() return setmetatable(Space.Ordered.new(), Sorted) end

function Sorted:give(member, score)
  self.sorted = nil
  return self:set(member, score)
end

function Sorted:take(member)
  self.sorted = nil
  return self:remove(member)
end

--- Returns the members, sorted by score; those of equal score are sorted by name.
function Sorted:order()
  if self.sorted then return self.sorted end
  local list, scores = self:list(), self.values
  sort(list, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] < scores[b] end
    return a < b
  end)
  self.sorted = list
  return list
end

local commands = {}

local function zset_of(client, key) return client.space:get(key, "zset") end

-- Adding --------------------------------------------------------------------------------------------------------------

local OPTIONS = { NX = true, XX = true, GT = true, LT = true, CH = true, INCR = true }

-- Reads the options of ZADD. Returns the options, and the index of the first score.
local function add_options(words)
  local options, at = {}, 3
  while words[at] and OPTIONS[upper(words[at])] do
    options[upper(words[at])] = true
    at = at + 1
  end
  local left = #words - at + 1
  if left == 0 or left % 2 == 1 then replies.syntax() end
  if options.NX and options.XX then fail "ERR XX and NX options at the same time are not compatible" end
  if options.GT and options.LT or options.NX and (options.GT or options.LT) then
    fail "ERR GT, LT, and/or NX options at the same time are not compatible"
  end
  if options.INCR and left > 2 then fail "ERR INCR option supports a single increment-element pair" end
  return options, at
end

-- Gives a member a score. Returns "added", "changed", "same", or nil if an option forbids it; and the score.
local function give(zset, options, member, score)
  local before = zset.values[member]
  if not before then
    if options.XX then return nil end
    zset:give(member, score)
    return "added", score
  end
  if options.NX then return nil end
  if options.INCR then
    score = before + score
    if score ~= score then fail "ERR resulting score is not a number (NaN)" end
  end
  if options.GT and score <= before or options.LT and score >= before then return nil end
  if score == before then return "same", score end
  zset:give(member, score)
  return "changed", score
end

local function add(client, words, options, at)
  local space, key, scores = client.space, words[2], {}
  for index = at, #words, 2 do scores[index] = replies.read_float(words[index]) end
  local zset = zset_of(client, key)
  if not zset and options.XX then return options.INCR and replies.null(client) or integer(0) end
  zset = zset or space:make(key, "zset", new)
  local added, changed, how, score = 0, 0, nil, nil
  for index = at, #words, 2 do
    how, score = give(zset, options, words[index + 1], scores[index])
    if how == "added" then added = added + 1 elseif how == "changed" then changed = changed + 1 end
  end
  if added + changed > 0 then
    space:touch(key)
    space.on_ready(space, key)
  end
  if options.INCR then return how and double(client, score) or replies.null(client) end
  return integer(options.CH and added + changed or added)
end

commands.zadd = { -4, function(client, words) return add(client, words, add_options(words)) end }
commands.zincrby = { 4, function(client, words) return add(client, words, { INCR = true }, 3) end }

-- Looking up ----------------------------------------------------------------------------------------------------------

commands.zcard = { 2, function(client, words)
  local zset = zset_of(client, words[2])
  return integer(zset and zset.count or 0)
end }

commands.zscore = { 3, function(client, words)
  local zset = zset_of(client, words[2])
  local score = zset and zset.values[words[3]]
  return score and double(client, score) or replies.null(client)
end }

commands.zmscore = { -3, function(client, words)
  local zset, pieces = zset_of(client, words[2]), {}
  for at = 3, #words do
    local score = zset and zset.values[words[at]]
    pieces[at - 2] = score and double(client, score) or replies.null(client)
  end
  return replies.list(pieces)
end }

local function rank(is_reversed)
  return { 3, function(client, words)
    local zset = zset_of(client, words[2])
    if not zset or not zset.values[words[3]] then return replies.null(client) end
    for index, member in ipairs(zset:order()) do
      if member == words[3] then return integer(is_reversed and zset.count - index or index - 1) end
    end
  end }
end
commands.zrank, commands.zrevrank = rank(false), rank(true)

commands.zrem = { -3, function(client, words)
  local zset, removed = zset_of(client, words[2]), 0
  for at = 3, #words do if zset and zset:take(words[at]) then removed = removed + 1 end end
  if removed > 0 then client.space:changed(words[2], zset.count) end
  return integer(removed)
end }

commands.zscan = { -3, function(client, words)
  return generic.scan_answer(client, words, "zset", function(found, member, score)
    found[#found + 1], found[#found + 2] = member, replies.number_text(score)
  end)
end }

-- Ranges --------------------------------------------------------------------------------------------------------------

-- Returns a function that returns whether a score is above (sign 1) or below (sign -1) a bound such as "(1.5".
local function score_bound(word, sign)
  local mark, rest = word:match "^(%(?)(.*)$"
  local bound = replies.read_float(rest, "ERR min or max is not a float")
  return function(_, score)
    if mark == "(" then return score * sign > bound * sign end
    return score * sign >= bound * sign
  end
end

-- Does the same for names, whose bounds are "[a", "(a", "-" and "+".
local function name_bound(word, sign)
  if word == "-" then return function() return sign == 1 end end
  if word == "+" then return function() return sign == -1 end end
  local mark, bound = word:match "^([%[%(])(.*)$"
  if not mark then fail "ERR min or max not valid string range item" end
  return function(member)
    if member == bound then return mark == "[" end
    return (member > bound) == (sign == 1)
  end
end

local BOUNDS = { BYSCORE = score_bound, BYLEX = name_bound }

-- Reads the bounds of a range. Returns a function that returns whether a member is inside the bounds.
local function inside(by, lowest, highest)
  local is_above, is_below = BOUNDS[by](lowest, 1), BOUNDS[by](highest, -1)
  return function(member, score) return is_above(member, score) and is_below(member, score) end
end

-- Returns the members of a range that `is_inside` describes.
local function matching(zset, is_inside, range)
  local found, order = {}, zset:order()
  local offset, count = range.offset or 0, range.count or -1
  if offset < 0 then return found end
  for at = 1, #order do
    local member = order[range.is_reversed and #order + 1 - at or at]
    if is_inside(member, zset.values[member]) then
      if offset > 0 then
        offset = offset - 1
      elseif count == #found then
        break
      else
        found[#found + 1] = member
      end
    end
  end
  return found
end

-- Returns the members of a range of ranks.
local function ranked(zset, first, last, is_reversed)
  local found, order = {}, zset:order()
  first, last = max(from_end(first, #order), 0), min(from_end(last, #order), #order - 1)
  for index = first, last do found[#found + 1] = order[is_reversed and #order - index or index + 1] end
  return found
end

-- Returns members, with their scores in pairs or one after the other.
local function members_answer(client, zset, members, has_scores, is_flat)
  if not has_scores then return replies.texts(members) end
  local pieces = {}
  for _, member in ipairs(members) do
    local name, score = bulk(member), double(client, zset.values[member])
    if client.protocol == 3 and not is_flat then
      pieces[#pieces + 1] = "*2\r\n" .. name .. score
    else
      pieces[#pieces + 1], pieces[#pieces + 2] = name, score
    end
  end
  return replies.list(pieces)
end

-- Reads the options after the bounds of a range.
local function range_options(words, range, is_zrange)
  local at = 5
  while words[at] do
    local option = upper(words[at])
    if option == "WITHSCORES" then
      range.has_scores = true
    elseif option == "LIMIT" and words[at + 2] then
      range.offset, range.count = read_integer(words[at + 1]), read_integer(words[at + 2])
      at = at + 2
    elseif is_zrange and option == "REV" then
      range.is_reversed = true
    elseif is_zrange and BOUNDS[option] then
      range.by = option
    else
      replies.syntax()
    end
    at = at + 1
  end
  if range.offset and not range.by then
    fail "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
  end
  if range.has_scores and range.by == "BYLEX" then
    fail "ERR syntax error, WITHSCORES not supported in combination with BYLEX"
  end
  return range
end

local function answer_range(client, words, range)
  local members
  if range.by then
    local low, high = words[3], words[4]
    if range.is_reversed then low, high = high, low end
    local is_inside = inside(range.by, low, high)
    local zset = zset_of(client, words[2])
    if not zset then return replies.EMPTY end
    members = matching(zset, is_inside, range)
  else
    local first, last = read_integer(words[3]), read_integer(words[4])
    local zset = zset_of(client, words[2])
    if not zset then return replies.EMPTY end
    members = ranked(zset, first, last, range.is_reversed)
  end
  return members_answer(client, zset_of(client, words[2]), members, range.has_scores)
end

local function range_command(by, is_reversed, is_zrange)
  return { -4, function(client, words)
    return answer_range(client, words, range_options(words, { by = by, is_reversed = is_reversed }, is_zrange))
  end }
end
commands.zrange, commands.zrevrange = range_command(nil, false, true), range_command(nil, true)
commands.zrangebyscore, commands.zrevrangebyscore = range_command("BYSCORE", false), range_command("BYSCORE", true)
commands.zrangebylex, commands.zrevrangebylex = range_command("BYLEX", false), range_command("BYLEX", true)

local function count_command(by)
  return { 4, function(client, words)
    local is_inside = inside(by, words[3], words[4])
    local zset = zset_of(client, words[2])
    return integer(zset and #matching(zset, is_inside, {}) or 0)
  end }
end
commands.zcount, commands.zlexcount = count_command "BYSCORE", count_command "BYLEX"

local function remove_members(client, key, zset, members)
  for _, member in ipairs(members) do zset:take(member) end
  if #members > 0 then client.space:changed(key, zset.count) end
  return integer(#members)
end

local function remove_command(by)
  return { 4, function(client, words)
    local is_inside = inside(by, words[3], words[4])
    local zset = zset_of(client, words[2])
    if not zset then return integer(0) end
    return remove_members(client, words[2], zset, matching(zset, is_inside, {}))
  end }
end
commands.zremrangebyscore, commands.zremrangebylex = remove_command "BYSCORE", remove_command "BYLEX"

commands.zremrangebyrank = { 4, function(client, words)
  local first, last = read_integer(words[3]), read_integer(words[4])
  local zset = zset_of(client, words[2])
  if not zset then return integer(0) end
  return remove_members(client, words[2], zset, ranked(zset, first, last))
end }

-- Popping -------------------------------------------------------------------------------------------------------------

-- Pops members; returns them with their scores.
local function pop(client, key, zset, side, count)
  local members = ranked(zset, 0, count - 1, side == "MAX")
  local scores = {}
  for index, member in ipairs(members) do scores[index] = zset.values[member] end
  remove_members(client, key, zset, members)
  return members, scores
end

local function pop_command(side)
  return { -2, function(client, words)
    if #words > 3 then replies.syntax() end
    local count = words[3] and replies.read_count(words[3])
    local zset = zset_of(client, words[2])
    if not zset or count == 0 then return replies.EMPTY end
    local members, scores = pop(client, words[2], zset, side, count or 1)
    local values = {}
    for index, member in ipairs(members) do values[member] = scores[index] end
    return members_answer(client, { values = values }, members, true, not count)
  end }
end
commands.zpopmin, commands.zpopmax = pop_command "MIN", pop_command "MAX"

local function block_pop(side)
  return { -3, function(client, words)
    local seconds = replies.read_timeout(words[#words])
    return client.fake:_block(client, lists.words_from(words, 2, #words - 1), seconds, function(key)
      local zset = zset_of(client, key)
      if not zset then return nil end
      local members, scores = pop(client, key, zset, side, 1)
      return replies.list { bulk(key), bulk(members[1]), double(client, scores[1]) }
    end)
  end }
end
commands.bzpopmin, commands.bzpopmax = block_pop "MIN", block_pop "MAX"

local SIDES = { MIN = true, MAX = true }

local function pop_several(client, side, count)
  return function(key)
    local zset = zset_of(client, key)
    if not zset then return nil end
    local members, scores = pop(client, key, zset, side, min(count, zset.count))
    local pieces = {}
    for index, member in ipairs(members) do
      pieces[index] = "*2\r\n" .. bulk(member) .. double(client, scores[index])
    end
    return replies.list { bulk(key), replies.list(pieces) }
  end
end

commands.zmpop = { -4, function(client, words)
  local keys, side, count = lists.several(words, 2, SIDES)
  local attempt = pop_several(client, side, count)
  for _, key in ipairs(keys) do
    local answer = attempt(key)
    if answer then return answer end
  end
  return replies.null_list(client)
end }
commands.bzmpop = { -5, function(client, words)
  local seconds = replies.read_timeout(words[2])
  local keys, side, count = lists.several(words, 3, SIDES)
  return client.fake:_block(client, keys, seconds, pop_several(client, side, count))
end }

return { commands = commands }
