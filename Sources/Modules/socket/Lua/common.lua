-- runloop.socket.common: time limits, arguments and addresses, as lua-socket has them.

local native, internals = ...
local rl, net = require "runloop", require "runloop.net"
local misuse = require "runloop.misuse"
local system = native.open()
local type, tonumber, tostring = type, tonumber, tostring
local now = rl.now

local common = { system = system }

-- In a sandbox, errors name the option that would allow the call. `subject` gets the call's arguments.
local EACCES <const> = 13
local function explain(name, kind, subject)
  local call = system[name]
  system[name] = function(...)
    local done, problem, number = call(...)
    local refused = not done and number == EACCES and internals.refusal(kind, subject(...))
    return done, refused and ("%s: %s"):format(problem, refused) or problem, number
  end
end
explain("open", "connect", function() return "unix:" end)
explain("connect", "connect", function(_, host, port) return port and host .. ":" .. port or "unix:" .. host end)
explain("bind", "listen", function(_, _, port) return port and ":" .. port or "unix:" end)
explain("listen", "listen", function(fd) return ":" .. (select(2, system.name(fd)) or 0) end)

-- Arguments ----------------------------------------------------------------------------------------------------------
-- Raises lua-socket's error for an argument of a method or function, where the script has called it.
function common.bad(number, name, text)
  misuse.raise("bad argument #%d to '%s' (%s)", number, name, text)
end
local bad = common.bad

local function expected(number, name, wanted, value)
  local got = value == nil and "no value" or type(value)
  bad(number, name, ("%s expected, got %s"):format(wanted, got))
end

function common.number(value, number, name, default)
  if value == nil and default then return default end
  return tonumber(value) or expected(number, name, "number", value)
end

function common.text(value, number, name, default)
  if value == nil and default then return default end
  if type(value) ~= "string" and type(value) ~= "number" then expected(number, name, "string", value) end
  return tostring(value)
end

-- Checks the class of `self` as lua-socket does: `wanted` is a class, such as "tcp{client}", or its beginning.
function common.check(self, name, wanted)
  local class = type(self) == "table" and rawget(self, "class")
  if not class or not (class == wanted or wanted:find("{any}", 1, true) and class:sub(1, 3) == wanted:sub(1, 3)) then
    misuse.raise("calling '%s' on bad self (%s expected)", name, wanted)
  end
end

-- Time limits --------------------------------------------------------------------------------------------------------
-- `block` limits each wait, `total` a whole call; nil: no limit.
function common.set_timeout(self, value, mode)
  if value ~= nil and type(value) ~= "number" then expected(1, "settimeout", "number", value) end
  mode = mode == nil and "b" or mode
  local limit = value and value >= 0 and value or nil
  if mode == "b" then self.block = limit
  elseif mode == "t" or mode == "r" then self.total = limit
  else bad(2, "settimeout", "invalid timeout mode") end
  return 1
end

function common.get_timeout(self) return self.block or -1, self.total or -1 end

-- Begins a call.
function common.begin(self) self.started = self.total and now() end

-- Returns the seconds that the call may still wait; nil: as long as it takes.
local function left(self)
  local block, total = self.block, self.total
  if not total then return block end
  local rest = total - (now() - self.started)
  if rest < 0 then rest = 0 end
  return block and block < rest and block or rest
end
common.left = left

-- Ends the wait of a task. `close` leaves a descriptor open while tasks wait for it: the last of these tasks closes the
-- descriptor.
local CLOSING <const> = {
  __close = function(wait)
    local self = wait.socket
    self.waiting = self.waiting - 1
    if self.fd ~= wait.fd and self.waiting == 0 then system.close(wait.fd) end
  end,
}

-- Waits for a descriptor. Returns true, or nil and "timeout" or "closed".
function common.wait(self, events)
  local limit, fd = left(self), self.fd
  if limit == 0 then return nil, "timeout" end
  self.waiting = (self.waiting or 0) + 1
  local wait <close> = setmetatable({ socket = self, fd = fd }, CLOSING)
  local ready, problem = (events == "r" and rl.wait_readable or rl.wait_writable)(fd, limit)
  if self.fd ~= fd then return nil, "closed" end
  if ready then return true end
  return nil, problem == "timed out" and "timeout" or problem
end

-- Closes the descriptor of an object without a stream. A task that waits for the descriptor is woken, and closes it.
function common.close(self)
  local fd = self.fd
  if not fd then return end
  self.fd = nil
  if (self.waiting or 0) > 0 then system.shutdown(fd, "both") else system.close(fd) end
end

-- Addresses ----------------------------------------------------------------------------------------------------------
local FAMILIES <const> = { inet = "ipv4", inet6 = "ipv6" }

local function is_address(host) return host == "*" or host:find "^%d+%.[%d%.]+$" or host:find(":", 1, true) end

-- Returns a list of addresses. If `may_wait` is false, the function blocks for names, as lua-socket does.
function common.addresses(host, family, may_wait)
  if is_address(host) then return { host } end
  local list
  if may_wait then list = net.resolve(host == "" and "localhost" or host, { family = FAMILIES[family] or "any" })
  else list = system.resolve(host, FAMILIES[family]) end
  if list and list[1] then return list end
  return nil, "host or service not provided, or not known"
end

function common.family_of(address) return address:find(":", 1, true) and "inet6" or "inet" end

-- Returns the host, port and family of the other end. Only here lua-socket's ports are numbers.
function common.peer(self)
  local host, port, family = system.name(self.fd or -1, true)
  if not host then return nil, port end
  return host, tonumber(port), family
end

-- Options ------------------------------------------------------------------------------------------------------------
local KNOWN <const> = {
  ["ipv6-add-membership"] = true, ["ipv6-drop-membership"] = true, ["tcp-fastopen-connect"] = true,
}

function common.set_option(self, name, value)
  name = common.text(name, 1, "setoption")
  local done, problem = system.set(self.fd or -1, name, value)
  if done == false then
    if KNOWN[name] then return 1 end
    bad(1, "setoption", ("unsupported option `%s'"):format(name))
  end
  local wanted = done == nil and problem:match "^(%a+) expected$"
  if wanted then expected(2, "setoption", wanted, value) end
  if done == nil and problem:find " expected$" then bad(2, "setoption", problem) end
  if done then return 1 end
  return nil, "setsockopt failed"
end

function common.get_option(self, name)
  name = common.text(name, 1, "getoption")
  local results = table.pack(system.get(self.fd or -1, name))
  if results.n == 0 then bad(1, "getoption", ("unsupported option `%s'"):format(name)) end
  if results.n == 1 then return results[1] end
  return nil, "getsockopt failed"
end

local SAID <const> = { inet = "inet4", inet6 = "inet6" }

-- Returns the family of a socket in the words of `getfamily`.
function common.family(self)
  local _, _, family = system.name(self.fd or -1)
  return SAID[family] or SAID[self.family] or "inet4"
end

-- Returns the metatable of a class.
function common.class(name, methods)
  return { __index = methods, __name = name, __tostring = function(self)
    return ("%s: %s"):format(self.class, self.address)
  end }
end

-- Makes an object.
function common.new(metatable, class, fields)
  fields.class = class
  fields.address = ("%p"):format(fields)
  return setmetatable(fields, metatable)
end

return common
