-- Listing 3-16: a port with a name, by which others find it.
--
--   rlhost 3-16-named-port.lua
--
-- The chapter registers the port with a name server after it has added the port to the loop. Here the port gets its
-- name when it is made, and that call may be refused, since a name belongs to one port at a time. So a name never leads
-- to somebody else's port.

local rl = require "runloop"
local loop = rl.current()

local NAME = "com.example.MyPortName"

print("before: " .. select(2, rl.remote_port(NAME)))

local port = assert(rl.message_port {
  name = NAME,
  callback = function(port, id, data)
    print(("message %d: %s"):format(id, data))
    -- Invalidate the port in the next pass, because the message counts as handled only when this function has returned.
    if data == "that is all" then rl.perform(port.invalidate, port) end
    return #data .. " bytes"
  end,
})
loop:add(port, rl.modes.default)

-- The name stays taken as long as the port is valid.
local second, reason = rl.message_port { name = NAME, callback = print }
print("a second one: " .. tostring(second), (reason:gsub(":.*", "")))

-- This thread, other threads, and other processes of the same user can send to the name. Here a task sends, and waits
-- for its answers while the loop goes on.
rl.task(function()
  local remote = assert(rl.remote_port(NAME))
  print("found: " .. remote:name())
  print("answer: " .. assert(remote:request(1, "is anybody there?", { send_timeout = 1, reply_timeout = 10 })))
  assert(remote:send(2, "that is all", { timeout = 1 }))
end)

print("the loop is " .. loop:run {})
print("after: " .. select(2, rl.remote_port(NAME)))

--[[ expected:
before: ENOENT: no process has a message port of the name "com.example.MyPortName"
a second one: nil	EADDRINUSE
found: com.example.MyPortName
message 1: is anybody there?
answer: 17 bytes
message 2: that is all
the loop is finished
after: ENOENT: no process has a message port of the name "com.example.MyPortName"
]]
