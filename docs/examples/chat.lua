-- A chat room: the program asks each visitor for a name, and sends each line to all others.
--
--   rlhost chat.lua [PORT]          then, elsewhere: nc localhost PORT
--
-- One thread serves all clients. LuaSocket opens the sockets, and the run loop reports when there is something to do,
-- so the program sleeps until then. Nothing here may block: sockets are read only after the loop has reported that they
-- are ready, and output that does not fit into the kernel's buffer waits until its socket is writable ("w").

local rl = require "runloop"
local socket = require "socket"

local server = assert(socket.bind("127.0.0.1", tonumber(arg[1] or 0)))
server:settimeout(0)
local people, count = {}, 0
local LONGEST = 1000
local leave

-- Wait for "w" only while output is left: an idle socket is writable all the time.
local function flush(person)
  local sent, reason, partial = person.socket:send(person.out)
  person.out = person.out:sub((sent or partial or 0) + 1)
  if reason == "closed" then return leave(person) end
  person.port:set_events(person.out == "" and "r" or "rw")
end

local function tell(person, text)
  person.out = person.out .. text .. "\n"
  flush(person)
end

local function tell_others(speaker, text)
  for person in pairs(people) do
    if person ~= speaker and person.name then tell(person, text) end
  end
end

function leave(person)
  if not people[person] then return end
  people[person] = nil
  person.port:invalidate()                    -- before the close: the number may be reused
  person.socket:close()
  if not person.name then return end
  count = count - 1
  tell_others(person, "* " .. person.name .. " has left")
end

local function hear(person, line)
  if not person.name then
    person.name = line:match "%S+" or "somebody"
    count = count + 1
    tell(person, ("* welcome, %s; %d here"):format(person.name, count))
    tell_others(person, "* " .. person.name .. " has come")
  elseif line == "/quit" then
    leave(person)
  else
    tell_others(person, person.name .. ": " .. line)
  end
end

-- A piece of input may be half a line, or three lines.
local function read(person)
  local data, reason, partial = person.socket:receive(4096)
  person.rest = person.rest .. (data or partial or "")
  while people[person] do
    local line, rest = person.rest:match "^([^\n]*)\n(.*)$"
    if not line then break end
    person.rest = rest
    hear(person, (line:gsub("\r$", "")))
  end
  if reason == "closed" or #person.rest > LONGEST then leave(person) end
end

rl.on_readable(server, function()
  local connection = server:accept()
  if not connection then return end           -- the visitor has disconnected meanwhile
  connection:settimeout(0)
  local person = { socket = connection, out = "", rest = "" }
  person.port = rl.on_readable(connection, function(_, events)
    if events:find "w" then flush(person) end
    if people[person] and events:find "[rhe]" then read(person) end
  end)
  people[person] = true
  tell(person, "your name?")
end)

local _, port = server:getsockname()
print("chat: listening on port " .. port)
io.flush()
