-- runloop.nats.lease: leases: one holder of a name at a time. The holder renews its entry in a bucket; no clocks are
-- compared. Others may take a lease that was not renewed for a certain time; the holder stops at two thirds of this
-- time, by its own clock. So the lease is safe if one clock is up to 20 % faster than another.

local system = ...
local rl = require "runloop"
local json = require "runloop.json"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local api = require "runloop.nats.api"
local check = require "runloop.nats.check"
local bucket = require "runloop.nats.bucket"

local setmetatable, type, pcall, next = setmetatable, type, pcall, next
local format, min, max, tostring = string.format, math.min, math.max, tostring
local receiver = misuse.receiver

local Lease = objects.class("runloop.nats.Lease", { __name = "lease", __stays = true })

local OPTIONS = { ttl = "seconds", timeout = "seconds", on_lost = "function", bucket = "string" }
-- The share of `ttl` for which a holder trusts an answered renewal.
local TRUST = 2 / 3
-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6
-- An order that comes before all others of a loop.
local FIRST = math.mininteger

-- The clock -----------------------------------------------------------------------------------------------------------

-- Returns the sum of the loop's clock and the seconds for which the machine was suspended: CLOCK_BOOTTIME, and the
-- virtual clock in tests. In simulations, the clocks of machines run at different speeds, hence `_pace`.
local function clock(self) return (rl.now() + system.suspended()) * self._pace end

-- Converts seconds of `clock` to seconds of the loop's clock.
local function wait_of(self, seconds) return seconds / self._pace end

-- Entries -------------------------------------------------------------------------------------------------------------

-- Returns the value of an entry that names the holder of a lease.
local function identity(self)
  local host, pid = api.here()
  return { host = host, pid = pid, name = self._bus._options.name, ttl = self._ttl, beat = self._beat }
end

-- Returns the holder that an entry names; nil if the lease is free.
local function holder_of(entry)
  if not entry or entry.operation ~= "put" then return nil end
  local value = json.decode(entry.value)
  return type(value) == "table" and value or {}
end

-- Writes the entry, expecting a revision. Returns the new revision; or nil, the reason and its code.
local function write(self, revision, timeout)
  self._beat = self._beat + 1
  return self._bucket:_write("bus:lease", self._name, json.encode(identity(self)), nil, revision, timeout)
end

-- Holding -------------------------------------------------------------------------------------------------------------

local function stop(self)
  for _, name in next, { "_watcher", "_limit" } do
    if self[name] then self[name]:invalidate() end
    self[name] = nil
  end
  local renewal = self._renewal
  self._renewal = nil
  if renewal then renewal:cancel() end
  self._bus._parts[self] = nil
end

-- Ends the lease here: the work under it is cancelled.
local function finish(self, state, reason)
  self._state, self._reason = state, reason
  stop(self)
  local tasks = self._tasks
  self._tasks = {}
  for task in next, tasks do task:cancel() end
end

-- The lease is no longer ours.
local function lose(self, reason)
  if self._state ~= "held" then return end
  finish(self, "lost", reason)
  if self._on_lost then
    rl.task { self._on_lost, self, name = format("loss of the lease %s", self._name), keeps_alive = false }
  end
end

-- Asks the clock. Returns whether this program holds the lease.
local function is_ours(self)
  if self._state == "held" and clock(self) >= self._until then
    lose(self, format("it was not renewed for %g s", clock(self) - self._until + self._ttl * TRUST))
  end
  return self._state == "held"
end

-- Begins to count from a renewal that was sent at this time. The clock is read when the time is over, and each time the
-- loop wakes up, so that a program that was stopped or asleep checks its lease before it does anything else.
local function trust(self, sent, revision)
  self._until, self._revision = sent + self._ttl * TRUST, revision
  if self._limit then self._limit:invalidate() end
  self._limit = rl.timer { delay = max(0, wait_of(self, self._until - clock(self))), order = FIRST, modes = "common",
    keeps_alive = false, name = "end of the lease " .. self._name, callback = function() is_ours(self) end }
end

-- The task's function: renews the lease after each third of the time.
local function renew(self)
  while self._state == "held" do
    rl.sleep(wait_of(self, self._ttl / 3))
    if not is_ours(self) then return end
    local sent = clock(self)
    local revision, text, code = write(self, self._revision, max(0.05, wait_of(self, self._until - sent)))
    if self._state ~= "held" then return end
    if revision then
      trust(self, sent, revision)
    elseif code == "EAGAIN" then
      return lose(self, "another process has taken it")
    elseif code == "ENOTCONN" and self._bus._status == "closed" then
      return lose(self, text)
    end
  end
end

-- Notes that this program holds the lease, by an entry that was sent at this time.
local function hold(self, sent, revision)
  self._state, self._epoch = "held", revision
  trust(self, sent, revision)
  self._watcher = rl.observer { activities = "after_waiting", modes = "common", order = FIRST,
    name = "clock of the lease " .. self._name, callback = function() is_ours(self) end }
  self._bus._parts[self] = true
  self._renewal = rl.task { renew, self, name = "renewal of the lease " .. self._name, keeps_alive = false }
  return self
end

-- Releases the lease; the next program may take it at once.
local function give_back(self)
  self._bus:_publish("lease:invalidate", self._bucket._prefix .. self._name, "", {
    headers = { ["KV-Operation"] = "DEL", ["Nats-Expected-Last-Subject-Sequence"] = tostring(self._revision) } })
