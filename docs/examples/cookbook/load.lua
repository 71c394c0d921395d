-- load.lua URL: sends requests to a server, and reports how long its answers take.
--   rlhost load.lua --connections 50 --duration 10s http://localhost:8080/
--   rlhost load.lua --rate 200 http://localhost:8080/       200 requests each second, however slow the answers are
-- With --rate each time is measured from when the request was due, not from when it was sent: if a server stalls for a
-- second, all 200 times of that second show it. Without --rate, each connection sends its next request as soon as it
-- has its answer.
local rl, http, arguments = require "runloop", require "runloop.http", require "runloop.arguments"

local options = arguments.parse {
  description = "Measures how long a server's answers take.",
  { "url", required = true },
  { "-c --connections", type = "integer", default = 10, help = "requests at a time" },
  { "-d --duration", type = "duration", default = 10, help = "seconds, or 500ms, 2m" },
  { "-r --rate", type = "number", help = "requests each second; else as many as possible" },
  { "-t --timeout", type = "duration", default = 30, help = "for each answer" },
}
local client = http.client { connections = options.connections, timeout = options.timeout, follow = 0 }
local times, outcomes, bytes = {}, {}, 0

local function ask(began)
  local answer, problem = client:get(options.url)
  local outcome = answer and tostring(answer.status) or problem
  outcomes[outcome] = (outcomes[outcome] or 0) + 1
  if answer then times[#times + 1], bytes = rl.now() - began, bytes + #answer.body end
end

local start = rl.now()
local stop, group = start + options.duration, rl.group()
rl.on_shutdown(function() group:cancel() end) -- Control-C ends the measurement early

if options.rate then
  for number = 0, math.ceil(options.duration * options.rate) - 1 do
    local due = start + number / options.rate
    rl.sleep(math.max(0, due - rl.now()))
    group:task(ask, due)
  end
else
  for _ = 1, options.connections do
    group:task(function()
      while rl.now() < stop do ask(rl.now()) end
    end)
  end
end
pcall(group.wait, group)
local seconds = rl.now() - start

table.sort(times)
local names = {}
for outcome in pairs(outcomes) do names[#names + 1] = outcome end
table.sort(names)
for _, name in ipairs(names) do print(("%8d  %s"):format(outcomes[name], name)) end
print(("%8.1f  answers per second, %.2f MB per second"):format(#times / seconds, bytes / seconds / 1e6))
for _, share in ipairs { 50, 90, 99, 99.9, 100 } do
  local time = times[math.max(1, math.ceil(#times * share / 100))]
  if time then print(("%8.1f  ms: %s %% of the answers took no longer"):format(time * 1000, share)) end
end
