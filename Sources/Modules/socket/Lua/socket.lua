-- runloop.socket: the module `socket` of LuaSocket 3.1, whose calls wait in tasks.

local rl = require "runloop"
local common = require "runloop.socket.common"
local filters = require "runloop.socket.filters"
local tcp, datagram = require "runloop.socket.tcp", require "runloop.socket.datagram"

local socket = {
  _VERSION = "LuaSocket 3.0.0", _SETSIZE = 1 << 20, _SOCKETINVALID = -1, _DATAGRAMSIZE = 8192,
  BLOCKSIZE = filters.BLOCKSIZE, dns = require "runloop.socket.dns", select = require "runloop.socket.select",
  try = filters.try, newtry = filters.newtry, protect = filters.protect, skip = filters.skip,
  choose = filters.choose, sink = filters.sink, source = filters.source, sinkt = filters.sinkt,
  sourcet = filters.sourcet,
}

local FAMILIES <const> = { tcp4 = "inet", tcp6 = "inet6", udp4 = "inet", udp6 = "inet6" }

function socket.tcp() return tcp.make("tcp{master}") end

for _, name in ipairs { "tcp4", "tcp6" } do
  socket[name] = function()
    local fd, problem = common.system.open(FAMILIES[name], "stream")
    if not fd then return nil, problem end
    return tcp.make("tcp{master}", fd, FAMILIES[name])
  end
end

function socket.udp() return datagram.make() end
function socket.udp4() return datagram.make "inet" end
function socket.udp6() return datagram.make "inet6" end

function socket.unix() return require "runloop.socket.unix"() end

local MAKERS <const> = { inet = "tcp4", inet6 = "tcp6" }

function socket.connect(host, port, local_host, local_port, family)
  local name = MAKERS[family] or "tcp"
  if family and family ~= "unspec" and not MAKERS[family] then
    common.bad(5, "connect", ("invalid option '%s'"):format(tostring(family)))
  end
  local made, problem = socket[name]()
  if not made then return nil, problem end
  if local_host then
    local done
    done, problem = made:bind(local_host, local_port or 0)
    if not done then made:close() return nil, problem end
  end
  local done
  done, problem = made:connect(host, port)
  if done then return made end
  made:close()
  return nil, problem
end

function socket.connect4(host, port, own, own_port) return socket.connect(host, port, own, own_port, "inet") end
function socket.connect6(host, port, own, own_port) return socket.connect(host, port, own, own_port, "inet6") end

function socket.bind(host, port, backlog)
  if host == "*" then host = "0.0.0.0" end
  local list, problem = socket.dns.getaddrinfo(host)
  if not list then return nil, problem end
  for _, entry in ipairs(list) do
    local made
    made, problem = socket[entry.family == "inet6" and "tcp6" or "tcp4"]()
    if made then
      made:setoption("reuseaddr", true)
      local done
      done, problem = made:bind(entry.addr, port)
      if done then done, problem = made:listen(backlog) end
      if done then return made end
      made:close()
    end
  end
  return nil, problem
end

function socket.sleep(seconds)
  seconds = common.number(seconds, 1, "sleep")
  if seconds > 0 then rl.sleep(seconds) end
end

socket.gettime = rl.time
socket.__unload = function() end

-- Modules that `install` puts in place of those of the packages. The functions load them when they are required.
local OURS <const> = {
  ["socket.unix"] = function() return require "runloop.socket.unix" end,
  ssl = function() return require "runloop.socket.ssl" end,
}

function socket.install()
  package.loaded.socket, package.loaded["socket.core"] = socket, socket
  for name, load in pairs(OURS) do package.loaded[name], package.preload[name] = nil, load end
  return socket
end

return socket