end

--- The connection is about to be closed.
function Lease:_closing()
  give_back(self)
  lose(self, "the connection was closed")
end

-- Taking --------------------------------------------------------------------------------------------------------------

local function check_options(name, options)
  check.key(name, "bus:lease")
  options = misuse.options(options, OPTIONS, "bus:lease", 2)
  check.range(options, "bus:lease", "ttl", 1, 3600)
  if options.bucket then check.name(options.bucket, "bus:lease", "field 'bucket'") end
  return options
end

-- Returns seconds until the entry may be taken, and its holder. `seen` has the revision, and the time at which this
-- program first saw it.
local function wait_for(self, entry, seen)
  local holder = holder_of(entry)
  if not holder then return 0 end
  if seen.revision ~= entry.revision then
    seen.revision, seen.at, seen.count = entry.revision, clock(self), (seen.count or 0) + 1
  end
  local ttl = type(holder.ttl) == "number" and min(max(holder.ttl, 1), 3600) or self._ttl
  return seen.at + ttl - clock(self), holder
end

-- Waits until this program has the lease; with `gives_up`, at most until the holder has renewed its lease. Returns the
-- lease; or nil, the reason, its code and the holder.
local function take(self, deadline, gives_up)
  local seen, changes = {}, nil
  local _ <close> = setmetatable({}, { __close = function() if changes then changes:invalidate() end end })
  while true do
    local entry, text, code = self._bucket:_entry("bus:lease", self._name)
    local rest = deadline and deadline - clock(self)
    local is_late = rest ~= nil and rest <= SOON
    if text and (text ~= "timed out" or is_late) then return nil, text, code end
    local left, holder = wait_for(self, entry, seen)
    if text then
      -- No leader answers now, so try again. The requests themselves take some time.
      rl.sleep(0)
    elseif left <= SOON then
      local sent, revision = clock(self), nil
      revision, text, code = write(self, entry and entry.revision or 0, self._ttl * TRUST)
      if revision then return hold(self, sent, revision) end
      if code ~= "EAGAIN" and text ~= "timed out" then return nil, text, code end
      if text == "timed out" and is_late then return nil, text end
    else
      if is_late or gives_up and seen.count > 1 then
        return nil, "timed out", "EBUSY", { host = holder.host, pid = holder.pid, name = holder.name }
      end
      if not changes then
        changes, text, code = self._bucket:watch(self._name)
        if not changes then return nil, text, code end
      end
      local _, problem, why = changes:receive(wait_of(self, min(left, rest or left)))
      if why then return nil, problem, why end
    end
  end
end

local lease = { class = Lease }

--- bus:lease. With `gives_up` the call stops waiting when the holder has renewed its lease.
function lease.take(bus, name, options, gives_up)
  options = check_options(name, options)
  local self = setmetatable({ _bus = bus, _name = name, _ttl = options.ttl or 5, _beat = 0, _state = "wanted",
    _on_lost = options.on_lost, _tasks = {}, _pace = bus._pace or 1, _made_at = objects.made_at() }, Lease)
  local deadline = options.timeout and clock(self) + options.timeout
  if bus._status == "closed" then return bus:_why_over() end
  local where = options.bucket or "rl_leases"
  local store, text, code, refusal = bucket.find(bus, "bus:lease", where)
  if not store and code == "ENOENT" then
    store, text, code, refusal = bucket.find(bus, "bus:lease", where, {})
  end
  if not store then return nil, text, code, refusal end
  self._bucket = store
  return take(self, deadline, gives_up)
end

-- Calls of scripts ----------------------------------------------------------------------------------------------------

function Lease:epoch() return receiver(self, Lease, "lease:epoch")._epoch end
function Lease:is_valid() return is_ours(receiver(self, Lease, "lease:is_valid")) end
function Lease:name() return receiver(self, Lease, "lease:name")._name end

function Lease:invalidate()
  receiver(self, Lease, "lease:invalidate")
  if not is_ours(self) then return end
  give_back(self)
  finish(self, "given back", "it was released")
end
Lease.__close = function(self) return self:invalidate() end

-- Returns the results of a task, or raises its error. If the task was cancelled because the lease is lost, returns nil
-- and that reason.
local function outcome(self, task, done, ...)
  if done then return ... end
  if self._state ~= "held" and task:status() == "cancelled" then
    return nil, format("the lease was lost: %s", self._reason), "ECONNRESET"
  end
  error((...), 0)
end

function Lease:run(fn, ...)
  receiver(self, Lease, "lease:run")
  if not misuse.is_callable(fn) then misuse.wrong("lease:run", "argument #1", "a function", fn) end
  if not is_ours(self) then return nil, format("the lease was lost: %s", self._reason), "ECONNRESET" end
  local arguments = table.pack(...)
  local task = rl.task { function() return fn(table.unpack(arguments, 1, arguments.n)) end,
    name = "work under the lease " .. self._name }
  self._tasks[task] = true
  -- The work is cancelled with its caller.
  local _ <close> = setmetatable({}, { __close = function()
    self._tasks[task] = nil
    task:cancel()
  end })
  return outcome(self, task, pcall(task.await, task))
end

function Lease:__tostring() return format("lease %s (%s, %s)", self._name, self._state, self._made_at) end

return lease
