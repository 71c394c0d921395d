-- runloop.http.upload: sends a request's body from a function or a stream, as fast as the server takes it.

local describe = require("runloop.misuse").describe
local child_task = require "runloop.http.native".internals.child_task

-- Checks a piece of a body: `given` bytes were given before, and Content-Length announces `size`. Returns nil, or the
-- problem.
local function problem_of(bytes, given, size)
  if bytes == nil then
    if size and given < size then
      return ("it ended after %d of the %d bytes of its Content-Length"):format(given, size)
    end
  elseif type(bytes) ~= "string" and type(bytes) ~= "number" then
    return ("its function has to return text, or nil at the end, and returned %s"):format(describe(bytes))
  elseif size and given + #tostring(bytes) > size then
    return ("it is longer than the %d bytes of its Content-Length"):format(size)
  end
end

-- `size` is the Content-Length of the request, if it has one.
return function(exchange, size, pump)
  local transfer, body, client = exchange.transfer, exchange.body, exchange.client
  local following, given = body, 0
  if type(body) ~= "function" then following = function() return body:read(65536) end end
  if size and size < 0 then size = nil end
  exchange.feeder = child_task(function()
    while true do
      local is_good, bytes, problem = pcall(following)
      -- The exchange may have ended, or followed a redirect without this body.
      if exchange.is_finished or exchange.transfer ~= transfer then return end
      if not is_good then
        problem = tostring(bytes)
      elseif bytes == nil and problem then
        problem = tostring(problem)
      else
        problem = problem_of(bytes, given, size)
      end
      if problem then
        exchange.problem = "the body of the request failed: " .. problem
        transfer:send(false)
        return pump(client)
      end
      transfer:send(bytes)
      pump(client)
      if bytes == nil then return end
      given = given + #tostring(bytes)
      while true do
        local _, is_over, _, unsent = transfer:state()
        if is_over or exchange.is_finished then return end
        if unsent < 65536 then break end
        exchange.drained:wait()
      end
    end
  end)
end
