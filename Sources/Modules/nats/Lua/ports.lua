-- runloop.nats.ports: rl.message_port and rl.remote_port with `via`, and their common parts. The parts are loaded
-- when a script first makes such a port.

local misuse = require "runloop.misuse"

local getmetatable, find, gmatch = getmetatable, string.find, string.gmatch

local ports = {}

--- Returns the bus of an option, or raises an error.
function ports.bus_of(via, what)
  if getmetatable(via) ~= require "runloop.nats.bus" then
    misuse.wrong(what, "field 'via'", "a bus, as nats.connect returns it", via)
  end
  return via
end

--- Returns the problem of a port's name; nil if it is valid.
function ports.name_fault(name)
  if #name >= 1 and #name <= 100 and not find(name, "[^%w_.-]") and not find("." .. name .. ".", "..", 1, true) then
    return nil
  end
  return "a name over a bus has 1 to 100 bytes: letters, digits, \"_\" and \"-\", in words with \".\" between them"
end

--- Returns the subject of a port: "rl.port.<name>", "rl.who.<name>".
function ports.subject(bus, kind, name) return bus._prefix .. "." .. kind .. "." .. name end

function ports.message_port(options) return (require "runloop.nats.message_port")(options) end
function ports.remote_port(...) return (require "runloop.nats.remote_port")(...) end

return ports
