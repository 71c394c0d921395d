-- runloop.redis.subscriptions: the channels of Redis, for runloop.data.subscriptions. A key is "=" and a channel, or
-- "~" and a pattern.

local Line = require "runloop.redis.line"
local shared = require "runloop.data.subscriptions"

local pairs, ipairs, concat = pairs, ipairs, table.concat

local Subscription = shared.class "runloop.redis.Subscription"
local driver = { kind = "redis" }

local CONFIRMS = { subscribe = true, psubscribe = true, unsubscribe = true, punsubscribe = true }

function driver.open(db, deliver)
  local line, message, code, details = Line.open(db._options)
  if not line then return nil, message, code, details end
  line.on_push = function(push)
    local kind = push[1]
    if kind == "message" then
      deliver("=" .. push[2], push[3], push[2])
    elseif kind == "pmessage" then
      deliver("~" .. push[2], push[4], push[3])
    elseif CONFIRMS[kind] then
      line:answer(true)
    end
  end
  return line
end

-- Sends a command for a channel or a pattern; returns the future of its confirmation.
local function ask(line, word, key)
  local name = key:sub(1, 1) == "~" and "P" .. word or word
  return line:ask(Line.encode({ name, key:sub(2) }, 1, 2))
end

function driver.listen(db, line, keys)
  local futures = {}
  for index, key in ipairs(keys) do
    local future, message, code = ask(line, "SUBSCRIBE", key)
    if not future then return nil, message, code end
    futures[index] = future
  end
  for _, future in ipairs(futures) do
    local done, message, code, details = future:await(db._timeout)
    if not done then return nil, message, code, details end
  end
  return true
end

function driver.forget(_, line, key) ask(line, "UNSUBSCRIBE", key) end
function driver.serve(line, mode) line:serve(mode) end
function driver.close(line) line:close() end

function driver.ping(db, line)
  if not line:call(db._timeout, "PING") then line:fail("ECONNRESET: the server is silent", "ECONNRESET") end
end

local OPTIONS = { pattern = "boolean" }
for name, kind in pairs(shared.OPTIONS) do OPTIONS[name] = kind end

local subscriptions = { close = shared.close }

--- Subscribes a database to channels; returns when the server has confirmed them.
function subscriptions.subscribe(db, channel, options, fn)
  local list, known
  list, known, fn = shared.arguments(channel, options, fn, OPTIONS)
  local keys, mark = {}, known.pattern and "~" or "="
  for index, name in ipairs(list) do keys[index] = mark .. name end
  return shared.subscribe(Subscription, db, driver, keys, concat(list, ", "), known, fn)
end

return subscriptions
