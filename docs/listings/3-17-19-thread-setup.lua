-- Listings 3-17 to 3-19: a worker thread that finds the main thread by the name of its port, and checks in with its
-- own.
--
--   rlhost 3-17-19-thread-setup.lua
--
-- The same conversation as in listings 3-12 to 3-15, but both sides exchange only names and bytes. So the worker could
-- also be another program, in another language.

local rl = require "runloop"
local loop = rl.current()

local MAIN = "com.example.MainThread"
local CHECK_IN, WORK, RESULT, QUIT = 100, 101, 102, 103

-- 3-19: the worker.
local function worker(main_name, number)
  local rl = require "runloop"

  -- Finds the main thread by its port's name.
  local main = assert(rl.remote_port(main_name))

  -- A port of its own, with a name that no other thread has. If it cannot get the port, the worker ends.
  local own_name = "com.example.Thread-" .. number
  local own = assert(rl.message_port {
    name = own_name,
    callback = function(port, id, data)
      if id == WORK then
        main:send(RESULT, own_name .. " says " .. data:upper(), { timeout = 1 })
      elseif id == QUIT then
        -- Without the port the loop is empty, and finishes. This happens in the next pass, because the message counts
        -- as handled only when this function has returned.
        rl.perform(port.invalidate, port)
      end
    end,
  })
  rl.current():add(own, rl.modes.default)

  -- The check-in message consists of the port's name. The message has a tenth of a second to get into the main thread's
  -- queue.
  assert(main:send(CHECK_IN, own_name, { timeout = 0.1 }))
  return rl.run()
end

-- 3-18: incoming messages.
local workers = {}                            -- by name

local handlers = {
  [CHECK_IN] = function(_, name)
    -- The message contains only the name.
    workers[name] = assert(rl.remote_port(name))
    print("checked in: " .. name)
    workers[name]:send(WORK, "hello", { timeout = 1 })
  end,
  [RESULT] = function(port, text)
    print(text)
    for _, remote in pairs(workers) do remote:send(QUIT, "", { timeout = 1 }) end
    rl.perform(port.invalidate, port)
  end,
}

-- 3-17: the port, and then the thread, which gets the port's name.
local port = assert(rl.message_port {
  name = MAIN,
  callback = function(port, id, data) handlers[id](port, data) end,   -- returns nothing: the answer is empty
})
loop:add(port, rl.modes.default)
local thread = rl.thread { worker, port:name(), 7, name = "worker" }

print("main loop: " .. loop:run {})
print("worker: " .. select(2, assert(thread:join())))

--[[ expected:
checked in: com.example.Thread-7
com.example.Thread-7 says HELLO
main loop: finished
worker: finished
]]
