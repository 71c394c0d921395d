-- rl.condition, rl.channel and rl.group: waiting for other tasks of this thread. These objects use queues of tasks:
-- wake(queue, …) passes values to the first waiting task; take(queue) returns the values that the first waiting task
-- offers.

local rl, internals, crossing = ...
local conditions = crossing.open_conditions()
local new, wake, take = conditions.new, conditions.wake, conditions.take
local wait_to_receive, wait_to_send, wait_for_group =
  conditions["channel:receive"], conditions["channel:send"], conditions["group:wait"]
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, describe, expect_self = misuse.raise, misuse.describe, misuse.expect_self
local pcall, rawequal, type = pcall, rawequal, type
local select, setmetatable = select, setmetatable
local pack, unpack, integer_of = table.pack, table.unpack, math.tointeger

local function expect_timeout(timeout, name)
  if timeout == nil or type(timeout) == "number" and timeout >= 0 then return end
  raise("%s: argument #1 must be a number of seconds, 0 or more, or nil for no limit, got %s", name, describe(timeout))
end

-- Conditions ---------------------------------------------------------------------------------------------------------

local function condition(...)
  -- objects.condition passes `misuse` as the first argument, and after it the name of the wait.
  if rawequal((...), misuse) then return new((select(2, ...))) end
  if select("#", ...) > 0 then raise "rl.condition: no arguments are expected" end
  return new()
end

-- Channels -----------------------------------------------------------------------------------------------------------

local Channel = objects.class("runloop.Channel", { __name = "channel", __stays = true })

-- Stores the values of one sender: the first value as an element of the channel, and further values, if there are any,
-- as a list at the same index of `further`.
local function store(self, first, ...)
  local place = self.last + 1
  self.last, self[place] = place, first
  if select("#", ...) > 0 then self.further[place] = pack(...) end
end

local function fetch(self)
  local place = self.first
  local value, others = self[place], self.further[place]
  self[place], self.further[place], self.first = nil, nil, place + 1
  if others then return value, unpack(others, 1, others.n) end
  return value
end

local function channel(capacity)
  if capacity == nil then capacity = 0 end
  if type(capacity) ~= "number" or capacity < 0 or capacity ~= math.huge and not integer_of(capacity) then
    raise("rl.channel: argument #1 must be the number of values that it can hold, 0 or more, got %s",
      describe(capacity))
  end
  return setmetatable({
    capacity = capacity, first = 1, last = 0, further = {}, senders = new(), receivers = new(), closed = false,
    site = objects.made_at(),
  }, Channel)
end

function Channel:send(...)
  expect_self(self, Channel, "channel:send")
  if (...) == nil then
    raise "channel:send: argument #1 must be a value other than nil, which says that the channel is closed"
  end
  if self.closed then return nil, "closed" end
  if wake(self.receivers, ...) then return true end
  if self.last - self.first + 1 < self.capacity then
    store(self, ...)
    return true
  end
  return wait_to_send(self.senders, nil, ...)
end

-- Returns the value that was taken from a sender, or waits for the next one.
local function next_of(self, timeout, ...)
  if select("#", ...) > 0 then return ... end
  if timeout == 0 then return nil, "timed out" end
  return wait_to_receive(self.receivers, timeout)
end

-- Stores the value of the sender that has waited longest in the free place of the buffer.
local function refill(self, ...)
  local function keep(...)
    if select("#", ...) > 0 then store(self, ...) end
  end
  keep(take(self.senders))
  return ...
end

function Channel:receive(timeout)
  expect_self(self, Channel, "channel:receive")
  expect_timeout(timeout, "channel:receive")
  local count = self.last - self.first + 1
  if count == 0 then
    if self.closed then return nil, "closed" end
    -- An unbuffered channel takes the value of the first waiting sender, if there is one.
    if self.capacity == 0 then return next_of(self, timeout, take(self.senders)) end
    return next_of(self, timeout)
  end
  if count == self.capacity then return refill(self, fetch(self)) end
  return fetch(self)
