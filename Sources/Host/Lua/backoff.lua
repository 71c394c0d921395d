-- rl.backoff: growing waits between tries, so that a client does not call an absent server all the time, and many
-- clients do not call it at the same moment.

local _, internals, crossing = ...
local sleep, chance = crossing["backoff:wait"], crossing.chance
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, describe, expect_self = misuse.raise, misuse.describe, misuse.expect_self
local type, setmetatable, rawequal = type, setmetatable, rawequal
local integer_of, min = math.tointeger, math.min

local Backoff = objects.class("runloop.Backoff", { __name = "backoff", __stays = true })
internals.on_missing(Backoff, "backoff")

-- For each field: the default, the smallest and the largest value, and the name of the value in messages.
local FIELDS = {
  first = { 0.05, 0, nil, "a number of seconds, 0 or more" },
  most = { 10, 0, nil, "a number of seconds, 0 or more" },
  factor = { 2, 1, nil, "a number, 1 or more" },
  jitter = { 0.5, 0, 1, "a number from 0 to 1" },
  tries = { nil, 1, nil, "an integer, 1 or more" },
}

local function is_right(field, value)
  local _, least, largest = table.unpack(FIELDS[field], 1, 3)
  return type(value) == "number" and value >= least and (not largest or value <= largest)
    and (field ~= "tries" or integer_of(value) ~= nil)
end

local function backoff(options)
  if options ~= nil and type(options) ~= "table" then
    raise("rl.backoff: an options table is expected, got %s", describe(options))
  end
  local self = { site = crossing.site(), made_at = objects.made_at(), count = { done = 0 } }
  for field, known in next, FIELDS do self[field] = known[1] end
  for field, value in next, options or {} do
    if not FIELDS[field] then misuse.unknown_field("rl.backoff", field, FIELDS) end
    if not is_right(field, value) then
      misuse.wrong("rl.backoff", ("field '%s'"):format(field), FIELDS[field][4], value)
    end
    self[field] = value
  end
  if self.most < self.first then
    raise("rl.backoff: field 'most' must be at least field 'first': %g s, got %g s", self.first, self.most)
  end
  self.tries = self.tries and integer_of(self.tries)
  return setmetatable(self, Backoff)
end

-- If the wait of a try was cancelled, subtracts the try from the count, unless `reset` has begun a new count meanwhile.
local Try = { __close = function(try)
  if not try.is_over then try.count.done = try.count.done - 1 end
end }

function Backoff:wait()
  expect_self(self, Backoff, "backoff:wait")
  local count = self.count
  if rawequal(count.done, self.tries) then
    return nil, ("gave up after %d %s"):format(self.tries, self.tries == 1 and "try" or "tries")
  end
  local number = count.done + 1
  -- Without this check, 0 times infinity would be NaN.
  local longest = self.first == 0 and 0 or min(self.most, self.first * self.factor ^ (number - 1))
  count.done = number
  local try <close> = setmetatable({ count = count }, Try)
  sleep(longest * (1 - self.jitter * chance()), self.site)
  try.is_over = true
  return number
end

function Backoff:reset() expect_self(self, Backoff, "backoff:reset").count = { done = 0 } end

function Backoff:__tostring()
  return ("backoff (%d %s, %s)"):format(self.count.done, self.count.done == 1 and "try" or "tries", self.made_at)
end

return backoff
