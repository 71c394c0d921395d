-- Notifications by name, as NSNotificationCenter and NSNotificationQueue have them: rl.notifications.

local rl, internals = ...
local check_fields, raise, wrong, is_idle = select(3, ...)
local error, type, pcall = error, type, pcall
local setmetatable, tostring = setmetatable, tostring
local next, ipairs, rawequal = next, ipairs, rawequal
local integer_of = math.tointeger

local notifications = {}
rl.notifications = notifications
internals.on_missing(notifications, "rl.notifications")

local observers = {}  -- by name, in the order in which they were added

-- The queued notifications, as two indexes with sets of entries: by name and sender, and by sender. So coalescing
-- visits only the matching entries, however many others are queued.
local by_name, by_sender = {}, {}
local NOBODY = {}     -- the sender of notifications without one

local function check_name(call, name)
  if type(name) ~= "string" then wrong(call, "argument #1", "the name of a notification", name) end
end

local function check_self(call, self)
  if self ~= notifications then raise("%s: call it with a colon, as rl.notifications:%s", call, call:match ":(.*)") end
end

local Observation = {}
Observation.__index = Observation
Observation.__name = "notification_observer"
internals.on_missing(Observation, "notification_observer")

function Observation:invalidate()
  if not self.valid then return end
  self.valid, self.fn = false, nil
  local list = observers[self.notification]
  list.valid = list.valid - 1
  if list.valid == 0 then
    observers[self.notification] = nil
  elseif #list > 2 * list.valid + 8 then
    -- Makes a new list, since a delivery may be iterating over the old one.
    local left = { valid = list.valid }
    for i = 1, #list do
      if list[i].valid then left[#left + 1] = list[i] end
    end
    observers[self.notification] = left
  end
end

Observation.__close = Observation.invalidate
function Observation:is_valid() return self.valid end
function Observation:name() return self.notification end
function Observation:__tostring()
  return ("notification_observer %q (%s)"):format(self.notification, self.valid and "valid" or "invalid")
end

-- Calls fn(name, info, sender) for each notification of that name, or only for those of `sender` if it is given.
function notifications:observe(name, fn, sender)
  check_self("notifications:observe", self)
  check_name("notifications:observe", name)
  if type(fn) ~= "function" then wrong("notifications:observe", "argument #2", "a function", fn) end
  local observation = setmetatable({ notification = name, fn = fn, sender = sender, valid = true }, Observation)
  local list = observers[name] or { valid = 0 }
  observers[name] = list
  list[#list + 1], list.valid = observation, list.valid + 1
  return observation
end

-- Calls every observer, even if earlier ones fail; raises the first error at the end.
local function deliver(name, info, sender)
  local list = observers[name]
  local failed, failure = false, nil
  -- Observers that are added during the delivery are not called.
  for i = 1, list and #list or 0 do
    local observation = list[i]
    if observation.valid and (observation.sender == nil or rawequal(observation.sender, sender)) then
      local done, err = pcall(observation.fn, name, info, sender)
      if not done and not failed then failed, failure = true, err end
    end
  end
  if failed then error(failure, 0) end
end

function notifications:post(name, info, sender)
  check_self("notifications:post", self)
  check_name("notifications:post", name)
  deliver(name, info, sender)
end

-- Sets have a count: on a table from which many entries were removed, `next` takes time in proportion to its former
-- size.
local function add(sets, key, entry)
  local set = sets[key] or { count = 0, entries = {}, by_sender = {} }
  sets[key], set.count = set, set.count + 1
  set.entries[entry] = true
  return set
end

local function drop(sets, key, entry)
  local set = sets[key]
  set.count = set.count - 1
  set.entries[entry] = nil
  if set.count == 0 then sets[key] = nil end
  return set
end

local function remember(entry)
  add(add(by_name, entry.name, entry).by_sender, entry.sender, entry)
  add(by_sender, entry.sender, entry)
end

local function forget(entry)
  drop(drop(by_name, entry.name, entry).by_sender, entry.sender, entry)
  drop(by_sender, entry.sender, entry)
end

-- Removes all entries of a set, which may be nil. Returns the number of entries.
local function withdraw_all(set)
  if not set then return 0 end
  local count = set.count
  for entry in next, set.entries do
    forget(entry)
    entry.cancel()
  end
  return count
end

local function withdraw(name, sender, is_by_name, is_by_sender)
  if not is_by_name then return is_by_sender and withdraw_all(by_sender[sender]) or 0 end
  local named = by_name[name]
  return withdraw_all(is_by_sender and named and named.by_sender[sender] or not is_by_sender and named)
end

-- Returns the modes as an array, or nil if the value does not name modes.
local function modes_of(modes)
  if type(modes) == "string" then modes = { modes } end
  if type(modes) ~= "table" then return nil end
  for _, mode in next, modes do
    if type(mode) ~= "string" then return nil end
  end
  return modes
end

local ENQUEUE = { style = true, coalesce = true, modes = true, sender = true }
local STYLES = { now = true, asap = true, idle = true }

local function includes(modes, mode)
  for _, name in ipairs(modes) do
    if name == mode then return true end
    if name == "common" then
      for _, common in ipairs(rl.current():inspect().common_modes) do
        if common == mode then return true end
      end
    end
  end
  return false
end

local function check_sender(call, what, sender)
  if sender ~= sender then raise("%s: %s must not be NaN", call, what) end
end

function notifications:enqueue(name, info, options)
  check_self("notifications:enqueue", self)
  check_name("notifications:enqueue", name)
  options = options or {}
  if type(options) ~= "table" then wrong("notifications:enqueue", "argument #3", "an options table", options) end
  check_fields("notifications:enqueue", options, ENQUEUE)
  local style, sender, modes = options.style or "asap", options.sender, modes_of(options.modes or "default")
  if not STYLES[style] then wrong("notifications:enqueue", "field 'style'", '"now", "asap" or "idle"', style) end
  if not modes then
    wrong("notifications:enqueue", "field 'modes'", "the name of a mode, or an array of them", options.modes)
  end
  check_sender("notifications:enqueue", "field 'sender'", sender)
  local coalesce = options.coalesce
  if coalesce == nil then coalesce = { "name", "sender" } end
  if type(coalesce) ~= "table" then
    wrong("notifications:enqueue", "field 'coalesce'", 'an array of "name" and "sender"', coalesce)
  end
  local is_by_name, is_by_sender = false, false
  for key, what in next, coalesce do
    if integer_of(key) == nil then
      raise("notifications:enqueue: field 'coalesce' must be an array, as in { \"name\" }, got a key %s", tostring(key))
    elseif what == "name" then is_by_name = true
    elseif what == "sender" then is_by_sender = true
    else raise("notifications:enqueue: field 'coalesce' holds \"name\" and \"sender\" only, got %s", tostring(what))
    end
  end
  local who = sender == nil and NOBODY or sender
  withdraw(name, who, is_by_name, is_by_sender)
  local loop = rl.current()
  if style == "now" then
    local mode = loop:mode()
    if mode == nil or includes(modes, mode) then deliver(name, info, sender) end
    return
  end
  if #modes == 0 then return end
  local entry = { name = name, sender = who }
  local function post()
    forget(entry)
    deliver(name, info, sender)
  end
  if style == "asap" then
    local request = loop:perform { post, modes = modes }
    entry.cancel = function() request:cancel() end
  else
    -- The source keeps the mode alive. The loop is woken afterwards, since observers may have made work.
    local keep = rl.source { name = "idle notification" }
    local observer
    observer = rl.observer { activities = { "before_waiting" }, name = "idle notification",
      callback = function()
        if not is_idle() then return end
        observer:invalidate()
        keep:invalidate()
        loop:wake_up()
        post()
      end }
    entry.cancel = function()
      keep:invalidate()
      observer:invalidate()
    end
    loop:add(keep, modes)
    loop:add(observer, modes)
  end
  remember(entry)
end

-- Removes the queued notifications with this name and this sender. One of the two may be nil, which matches all.
-- Returns the number of removed notifications.
function notifications:dequeue(name, sender)
  check_self("notifications:dequeue", self)
  if name == nil and sender == nil then
    raise "notifications:dequeue: give the name of a notification, or a sender, or both"
  end
  if name ~= nil then check_name("notifications:dequeue", name) end
  check_sender("notifications:dequeue", "argument #2", sender)
  return withdraw(name, sender, name ~= nil, sender ~= nil)
end
