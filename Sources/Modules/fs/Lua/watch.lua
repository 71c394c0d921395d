-- runloop.fs.watch: reports changes in directories and files.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local changes = require "runloop.fs.changes"
local instance = require "runloop.fs.instance"
local links = require "runloop.fs.links"
local scan = require "runloop.fs.scan"
local waiting_modes = require "runloop.waiting_modes"
local tree = require "runloop.fs.tree"

local fs = {}
local make_ignore, is_wanted, take, touch = changes.ignore, changes.is_wanted, changes.take, changes.touch
local appear, vanish, move, exchange = changes.appear, changes.vanish, changes.move, changes.exchange
local know, assign, join = tree.know, tree.assign, tree.join
local limit_message = instance.limit_message
local watch_directory, look = scan.watch_directory, scan.look
local raise, describe = misuse.raise, misuse.describe
local type, pairs, ipairs, next = type, pairs, ipairs, next
local pcall, setmetatable = pcall, setmetatable
local format, match, find, gsub = string.format, string.match, string.find, string.gsub
local max = math.max

-- The flags of inotify(7).
local MODIFY, CLOSE_WRITE = 0x2, 0x8
local MOVED_FROM, MOVED_TO, CREATE = 0x40, 0x80, 0x100
local DELETE, DELETE_SELF, MOVE_SELF = 0x200, 0x400, 0x800
local OVERFLOW, IGNORED, IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
local LATENCY, PAIRING, REST = 0.05, instance.PAIRING, 0.002
local OBJECT = internals.value_number("fd_port", "object")

local OPTIONS = {
  recursive = "boolean", ignore = "any", latency = "seconds", while_writing = "boolean",
  name = "string", path = "any", callback = "function",
}

-- Watching ------------------------------------------------------------------------------------------------------------
--
-- Directories are watched, never files: the watch of a file dies when an editor replaces the file. The callback gets
-- the difference between before and after: for each touched path the watcher knows whether it existed before, and where
-- its item came from.

-- `__item` is the object that `loop:add` uses.
local Watcher = objects.class("runloop.fs.Watcher", { __name = "watcher", __stays = true, __item = "_port" })

local function self_of(self, name) return misuse.receiver(self, Watcher, "watcher:" .. name) end

-- A root that is missing ----------------------------------------------------------------------------------------------

-- Watches the nearest existing directory above a missing root, for the name that leads to the root.
local function await_root(self)
  local path = self._root
  links.watch(self)
  while self._valid do
    if native.kind(path) == "directory" then
      if path == self._root then break end
      local awaited = self._awaited
      self._above = instance.watch(self, path, MOVED_TO | CREATE | DELETE_SELF | MOVE_SELF)
      -- The root may have appeared between the two checks.
      if self._above and native.kind(awaited) ~= "directory" then return end
      if self._above then instance.unwatch(self, self._above) end
      path = self._root
    else
      self._awaited = path
      local above = match(path, "^(.*)/[^/]+$") or path ~= "." and "." or nil
      if not above then return end
      path = above == "" and "/" or above
    end
  end
  self._above, self._awaited = nil, nil
  if not self._valid then return end
  links.watch(self)
  if not self._file then appear(self, self._root, true) end
  -- For a recursive watch of a directory, `appear` has done this already.
  if self._file or not self._recursive then watch_directory(self, self._root, true) end
end

local function lose_root(self)
  if not self._file then
    know(self, self._root, "directory")
    vanish(self, self._root)
  elseif self._known[self._file] then
    vanish(self, self._file)
  end
  for number in pairs(self._directories) do instance.unwatch(self, number) end
  self._directories, self._numbers, self._unseen = {}, {}, {}
  await_root(self)
end

-- Handles an event of a link on the way to the root: the link may have been replaced.
local function follow(self)
  local kind, identity = native.kind(self._root)
  if not self._above and identity ~= self._identity then
    lose_root(self)
  elseif self._above and kind == "directory" then
    instance.unwatch(self, self._above)
    await_root(self)
  else
    links.watch(self)
  end
end

local arm

