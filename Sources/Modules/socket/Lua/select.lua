-- runloop.socket.select: waits for several sockets. Sockets of this module, and all objects with `getfd`.

local common = require "runloop.socket.common"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local system = common.system
local ipairs, type = ipairs, type

-- Returns the descriptor of an object; nil if it has none. `select` passes over objects without one, as LuaSocket's
-- function does.
local function fd_of(object)
  local kind = type(object)
  if kind ~= "table" and kind ~= "userdata" then misuse.raise("attempt to index a %s value", kind) end
  local getfd = object.getfd
  return getfd and getfd(object)
end

-- Adds the sockets of a list to a plan. Returns whether one of the sockets has buffered bytes.
local function enter(plan, list, events)
  local is_ready = false
  for _, socket in ipairs(list) do
    local fd = fd_of(socket)
    if type(fd) == "number" and fd >= 0 then
      local place = #plan.fds + 1
      plan.fds[place], plan.events[place], plan.sockets[place] = fd, events, socket
      if events == "r" and socket.dirty and socket:dirty() then
        plan.dirty[place], is_ready = true, true
      end
    end
  end
  return is_ready
end

local function look(plan)
  local ready = { {}, {} }
  plan.found = plan.found or {}
  local count = system.poll(plan.fds, plan.events, plan.found)
  for place, socket in ipairs(plan.sockets) do
    local list = ready[plan.events[place] == "r" and 1 or 2]
    if plan.dirty[place] or count > 0 and plan.found[place] ~= "" then
      list[#list + 1] = socket
      list[socket] = #list
    end
  end
  return ready[1], ready[2], ready[1][1] ~= nil or ready[2][1] ~= nil
end

-- Waits until one of the descriptors is ready. A task for each descriptor waits; it keeps the loop running if the
-- caller does.
local function await(plan, limit)
  if #plan.fds == 0 then return rl.sleep(limit) end
  local waits = {}
  for place, fd in ipairs(plan.fds) do
    local wait = plan.events[place] == "r" and rl.wait_readable or rl.wait_writable
    if not plan.fds[2] then return wait(fd, limit) end
    waits[place] = function() return wait(fd, limit) end
  end
  return rl.first_of(waits)
end

local function check(list, number)
  if list == nil or type(list) == "table" then return list or {} end
  common.bad(number, "socket.select", ("table expected, got %s"):format(type(list)))
end

return function(readers, writers, limit)
  readers, writers = check(readers, 1), check(writers, 2)
  limit = common.number(limit, 3, "socket.select", -1)
  local plan = { fds = {}, events = {}, sockets = {}, dirty = {} }
  local is_ready = enter(plan, readers, "r")
  enter(plan, writers, "w")
  local readable, writable, found = look(plan)
  if found or is_ready then return readable, writable end
  local last = limit >= 0 and rl.now() + limit or nil
  while limit ~= 0 do
    local rest = last and last - rl.now()
    if rest and rest <= 0 then break end
    await(plan, rest)
    readable, writable, found = look(plan)
    if found then return readable, writable end
  end
  return readable, writable, "timeout"
end
