-- Sends COUNT requests, 50 at a time, and prints the processor time in seconds: client.lua PORT COUNT

local rl, http = require "runloop", require "runloop.http"
local url, left = "http://127.0.0.1:" .. arg[1] .. "/", tonumber(arg[2])
http.get(url)
local before = os.clock()
local group = rl.group()
for _ = 1, 50 do
  group:task(function()
    while left > 0 do
      left = left - 1
      assert(assert(http.get(url)).status == 200)
    end
  end)
end
group:wait()
print(os.clock() - before)
