-- runloop.socket.unix: the module `socket.unix`: streams and datagrams at a path.

local common = require "runloop.socket.common"
local tcp, datagram = require "runloop.socket.tcp", require "runloop.socket.datagram"
local system, check = common.system, common.check

local unix = {}

local function derived(methods, names)
  local own = setmetatable({}, nil)
  for name, method in pairs(methods) do own[name] = method end
  for _, name in ipairs(names) do own[name] = nil end
  return own
end

-- Internally the objects have the classes tcp{…} and udp{…}; their texts, which scripts see, have unix{…}.
local function class_of(base, word)
  local metatable = {}
  for name, value in pairs(base.metatable) do metatable[name] = value end
  metatable.__index = derived(base.methods, { "getpeername", "getfamily" })
  metatable.__tostring = function(self) return (self.class:gsub("^%a+", word)) .. ": " .. self.address end
  return metatable
end

local streams, messages = class_of(tcp, "unixstream"), class_of(datagram, "unixdgram")

local function bind(name)
  return function(self, path)
    path = common.text(path, 1, name)
    local done, problem = system.bind(self.fd or -1, path)
    if done then return 1 end
    return nil, problem
  end
end

streams.__index.bind, streams.__index.setsockname = bind "bind", bind "setsockname"
messages.__index.bind, messages.__index.setsockname = bind "bind", bind "setsockname"

function streams.__index.connect(self, path)
  check(self, "connect", "tcp{any}")
  path = common.text(path, 1, "connect")
  common.begin(self)
  local done, problem, number = system.connect(self.fd or -1, path)
  self.class = "tcp{client}"
  -- If the queue of a listener is full, the kernel reports free room only to blocking callers, so try again.
  local rl = require "runloop"
  local pause = 0.001
  while not done and number == system.EAGAIN do
    local left = common.left(self)
    if left and left <= 0 then return nil, "timeout" end
    rl.sleep(left and math.min(left, pause) or pause)
    pause = math.min(pause * 2, 0.05)
    if self.total == nil and self.block then self.block_left = nil end
    done, problem, number = system.connect(self.fd or -1, path)
  end
  if done then return 1 end
  return nil, problem
end
streams.__index.setpeername = streams.__index.connect

function streams.__index.accept(self)
  local client, problem = tcp.methods.accept(self)
  if client then return setmetatable(client, streams) end
  return nil, problem
end

function messages.__index.connect(self, path)
  path = common.text(path, 1, "connect")
  local done, problem = system.connect(self.fd or -1, path)
  if not done then return nil, problem end
  self.class = "udp{connected}"
  return 1
end
messages.__index.setpeername = messages.__index.connect

function messages.__index.sendto(self, data, path)
  check(self, "sendto", "udp{unconnected}")
  data, path = common.text(data, 1, "sendto"), common.text(path, 2, "sendto")
  local sent, problem = datagram.attempt(self, "w", system.send, data, path)
  if sent then return sent end
  return nil, problem
end

function messages.__index.receivefrom(self, size)
  check(self, "receivefrom", "udp{unconnected}")
  local data, from = datagram.attempt(self, "r", system.receive, size and size // 1 | 0 or 8192, true)
  if data then return data, from end
  return nil, from
end

function unix.stream()
  local fd, problem = system.open("unix", "stream")
  if not fd then return nil, problem end
  return setmetatable(tcp.make("tcp{master}", fd, "unix"), streams)
end

function unix.dgram()
  local fd, problem = system.open("unix", "dgram")
  if not fd then return nil, problem end
  return common.new(messages, "udp{unconnected}", { fd = fd, family = "unix" })
end

unix.tcp, unix.udp = unix.stream, unix.dgram
return setmetatable(unix, { __call = function() return unix.stream() end })