end

function Channel:close()
  expect_self(self, Channel, "channel:close")
  if self.closed then return end
  self.closed = true
  while wake(self.receivers, nil, "closed") do end
  while wake(self.senders, nil, "closed") do end
end

function Channel:values()
  expect_self(self, Channel, "channel:values")
  return function() return self:receive() end
end

function Channel:count()
  expect_self(self, Channel, "channel:count")
  return self.last - self.first + 1
end

function Channel:is_closed() return expect_self(self, Channel, "channel:is_closed").closed end

function Channel:__tostring()
  return ("channel (%d of %s, %s%s)"):format(self:count(), self.capacity, self.closed and "closed, " or "", self.site)
end

Channel.__close = Channel.close

-- Groups -------------------------------------------------------------------------------------------------------------

local Group = objects.class("runloop.Group", { __name = "group", __stays = true })

local function group(...)
  if select("#", ...) > 0 then raise "rl.group: no arguments are expected" end
  return setmetatable({
    count = 0, made = 0, tasks = {}, ended = new(), failed = false, failure = false, cancelled = false,
    site = objects.made_at(),
  }, Group)
end

local function cancel(self)
  -- Iterate over a copy: a cancelled task may start or end other tasks while it ends.
  local tasks = {}
  for task in next, self.tasks do tasks[#tasks + 1] = task end
  table.sort(tasks, function(a, b) return self.tasks[a] > self.tasks[b] end)
  for i = 1, #tasks do
    if self.tasks[tasks[i]] then tasks[i]:cancel() end
  end
end

-- Reports a member's end to the group, with its error if it has failed. Uses __close rather than pcall, so that the
-- error keeps the member's traceback.
local Member = {}

function Member:__close(err)
  local group = self.group
  self.has_ended = true
  if self.task then group.tasks[self.task] = nil end
  group.count = group.count - 1
  if err ~= nil and not rl.is_cancelled(err) then
    if not group.failed then
      group.failed, group.reason = self, err
      cancel(group)
    elseif self.task then
      -- Observe the errors of other members while they are cancelled, so that they are not reported: the group's error
      -- is the first one.
      rl.task(pcall, self.task.await, self.task)
    end
  end
  if group.count == 0 then
    while wake(group.ended, true) do end
  end
end

local function run(member, fn, ...)
  local _ <close> = member
  return fn(...)
end

function Group:task(fn, ...)
  expect_self(self, Group, "group:task")
  misuse.argument(fn, "function", "group:task", 1)
  if self.failed then
    -- The message contains the task's error, since the caller may learn of the failure only here.
    local _, reason = pcall(tostring, self.reason)
    raise("group:task: a task of this group has failed, which ends them all: %s", reason)
  end
  if self.cancelled then raise "group:task: this group has been cancelled" end
  local member = setmetatable({ group = self }, Member)
  self.count = self.count + 1
  self.made = self.made + 1
  local number = self.made
  local task = internals.child_task(run, member, fn, ...)
  if member.has_ended then
    if self.failed == member then self.failure = task
    elseif self.failed then pcall(task.await, task) end
    return task
  end
  member.task = task
  self.tasks[task] = number
  return task
end

local function outcome(self, ...)
  if (...) and self.failed then
    -- Awaiting the failed task raises its error.
    (self.failure or self.failed.task):await()
  end
  return ...
end

function Group:wait(timeout)
  expect_self(self, Group, "group:wait")
  expect_timeout(timeout, "group:wait")
  if self.count == 0 then return outcome(self, true) end
  return outcome(self, wait_for_group(self.ended, timeout))
end

function Group:cancel()
  expect_self(self, Group, "group:cancel")
  self.cancelled = true
  cancel(self)
end

function Group:__tostring()
  local state = self.failed and "failed, " or self.cancelled and "cancelled, " or ""
  return ("group (%d tasks, %s%s)"):format(self.count, state, self.site)
end

Group.__close = Group.cancel

return { condition = condition, channel = channel, group = group }
