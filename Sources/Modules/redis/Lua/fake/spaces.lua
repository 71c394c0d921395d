-- runloop.redis.fake.spaces: the keys of one database of the fake: values, their kinds and expiry times, and the
-- clients that watch them. Keys, fields and members keep the order in which they came.

local rl = require "runloop"
local replies = require "runloop.redis.fake.replies"

local setmetatable, pairs = setmetatable, pairs

-- Tables with an order ------------------------------------------------------------------------------------------------

local Ordered = {}
Ordered.__index = Ordered

function Ordered.new()
  return setmetatable({ values = {}, places = {}, keys = {}, numbers = {}, last = 0, count = 0, number = 0 }, Ordered)
end

-- Closes the gaps that removed keys have left.
local function close_gaps(self)
  local keys, numbers, places, last = {}, {}, {}, 0
  for at = 1, self.last do
    local key = self.keys[at]
    if key then
      last = last + 1
      keys[last], numbers[last], places[key] = key, self.numbers[at], last
    end
  end
  self.keys, self.numbers, self.places, self.last = keys, numbers, places, last
end

--- Returns whether the key is new.
function Ordered:set(key, value)
  local is_new = self.values[key] == nil
  self.values[key] = value
  if is_new then
    local last = self.last + 1
    self.last, self.count, self.number = last, self.count + 1, self.number + 1
    self.keys[last], self.numbers[last], self.places[key] = key, self.number, last
  end
  return is_new
end

--- Returns whether there was such a key.
function Ordered:remove(key)
  if self.values[key] == nil then return false end
  self.keys[self.places[key]] = false
  self.values[key], self.places[key], self.count = nil, nil, self.count - 1
  if self.last > 2 * self.count + 32 then close_gaps(self) end
  return true
end

--- Returns the keys as a list.
function Ordered:list()
  local list = {}
  for at = 1, self.last do if self.keys[at] then list[#list + 1] = self.keys[at] end end
  return list
end

--- Returns up to `count` keys that were added after the key with this number, and the number of the last of them; 0 at
--- the end. A key that exists during a whole scan is found once.
function Ordered:scan(number, count)
  local low, high = 1, self.last + 1
  while low < high do
    local middle = (low + high) // 2
    if self.numbers[middle] > number then high = middle else low = middle + 1 end
  end
  local found = {}
  for at = low, self.last do
    if self.keys[at] then
      found[#found + 1] = self.keys[at]
      if #found == count and at < self.last then return found, self.numbers[at] end
    end
  end
  return found, 0
end

--- Returns a random key.
function Ordered:random()
  if self.count == 0 then return nil end
  close_gaps(self)
  return self.keys[math.random(self.last)]
end

-- Spaces --------------------------------------------------------------------------------------------------------------

local Space = {}
Space.__index = Space

--- Makes a database. `on_ready(space, key)` is called for a key that has got a value for blocked clients.
function Space.new(on_ready)
  return setmetatable({ entries = Ordered.new(), watchers = {}, on_ready = on_ready }, Space)
end

--- Returns the time in milliseconds since 1970.
function Space.now() return rl.time() * 1000 end

-- Sums of times are rounded.
local ROUNDING = 0.01

--- Whether an entry has expired.
function Space.is_expired(entry) return entry.expires ~= nil and Space.now() + ROUNDING >= entry.expires end

--- Notes a change of a key: transactions that watch it are not run.
function Space:touch(key)
  local watchers = self.watchers[key]
  if watchers then for client in pairs(watchers) do client.is_dirty = true end end
end

--- Returns the entry of a key: `kind`, `value`, `expires`; nil if there is none.
function Space:find(key)
  local entry = self.entries.values[key]
  if entry and Space.is_expired(entry) then
    self:remove(key)
    return nil
  end
  return entry
end

--- Returns the value of a key, which must be of this kind; nil if there is none.
function Space:get(key, kind)
  local entry = self:find(key)
  if not entry then return nil end
  if entry.kind ~= kind then replies.wrong_type() end
  return entry.value
end

--- Returns the value of a key, and makes it if there is none.
function Space:make(key, kind, new)
  local value = self:get(key, kind)
  if value then return value end
  value = new()
  self.entries:set(key, { kind = kind, value = value })
  return value
end

--- Gives a key a new value, and an expiry time, if any.
function Space:put(key, kind, value, expires)
  self.entries:set(key, { kind = kind, value = value, expires = expires })
  self:touch(key)
end

--- Removes a key. Returns whether a value was removed.
function Space:remove(key)
  local was_there = self.entries:remove(key)
  if was_there then self:touch(key) end
  return was_there
end

--- Notes that a collection has changed, and removes it if it is empty.
function Space:changed(key, count)
  if count == 0 then self.entries:remove(key) end
  self:touch(key)
end

--- Removes all keys.
function Space:clear()
  for _, key in ipairs(self.entries:list()) do self:remove(key) end
end

Space.Ordered = Ordered
return Space
