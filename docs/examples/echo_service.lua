-- An echo service: other programs of the same user send it text, and it returns the text in capitals.
--
--   rlhost echo_service.lua [NAME]          then, elsewhere: rlhost echo_client.lua hello
--
-- The port keeps the program alive until message 0 asks it to end. Messages come one at a time, in the order in which a
-- client has sent them; while a callback waits, the next one comes.

local rl = require "runloop"

local QUIT, SHOUT, SLOWLY = 0, 1, 2

local server = assert(rl.message_port {
  name = arg[1] or "org.example.echo",
  on_invalidate = function() print "echo: the name is free again" end,
  callback = function(port, id, data)
    if id == SHOUT then return data:upper() end
    if id == SLOWLY then
      rl.sleep(0.2)                             -- others are served meanwhile
      return (data:gsub(".", "%0 "))
    end
    if id == QUIT then
      rl.perform(function() port:invalidate() end)   -- in the next pass, so that the answer is sent first
      return "bye"
    end
    return "no such request: " .. id
  end,
})

rl.current():add(server)
print("echo: waiting as " .. server:name())
io.flush()
