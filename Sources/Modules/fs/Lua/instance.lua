-- runloop.fs.instance: the one instance of inotify that the watchers of a thread share; a user has 128 of them.
--
-- Directories that several watch have one number in the kernel. Here each watcher has numbers of its own, and a queue of its own, into
-- which all events are dealt as soon as anybody looks: before a watcher begins to watch a directory, too, so that it is told of nothing
-- that was before. A watcher's port watches a gate: it is open when the instance has events, and while the watcher's queue has some.

local native = ...
local next, pairs, setmetatable, tonumber, move = next, pairs, setmetatable, tonumber, table.move
local now = require "runloop".now

local instance = {}

-- inotify(7). To what a directory is watched for, more is added; each watcher gets what it has asked for.
local OVERFLOW, IGNORED, IS_DIRECTORY, ADD = 0x4000, 0x8000, 0x40000000, 0x20000000
local MOVES = 0x40 | 0x80 | 0x800
-- The events of one move come within that many seconds.
instance.PAIRING = 0.02

-- The open one: the `inotify` itself, the `watchers` that use it, and the `directories` by the kernel's numbers: for each watcher
-- { number, mask }.
local open
local last_number = 0
local WATCHERS = { __mode = "k" }

local function give(watcher, number, event)
  local queue = watcher._queue
  if watcher._is_lost then return end
  if #queue == 0 then open.inotify:open_gate(watcher._gate) end
  -- As the kernel does it: who never looks is told that something was lost.
  if #queue >= open.limit then
    watcher._is_lost, watcher._queue = true, { { watch = -1, mask = OVERFLOW, cookie = 0 } }
    return
  end
  queue[#queue + 1] = { watch = number, mask = event.mask, cookie = event.cookie, name = event.name }
end

-- Deals out what has happened.
local function deal()
  local events = open and open.inotify:take()
  while events and #events > 0 do
    for i = 1, #events do
      local event = events[i]
      if event.mask & OVERFLOW ~= 0 then
        for watcher in pairs(open.watchers) do give(watcher, -1, event) end
      else
        for watcher, own in pairs(open.directories[event.watch] or {}) do
          local concerns = event.mask & (own.mask | IGNORED) & ~IS_DIRECTORY ~= 0 and (not own.name or not event.name or event.name == own.name)
          if concerns then give(watcher, own.number, event) end
        end
        if event.mask & IGNORED ~= 0 then open.directories[event.watch] = nil end
      end
    end
    events = open.inotify:take()
  end
end

-- Makes a watcher use the instance. Returns the descriptor of its gate, for its port to own; or nil, message, code, and true if it is the
-- instance that cannot be had.
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

-- Watches a path: what happens to the entry of a name only, if there is one and nobody wants more. Returns the watcher's number of it, the
-- same for the same directory; or nil, message, code.
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

-- What has happened since the last time, in order; nil if nothing has.
local function take(watcher)
  deal()
  local queue = watcher._queue
  if #queue == 0 then return nil end
  open.inotify:close_gate(watcher._gate)
  watcher._queue, watcher._is_lost = {}, nil
  return queue
end

local function is_in_move(events) return events[#events].mask & MOVES ~= 0 end

-- What there is to look at. Two names that are exchanged are four events, and what ends in a move may be the first of them: that is kept until the
-- rest has had the time to come.
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

-- The watcher watches no more. The last one closes the instance.
function instance.leave(watcher)
  if not open or not open.watchers[watcher] then return end
  for number in pairs(watcher._numbers_there) do instance.unwatch(watcher, number) end
  open.watchers[watcher] = nil
  if next(open.watchers) == nil then
    open.inotify:close()
    open = nil
  end
end

-- Which limit of the system was met.
function instance.limit_message(message, code)
  if code == "ENOSPC" then
    return "ENOSPC: too many directories are watched: raise the limit, sysctl fs.inotify.max_user_watches ("
      .. (native.limit "max_user_watches" or "?") .. " now)"
  elseif code == "EMFILE" then
    local most = native.limit "max_user_instances"
    -- Where that cannot be read either, it is this process that has no descriptor left.
    return most and "EMFILE: too many watchers: raise the limit, sysctl fs.inotify.max_user_instances (" .. most .. " now)"
      or "EMFILE: too many open files: raise the limit of this process, ulimit -n"
  end
  return message
end

return instance
