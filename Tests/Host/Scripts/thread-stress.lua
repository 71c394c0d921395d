-- All operations at the same time: signals, wakes, performs, stops, messages, cancellations, the ends of threads.
--
--   rlhost thread-stress.lua [SECONDS [SEED]]

local rl = require "runloop"
local seconds, seed = tonumber(arg[1] or 10), tonumber(arg[2] or os.time())
math.randomseed(seed)
print("seed " .. seed)

local done = rl.now() + seconds
local inbox_count, commands, ended, failures = 0, 0, 0, 0
local inbox = rl.port { capacity = 64, name = "inbox", callback = function(_, message)
  inbox_count = inbox_count + 1
  if message.reply_port then message.reply_port:send { id = message.id, before = rl.now() } end
end }
rl.current():add(inbox)
local source = rl.source { perform = function(s) for _ in s:commands() do commands = commands + 1 end end }
rl.current():add(source)

local function worker(inbox, source, seed, seconds)
  local rl = require "runloop"
  local loop, main = rl.current(), rl.main()
  local random = math.random
  math.randomseed(seed)
  local own
  own = rl.port { capacity = 16, callback = function() if random(20) == 1 then own:invalidate() end end }
  loop:add(own)
  local mine = rl.source { perform = function(s) for f in s:commands() do if f == "stop" then loop:stop() end end end }
  loop:add(mine)
  inbox:send { id = 1, reply_port = own, data = { mine, loop, own } }
  local until_ = rl.now() + random() * seconds
  local acts = {
    function() inbox:send { id = 2, reply_port = own, before = rl.now() + 0.01 } end,
    function() source:signal() end,
    function() source:post(random(100)) end,
    function() main:wake_up() end,
    function() main:perform(function() end) end,
    function() assert(main:perform { function(a) return a + 1 end, 41, wait = true } == 42) end,
    function() main:perform { function() error "wanted" end, wait = true } end,
    function() local r = main:perform { print, "?", after = 100 } r:cancel() end,
    function() own:send { id = 3, before = rl.now() } end,
    function() mine:post "stop" end,
    function() rl.sleep(0.0005) end,
    function() loop:run { timeout = 0.001 } end,
    function() loop:run_mode("default", rl.now() + 0.001) end,
    function() main:is_waiting() tostring(main) tostring(source) tostring(own) end,
    function() local t = rl.thread(function(n) return n end, seed) assert(select(2, t:join()) == seed) end,
    function() local t = rl.thread(function(l) l:wake_up() require "runloop".sleep(10) end, loop) t:cancel() end,
    function() collectgarbage() end,
  }
  local n = 0
  repeat
    n = n + 1
    local act = acts[random(#acts)]
    local ok, err = pcall(act)
    if not ok and not tostring(err):find "wanted" and not tostring(err):find "cancelled" then error(err, 0) end
  until rl.now() > until_
  if random(4) == 1 then error({ bye = n }) end
  return n
end

local living, number = {}, 0
local function start()
  number = number + 1
  local t = rl.thread { worker, inbox, source, seed + number, 0.5, name = "w" .. number }
  living[t] = true
  rl.task(function()
    local ok, n = t:join()
    living[t] = nil
    ended = ended + 1
    -- In one case of four, a worker ends by raising the table.
    if not ok and type(n) ~= "table" and not tostring(n):find "cancelled" then
      failures = failures + 1
      print("failed: " .. tostring(n))
    end
    if rl.now() < done then start() end
  end)
end
for _ = 1, 6 do start() end
-- Disturbs the workers from the main thread.
rl.every(0.002, function(timer)
  local t = next(living)
  if t then
    local what = math.random(6)
    pcall(function()
      if what == 1 then t:loop():stop()
      elseif what == 2 then t:loop():wake_up()
      elseif what == 3 then t:loop():perform(function() return 1 end)
      elseif what == 4 then t:loop():perform { function() return {} end, wait = true }
      elseif what == 5 and math.random(10) == 1 then t:cancel()
      end
    end)
  end
  if rl.now() >= done and not next(living) then timer:invalidate() inbox:invalidate() source:invalidate() end
end)
rl.run()
print(("threads %d, messages %d, commands %d, failures %d"):format(ended, inbox_count, commands, failures))
os.exit(failures == 0)
