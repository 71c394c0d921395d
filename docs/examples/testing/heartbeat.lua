-- Calls a function when the last sign of life is too long ago.
--
--   local heart = heartbeat.watch(30, function(silence) print("silent for", silence) end)
--   heart:beat()      -- whenever there is a sign of life
--   heart:close()

local rl = require "runloop"

local Heart = {}
Heart.__index = Heart

function Heart:beat()
  self.last = rl.now()
  self.timer:set_fire_date(self.last + self.limit)
end

function Heart:close() self.timer:invalidate() end
Heart.__close = Heart.close

local heartbeat = {}

function heartbeat.watch(limit, on_silence)
  local heart = setmetatable({ limit = limit, last = rl.now() }, Heart)
  heart.timer = rl.timer { interval = limit, callback = function() on_silence(rl.now() - heart.last) end }
  rl.current():add(heart.timer, "common")
  return heart
end

return heartbeat
