-- runloop.socket.datagram: sockets of UDP, and Unix datagrams.

local common = require "runloop.socket.common"
local system, check = common.system, common.check
local left, wait, begin = common.left, common.wait, common.begin
local tonumber = tonumber

local methods = {}
local metatable = common.class("udp", methods)
metatable.__gc = function(self) common.close(self) end
metatable.__close = metatable.__gc

local DATAGRAM <const> = 8192
local UNRESOLVED <const> = {
  ["host or service not provided, or not known"] = true, ["service not supported for socket type"] = true,
}

local function make(family)
  local fd, problem
  if family then
    fd, problem = system.open(family, "dgram")
    if not fd then return nil, problem end
  end
  return common.new(metatable, "udp{unconnected}", { fd = fd, family = family })
end

local function ensure(self, family)
  if self.fd then return true end
  if self.is_closed then return nil, "closed" end
  local fd, problem = system.open(family, "dgram")
  self.fd = fd
  return fd, problem
end

local function port_of(port, number, name)
  if type(port) == "number" and port % 1 == 0 then port = ("%d"):format(port) end
  return common.text(port, number, name)
end

-- Calls `act(address)` for a host's first address, with a descriptor of its family.
local function at(self, host, act)
  local list, problem = common.addresses(host, self.family, left(self) ~= 0)
  if not list then return nil, problem end
  local done, number
  done, problem = ensure(self, self.family or common.family_of(list[1]))
  if not done then return nil, problem end
  done, problem, number = act(list[1])
  if done then return done end
  return nil, problem, number
end

-- Repeats a system call until it need not wait.
local function attempt(self, events, act, ...)
  begin(self)
  while self.fd do
    local first, second, third, fourth = act(self.fd, ...)
    if first or third ~= system.EAGAIN then return first, second, third, fourth end
    local ready, problem = wait(self, events)
    if not ready then return nil, problem end
  end
  return nil, "closed"
end

function methods.send(self, data)
  check(self, "send", "udp{connected}")
  local sent, problem = attempt(self, "w", system.send, (common.text(data, 1, "send")))
  if sent then return sent end
  return nil, problem == "closed" and self.fd and "connection refused" or problem
end

function methods.sendto(self, data, host, port)
  check(self, "sendto", "udp{unconnected}")
  data, host = common.text(data, 1, "sendto"), common.text(host, 2, "sendto")
  port = port_of(port, 3, "sendto")
  begin(self)
  local sent, problem = at(self, host, function(address)
    return attempt(self, "w", system.send, data, address, port)
  end)
  if sent then return sent end
  -- lua-socket has another text here than elsewhere.
  return nil, UNRESOLVED[problem] and "Name or service not known" or problem
end

local function size_of(size, name)
  size = common.number(size, 1, name, DATAGRAM) // 1 | 0
  return size < 0 and DATAGRAM or size
end

function methods.receive(self, size)
  check(self, "receive", "udp{any}")
  -- LuaSocket returns the same for closed sockets.
  if not self.fd and self.is_closed then return "" end
  local data, problem = attempt(self, "r", system.receive, size_of(size, "receive"))
  if data then return data end
  return nil, problem
end

function methods.receivefrom(self, size)
  check(self, "receivefrom", "udp{unconnected}")
  local data, host, port = attempt(self, "r", system.receive, size_of(size, "receivefrom"), true)
  if not data then return nil, host end
  return data, host, tonumber(port)
end

function methods.setpeername(self, host, port)
  check(self, "setpeername", "udp{any}")
  host = common.text(host, 1, "setpeername")
  if host == "*" then
    if self.fd then system.connect(self.fd) end
    self.class = "udp{unconnected}"
    return 1
  end
  if self.class == "udp{connected}" then
    return nil, "already connected"
  end
  port = port_of(port, 2, "setpeername")
  local done, problem = at(self, host, function(address) return system.connect(self.fd, address, port) end)
  if not done then return nil, problem end
  self.class = "udp{connected}"
  return 1
end

function methods.setsockname(self, host, port)
  check(self, "setsockname", "udp{unconnected}")
  host, port = common.text(host, 1, "setsockname"), port_of(port, 2, "setsockname")
  local done, problem = at(self, host, function(address) return system.bind(self.fd, address, port) end)
  if done then return 1 end
  return nil, problem
end

function methods.getsockname(self)
  local host, port, family = system.name(self.fd or -1)
  if not host then return nil, port end
  return host, port, family
end

function methods.getpeername(self)
  check(self, "getpeername", "udp{connected}")
  return common.peer(self)
end

function methods.close(self)
  self.is_closed = true
  common.close(self)
  return 1
end

function methods.settimeout(self, value, mode) return common.set_timeout(self, value, mode) end
function methods.gettimeout(self) return common.get_timeout(self) end
function methods.getfd(self) return self.fd or -1 end
function methods.getfamily(self) return common.family(self) end
function methods.dirty() return false end
function methods.setoption(self, name, value) return common.set_option(self, name, value) end
function methods.getoption(self, name) return common.get_option(self, name) end

function methods.setfd(self, fd)
  fd = common.number(fd, 1, "setfd") // 1 | 0
  self.fd = fd >= 0 and fd or nil
  return 1
end

return { make = make, methods = methods, metatable = metatable, attempt = attempt }