local function deliver(self)
  if not self._valid or self._busy then return end
  -- The other half of an incomplete move gets this time to arrive.
  self._armed, self._waits = false, next(self._leaving) and not self._waits
  if self._waits then return arm(self, 2 * PAIRING) end
  local batch = take(self)
  self._exchanged = false
  if #batch == 0 then return end
  if self._callback then
    -- Only one call runs at a time: changes that come meanwhile are reported together afterwards.
    self._busy = true
    local done <close> = setmetatable({}, { __close = function()
      self._busy = false
      if #self._order > 0 or self._rescan then arm(self, 0) end
    end })
    self._callback(batch, self)
  else
    self._batches[#self._batches + 1] = batch
    self._arrived:broadcast()
  end
end

-- Calls a function after a number of seconds, in the modes that the watcher is in.
local function later(self, seconds, fn)
  local loop, modes = rl.current(), {}
  for _, mode in ipairs(loop:modes()) do if loop:contains(self._port, mode) then modes[#modes + 1] = mode end end
  if #modes == 0 then modes[1] = "default" end
  local timer
  timer = rl.timer { delay = seconds, name = "changes", modes = modes, callback = function()
    self._timers[timer] = nil
    return fn(self)
  end }
  self._timers[timer] = true
  return timer
end

-- Changes within the latency are reported together. So both events of a rename are in one report.
function arm(self, seconds)
  if self._armed or self._busy or not self._valid then return end
  self._armed = later(self, seconds, deliver)
end

local function look_again(self)
  for number in pairs(self._directories) do instance.unwatch(self, number) end
  tree.clear(self)
  self._touched, self._order, self._moved = {}, {}, {}
  links.watch(self)
  local fine, message, code = watch_directory(self, self._root, false)
  self._rescan, self._problem = true, not fine and limit_message(message, code) or nil
  if fine and not next(self._directories) then await_root(self) end
end

-- Removes an item from its path until the other half of its move arrives; meanwhile another item may take the name.
local function leave(self, path, event)
  local aside = "\0" .. event.cookie
  move(self, path, aside, event.mask & IS_DIRECTORY ~= 0)
  self._leaving[event.cookie] = { path = aside, at = rl.now() }
  event.mask = 0
  return true
end

-- Handles the departure of an item from a path, the event number `index`. Returns two booleans: whether the other half
-- of its move may still arrive, and whether only a later check can find out what happened.
local function depart(self, events, index, path, is_directory)
  local target = changes.target(self, events, index)
  local from_wanted, known = is_wanted(self, path, is_directory), self._known[path]
  if from_wanted then self._moved[path] = true end
  local to_wanted = target and is_wanted(self, target, is_directory)
  if to_wanted then self._moved[target] = true end
  if from_wanted and known and is_directory ~= (known == "directory") then
    vanish(self, path)
    from_wanted = false
  end
  local other = target and self._known[target] and from_wanted
    and changes.exchanged(self, events, index, path, target)
  -- An earlier exchange may have replaced the directory of this one.
  if other and self._exchanged then
    return false, true
  elseif other then
    exchange(self, path, other.mask & IS_DIRECTORY ~= 0, target, is_directory)
    other.mask = 0
  elseif to_wanted then
    if from_wanted then move(self, path, target, is_directory) else appear(self, target, is_directory) end
  elseif from_wanted then
    if target then
      vanish(self, path)
    else
      return leave(self, path, events[index])
    end
  end
end

-- Handles the arrival of an item at a path, the event number `index`. Returns whether another half of a move may still
-- arrive.
local function arrive(self, events, index, path, is_directory)
  local cookie = events[index].cookie
  self._moved[path] = true
  local left = self._leaving[cookie]
  self._leaving[cookie] = nil
  -- If no other half has come, the item may have been exchanged with one that is not watched. The arrival is reported
  -- before the departure.
  local goes = not left and self._known[path] and changes.goes(events, index, native.kind(path, true))
  local waits = goes and leave(self, path, goes)
  if left then move(self, left.path, path, is_directory) else appear(self, path, is_directory) end
  return waits
end

local function on_events(self)
  local waiting
  while self._valid do
    local events = instance.next(self)
    if not events then break end
    for index, event in ipairs(events) do
      if links.concern(self, event) then follow(self) end
      local directory, mask, name = self._directories[event.watch], event.mask, event.name
      if mask & OVERFLOW ~= 0 then
        look_again(self)
        break
      elseif event.watch == self._above then
        if not name or match(self._awaited, "[^/]*$") == name then
          instance.unwatch(self, event.watch)
          await_root(self)
        end
      elseif directory == self._root and mask & (DELETE_SELF | MOVE_SELF) ~= 0 then
        lose_root(self)
      elseif directory and mask & (DELETE_SELF | IGNORED) ~= 0 then
        assign(self, event.watch, nil)
      elseif directory and name then
        local path, is_directory = join(directory, name), mask & IS_DIRECTORY ~= 0
        if mask & MOVED_FROM ~= 0 then
          local is_open, is_unclear = depart(self, events, index, path, is_directory)
          waiting = is_open or waiting
          if is_unclear then
            look_again(self)
            break
          end
        elseif is_wanted(self, path, is_directory) then
          if mask & MOVED_TO ~= 0 then
            waiting = arrive(self, events, index, path, is_directory) or waiting
          elseif mask & CREATE ~= 0 then
            appear(self, path, is_directory)
          elseif mask & DELETE ~= 0 then
            vanish(self, path)
          elseif mask & (CLOSE_WRITE | MODIFY) ~= 0 then
            touch(self, path).wrote = true
            know(self, path, self._known[path] or "file")
          end
        end
      end
    end
  end
  if self._held then
    later(self, REST, on_events)
    return
  end
  for cookie, left in pairs(self._leaving) do
    if rl.now() - left.at >= PAIRING then
      self._leaving[cookie] = nil
      vanish(self, left.path)
    else
      waiting = true
    end
  end
  look(self)
  if waiting then later(self, PAIRING, on_events) end
  if #self._order > 0 or self._rescan then arm(self, waiting and max(self._latency, 2 * PAIRING) or self._latency) end
end

local function make(what, options)
  misuse.fields(options, OPTIONS, what)
  local path = options.path
  if type(path) ~= "string" or path == "" then
    raise("%s: field 'path' must be a path, got %s", what, describe(path))
  end
  local latency = options.latency or LATENCY
  if latency >= 1e9 then
    raise("%s: field 'latency' must be a number of seconds below 1e9, got %s", what, describe(latency))
  end
  local ignore = make_ignore(what, options.ignore)
  local kind, message, code = native.kind(path)
  if not kind then return nil, message, code end
  local root = kind == "directory" and (gsub(path, "(.)/+$", "%1")) or match(path, "^(.*)/[^/]*$") or "."
  if root == "" then root = "/" end
  local self = setmetatable({
    _root = root,
    _file = kind ~= "directory" and (find(path, "/", 1, true) and path or "./" .. path) or nil,
    _recursive = options.recursive and kind == "directory", _ignore = ignore, _latency = latency,
    _while_writing = options.while_writing, _callback = options.callback,
    _touched = {}, _order = {}, _count = 0, _leaving = {}, _moved = {}, _timers = {}, _batches = {},
    _arrived = objects.condition "watcher:next", _valid = true, _path = path, _made_at = objects.made_at(),
    -- A file that was named without a directory is reported by the same name.
    _shown = kind ~= "directory" and not find(path, "/", 1, true)
      and function(p) return (gsub(p, "^%./", "")) end
      or function(p) return p end,
  }, Watcher)
  tree.clear(self)
  local gate, is_limit
  gate, message, code, is_limit = instance.join(self)
  if not gate then return nil, is_limit and limit_message(message, code) or message, code end
  self._port = rl.fd_port {
    fd = gate, owns = true, name = options.name or path,
    callback = function() return on_events(self) end,
  }
  -- Errors about the port name the watcher.
  internals.set_value(self._port, OBJECT, self)
  internals.set_subject(self, format('watcher of "%s" %s', options.name or path, self._made_at))
  links.watch(self)
  local fine, why, name = watch_directory(self, root, false)
  self._goes_on = true
  if fine then
    if #self._order > 0 then arm(self, latency) end
    return self
  end
  instance.leave(self)
  self._port:invalidate()
  return nil, limit_message(why, name), name
end

function fs.watcher(options)
  misuse.argument(options, "table", "fs.watcher", 1)
  return make("fs.watcher", options)
end

function fs.watch(path, options, fn)
  if type(options) == "function" and fn == nil then options, fn = {}, options end
  if type(path) ~= "string" or path == "" then raise("fs.watch: argument #1 must be a path, got %s", describe(path)) end
  if options ~= nil and type(options) ~= "table" then
    raise("fs.watch: argument #2 must be a table or a function, got %s", describe(options))
  end
  if fn ~= nil and type(fn) ~= "function" then
    raise("fs.watch: argument #3 must be a function, got %s", describe(fn))
  end
  local all = { path = path, callback = fn }
  for name, value in pairs(options or {}) do
    if all[name] ~= nil or name == "callback" then raise("fs.watch: unknown field '%s': it is an argument", name) end
    all[name] = value
  end
  local watcher, message, code = make("fs.watch", all)
  if not watcher then return nil, message, code end
  rl.current():add(watcher._port, "common")
  return watcher
end

function Watcher:next(timeout)
  self_of(self, "next")
  misuse.optional(timeout, "seconds", "watcher:next", 1)
  if self._callback then raise("watcher:next: its changes go to its callback") end
  local limit = timeout and rl.now() + timeout
  local heard <close> = waiting_modes(self._port)
  if heard and self._armed then
    -- The report of the changes gathered so far must also reach this mode.
    self._armed:invalidate()
    self._timers[self._armed] = nil
    self._armed = false
    arm(self, self._latency)
  end
  while #self._batches == 0 do
    if not self._valid then return nil, "invalid" end
    local woken, reason = self._arrived:wait(limit and max(0, limit - rl.now()))
    if not woken and #self._batches == 0 then return nil, reason end
  end
  return table.remove(self._batches, 1)
end

function Watcher:invalidate()
  self_of(self, "invalidate")
  if not self._valid then return end
  self._valid = false
  instance.leave(self)
  self._port:invalidate()
  for timer in pairs(self._timers) do timer:invalidate() end
  self._arrived:broadcast()
end
Watcher.__close = Watcher.invalidate
-- Leaves the instance when the watcher is collected.
function Watcher:__gc() pcall(instance.leave, self) end
function Watcher:is_valid() return self_of(self, "is_valid")._valid end
function Watcher:name() return self_of(self, "name")._port:name() end
function Watcher:__tostring()
  return format("watcher of %q%s (%s%s)", self._path, self._recursive and " and all below" or "",
    self._valid and "" or "invalid, ", self._made_at)
end

return fs
