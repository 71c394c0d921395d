-- runloop.data.places: a limited number of connections to a database. A task takes a connection and gives it back.
-- Waiting tasks get connections in the order in which they began to wait.

local rl = require "runloop"
local misuse = require "runloop.misuse"

local setmetatable, ipairs, next = setmetatable, ipairs, next
local pcall, error, type = pcall, error, type
local running, status, close = coroutine.running, coroutine.status, coroutine.close
local remove, format, huge, now = table.remove, string.format, math.huge, rl.now

local Places = {}
Places.__index = Places

--- Makes the pool. `open` makes a connection, or returns nil and the reason. `connection:close()` closes a connection.
--- If there is `give(lease)`, <close> of a lease calls it unless the lease is kept. `on_late()` is called when a
--- connection becomes idle because its task has stopped waiting for it. Some drivers have quick calls, which use an
--- idle connection without a lease. In such a driver, `connection:claim()` returns the coroutine of the quick call that
--- uses the connection, or nil if there is none; the driver then gives the lease back. `quick:has_calls()` returns
--- whether there may be a quick call.
function Places.new(options)
  return setmetatable({
    size = options.size, open = options.open, give_back = options.give, most_waiting = options.max_waiting or 10000,
    on_late = options.on_late, quick = false,
    idle = {}, taken = {}, waiting = {}, first = 1, last = 0, count = 0, cancelled = 0,
  }, Places)
end

-- A lease is a task's right to a connection. It has the connection, the time, and the position in the script at which
-- the task has taken the connection. While the coroutine is still at that position, the lease has the coroutine
-- instead.
local Lease = {}
Lease.__index = Lease
Lease.__close = function(self) if not self.is_kept then self.places.give_back(self) end end

local function lease(self, connection, site)
  local it = setmetatable({
    places = self, connection = connection, since = now(), site = site, is_busy = false, is_kept = false,
    draining = false,
  }, Lease)
  self.taken[connection] = it
  return it
end

--- Gives leases to the quick calls that use idle connections, so that only unused connections are in `idle`.
function Places:settle()
  if not self.quick or not self.quick:has_calls() then return end
  for index = #self.idle, 1, -1 do
    local task = self.idle[index]:claim()
    if task then lease(self, remove(self.idle, index), task) end
  end
end

-- Closes the <close> variables of a coroutine that has ended by an error, since Lua does not close them. Otherwise a
-- call that the coroutine has begun would keep its connection. Does nothing for coroutines that go on, or that have
-- ended without an error.
local function end_failed(site)
  if type(site) == "thread" and status(site) == "dead" then pcall(close, site) end
end

