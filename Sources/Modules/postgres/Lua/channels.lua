-- runloop.postgres.channels: LISTEN and NOTIFY, for runloop.data.subscriptions, on a separate connection.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"
local shared = require "runloop.data.subscriptions"
local connections = require "runloop.postgres.connections"

local ipairs, concat = ipairs, table.concat

local Subscription = shared.class "runloop.postgres.Subscription"
local driver = { kind = "postgres" }

-- Seconds for the answer to LISTEN and to an empty statement.
local ANSWERS = 5

local channels = { close = shared.close }

--- Raises an error for a text that cannot be the name of a channel.
function channels.check(what, channel)
  misuse.argument(channel, "string", what, 1)
  if #channel == 0 or #channel > 63 or channel:find("\0", 1, true) then
    misuse.raise("%s: argument #1 must be a name of 1 to 63 bytes without a zero byte, got %s", what,
      misuse.describe(channel))
  end
end

-- The link ------------------------------------------------------------------------------------------------------------

local function unwatch(link)
  if link.port then link.port:invalidate() end
  link.port = nil
end

local function lose(link)
  if link.problem then return end
  link.problem, link.code = "ECONNRESET: the connection was lost", "ECONNRESET"
  unwatch(link)
  -- A task that waits for an answer closes the connection itself.
  if link.is_busy then link.connection.box:shut() else link.connection:close() end
  if link.on_lost then link.on_lost() end
end

-- Takes the notifications that have arrived, and delivers them.
local function take(link)
  local box = link.connection.box
  local is_alive = box:is_alive()
  local list = box:notifications()
  for at = 1, #list, 2 do link.deliver(list[at], list[at + 1], list[at]) end
  if not is_alive then lose(link) end
end

-- The port exists only between two statements: during a statement it would take the answer.
local function watch(link)
  if link.problem or link.port then return end
  link.port = rl.fd_port {
    fd = link.connection.fd, modes = link.modes, keeps_alive = false, name = "subscriptions of postgres",
    callback = function() take(link) end,
  }
end

-- Runs a statement. A separate task waits for the answer, as the caller may be cancelled. Returns true, or nil and the
-- reason.
local function exchange(link, text, during)
  local done = rl.future()
  shape.background(function()
    local _ <close> = link.mutex:lock()
    if link.problem then return done:complete(nil, link.problem, link.code) end
    unwatch(link)
    link.is_busy = true
    local in_time, answer, message, code = rl.timeout(ANSWERS, connections.simply, link.lease, text, during)
    while link.lease.draining do link.lease.draining:await() end
    link.is_busy = false
    if link.problem then
      link.connection:close()
    elseif not in_time or link.connection.is_lost then
      lose(link)
    else
      take(link)
    end
    watch(link)
    if not in_time then return done:complete(nil, "timed out") end
    done:complete(answer and true, message, code)
  end)
  return done:await()
end

local function quote(name) return '"' .. name:gsub('"', '""') .. '"' end

function driver.open(db, deliver)
  local connection, message, code, details = connections.open(db, db._words)
  if not connection then return nil, message, code, details end
  connection.is_own = true
  -- Without this call, the connection drops notifications that come together with the answer to LISTEN.
  connection.box:notifications()
  local link = {
    connection = connection, lease = { connection = connection, places = { cancelled = 0 } }, modes = { "common" },
    mutex = rl.mutex(), deliver = deliver,
  }
  watch(link)
  return link
end

function driver.listen(_, link, keys)
  local parts = {}
  for index, key in ipairs(keys) do parts[index] = "listen " .. quote(key) end
  if #parts == 0 then return true end
  return exchange(link, concat(parts, "; "), "LISTEN")
end

function driver.forget(_, link, key)
  shape.background(exchange, link, "unlisten " .. quote(key), "UNLISTEN")
end

function driver.serve(link, mode)
  for _, one in ipairs(link.modes) do if one == mode then return end end
  link.modes[#link.modes + 1] = mode
  if link.port and not rl.current():contains(link.port, mode) then rl.current():add(link.port, mode) end
end

function driver.ping(_, link)
  if not exchange(link, "", "an empty statement") then lose(link) end
end

function driver.close(link)
  if link.problem then return end
  link.on_lost = nil
  lose(link)
end

--- Subscribes a database to channels; returns when the server has confirmed them.
function channels.subscribe(db, channel, options, fn)
  local list, known
  list, known, fn = shared.arguments(channel, options, fn, shared.OPTIONS)
  for _, name in ipairs(list) do channels.check("db:subscribe", name) end
  return shared.subscribe(Subscription, db, driver, { table.unpack(list) }, concat(list, ", "), known, fn)
end

return channels
