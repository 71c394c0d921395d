-- Sends words to the echo service, and prints what comes back.
--
--   rlhost echo_client.lua [-n NAME] [-q] WORD…          -q: asks the service to end
--
-- Each request waits in a task of its own, so they run side by side; answers may come in any order.

local rl = require "runloop"

local name, quits, words = "org.example.echo", false, {}
local i = 1
while arg[i] do
  if arg[i] == "-n" then
    i = i + 1
    name = arg[i]
  elseif arg[i] == "-q" then
    quits = true
  else
    words[#words + 1] = arg[i]
  end
  i = i + 1
end

local QUIT, SHOUT, SLOWLY = 0, 1, 2
local echo = assert(rl.remote_port(name))
local limits = { send_timeout = 1, reply_timeout = 5 }

local tasks = {}
for _, word in ipairs(words) do
  tasks[#tasks + 1] = rl.task(function()
    local slow = echo:request(SLOWLY, word, limits)
    print(slow or "no answer")
  end)
end

-- The loop runs in a mode of its own until the answer has come: nothing else happens meanwhile.
for _, word in ipairs(words) do
  print((assert(echo:request(SHOUT, word, { reply_timeout = 5, reply_mode = "waiting for the echo" }))))
end
for _, task in ipairs(tasks) do task:await() end

if quits then print((echo:request(QUIT, "", limits))) end
