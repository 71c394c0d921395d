-- runloop.fs.instance: the one inotify instance that the watchers of a thread share. The kernel allows a user 128 of
-- them.
--
-- A directory that several watchers watch has one number in the kernel. Here each watcher has its own numbers and its
-- own queue. Each call first distributes all pending events to these queues. The call that makes a watcher watch a
-- directory also does this, so that the watcher gets no earlier events. A watcher's port watches a descriptor, the
-- gate. The gate is readable while the instance has events or the watcher's queue is not empty.

local native = ...
local next, pairs, setmetatable = next, pairs, setmetatable
local tonumber, move = tonumber, table.move
local now = require "runloop".now

local instance = {}

-- The flags of inotify(7). The kernel's mask of a directory is the union of all requests; each watcher gets only the
-- events that it asked for.
local OVERFLOW, IGNORED, IS_DIRECTORY, ADD = 0x4000, 0x8000, 0x40000000, 0x20000000
local MOVES = 0x40 | 0x80 | 0x800
-- Seconds within which both events of one move arrive.
instance.PAIRING = 0.02

-- The open instance: its `inotify`, the `watchers` that use it, and its `directories`. `directories` maps the kernel's
-- numbers to { number, mask } by watcher.
local open
local last_number = 0
local WATCHERS = { __mode = "k" }

local function give(watcher, number, event)
  local queue = watcher._queue
  if watcher._is_lost then return end
  if #queue == 0 then open.inotify:open_gate(watcher._gate) end
  -- As in the kernel: a watcher that reads too slowly gets an overflow event, which reports the loss.
  if #queue >= open.limit then
    watcher._is_lost, watcher._queue = true, { { watch = -1, mask = OVERFLOW, cookie = 0 } }
    return
  end
  queue[#queue + 1] = { watch = number, mask = event.mask, cookie = event.cookie, name = event.name }
end

-- Reads all pending events, and distributes them to the watchers' queues.
local function deal()
  local events = open and open.inotify:take()
  while events and #events > 0 do
    for i = 1, #events do
      local event = events[i]
      if event.mask & OVERFLOW ~= 0 then
        for watcher in pairs(open.watchers) do give(watcher, -1, event) end
      else
        for watcher, own in pairs(open.directories[event.watch] or {}) do
          local concerns = event.mask & (own.mask | IGNORED) & ~IS_DIRECTORY ~= 0
            and (not own.name or not event.name or event.name == own.name)
          if concerns then give(watcher, own.number, event) end
        end
        if event.mask & IGNORED ~= 0 then open.directories[event.watch] = nil end
      end
    end
    events = open.inotify:take()
  end
end

-- Makes a watcher use the instance. Returns the descriptor of its gate, which the port of the watcher then owns; or
-- nil, message, code, and true if the instance itself could not be opened.
function instance.join(watcher)
  local message, code
  if not open then
    local inotify
    inotify, message, code = native.open_watch()
    if not inotify then return nil, message, code, true end
    open = { inotify = inotify, watchers = setmetatable({}, WATCHERS), directories = {},
      limit = tonumber(native.limit "max_queued_events") or 16384 }
  end
  watcher._queue, watcher._numbers_there = {}, {}
  open.watchers[watcher] = true
  watcher._gate, message, code = open.inotify:make_gate()
  if not watcher._gate then
    instance.leave(watcher)
    return nil, message, code
  end
  return watcher._gate
end

-- Watches a path. With a name, only events of that name are requested, unless another watcher requests more events of
-- the directory. Returns the watcher's number for it, the same each time for one directory; or nil, message, code.
function instance.watch(watcher, path, mask, name)
  deal()
  local there, message, code = open.inotify:watch(path, mask | ADD)
  if not there then return nil, message, code end
  local directory = open.directories[there]
  if not directory then
    directory = setmetatable({}, WATCHERS)
    open.directories[there] = directory
  end
  local own = directory[watcher]
  if not own then
    last_number = last_number + 1
    own = { number = last_number, name = name }
    directory[watcher] = own
    watcher._numbers_there[own.number] = there
  end
  own.mask, own.name = mask, own.name == name and name or nil
  return own.number
end

function instance.unwatch(watcher, number)
  local there = watcher._numbers_there[number]
  watcher._numbers_there[number] = nil
  local directory = open and there and open.directories[there]
  if not directory or not directory[watcher] or directory[watcher].number ~= number then return end
  directory[watcher] = nil
  if next(directory) ~= nil then return end
  open.directories[there] = nil
  open.inotify:unwatch(there)
end

-- Returns the events since the last call, in order; nil if there are none.
local function take(watcher)
  deal()
  local queue = watcher._queue
  if #queue == 0 then return nil end
  open.inotify:close_gate(watcher._gate)
  watcher._queue, watcher._is_lost = {}, nil
  return queue
end

local function is_in_move(events) return events[#events].mask & MOVES ~= 0 end

-- Returns the events to handle. If the last event may be the first half of a move, the events are held back until the
-- other half, or all four events of an exchange of two names, have had time to arrive.
function instance.next(watcher)
  local events, held = take(watcher), watcher._held
  if held then
    move(events or {}, 1, events and #events or 0, #held + 1, held)
    if events and now() - held.since < instance.PAIRING and is_in_move(held) then return nil end
    watcher._held = nil
    return held
  elseif events and is_in_move(events) then
    events.since, watcher._held = now(), events
    return nil
  end
  return events
end

-- Ends the watcher's use of the instance. The last watcher closes the instance.
function instance.leave(watcher)
  if not open or not open.watchers[watcher] then return end
  for number in pairs(watcher._numbers_there) do instance.unwatch(watcher, number) end
  open.watchers[watcher] = nil
  if next(open.watchers) == nil then
    open.inotify:close()
    open = nil
  end
end

-- Returns a message that names the limit of the system that was reached.
function instance.limit_message(message, code)
  if code == "ENOSPC" then
    return "ENOSPC: too many directories are watched: raise the limit, sysctl fs.inotify.max_user_watches ("
      .. (native.limit "max_user_watches" or "?") .. " now)"
  elseif code == "EMFILE" then
    local most = native.limit "max_user_instances"
    -- If even the file with the limit cannot be opened, this process has run out of descriptors.
    return most
      and "EMFILE: too many watchers: raise the limit, sysctl fs.inotify.max_user_instances (" .. most .. " now)"
      or "EMFILE: too many open files: raise the limit of this process, ulimit -n"
  end
  return message
end

return instance
