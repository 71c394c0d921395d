-- runloop.socket.dns: names and addresses. These functions wait.

local common = require "runloop.socket.common"
local net = require "runloop.net"
local system = common.system

local dns = {}
local UNKNOWN <const> = "host or service not provided, or not known"

local function lookup(name, family, what, unknown)
  name = common.text(name, 1, what)
  if name:find "^%d+%.%d+%.%d+%.%d+$" or name:find(":", 1, true) then return { name }, name end
  if name == "" then return nil, unknown or UNKNOWN end
  local list = net.resolve(name, { family = family })
  if list and list[1] then return list, name end
  return nil, unknown or UNKNOWN
end

function dns.toip(name)
  local list, given = lookup(name, "ipv4", "toip", "host not found")
  if not list then return nil, given end
  return list[1], { name = given, ip = list, alias = {} }
end

function dns.getaddrinfo(name)
  local list, given = lookup(name, "any", "getaddrinfo")
  if not list then return nil, given end
  local found = {}
  for _, address in ipairs(list) do
    found[#found + 1] = { family = common.family_of(address), addr = address }
  end
  return found
end

-- The system's own tool does the reverse lookup in all its sources, in a separate process.
local function name_of(address)
  local process = require "runloop.process"
  local result = process.run { "getent", "hosts", address }
  local words = {}
  for word in (result and result.output or ""):gmatch "[^\n]+" do
    for each in word:gmatch "%S+" do words[#words + 1] = each end
    break
  end
  return table.unpack(words)
end

function dns.tohostname(address)
  local list, given = lookup(address, "any", "tohostname", "host not found")
  if not list then return nil, given end
  local names = { name_of(list[1]) }
  if not names[2] then return nil, "host not found" end
  return names[2], { name = names[2], ip = { names[1] }, alias = { table.unpack(names, 3) } }
end

function dns.getnameinfo(address, service)
  local list, given = lookup(address, "any", "getnameinfo")
  if not list then return nil, given end
  local names = {}
  for _, each in ipairs(list) do names[#names + 1] = (select(2, name_of(each))) or each end
  return names, service and tostring(service) or nil
end

function dns.gethostname() return system.host_name() end

return dns
