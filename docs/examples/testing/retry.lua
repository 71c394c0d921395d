-- Calls a function until it succeeds, with longer and longer pauses.
--
--   local answer = retry(function() return ask() end, { times = 5, pause = 1 })

local rl = require "runloop"

return function(body, options)
  local pause = options.pause
  for attempt = 1, options.times do
    local fine, result = pcall(body, attempt)
    if fine then return result end
    if attempt == options.times then error("after " .. attempt .. " attempts: " .. tostring(result), 0) end
    rl.sleep(pause)
    pause = pause * 2
  end
end
