-- runloop.nats.frame: a function that returns the bytes of a message to a server.

local flow = require "runloop.nats.flow"

local format, concat = string.format, table.concat

local function refusal(code, text, ...) return nil, code .. ": " .. format(text, ...), code end

-- Returns the frame of a message; or nil, the reason and its code. `head`: its headers as text; `lines`: those of the
-- recorder.
return function(bus, subject, reply, data, head, lines)
  local link = bus._link
  local most, size = link and link.max_payload or bus._max_payload, #data
  if head then size = size + #head end
  if size > most then
    return refusal("EMSGSIZE", "a message of %d bytes; the server takes %d", size, most)
  end
  if lines then head, size = flow.join(lines, head, #data, most) end
  if not head then
    if reply then return "PUB " .. subject .. " " .. reply .. " " .. size .. "\r\n" .. data .. "\r\n" end
    return "PUB " .. subject .. " " .. size .. "\r\n" .. data .. "\r\n"
  end
  if link and link.info.headers ~= true then
    return refusal("ENOTSUP", "the server %s has no headers (2.2 and later have)", link.address.text)
  end
  return concat { "HPUB ", subject, " ", reply and reply .. " " or "", #head, " ", size, "\r\n", head, data, "\r\n" }
end
