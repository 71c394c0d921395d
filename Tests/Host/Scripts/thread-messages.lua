-- Messages between threads, in order, none lost or doubled: several senders to one small port, and a chain of ports.
--
--   rlhost thread-messages.lua COUNT

local rl = require "runloop"
local COUNT, SENDERS = tonumber(arg[1]), 4

local last, received, wrong = {}, 0, 0
local inbox
inbox = rl.port { capacity = 64, callback = function(_, message)
  received = received + 1
  if message.data ~= (last[message.id] or 0) + 1 then wrong = wrong + 1 end
  last[message.id] = message.data
  if received == COUNT then inbox:invalidate() end
end }
rl.current():add(inbox)
local senders = {}
for id = 1, SENDERS do
  senders[id] = rl.thread(function() for i = 1, COUNT // SENDERS do assert(inbox:send { id = id, data = i }) end end)
end
rl.run()
for _, sender in ipairs(senders) do assert(sender:join()) end
print(("%d received, %d out of order"):format(received, wrong))

-- Each thread passes on the messages that it receives. The ports of the last threads fill up first.
local function pass_on(out)
  local own
  own = rl.port { capacity = 16, callback = function(_, message)
    out:send { data = message.data }
    if message.data == "end" then own:invalidate() end
  end }
  rl.current():add(own)
  rl.main():perform(function(port) next_port = port end, own)
  rl.run()
end

local expected, disorder = 0, 0
local target
target = rl.port { capacity = 16, callback = function(_, message)
  if message.data == "end" then return target:invalidate() end
  expected = expected + 1
  if message.data ~= expected then disorder = disorder + 1 end
end }
rl.current():add(target)
local out, threads = target, {}
for i = 1, 3 do
  next_port = nil
  threads[i] = rl.thread(pass_on, out)
  while not next_port do rl.sleep(0.001) end
  out = next_port
end
threads[4] = rl.thread(function()
  for i = 1, COUNT // 4 do out:send { data = i } end
  out:send { data = "end" }
end)
rl.run()
for _, thread in ipairs(threads) do assert(thread:join()) end
print(("%d passed on, %d out of order"):format(expected, disorder))