-- Calls `end_failed` for all coroutines that have connections.
local function reclaim(self)
  local sites = {}
  for _, lease in next, self.taken do sites[#sites + 1] = lease.site end
  for _, site in ipairs(sites) do end_failed(site) end
end

-- Completes the future of the task that has waited longest. Returns false if no task waits.
local function serve(self, connection)
  while self.first <= self.last do
    local waiter = self.waiting[self.first]
    self.waiting[self.first], self.first = nil, self.first + 1
    end_failed(waiter.task)
    if not waiter.gave_up then return waiter.future:complete(connection) end
  end
  return false
end

-- Hands a connection to the task that has waited longest, or keeps it.
local function pass_on(self, connection)
  if not serve(self, connection) then self.idle[#self.idle + 1] = connection end
end

-- Lets the task that has waited longest open a connection, since a place is free again. The place stays reserved for
-- that task.
local function refill(self)
  if self.closed or self.count >= self.size then return end
  self.count = self.count + 1
  if not serve(self, false) then self.count = self.count - 1 end
end

local function free_place(self)
  self.count = self.count - 1
  refill(self)
end

-- Keeps a connection whose task has given up meanwhile.
local function keep(self, connection)
  pass_on(self, connection)
  if self.on_late then self.on_late() end
end

-- Opens a connection for a task, or for other tasks if that task has given up meanwhile. The place is reserved already.
local function open_for(self, waiter)
  local connection, message, code, details
  local fine
  local _ <close> = setmetatable({}, { __close = function()
    if connection and self.closed then
      connection:close()
      connection, message, code = nil, self.closed, "ENOTCONN"
    end
    end_failed(waiter.task)
    if not connection then free_place(self) elseif waiter.gave_up then return keep(self, connection) end
    waiter.future:complete(connection, message, code, details)
  end })
  fine, connection, message, code, details = pcall(self.open)
  if fine then return end
  local problem = connection
  connection = nil
  if rl.is_cancelled(problem) then error(problem, 0) end
  waiter.problem = problem
end

-- Waits for a future of `waiter`. `on_late` gets the value if the task is cancelled after it was completed.
local function await(waiter, timeout, on_late)
  local is_over
  local _ <close> = setmetatable({}, { __close = function()
    if is_over then return end
    waiter.gave_up, waiter.task = true, false
    if waiter.future:is_done() then on_late(waiter.future:await()) end
  end })
  local first, second, third, fourth = waiter.future:await(timeout)
  is_over = true
  return first, second, third, fourth
end

-- Opens one more connection, in the background. If the task for which it opens is cancelled, other tasks get the
-- connection; so tasks that are soon cancelled do not open one connection each.
local function open_one(self)
  local waiter = { future = rl.future(), task = running() }
  rl.task { open_for, self, waiter, name = "opening a connection", keeps_alive = false }
  local connection, message, code, details = await(waiter, nil, function(late)
    if late then keep(self, late) end
  end)
  if waiter.problem ~= nil then error(waiter.problem, 0) end
  return connection, message, code, details
end

local function none_free(self, wait)
  local oldest
  for _, lease in next, self.taken do if not oldest or lease.since < oldest.since then oldest = lease end end
  local site = oldest and oldest.site
  if type(site) == "thread" then site = misuse.place(site) end
  local used = oldest and format(", the longest for %.3g s by %s", rl.now() - oldest.since, site or "?") or ""
  return nil, format("EAGAIN: no connection was free for %g s (%d of %d in use%s)", wait, self.count - #self.idle,
    self.size, used), "EAGAIN"
end

-- Removes from the queue the tasks that have given up.
local function compact(self)
  local waiting, last = {}, 0
  for i = self.first, self.last do
    if not self.waiting[i].gave_up then
      last = last + 1
      waiting[last] = self.waiting[i]
    end
  end
  self.waiting, self.first, self.last = waiting, 1, last
end

local function wait_for_one(self, wait)
  if self.last - self.first + 1 >= self.most_waiting then compact(self) end
  if self.last - self.first + 1 >= self.most_waiting then
    return nil, format("ENOBUFS: %d calls already wait for a connection", self.most_waiting), "ENOBUFS"
  end
  local waiter = { future = rl.future(), task = running() }
  self.last = self.last + 1
  self.waiting[self.last] = waiter
  local connection, message = await(waiter, wait < huge and wait or nil, function(late)
    if late then pass_on(self, late) elseif late == false then free_place(self) end
  end)
  if connection == nil and message == "timed out" then
    waiter.gave_up, waiter.task = true, false
    return none_free(self, wait)
  end
  if connection == nil then return nil, message, "ENOTCONN" end
  return connection
end

--- Takes a connection; waits for one if all are in use. `site`: a place in the script, or a coroutine. Returns a lease;
--- or nil, the reason and its code.
function Places:take(wait, site)
  if self.closed then return nil, self.closed, "ENOTCONN" end
  self:settle()
  local connection, message, code, details = remove(self.idle), nil, nil, nil
  if not connection and self.count >= self.size then
    reclaim(self)
    connection = remove(self.idle)
  end
  if not connection and self.count >= self.size then
    connection, message, code = wait_for_one(self, wait)
    if connection == nil then return nil, message, code end
  elseif not connection then
    self.count = self.count + 1
  end
  if not connection then
    connection, message, code, details = open_one(self)
    if not connection then return nil, message, code, details end
  end
  return lease(self, connection, site)
end

--- Returns the lease of a connection; nil if no task uses the connection.
function Places:lease_of(connection)
  self:settle()
  return self.taken[connection]
end

--- Takes a connection back from a lease.
function Places:take_back(lease)
  local connection = lease.connection
  if self.taken[connection] ~= lease then return end
  self.taken[connection] = nil
  if not self.closed then
    if self.first <= self.last then return pass_on(self, connection) end
    self.idle[#self.idle + 1] = connection
    return
  end
  connection:close()
  self.count = self.count - 1
end

--- Gives the connection back.
function Lease:give() return self.places:take_back(self) end

--- Closes the connection instead of giving it back; another one may be opened.
function Lease:drop()
  local places = self.places
  if places.taken[self.connection] ~= self then return end
  places.taken[self.connection] = nil
  self.connection:close()
  free_place(places)
end

--- Forgets a connection that has ended while it was idle.
function Places:forget(connection)
  self:settle()
  for index, idle in ipairs(self.idle) do
    if idle == connection then
      remove(self.idle, index)
      return free_place(self)
    end
  end
end

--- Closes the connections that have been idle since a given time. Returns whether other connections are idle.
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
function Places:is_idle()
  self:settle()
  return next(self.taken) == nil
end

--- Closes the idle connections at once, and a used connection when its task gives it back. Waiting tasks get `reason`.
--- `close_one`, if given, closes an idle connection.
function Places:close(reason, close_one)
  if self.closed then return end
  self:settle()
  reclaim(self)
  self.closed = reason
  for _, connection in ipairs(self.idle) do
    if close_one then close_one(connection) else connection:close() end
  end
  self.count, self.idle = self.count - #self.idle, {}
  for i = self.first, self.last do self.waiting[i].future:complete(nil, reason) end
  self.waiting, self.first, self.last = {}, 1, 0
end

--- Returns the numbers of connections, of idle ones, and of calls that wait for a connection.
function Places:numbers()
  self:settle()
  local waiting = 0
  for i = self.first, self.last do if not self.waiting[i].gave_up then waiting = waiting + 1 end end
  return self.count, #self.idle, waiting
end

return Places
