-- runloop.nats.frame: checks messages before they are sent, and formats those that the native writer does not.

local flow = require "runloop.nats.flow"

local type, ipairs, format, concat = type, ipairs, string.format, table.concat

local frame = {}

local function refusal(code, text, ...) return nil, code .. ": " .. format(text, ...), code end

--- Returns true and the headers as text; or nil, the reason and its code. `head`: the script's headers, as text;
--- `lines`: header lines of the recorder, which come before them.
function frame.check(bus, head, data, lines)
  local link = bus._link
  local most, size = link and link.max_payload or bus._max_payload, #data
  if head then size = size + #head end
  if size > most then
    return refusal("EMSGSIZE", "a message of %d bytes; the server takes %d", size, most)
  end
  if lines then head = flow.join(lines, head, #data, most) end
  if head and link and link.info.headers ~= true then
    return refusal("ENOTSUP", "the server %s has no headers (2.2 and later have)", link.address.text)
  end
  return true, head
end

--- Returns the bytes of a message with checked parts. `reply`: a subject, or the number of a request.
function frame.text(bus, subject, reply, head, data)
  if type(reply) == "number" then reply = bus._inbox .. reply end
  reply = reply and reply .. " " or ""
  if not head then return concat { "PUB ", subject, " ", reply, #data, "\r\n", data, "\r\n" } end
  return concat { "HPUB ", subject, " ", reply, #head, " ", #head + #data, "\r\n", head, data, "\r\n" }
end

--- Returns the number of published messages that wait for a connection, and of their bytes.
function frame.unsent(bus)
  local messages, bytes = #bus._again, 0
  for _, text in ipairs(bus._again) do bytes = bytes + #text end
  for _, entry in ipairs(bus._offline) do
    if entry.text and not entry.request then messages, bytes = messages + 1, bytes + entry.size end
  end
  return messages, bytes
end

return frame
