-- Listings 3-12 to 3-15: a worker thread that gets a port, and checks in with a port of its own.
--
--   rlhost 3-12-15-ports.lua
--
-- The main thread makes a port, adds it to its loop, and starts the worker with it (3-12). The worker makes a port,
-- too, and sends it with its first message (3-14, 3-15). The main thread then knows that the worker exists, and how to
-- reach it (3-13).

local rl = require "runloop"
local loop = rl.current()

-- Both threads use these numbers: they are upvalues of the worker's function, and so are copied with it.
local CHECK_IN, WORK, RESULT, QUIT = 100, 101, 102, 103

-- 3-14 and 3-15: the worker.
local function worker(distant_port)
  local rl = require "runloop"
  local should_exit = false

  local own = rl.port {
    name = "worker",
    callback = function(_, message)
      if message.id == WORK then
        local words = {}
        for word in message.data:gmatch "%a+" do words[#words + 1] = word end
        message.reply_port:send { id = RESULT, data = words }       -- any value, not only bytes
      elseif message.id == QUIT then
        should_exit = true
      end
    end,
  }
  rl.current():add(own, rl.modes.default)

  -- 3-15: the check-in message. It must fit into the port at once, and it does, since there is room.
  local sent, reason = distant_port:send { id = CHECK_IN, data = "ready", reply_port = own, before = rl.now() }
  assert(sent, reason)

  -- 3-14: the worker runs its loop until the main thread ends it. Infinity is a date that never comes.
  repeat rl.current():run_mode(rl.modes.default, math.huge) until should_exit
  own:invalidate()                            -- a valid port would keep the thread's loop running
  return "the worker ends"
end

-- 3-12: the port comes first, so that no message can arrive before it.
local distant_port
local port = rl.port {
  name = "main",
  -- 3-13: messages from the worker.
  callback = function(port, message)
    if message.id == CHECK_IN then
      distant_port = message.reply_port
      print(("checked in: %s, from port \"%s\""):format(message.data, distant_port:name()))
      distant_port:send { id = WORK, data = "there and back again", reply_port = port }
    elseif message.id == RESULT then
      print(#message.data .. " words: " .. table.concat(message.data, ", "))
      distant_port:send { id = QUIT }
      port:invalidate()                       -- the loop is empty then, and finishes
    end
  end,
}
loop:add(port, rl.modes.default)
local thread = rl.thread { worker, port, name = "worker" }

print("main loop: " .. loop:run {})
print(select(2, assert(thread:join())))
print(select(2, port:send { id = WORK }))     -- the port is invalid, and the result says so

--[[ expected:
checked in: ready, from port "worker"
4 words: there, and, back, again
main loop: finished
the worker ends
invalid
]]
