-- Listing 3-16: a port that has a name, by which others find it.
--
--   rlhost 3-16-named-port.lua
--
-- The chapter registers the port with a name server after it has added it to the loop. Here the name is given when the port is made,
-- and that is when it may be refused: a name belongs to one port at a time. So there is no moment at which a port can be found, but
-- is somebody else's.

local rl = require "runloop"
local loop = rl.current()

local NAME = "com.example.MyPortName"

print("before: " .. select(2, rl.remote_port(NAME)))

local port = assert(rl.message_port {
  name = NAME,
  callback = function(port, id, data)
    print(("message %d: %s"):format(id, data))
    -- Later, not here: the sender hears that its message was handled when this function has returned.
    if data == "that is all" then rl.perform(port.invalidate, port) end
    return #data .. " bytes"
  end,
})
loop:add(port, rl.modes.default)

-- The name is taken now, and stays so as long as the port is valid.
local second, reason = rl.message_port { name = NAME, callback = print }
print("a second one: " .. tostring(second), (reason:gsub(":.*", "")))

-- Whoever knows the name can send: this thread, another thread, another process of the same user. Here it is a task, which waits for
-- its answers while the loop goes on.
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
