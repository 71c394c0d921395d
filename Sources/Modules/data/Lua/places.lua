-- runloop.data.places: a limited number of connections to a database. A task takes one, and gives it back; tasks that
-- wait get them in the order in which they came.

local rl = require "runloop"

local setmetatable, ipairs, next = setmetatable, ipairs, next
local remove, format, huge = table.remove, string.format, math.huge

local Places = {}
Places.__index = Places

--- Makes the places. `open` makes a connection, or returns nil and the reason; `connection:close()` ends one.
function Places.new(options)
  return setmetatable({
    size = options.size, open = options.open, most_waiting = options.max_waiting or 10000,
    idle = {}, taken = {}, waiting = {}, first = 1, last = 0, count = 0, cancelled = 0,
  }, Places)
end

-- A lease is a task's right to a connection: the connection, since when, and where it was taken.
local Lease = {}
Lease.__index = Lease

-- Completes the future of the task that has waited longest. Returns false if none waits.
local function serve(self, connection)
  while self.first <= self.last do
    local waiter = self.waiting[self.first]
    self.waiting[self.first], self.first = nil, self.first + 1
    if not waiter.gave_up then return waiter.future:complete(connection) end
  end
  return false
end

-- Hands a connection to the task that has waited longest, or keeps it.
local function pass_on(self, connection)
  if not serve(self, connection) then self.idle[#self.idle + 1] = connection end
end

-- Lets the task that has waited longest open a connection, as there is a place again.
local function refill(self) if self.count < self.size then serve(self, false) end end

-- Opens one more connection. The place counts while that goes on, and is free again if the task is cancelled.
local function open_one(self)
  self.count = self.count + 1
  local connection, message, code, details
  local _ <close> = setmetatable({}, { __close = function()
    if connection then return end
    self.count = self.count - 1
    refill(self)
  end })
  connection, message, code, details = self.open()
  return connection, message, code, details
end

local function none_free(self, wait)
  local oldest
  for lease in next, self.taken do if not oldest or lease.since < oldest.since then oldest = lease end end
  local used = oldest and format(", the longest for %.3g s by %s", rl.now() - oldest.since, oldest.site or "?") or ""
  return nil, format("EAGAIN: no connection was free for %g s (%d of %d in use%s)", wait, self.count - #self.idle,
    self.size, used), "EAGAIN"
end

local function wait_for_one(self, wait)
  if self.last - self.first + 1 >= self.most_waiting then
    return nil, format("ENOBUFS: %d calls wait for a connection already", self.most_waiting), "ENOBUFS"
  end
  local waiter, connection, message = { future = rl.future() }, nil, nil
  self.last = self.last + 1
  self.waiting[self.last] = waiter
  local is_over
  local _ <close> = setmetatable({}, { __close = function()
    if is_over then return end
    -- The task was cancelled. The connection may be on its way already.
    waiter.gave_up = true
    if not waiter.future:is_done() then return end
    local late = waiter.future:await()
    if late then pass_on(self, late) elseif late == false then refill(self) end
  end })
  connection, message = waiter.future:await(wait < huge and wait or nil)
  is_over = true
  if connection == nil and message == "timed out" then
    waiter.gave_up = true
    return none_free(self, wait)
  end
  if connection == nil then return nil, message, "ENOTCONN" end
  return connection
end

--- Takes a connection; waits for one if all are in use. Returns a lease; or nil, the reason and its code.
function Places:take(wait, site)
  if self.closed then return nil, self.closed, "ENOTCONN" end
  local connection, message, code, details = remove(self.idle), nil, nil, nil
  if not connection and self.count >= self.size then
    connection, message, code = wait_for_one(self, wait)
    if connection == nil then return nil, message, code end
  end
  if not connection then
    connection, message, code, details = open_one(self)
    if not connection then return nil, message, code, details end
  end
  local lease = setmetatable({ places = self, connection = connection, since = rl.now(), site = site }, Lease)
  self.taken[lease] = true
  return lease
end

--- Gives the connection back.
function Lease:give()
  local places = self.places
  if not places.taken[self] then return end
  places.taken[self] = nil
  if not places.closed then return pass_on(places, self.connection) end
  self.connection:close()
  places.count = places.count - 1
end

--- Closes the connection instead of giving it back; another one may be opened.
function Lease:drop()
  local places = self.places
  if not places.taken[self] then return end
  places.taken[self] = nil
  self.connection:close()
  places.count = places.count - 1
  refill(places)
end

--- Forgets a connection that has ended while it was idle.
function Places:forget(connection)
  for index, idle in ipairs(self.idle) do
    if idle == connection then
      remove(self.idle, index)
      self.count = self.count - 1
      return refill(self)
    end
  end
end

--- Closes the connections that have been idle since a moment. Returns whether others are idle.
function Places:reap(since)
  for index = #self.idle, 1, -1 do
    local connection = self.idle[index]
    if connection.idle_since and connection.idle_since <= since then
      remove(self.idle, index)
      self.count = self.count - 1
      connection:close()
    end
  end
  return #self.idle > 0
end

--- Returns whether no connection is in use.
function Places:is_idle() return next(self.taken) == nil end

--- Closes the idle connections, and each other one when it is given back. Tasks that wait get `reason`. With `close`,
--- that closes the idle ones.
function Places:close(reason, close)
  if self.closed then return end
  self.closed = reason
  for _, connection in ipairs(self.idle) do
    if close then close(connection) else connection:close() end
  end
  self.count, self.idle = self.count - #self.idle, {}
  for i = self.first, self.last do self.waiting[i].future:complete(nil, reason) end
  self.waiting, self.first, self.last = {}, 1, 0
end

--- Returns how many connections there are, how many of them are idle, and how many calls wait for one.
function Places:numbers()
  local waiting = 0
  for i = self.first, self.last do if not self.waiting[i].gave_up then waiting = waiting + 1 end end
  return self.count, #self.idle, waiting
end

return Places
